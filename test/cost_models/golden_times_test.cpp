// Predicted times do not change unnoticed: operators on devices at shapes, transfers and collectives on links, whole
// steps.
#include "cost_models/collectives.h"
#include "cost_models/device_profile.h"
#include "cost_models/devices.h"
#include "cost_models/operator_time.h"
#include "cost_models/simulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

namespace maestro::cost_models {
namespace {

std::vector<DeviceModel> devices() {
  std::vector<DeviceModel> list{builtInCpu(1), builtInCpu(16)};
  for (const std::string &name : builtInDevices())
    list.push_back(*builtInDevice(name));
  return list;
}

/// Of a transformer of width 4,096 on 4,096 tokens, and of a small one on 1,024.
std::vector<std::pair<std::string, KernelWork>> operators(bool bf16) {
  std::vector<std::pair<std::string, KernelWork>> list;
  double size = bf16 ? 2 : 4;
  for (auto [m, n, k] : {std::array<double, 3>{4096, 4096, 4096},
                         {4096, 14336, 4096},
                         {4096, 1024, 4096},
                         {1024, 512, 64},
                         {64, 64, 64}})
    list.emplace_back(fmt::format("matmul {}x{}x{}", m, n, k),
                      KernelWork{"matmul", bf16, Flops(2 * m * n * k), Bytes((m * k + n * k + m * n) * size), m, n, k});
  for (auto [queries, keys, depth] : {std::array<double, 3>{131072, 4096, 128}, {4096, 256, 16}})
    for (const char *kernel : {"attention", "attention_grad"}) {
      double factor = kernel == std::string("attention") ? 4 : 10;
      list.emplace_back(fmt::format("{} {}x{}x{}", kernel, queries, keys, depth),
                        KernelWork{kernel, bf16, Flops(queries * keys * (factor * depth + 12)),
                                   Bytes(queries * depth * 4 * size), queries, keys, depth});
    }
  for (const char *kernel : {"add", "gelu", "rms_norm", "softmax", "transpose", "cross_entropy"})
    for (auto [rows, width] : {std::array<double, 2>{4096, 4096}, {1024, 64}})
      list.emplace_back(
          fmt::format("{} {}x{}", kernel, rows, width),
          KernelWork{kernel, bf16, Flops(8 * rows * width), Bytes(2 * rows * width * size), rows, width, 1});
  return list;
}

Machine cluster(uint32_t count) {
  Machine machine;
  machine.devices = count;
  machine.kinds = {*builtInDevice("h100-sxm")};
  machine.links = {{"nvlink", 8, gigabytesPerSecond(450), microseconds(2)}};
  if (count > 8)
    machine.links.push_back({"rail", count, gigabytesPerSecond(50), microseconds(6)});
  return machine;
}

std::string links() {
  std::string text;
  for (uint32_t count : {8u, 64u, 512u}) {
    Machine machine = cluster(count);
    std::vector<uint32_t> all(count);
    std::iota(all.begin(), all.end(), 0u);
    for (double bytes : {4096.0, 1e6, 1e9}) {
      for (auto [name, kind] :
           {std::pair{"all_reduce", Collective::AllReduce}, {"all_gather", Collective::AllGather}}) {
        CommunicationCost cost = collectiveCost(kind, all, machine);
        text += fmt::format("{} of {:.0f} bytes on h100x{}: {:.4g} us; {}\n", name, bytes, count,
                            cost.of(Bytes(bytes)).value * 1e6, describe(cost));
      }
      CommunicationCost sum = reductionCost(all, machine);
      text += fmt::format("sum of {:.0f} bytes of gradients on h100x{}: {:.4g} us; {}\n", bytes, count,
                          sum.of(Bytes(bytes)).value * 1e6, describe(sum));
      CommunicationCost cost = transferCost(machine, 0, count - 1);
      text += fmt::format("transfer of {:.0f} bytes on h100x{}: {:.4g} us; {}\n", bytes, count,
                          cost.of(Bytes(bytes)).value * 1e6, describe(cost));
    }
  }
  return text;
}

/// Distillation: a frozen teacher of three times the student's forward work, 4 MB a sample between them, 1 GB of
/// gradients.
std::string steps() {
  CompoundModel model;
  model.dims = {{"batch", true, 1}};
  model.microBatches = {1};
  std::vector<MicroBatchCapacity> capacities{{1, {1}, {}}};
  auto milliseconds = [](int64_t ms) { return wavefront::Cost{{{ms * 1'000'000'000, {0}}}}; };
  StageModel teacher{{}, {{milliseconds(3), {}, 0, 0, 0}}},
      student{{0, 1'000'000'000, 0}, {{milliseconds(1), milliseconds(2), 0, 0, 0}}};
  model.sections = {{"teacher", false, {}, capacities, {teacher}}, {"student", true, {}, capacities, {student}}};
  model.edges = {{0, 0, 1, 0, false, false, {{4e6, {0}}}, {4'000'000}, {}}};
  std::string text;
  for (uint32_t count : {8u, 64u}) {
    std::vector<SampleSizes> samples{SampleSizes(4 * count, 1)};
    CompoundLayout apart(2), together(2);
    for (uint32_t device = 0; device < count; ++device) {
      apart[device < count / 2 ? 0 : 1].devices.push_back({device});
      together[0].devices.push_back({device});
      together[1].devices.push_back({device});
    }
    for (const auto &[name, layout] : {std::pair{"apart", apart}, {"together", together}}) {
      auto result = Simulator(samples).run(model, cluster(count), layout, wavefront::Order::Wavefront);
      EXPECT_TRUE(result.isOk()) << result.status().message();
      text += fmt::format("step of a distillation on h100x{}, {}: {:.4g} ms\n", count, name, result->stepSeconds * 1e3);
    }
  }
  return text;
}

std::string table() {
  std::string text;
  for (const DeviceModel &device : devices())
    for (bool bf16 : {false, true})
      for (const auto &[name, work] : operators(bf16))
        text += fmt::format("{} {} on {}: {:.4g} us\n", name, bf16 ? "bf16" : "f32", device.name,
                            operatorTime(work, device).time.value * 1e6);
  return text + links() + steps();
}

TEST(GoldenTimes, AreAsTheyWere) {
  const char *path = MAESTRO_SOURCE_DIR "/test/cost_models/golden_times.txt";
  std::string now = table();
  if (std::getenv("MAESTRO_WRITE_GOLDEN")) {
    std::ofstream(path) << now;
    return;
  }
  std::ifstream file(path);
  std::stringstream was;
  was << file.rdbuf();
  std::istringstream before(was.str()), after(now);
  std::string oldLine, newLine;
  for (bool more = true; more;) {
    bool hadOld = static_cast<bool>(std::getline(before, oldLine)),
         hadNew = static_cast<bool>(std::getline(after, newLine));
    more = hadOld && hadNew;
    ASSERT_EQ(hadOld ? oldLine : "", hadNew ? newLine : "")
        << "a predicted time changed: give the reason in the commit, and rewrite the table with MAESTRO_WRITE_GOLDEN=1";
  }
}

} // namespace
} // namespace maestro::cost_models

// maestro-profile: measures what a device of this machine does, and writes device.yaml for cluster.yaml's `device`.
//
// A device is a group of threads. All cores work while one is measured: as many groups as there is room for run the same
// kernel at once, since they share memory when a plan runs.
#include "base/log.h"
#include "cost_models/device_profile.h"
#include "kernels/kernel.h"
#include "tools/bound_spinning.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <thread>

using namespace maestro;
using cost_models::Measurement;
using kernels::Attribute;
using kernels::TensorType;

namespace {

double secondsOf(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

/// A kernel at one shape, with what the operator's cost says of it.
struct Subject {
  std::string what, kernel;
  std::vector<Attribute> attributes;
  std::vector<TensorType> inputs, outputs;
  double flops = 0;
};

TensorType tensor(std::vector<int64_t> shape, DType dtype = DType::F32) { return TensorType(dtype, shape); }
Attribute ints(std::string name, std::vector<int64_t> values) {
  return {std::move(name), Attribute::Kind::Ints, std::move(values), {}, {}};
}
Attribute number(std::string name, double value) { return {std::move(name), Attribute::Kind::Floats, {}, {value}, {}}; }

Subject product(int64_t m, int64_t n, int64_t k) {
  return {fmt::format("matmul f32 {}x{}x{}", m, n, k), "matmul", {ints("transpose_b", {1})},
          {tensor({m, k}), tensor({n, k}), TensorType()}, {tensor({m, n})},
          2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)};
}

Subject attention(int64_t batch, int64_t length, int64_t heads, int64_t depth, bool backward) {
  TensorType q = tensor({batch, length, heads, depth}), lse = tensor({batch, heads, length});
  std::vector<Attribute> attributes{number("scale", 0.125), ints("causal", {1}), ints("sequence_major", {1})};
  auto scores = static_cast<double>(batch * heads * length * length);
  std::string what = fmt::format("attention{} f32 {}x{}x{}x{}", backward ? "_grad" : "", batch, length, heads, depth);
  if (backward)
    return {what, "attention_grad", attributes, {q, q, q, q, q, lse, TensorType()}, {q, q, q},
            scores * (10.0 * static_cast<double>(depth) + 14)};
  return {what, "attention", attributes, {q, q, q, TensorType()}, {q, lse}, scores * (4.0 * static_cast<double>(depth) + 12)};
}

std::vector<Subject> subjects() {
  std::vector<Subject> list;
  for (auto [m, n, k] : {std::array<int64_t, 3>{1024, 512, 512}, {1024, 1408, 512}, {1024, 512, 1408}, {4096, 64, 64},
                         {4096, 256, 64}, {2048, 128, 128}, {256, 4096, 1024}, {1024, 64, 64}, {1024, 160, 64}})
    list.push_back(product(m, n, k));
  list.push_back(attention(4, 256, 8, 64, false));
  list.push_back(attention(4, 256, 8, 64, true));
  list.push_back(attention(1, 1024, 4, 16, false));
  list.push_back(attention(4, 256, 4, 16, true));
  TensorType x = tensor({1024, 1408}), y = tensor({1024, 512});
  auto elements = static_cast<double>(x.elements()), rows = static_cast<double>(y.elements());
  list.push_back({"add f32 1024x1408", "add", {}, {x, x}, {x}, elements});
  list.push_back({"gelu f32 1024x1408", "gelu", {}, {x}, {x}, 8 * elements});
  list.push_back({"rms_norm f32 1024x512", "rms_norm", {ints("axis", {1}), number("epsilon", 1e-6)}, {y, tensor({512})},
                  {y, tensor({1024})}, 4 * rows});
  TensorType narrow = tensor({1024, 64}), hidden = tensor({1024, 160}), scores = tensor({1024, 128}), row = tensor({1024});
  list.push_back({"rms_norm_grad f32 1024x64", "rms_norm_grad", {ints("axis", {1})}, {narrow, narrow, row, tensor({64})},
                  {narrow, tensor({64})}, 10.0 * 1024 * 64});
  list.push_back({"silu f32 1024x160", "silu", {}, {hidden}, {hidden}, 8.0 * 1024 * 160});
  list.push_back({"add f32 1024x64", "add", {}, {narrow, narrow}, {narrow}, 1024.0 * 64});
  list.push_back({"cross_entropy f32 1024x128", "cross_entropy", {}, {scores, tensor({1024}, DType::I64)}, {row, row},
                  11.0 * 1024 * 128});
  list.push_back({"transpose f32 4x256x8x64", "transpose", {ints("permutation", {0, 2, 1, 3})}, {tensor({4, 256, 8, 64})},
                  {tensor({4, 8, 256, 64})}, 0});
  return list;
}

/// A prepared call with operands of its own: zeros, which every kernel accepts.
class Call {
public:
  static Result<Call> prepare(const kernels::Library &library, const Subject &subject, int threads) {
    Call call;
    MAESTRO_ASSIGN(call.kernel, library.prepare({subject.kernel, kernels::Attributes(subject.attributes), subject.inputs,
                                                 subject.outputs, threads}));
    if (!call.kernel)
      return Status::internal("no kernel for " + subject.what);
    for (const TensorType &type : subject.inputs)
      call.inputs.push_back(call.add(type));
    for (const TensorType &type : subject.outputs)
      call.outputs.push_back(call.add(type));
    call.scratch = call.block(call.kernel->scratchBytes());
    return call;
  }

  void run() { // The operands are valid, so that it cannot fail.
    if (!kernel->run(inputs, outputs, scratch).isOk())
      std::abort();
  }
  double bytes() const { return total; }

private:
  void *block(size_t bytes) {
    blocks.emplace_back(std::aligned_alloc(64, (bytes + 127) & ~size_t{63}));
    std::memset(blocks.back().get(), 0, bytes);
    return blocks.back().get();
  }
  void *add(const TensorType &type) {
    if (!type.present)
      return nullptr;
    total += static_cast<double>(type.bytes());
    return block(type.bytes());
  }

  std::unique_ptr<kernels::Kernel> kernel;
  std::vector<std::unique_ptr<void, Free>> blocks;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  void *scratch = nullptr;
  double total = 0;
};

/// The lower quintile: what other programs on the machine add is none of the kernel's time.
double undisturbed(std::vector<double> values) {
  auto place = values.begin() + static_cast<ptrdiff_t>(values.size() / 5);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

class Profiler {
public:
  explicit Profiler(double secondsEach) : secondsEach(secondsEach), library(kernels::createCpuLibrary()) {}

  Result<cost_models::DeviceProfile> run() {
    cost_models::DeviceProfile profile;
    profile.name = processorName();
    int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::vector<int> counts;
    for (int threads = 1; threads < cores; threads *= 2)
      counts.push_back(threads);
    counts.push_back(cores);
    for (int threads : counts) {
      logInfo(fmt::format("{} thread{}, {} at once", threads, threads == 1 ? "" : "s", cores / threads));
      cost_models::DeviceRates rates = cost_models::cpuRates(threads);
      TensorType one = tensor({1});
      MAESTRO_ASSIGN(Measurement call, measure({"add f32 1", "add", {}, {one, one}, {one}, 1}, threads, cores / threads));
      rates.call = cost_models::Seconds(call.seconds);
      for (const Subject &subject : subjects()) {
        MAESTRO_ASSIGN(Measurement m, measure(subject, threads, cores / threads));
        profile.measured.push_back(m);
      }
      cost_models::fitRates(profile.measured, threads, rates);
      TensorType large = tensor({8, 1 << 20});
      MAESTRO_ASSIGN(Measurement update, measure({"adamw", "adamw", {}, {large, large, large, large, tensor({8})},
                                                  {large, large, large, large, TensorType()}, 0}, threads, cores / threads));
      rates.stream = cost_models::BytesPerSecond(update.bytes / update.seconds);
      measureChannel(rates);
      profile.rates.push_back({threads, rates});
    }
    return profile;
  }

private:
  static std::string processorName() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
      if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
        return line.substr(line.find(": ") + 2);
    return "cpu";
  }

  /// The time of a run in the first of `copies` groups of threads that all do the same.
  Result<Measurement> measure(const Subject &subject, int threads, int copies) {
    std::vector<Call> calls;
    for (int copy = 0; copy < copies; ++copy) {
      MAESTRO_ASSIGN(Call call, Call::prepare(*library, subject, threads));
      calls.push_back(std::move(call));
    }
    std::atomic<bool> stop{false};
    std::vector<std::thread> others;
    for (size_t copy = 1; copy < calls.size(); ++copy)
      others.emplace_back([&, copy] {
        while (!stop.load(std::memory_order_relaxed))
          calls[copy].run();
      });
    std::vector<double> times;
    calls[0].run();
    calls[0].run();
    // One thread's own time leaves out what other programs take; several threads wait for each other on the clock.
    clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    for (double begin = secondsOf(clock), last = begin; last - begin < secondsEach || times.size() < 5;) {
      calls[0].run();
      double end = secondsOf(clock);
      times.push_back(end - last);
      last = end;
    }
    stop = true;
    for (std::thread &other : others)
      other.join();
    return Measurement{subject.what, threads, subject.flops, calls[0].bytes(), undisturbed(std::move(times))};
  }

  /// A copy of 4 MiB by one thread, and the time until a waiting thread sees a word change.
  void measureChannel(cost_models::DeviceRates &rates) const {
    constexpr size_t kBytes = size_t{4} << 20;
    std::vector<char> from(kBytes, 1), to(kBytes, 0);
    std::vector<double> copies, wakes;
    for (int i = 0; i < 50; ++i) {
      double begin = now();
      std::memcpy(to.data(), from.data(), kBytes);
      copies.push_back(now() - begin);
    }
    rates.channel = cost_models::Bytes(static_cast<double>(kBytes)) / cost_models::Seconds(undisturbed(std::move(copies)));
    std::atomic<int> word{0};
    std::thread echo([&] {
      for (int i = 0; i < 200; ++i) {
        word.wait(2 * i);
        word.store(2 * i + 2);
        word.notify_one();
      }
    });
    for (int i = 0; i < 200; ++i) {
      double begin = now();
      word.store(2 * i + 1);
      word.notify_one();
      word.wait(2 * i + 1);
      wakes.push_back((now() - begin) / 2);
    }
    echo.join();
    rates.wake = cost_models::Seconds(undisturbed(std::move(wakes)));
  }

  double secondsEach;
  std::unique_ptr<kernels::Library> library;
};

Status writeProfile(const cost_models::DeviceProfile &profile, const std::string &path) {
  std::string aside = path + ".unfinished";
  {
    std::ofstream file(aside);
    file << cost_models::toYaml(profile);
    if (!file.flush())
      return Status::unavailable(aside + ": cannot be written");
  }
  if (std::rename(aside.c_str(), path.c_str()) != 0)
    return Status::unavailable(path + ": cannot be written");
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  boundSpinning(argv);
  CLI::App app{"Measures this machine for maestro-plan.", "maestro-profile"};
  app.footer("Example:\n  maestro-profile -o device.yaml\n  maestro-plan kd.yaml --set cluster.device=device.yaml -o kd.mpl");
  app.set_version_flag("--version", "maestro-profile " MAESTRO_VERSION);
  std::string output;
  double seconds = 0.2;
  app.add_option("-o,--output", output, "Where to write the profile")->required();
  app.add_option("--seconds", seconds, "For each kernel and number of threads")->check(CLI::Range(0.01, 10.0));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  double started = now();
  auto profile = Profiler(seconds).run();
  Status status = profile.isOk() ? writeProfile(*profile, output) : Status::internal(std::string(profile.status().message()));
  if (!status.isOk()) {
    logError(status.message());
    return 2;
  }
  for (const cost_models::ProfiledRates &entry : profile->rates)
    logInfo(fmt::format("{} threads: {:.3g} GFLOP/s, operands {:.3g} GB/s, stream {:.3g} GB/s, call {:.3g} us, channel {:.3g} GB/s "
                        "and {:.3g} us", entry.threads, entry.rates.arithmetic.value * 1e-9, entry.rates.operands.value * 1e-9,
                        entry.rates.stream.value * 1e-9, entry.rates.call.value * 1e6, entry.rates.channel.value * 1e-9,
                        entry.rates.wake.value * 1e6));
  logInfo(fmt::format("wrote {} in {:.1f} s", output, now() - started));
  return 0;
}

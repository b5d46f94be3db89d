#include "planner/workload/device_file.h"

#include "cost_models/devices.h"
#include "planner/workload/quantity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace maestro::planner {
namespace {

using cost_models::DeviceProfile;
using cost_models::ProfiledDevice;

Result<double> readArithmetic(const YamlNode &node, const std::string &path) {
  MAESTRO_ASSIGN(
      double flopsPerSecond,
      readQuantity(node, path, {{"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}}, "100 GFLOP/s"));
  if (flopsPerSecond <= 0)
    return wrong(node, path, "must be above 0");
  return flopsPerSecond;
}

Result<double> readShare(const YamlNode &node, const std::string &path) {
  MAESTRO_ASSIGN(double share, readNumber(node, path, {0, 1, true}));
  return share;
}

Result<double> readExcess(const YamlNode &node, const std::string &path) {
  MAESTRO_ASSIGN(double times, readNumber(node, path, {1, 100}));
  return times;
}

Result<double> readRatio(const YamlNode &node, const std::string &path) {
  MAESTRO_ASSIGN(double times, readNumber(node, path, {0.01, 100}));
  return times;
}

Status readRates(const YamlNode &node, const std::string &path, ProfiledDevice &entry) {
  FieldReader fields(node, path);
  MAESTRO_TRY(fields.checkIsMap());
  int64_t threads = 0;
  MAESTRO_TRY(fields.require("threads", "such as 1"));
  MAESTRO_TRY(fields.integer("threads", threads, 1, 1 << 16));
  entry.threads = static_cast<int>(threads);
  cost_models::DeviceRates &rates = entry.rates;
  MAESTRO_TRY(fields.require("arithmetic", "such as 100 GFLOP/s"));
  MAESTRO_ASSIGN(rates.arithmetic.value, readArithmetic(*fields.find("arithmetic"), fields.pathOf("arithmetic")));
  MAESTRO_TRY(fields.require("operands", "such as 20 GB/s"));
  MAESTRO_ASSIGN(rates.operands.value, readBandwidth(*fields.find("operands"), fields.pathOf("operands")));
  rates.stream = rates.operands;
  rates.arithmeticBf16 = rates.arithmetic;
  struct {
    const char *key;
    double *value;
    Result<double> (*read)(const YamlNode &, const std::string &);
  } optional[] = {{"arithmetic_bf16", &rates.arithmeticBf16.value, readArithmetic},
                  {"stream", &rates.stream.value, readBandwidth},
                  {"channel", &rates.channel.value, readBandwidth},
                  {"call", &rates.call.value, readDuration},
                  {"wake", &rates.wake.value, readDuration},
                  {"task", &rates.task.value, readDuration},
                  {"step", &rates.step.value, readDuration},
                  {"host", &rates.host.value, readDuration},
                  {"alone", &rates.alone, readShare},
                  {"together", &rates.together, readExcess},
                  {"update", &rates.update, readRatio}};
  for (auto &field : optional)
    if (const YamlNode *value = fields.find(field.key)) {
      MAESTRO_ASSIGN(*field.value, field.read(*value, fields.pathOf(field.key)));
    }
  return fields.finish();
}

/// Lists of so many numbers each.
Result<std::vector<std::vector<double>>> readPoints(const YamlNode &node, const std::string &path, size_t width) {
  if (node.kind != YamlNode::Kind::List)
    return wrong(node, path, "must be a list of points, as maestro-profile writes it");
  std::vector<std::vector<double>> points;
  for (size_t i = 0; i < node.items.size(); ++i) {
    std::string place = fmt::format("{}[{}]", path, i);
    const YamlNode &item = node.items[i];
    if (item.kind != YamlNode::Kind::List || item.items.size() != width)
      return wrong(item, place, fmt::format("must be a list of {} numbers", width));
    std::vector<double> &point = points.emplace_back();
    for (const YamlNode &number : item.items) {
      MAESTRO_ASSIGN(double value, readNumber(number, place, {0, std::numeric_limits<double>::max(), true}));
      point.push_back(value);
    }
  }
  return points;
}

Status readCurve(const YamlNode &node, const std::string &path, DeviceProfile &profile) {
  FieldReader fields(node, path);
  MAESTRO_TRY(fields.checkIsMap());
  std::string kernel;
  int64_t threads = 0;
  MAESTRO_TRY(fields.require("kernel", "such as add"));
  MAESTRO_TRY(fields.text("kernel", kernel));
  MAESTRO_TRY(fields.require("threads", "such as 1"));
  MAESTRO_TRY(fields.integer("threads", threads, 1, 1 << 16));
  bool areCalls = fields.find("calls") != nullptr;
  const char *key = areCalls ? "calls" : "points";
  MAESTRO_TRY(fields.require(key, "a list, as maestro-profile writes it"));
  auto device =
      std::find_if(profile.devices.begin(), profile.devices.end(), [&](const auto &d) { return d.threads == threads; });
  if (device == profile.devices.end())
    return wrong(node, path + ".threads", fmt::format("is {}, and rates say nothing of so many", threads));
  bool isGrid = cost_models::isGrid(kernel);
  MAESTRO_ASSIGN(auto points, readPoints(*fields.find(key), fmt::format("{}.{}", path, key),
                                         areCalls ? 5
                                         : isGrid ? 4
                                                  : 2));
  std::vector<cost_models::GridSample> grid;
  std::vector<cost_models::CurveSample> samples;
  std::vector<cost_models::CallSample> calls;
  for (const std::vector<double> &p : points)
    if (areCalls)
      calls.push_back({p[0], p[1], p[2], p[3], cost_models::Seconds(p[4])});
    else if (isGrid)
      grid.push_back({p[0], p[1], p[2], cost_models::Seconds(p[3])});
    else
      samples.push_back({p[0], cost_models::Seconds(p[1])});
  Status status = areCalls ? device->curves.addCalls(kernel, std::move(calls))
                  : isGrid ? device->curves.addGrid(kernel, std::move(grid))
                           : device->curves.addCurve(kernel, std::move(samples));
  if (!status.isOk())
    return wrong(node, path, fmt::format("cannot be used: {}; write the file with maestro-profile", status.message()));
  return fields.finish();
}

Status requireList(FieldReader &fields, const char *key) {
  MAESTRO_TRY(fields.require(key, "a list, as maestro-profile writes it"));
  const YamlNode &list = *fields.find(key);
  if (list.kind != YamlNode::Kind::List || list.items.empty())
    return wrong(list, key, "must be a list of at least one entry; write the file with maestro-profile");
  return Status();
}

Status readGpu(FieldReader &fields, DeviceProfile &profile) {
  int64_t multiprocessors = 0;
  MAESTRO_TRY(fields.require("multiprocessors", "such as 132"));
  MAESTRO_TRY(fields.integer("multiprocessors", multiprocessors, 1, 1 << 16));
  profile.multiprocessors = static_cast<uint32_t>(multiprocessors);
  MAESTRO_TRY(fields.require("memory", "such as 80 GB"));
  MAESTRO_ASSIGN(profile.memoryBytes, readMemory(*fields.find("memory"), fields.pathOf("memory")));
  MAESTRO_TRY(requireList(fields, "kept"));
  const YamlNode &list = *fields.find("kept");
  for (size_t i = 0; i < list.items.size(); ++i) {
    FieldReader own(list.items[i], fmt::format("kept[{}]", i));
    cost_models::KeptMemory &kept = profile.kept.emplace_back();
    MAESTRO_TRY(own.checkIsMap());
    MAESTRO_TRY(own.require("what", "such as context"));
    MAESTRO_TRY(own.text("what", kept.what));
    MAESTRO_TRY(own.require("memory", "such as 0.6 GB"));
    MAESTRO_ASSIGN(kept.bytes, readMemory(*own.find("memory"), own.pathOf("memory")));
    kept.source = "measured";
    MAESTRO_TRY(own.finish());
  }
  return Status();
}

Result<DeviceProfile> profileOf(const YamlNode &root) {
  DeviceProfile profile;
  FieldReader fields(root, "");
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(fields.require("kind", "cpu"));
  MAESTRO_TRY(fields.text("kind", profile.kind));
  bool isGpu = cost_models::builtInDevice(profile.kind).has_value();
  if (profile.kind != "cpu" && !isGpu)
    return wrong(*fields.find("kind"), "kind",
                 fmt::format("is '{}'; profiles are of 'cpu', or of one of {}; write the file with maestro-profile",
                             profile.kind, fmt::join(cost_models::builtInDevices(), ", ")));
  MAESTRO_TRY(fields.text("name", profile.name));
  if (isGpu)
    MAESTRO_TRY(readGpu(fields, profile));
  if (const YamlNode *products = fields.find("bf16_products")) {
    if (products->scalar != "native" && products->scalar != "widened")
      return wrong(*products, "bf16_products",
                   fmt::format("is '{}'; must be native (the processor multiplies bf16) or widened (it does so in f32)",
                               products->scalar));
    profile.bf16Products =
        products->scalar == "native" ? cost_models::Bf16Products::Native : cost_models::Bf16Products::Widened;
  }
  MAESTRO_TRY(requireList(fields, "rates"));
  const YamlNode &rates = *fields.find("rates");
  for (size_t i = 0; i < rates.items.size(); ++i)
    MAESTRO_TRY(readRates(rates.items[i], fmt::format("rates[{}]", i), profile.devices.emplace_back()));
  if (isGpu && profile.devices.size() > 1)
    return wrong(rates, "rates", "has several entries; a GPU has one; write the file with maestro-profile");
  std::stable_sort(profile.devices.begin(), profile.devices.end(),
                   [](auto &a, auto &b) { return a.threads < b.threads; });
  if (fields.find("curves")) {
    MAESTRO_TRY(requireList(fields, "curves"));
    const YamlNode &curves = *fields.find("curves");
    for (size_t i = 0; i < curves.items.size(); ++i)
      MAESTRO_TRY(readCurve(curves.items[i], fmt::format("curves[{}]", i), profile));
  }
  fields.find("measured"); // Of earlier versions, for people.
  MAESTRO_TRY(fields.finish());
  return profile;
}

} // namespace

Result<DeviceProfile> readDeviceProfile(const std::string &path) {
  MAESTRO_ASSIGN(YamlNode root, readYaml(path));
  return profileOf(root);
}

Result<DeviceProfile> parseDeviceProfile(std::string_view text, const std::string &path) {
  MAESTRO_ASSIGN(YamlNode root, parseYaml(text, path));
  return profileOf(root);
}

} // namespace maestro::planner

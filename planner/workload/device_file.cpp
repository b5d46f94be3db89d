#include "planner/workload/device_file.h"

#include "planner/workload/quantity.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {
namespace {

Result<double> readArithmetic(const YamlNode &node, const std::string &path) {
  MAESTRO_ASSIGN(double flopsPerSecond,
                 readQuantity(node, path, {{"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}}, "100 GFLOP/s"));
  if (flopsPerSecond <= 0)
    return wrong(node, path, "must be above 0");
  return flopsPerSecond;
}

Status readRates(const YamlNode &node, const std::string &path, cost_models::ProfiledRates &entry) {
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
  struct {
    const char *key;
    double *value;
    Result<double> (*read)(const YamlNode &, const std::string &);
  } optional[] = {{"stream", &rates.stream.value, readBandwidth},
                  {"channel", &rates.channel.value, readBandwidth},
                  {"call", &rates.call.value, readDuration},
                  {"wake", &rates.wake.value, readDuration}};
  for (auto &field : optional)
    if (const YamlNode *value = fields.find(field.key)) {
      MAESTRO_ASSIGN(*field.value, field.read(*value, fields.pathOf(field.key)));
    }
  return fields.finish();
}

Result<cost_models::DeviceProfile> profileOf(const YamlNode &root) {
  cost_models::DeviceProfile profile;
  FieldReader fields(root, "");
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(fields.require("kind", "cpu"));
  MAESTRO_TRY(fields.text("kind", profile.kind));
  if (profile.kind != "cpu")
    return wrong(*fields.find("kind"), "kind", fmt::format("is '{}'; this version plans for 'cpu' devices", profile.kind));
  MAESTRO_TRY(fields.text("name", profile.name));
  MAESTRO_TRY(fields.require("rates", "a list, as maestro-profile writes it"));
  const YamlNode &list = *fields.find("rates");
  if (list.kind != YamlNode::Kind::List || list.items.empty())
    return wrong(list, "rates", "must be a list of at least one entry; write the file with maestro-profile");
  for (size_t i = 0; i < list.items.size(); ++i)
    MAESTRO_TRY(readRates(list.items[i], fmt::format("rates[{}]", i), profile.rates.emplace_back()));
  std::stable_sort(profile.rates.begin(), profile.rates.end(), [](auto &a, auto &b) { return a.threads < b.threads; });
  fields.find("measured");
  MAESTRO_TRY(fields.finish());
  return profile;
}

} // namespace

Result<cost_models::DeviceProfile> readDeviceProfile(const std::string &path) {
  MAESTRO_ASSIGN(YamlNode root, readYaml(path));
  return profileOf(root);
}

Result<cost_models::DeviceProfile> parseDeviceProfile(std::string_view text, const std::string &path) {
  MAESTRO_ASSIGN(YamlNode root, parseYaml(text, path));
  return profileOf(root);
}

} // namespace maestro::planner

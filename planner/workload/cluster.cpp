#include "planner/workload/cluster.h"

#include "planner/workload/field_reader.h"
#include "planner/workload/quantity.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {
namespace {

/// Names end up in plans and messages.
Status readName(FieldReader &fields, std::string &name) {
  constexpr size_t kMostBytes = 100;
  MAESTRO_TRY(fields.text("name", name));
  bool plain =
      std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 127; });
  if (name.size() > kMostBytes || !plain)
    return wrong(*fields.find("name"), fields.pathOf("name"),
                 fmt::format("must have at most {} bytes, and none that controls", kMostBytes));
  return {};
}

Status readLink(const YamlNode &node, const std::string &path, LinkSpec &link) {
  link.place = node.place;
  FieldReader fields(node, path);
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(readName(fields, link.name));
  MAESTRO_TRY(fields.require("spans", "the number of devices that it joins"));
  MAESTRO_TRY(fields.integer("spans", link.spans, 1, int64_t(1) << 31));
  MAESTRO_TRY(fields.require("bandwidth", "such as 450 GB/s"));
  MAESTRO_ASSIGN(link.bandwidth.value, readBandwidth(*fields.find("bandwidth"), path + ".bandwidth"));
  if (const YamlNode *latency = fields.find("latency")) {
    MAESTRO_ASSIGN(link.latency.value, readDuration(*latency, path + ".latency"));
  }
  if (fields.find("nics")) {
    link.nics = 1;
    MAESTRO_TRY(fields.integer("nics", *link.nics, 1, 1024));
  }
  if (link.name.empty())
    link.name = path;
  return fields.finish();
}

Status readLinks(const YamlNode &node, ClusterSpec &cluster) {
  if (node.kind != YamlNode::Kind::List)
    return wrong(node, "links", "must be a list, innermost link first");
  for (size_t i = 0; i < node.items.size(); ++i) {
    std::string path = fmt::format("links[{}]", i);
    MAESTRO_TRY(readLink(node.items[i], path, cluster.links.emplace_back()));
    if (i == 0)
      continue;
    int64_t inner = cluster.links[i - 1].spans, outer = cluster.links[i].spans;
    if (outer <= inner || outer % inner != 0)
      return wrong(node.items[i], path + ".spans",
                   fmt::format("is {}, and the link inside it spans {}: levels go from the innermost to the "
                               "outermost, each a multiple of the one before",
                               outer, inner));
  }
  return {};
}

/// One for all, or one for each of `devices`.
Status readMemories(const YamlNode &node, ClusterSpec &cluster) {
  bool isList = node.kind == YamlNode::Kind::List;
  if (isList && node.items.size() != cluster.devices.size())
    return wrong(node, "memory",
                 fmt::format("is a list of {}, and device names {}; give one for all or one for each",
                             node.items.size(), cluster.devices.size()));
  for (size_t i = 0; i < (isList ? node.items.size() : 1); ++i) {
    MAESTRO_ASSIGN(uint64_t bytes, readMemory(isList ? node.items[i] : node, "memory"));
    cluster.memoryBytes.push_back(bytes);
  }
  return {};
}

Result<ClusterSpec> clusterOf(YamlNode root, bool thisMachine, const std::vector<std::string> &assignments) {
  YamlNode settings; // In which the file's values are called cluster.…, as `--set` has them.
  settings.kind = YamlNode::Kind::Map;
  settings.entries.emplace_back("cluster", std::move(root));
  for (const std::string &assignment : assignments)
    if (assignment.rfind("cluster.", 0) == 0)
      MAESTRO_TRY(setYaml(settings, assignment));
  root = std::move(settings.entries.front().second);
  ClusterSpec cluster;
  cluster.isThisMachine = thisMachine;
  FieldReader fields(root, "");
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(readName(fields, cluster.name));
  MAESTRO_TRY(fields.integer("nodes", cluster.nodes, 1, int64_t(1) << 20));
  if (fields.find("devices_per_node")) {
    int64_t devices = 0;
    MAESTRO_TRY(fields.integer("devices_per_node", devices, 1, 1024));
    cluster.devicesPerNode = devices;
  }
  MAESTRO_TRY(fields.texts("device", cluster.devices));
  const YamlNode *device = fields.find("device");
  cluster.place = device ? device->place : root.place;
  if (const YamlNode *memory = fields.find("memory"))
    MAESTRO_TRY(readMemories(*memory, cluster));
  if (const YamlNode *links = fields.find("links"))
    MAESTRO_TRY(readLinks(*links, cluster));
  MAESTRO_TRY(fields.finish());
  return cluster;
}

} // namespace

Result<ClusterSpec> parseCluster(std::string_view text, const std::string &path,
                                 const std::vector<std::string> &assignments) {
  MAESTRO_ASSIGN(YamlNode root, parseYaml(text, path));
  return clusterOf(std::move(root), false, assignments);
}

Result<ClusterSpec> readCluster(const std::string &path, const std::vector<std::string> &assignments) {
  MAESTRO_ASSIGN(YamlNode root, readYaml(path));
  return clusterOf(std::move(root), false, assignments);
}

Result<ClusterSpec> thisMachine(const std::vector<std::string> &assignments) {
  YamlNode root;
  root.place = "this machine";
  MAESTRO_ASSIGN(ClusterSpec cluster, clusterOf(std::move(root), true, assignments));
  if (cluster.name.empty())
    cluster.name = "this machine";
  return cluster;
}

} // namespace maestro::planner

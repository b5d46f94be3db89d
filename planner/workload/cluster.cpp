#include "planner/workload/cluster.h"

#include "planner/workload/field_reader.h"
#include "planner/workload/quantity.h"

#include <fmt/format.h>

#include <cmath>

namespace maestro::planner {
namespace {

Status readLink(const YamlNode &node, const std::string &path, LinkSpec &link) {
  FieldReader fields(node, path);
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(fields.text("name", link.name));
  MAESTRO_TRY(fields.require("spans", "the number of devices that it joins"));
  MAESTRO_TRY(fields.integer("spans", link.spans, 1, int64_t(1) << 31));
  MAESTRO_TRY(fields.require("bandwidth", "such as 450 GB/s"));
  MAESTRO_ASSIGN(link.bytesPerSecond, readBandwidth(*fields.find("bandwidth"), path + ".bandwidth"));
  if (const YamlNode *latency = fields.find("latency")) {
    MAESTRO_ASSIGN(link.latencySeconds, readDuration(*latency, path + ".latency"));
  }
  return fields.finish();
}

Status readLinks(const YamlNode &node, ClusterSpec &cluster) {
  if (node.kind != YamlNode::Kind::List)
    return wrong(node, "links", "must be a list, innermost link first");
  for (size_t i = 0; i < node.items.size(); ++i) {
    std::string path = fmt::format("links[{}]", i);
    MAESTRO_TRY(readLink(node.items[i], path, cluster.links.emplace_back()));
    if (i > 0 && cluster.links[i].spans < cluster.links[i - 1].spans)
      return wrong(node.items[i], path + ".spans", fmt::format("is {}, below that of the link inside it, {}",
                                                               cluster.links[i].spans, cluster.links[i - 1].spans));
  }
  return {};
}

Result<ClusterSpec> clusterOf(YamlNode root, bool thisMachine, const std::vector<std::string> &assignments) {
  constexpr std::string_view kPrefix = "cluster.";
  for (const std::string &assignment : assignments)
    if (assignment.rfind(kPrefix, 0) == 0)
      MAESTRO_TRY(setYaml(root, assignment.substr(kPrefix.size())));
  ClusterSpec cluster;
  cluster.isThisMachine = thisMachine;
  FieldReader fields(root, "");
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(fields.text("name", cluster.name));
  MAESTRO_TRY(fields.integer("nodes", cluster.nodes, 1, int64_t(1) << 20));
  if (fields.find("devices_per_node")) {
    int64_t devices = 0;
    MAESTRO_TRY(fields.integer("devices_per_node", devices, 1, 1024));
    cluster.devicesPerNode = devices;
  }
  MAESTRO_TRY(fields.texts("device", cluster.devices));
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

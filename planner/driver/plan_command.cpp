#include "planner/driver/plan_command.h"

#include "base/log.h"
#include "plan/builder.h"
#include "planner/driver/planner.h"

#include <fmt/format.h>

#include <filesystem>

namespace maestro::planner {

Status Planner::run(std::vector<std::vector<uint8_t>> spares) {
  MAESTRO_TRY(make());
  if (options.stopAfter)
    return Status();
  for (std::vector<uint8_t> &spare : spares) {
    auto &own = *emitted.tables.spares.emplace_back(std::make_unique<plan::fb::SpareT>());
    own.plan = std::move(spare);
  }
  MAESTRO_ASSIGN(size_t bytes, write(options.output));
  logPlan(job(), findings, emitted);
  double seconds = nowSeconds() - started;
  logInfo(fmt::format("wrote {} ({} bytes) in {:.2f} s", options.output, bytes, seconds));
  if (options.deadlineSeconds && seconds > *options.deadlineSeconds)
    logWarning(fmt::format("--deadline {:g}s: it took {:.1f} s, of which reading the models took {:.1f} and the search "
                           "{:.1f}; one layout has to be tried and written",
                           *options.deadlineSeconds, seconds, readSeconds, searchSeconds));
  return writeNextBest();
}

Result<std::vector<uint8_t>> Planner::spare(int64_t nodesOfAll) {
  MAESTRO_TRY(make().withContext(fmt::format("for {} of {} nodes", cluster.nodes, nodesOfAll)));
  logInfo(fmt::format("for {} of {} nodes: {}", cluster.nodes, nodesOfAll, describeLayouts(layouts)));
  return plan::finish(emitted.tables);
}

Result<size_t> Planner::write(const std::string &path) const {
  MAESTRO_ASSIGN(std::vector<uint8_t> bytes, plan::finish(emitted.tables));
  MAESTRO_TRY(plan::writePlan(bytes, path));
  return bytes.size();
}

Status Planner::writeNextBest() {
  for (size_t rank = 1, number = 2; search && rank < search->ranks(); ++rank) {
    MAESTRO_TRY(useRank(rank));
    MAESTRO_TRY(tryLayouts(rank));
    if (!emitted.fits) // More than the search was told, once it is emitted.
      continue;
    std::filesystem::path path = options.output;
    path.replace_extension(fmt::format(".{}{}", number++, path.extension().string()));
    MAESTRO_TRY(write(path.string()).takeStatus());
    logInfo(fmt::format("wrote {}: {}", path.string(), findings.decisions.front().choice));
  }
  return Status();
}

namespace {

/// Of the cluster with so many nodes less.
Result<std::vector<uint8_t>> planSpare(const PlanOptions &options, const ClusterSpec &cluster, uint32_t lost) {
  PlanOptions fewer = options;
  fewer.settings.push_back(fmt::format("cluster.nodes={}", cluster.nodes - lost));
  if (fewer.deadlineSeconds)
    *fewer.deadlineSeconds /= options.spareNodes + 1;
  return Planner(fewer).spare(cluster.nodes);
}

Status checkSpares(const PlanOptions &options, const ClusterSpec &cluster) {
  if (options.spareNodes >= cluster.nodes)
    return Status::invalidInput(fmt::format("--spare-nodes {}: the cluster has {} node{}, and one must be left",
                                            options.spareNodes, cluster.nodes, cluster.nodes == 1 ? "" : "s"));
  if (cluster.devices.size() > 1)
    return Status::invalidInput(fmt::format("--spare-nodes {}: {} lists a device for each node, and which of them is "
                                            "lost nobody knows; make a plan for each case",
                                            options.spareNodes, cluster.place));
  return Status();
}

} // namespace

Status runPlan(const PlanOptions &options) {
  if (options.spareNodes == 0 || options.stopAfter)
    return Planner(options).run({});
  MAESTRO_TRY(checkOutput(options));
  MAESTRO_ASSIGN(PlanInputs inputs, readInputs(options));
  MAESTRO_TRY(checkSpares(options, inputs.cluster));
  std::vector<std::vector<uint8_t>> spares;
  for (uint32_t lost = 1; lost <= options.spareNodes; ++lost) {
    MAESTRO_ASSIGN(spares.emplace_back(), planSpare(options, inputs.cluster, lost));
  }
  PlanOptions whole = options;
  if (whole.deadlineSeconds)
    *whole.deadlineSeconds /= options.spareNodes + 1;
  return Planner(whole).run(std::move(spares));
}

} // namespace maestro::planner

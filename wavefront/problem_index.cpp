#include "wavefront/problem_index.h"

namespace maestro::wavefront {
namespace {

bool takesAsLong(const Stage &a, const Stage &b) {
  return a.forward == b.forward && a.backward == b.backward && a.weightGradient == b.weightGradient;
}

} // namespace

void ProblemIndex::build(const Problem &problem) {
  firstStage.assign(1, 0);
  firstReplica.assign(1, 0);
  firstStation.assign(1, 0);
  sectionOfStage.clear();
  costsAsBefore.clear();
  stationDevice.clear();
  stationStage.clear();
  stationReplica.clear();
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    const Section &section = problem.sections[s];
    for (uint32_t r = 0; r < section.devices.size(); ++r)
      for (uint32_t stage = 0; stage < section.stages.size(); ++stage) {
        stationDevice.push_back(section.devices[r][stage]);
        stationStage.push_back(firstStage[s] + stage);
        stationReplica.push_back(firstReplica[s] + r);
      }
    for (size_t stage = 0; stage < section.stages.size(); ++stage)
      costsAsBefore.push_back(stage > 0 && takesAsLong(section.stages[stage], section.stages[stage - 1]));
    sectionOfStage.insert(sectionOfStage.end(), section.stages.size(), s);
    firstStage.push_back(static_cast<uint32_t>(sectionOfStage.size()));
    firstReplica.push_back(firstReplica[s] + static_cast<uint32_t>(section.devices.size()));
    firstStation.push_back(static_cast<uint32_t>(stationDevice.size()));
  }
  deviceStations.fill(problem.devices, stationDevice.size(), [&](size_t i) { return stationDevice[i]; });
  edges.clear();
  pairs.clear();
  for (const Edge &edge : problem.edges) {
    uint32_t pair = kNone;
    if (edge.producer != edge.consumer) {
      pair = 0;
      while (pair < pairs.size() && (pairs[pair].producer != edge.producer || pairs[pair].consumer != edge.consumer))
        ++pair;
      if (pair == pairs.size())
        pairs.push_back({edge.producer, edge.consumer});
    }
    edges.push_back({edge.producer, edge.consumer, edge.producerStage, edge.consumerStage, pair, edge.depth,
                     edge.gradientDepth, edge.gradient,
                     edge.heldUntilBackward && problem.sections[edge.consumer].trains});
  }
  edgesOut.fill(sectionOfStage.size(), edges.size(),
                [&](size_t e) { return stageId(edges[e].producer, edges[e].producerStage); });
  edgesIn.fill(sectionOfStage.size(), edges.size(),
               [&](size_t e) { return stageId(edges[e].consumer, edges[e].consumerStage); });
}

} // namespace maestro::wavefront

#include "executor/core/own_values.h"

#include <algorithm>
#include <set>

namespace maestro::executor {

namespace fb = plan::fb;

OwnValues::OwnValues(const plan::Plan &plan, const Topology &topology, transport::RankRange here, bool evaluates) {
  for (uint32_t s = 0; s < topology.stations.size(); ++s) {
    const StationFacts &facts = topology.stations[s];
    if (!here.has(facts.rank))
      continue;
    std::set<uint32_t> fields;
    auto add = [&](const fb::Program *program) {
      for (uint32_t i = 0; program && i < program->fields()->size(); ++i)
        if (uint32_t field = program->fields()->Get(i); !plan->fields()->Get(field)->own_positions())
          fields.insert(field);
    };
    const fb::Program *forward = topology.forward(s, evaluates);
    add(forward);
    add(topology.program(s, fb::ProgramKind::Count));
    if (forward && forward == topology.program(s, fb::ProgramKind::Forward))
      for (fb::ProgramKind kind : {fb::ProgramKind::Backward, fb::ProgramKind::WeightGradient})
        add(topology.program(s, kind));
    if (!fields.empty())
      stations.push_back({facts.section, facts.replica, {fields.begin(), fields.end()}});
  }
}

void OwnValues::mark(const wavefront::Schedule &schedule, data::SampleBatch &batch) const {
  for (const wavefront::MicroBatch &group : schedule.microBatches)
    for (const StationFields &station : stations) {
      if (station.section != group.section || station.replica != group.replica)
        continue;
      for (uint32_t sample : schedule.samplesOf(group))
        for (uint32_t field : station.fields)
          batch.wantedOf(sample)[field] = 1;
    }
}

void OwnValues::markAll(data::SampleBatch &batch) const {
  for (size_t sample = 0; sample < batch.count; ++sample)
    for (const StationFields &station : stations)
      for (uint32_t field : station.fields)
        batch.wantedOf(sample)[field] = 1;
}

} // namespace maestro::executor

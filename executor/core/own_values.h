// Which values of a batch a process reads: those of the samples in its stations' micro-batches, of the fields that
// their programs have.
#pragma once

#include "executor/core/topology.h"
#include "executor/data/source.h"
#include "transport/rank_range.h"
#include "wavefront/schedule.h"

#include <cstdint>
#include <vector>

namespace maestro::executor {

class OwnValues {
public:
  /// Of the ranks `here`; the fields are those of an evaluation or of a step.
  OwnValues(const plan::Plan &plan, const Topology &topology, transport::RankRange here, bool evaluates);

  /// Marks them, once the batch's schedule is known.
  void mark(const wavefront::Schedule &schedule, data::SampleBatch &batch) const;
  /// Marks what they may be, where it is not known yet.
  void markAll(data::SampleBatch &batch) const;

private:
  struct StationFields {
    uint32_t section = 0, replica = 0;
    std::vector<uint32_t> fields; ///< Plan.fields
  };
  std::vector<StationFields> stations; ///< That are here and read any.
};

} // namespace maestro::executor

// Where a run's samples come from: shards of files, or made up as the workload declares.
#pragma once

#include "executor/checkpoint/directory.h"
#include "executor/core/run.h"
#include "executor/data/data_identity.h"
#include "executor/data/source.h"
#include "plan/plan.h"

#include <memory>

namespace maestro::executor {

struct TrainingData {
  std::unique_ptr<data::SampleReader> reader;
  data::DataIdentity identity;
};

/// The shards that `options.data` names, or synthetic samples where it names none. InvalidInput for patterns without a
/// file, and for a plan whose samples cannot be made up. `isShared`: other processes read the same.
Result<TrainingData> openTrainingData(const plan::Plan &plan, const RunOptions &options, uint64_t seed,
                                      bool isShared = false);

struct ResumeOptions {
  uint64_t seed = 0;
  bool acceptsChangedData = false;
};

/// Where a run that goes on from a checkpoint reads on. InvalidInput where its data, their order or
/// its seed differ from the checkpoint's; with acceptsChangedData a warning, and the checkpoint's
/// position where the shards up to there are the same, else the beginning of a pass.
Result<data::DataPosition> resumedPosition(const checkpoint::FoundCheckpoint &found, const data::DataIdentity &now,
                                           const ResumeOptions &options);

} // namespace maestro::executor

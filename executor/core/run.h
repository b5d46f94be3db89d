// A whole run of maestro-run: from options to exit status.
#pragma once

#include "base/status.h"
#include "executor/core/parameters.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace maestro::executor {

/// --validate and what follows from it.
struct ValidationOptions {
  std::vector<std::string> data; ///< Shard patterns; empty: no validation.
  uint64_t every = 0;            ///< Steps; the last one always. 0: that alone.
  std::string keepBest;          ///< The loss whose best checkpoint stays; empty: none.
  uint64_t stopAfterNoGain = 0;  ///< Validations in a row; 0: never.
};

/// How processes that an engine has started write to each other.
enum class TransportChoice : uint8_t { Auto, Local, Verbs, Libfabric, Nccl };

struct RunOptions {
  std::string planPath;
  std::string version;           ///< Of the tool; processes of a job have the same.
  std::vector<std::string> data; ///< Patterns; empty: synthetic.
  /// The fields that hold next tokens, where data is of tokens; nothing: those of the plan's losses.
  std::optional<std::vector<std::string>> nextToken;
  std::string cache;             ///< Folder of the shards' indexes; empty: none are kept.
  std::optional<uint64_t> steps; ///< Otherwise one pass over the data.
  std::string out;               ///< Empty: nothing is kept.
  enum class Resume : uint8_t { No, Yes, IfAny } resume = Resume::No;
  bool overwrite = false;          ///< An older run's results in `out` go.
  uint32_t restarts = 0;           ///< How often the run is started again where it fails: by whoever calls run().
  bool isRestart = false;          ///< This is such a start; the run that `out` then holds goes on, if it is not
  std::string runBefore;           ///< the one that was there before (beforeRestarts()).
  bool acceptsChangedData = false; ///< Resumes with other data, order or seed.
  WeightFiles weights;
  uint64_t saveEvery = 0; ///< Steps between checkpoints; 0: the last step only.
  uint64_t keepLast = 0;  ///< Checkpoints; 0: all.
  ValidationOptions validation;
  bool saveGradients = false;
  bool selfCheck = false;
  bool evaluate = false;
  bool shuffle = false;
  bool tensorboard = false; ///< Event files in `out`/tensorboard.
  bool quiet = false;       ///< No progress line.
  bool adapts = false;      ///< Measured times steer the grouping of samples.
  bool processes = false;   ///< Ranks as processes; results do not depend on it.
  TransportChoice transport = TransportChoice::Auto;
  std::string trace; ///< Empty: none.
  std::optional<uint64_t> seed;
  int lateDeviceSeed = -1;    ///< ≥ 0: the device of tests that completes late.
  double sleepScale = 0;      ///< > 0: nothing is computed; tasks sleep for so many times their planned time.
  bool fileOrder = false;     ///< The baseline's order, for comparison.
  bool waitsForSteps = false; ///< Nothing runs ahead into the next step, for comparison.
  /// Asked at each step's end, on the root rank's thread; then the run ends after that step as by requestStop(). For
  /// measurements.
  std::function<bool()> wantsToStop;
};

/// Runs until the steps or the data end, or requestStop(). Interrupted after a finished step that was
/// saved is StatusCode::Interrupted.
Status run(const RunOptions &options);

/// Notes which run `out` holds before the first start of one that may be started again. InvalidInput without `out`.
Status beforeRestarts(RunOptions &options);

/// Async-signal-safe: the run ends after the step in progress.
void requestStop();

} // namespace maestro::executor

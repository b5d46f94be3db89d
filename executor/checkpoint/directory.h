// Checkpoint folders that are whole or not there.
//
//   out/.checkpoint-000100.partial/   written and forced to disk, then renamed to
//   out/checkpoint-000100/            <component>.safetensors, or several and their index; optimizer.safetensors
//                                     likewise; state.json
//   out/.checkpoint-000100.removed/   what of a removed one is still there
//
// state.json lists the files and their sizes, so that a folder which was copied in part is
// recognised.
#pragma once

#include "base/status.h"
#include "executor/data/data_identity.h"
#include "executor/data/sample.h"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace maestro::checkpoint {

/// The validation loss that a run watches: the best so far, and how many validations came after it.
struct BestLoss {
  std::string name; ///< "loss": the weighted sum.
  double value = std::numeric_limits<double>::infinity();
  uint64_t step = 0; ///< 0: none yet.
  uint64_t withoutGain = 0;
};

/// What state.json says beside the files.
struct TrainingState {
  uint64_t step = 0; ///< Steps that were finished.
  data::DataPosition position;
  uint64_t seed = 0;
  uint64_t planHash = 0;     ///< Of the plan file's bytes: equal means that resuming is bitwise.
  uint64_t workloadHash = 0; ///< Of the workload: different means that the checkpoint does not fit.
  /// Components frozen as a whole, which no file holds, and those of which a file holds what trains alone: where their
  /// values came from.
  std::map<std::string, std::string> frozen;
  /// Steps whose loss or gradient was not finite, which were not applied; and how many of them came
  /// last.
  uint64_t skippedSteps = 0, badStepsInARow = 0;
  uint64_t tokensSeen = 0;
  std::string run = {};                        ///< See run_folder.h; empty where it is not known.
  std::optional<data::DataIdentity> data = {}; ///< Nothing where it is not known.
  std::optional<BestLoss> best = {};           ///< Of a run that validates.
  /// Device::identity() of the root's device: other values mean that resuming is not bitwise.
  std::map<std::string, std::string> device = {};
};

std::string formatState(const TrainingState &state, const std::map<std::string, uint64_t> &files);
/// Fails on text that is not a state.json, naming the key.
Result<TrainingState> parseState(const std::string &text, std::map<std::string, uint64_t> &files);

/// run.json: the name of the run whose results a folder holds.
std::string formatRunName(const std::string &run);
Result<std::string> parseRunName(const std::string &text);

/// A checkpoint being written. Destroyed without commit() it leaves nothing behind.
class PendingCheckpoint {
public:
  /// Makes an empty folder beside the final one. Of the folders that earlier runs did not finish,
  /// those that are whole are put in place, and the others are removed.
  static Result<PendingCheckpoint> begin(const std::string &outFolder, uint64_t step);
  PendingCheckpoint(PendingCheckpoint &&other) noexcept;
  PendingCheckpoint &operator=(PendingCheckpoint &&) = delete;
  ~PendingCheckpoint();

  /// Where files are to be written (see SafetensorsWriter, which forces them to disk), by other processes, too.
  static std::string folderOf(const std::string &outFolder, uint64_t step);
  const std::string &folder() const { return partial; }
  std::string file(const std::string &name) const { return partial + "/" + name; }
  /// Writes state.json (state.step is the step given to begin()) and renames. An older checkpoint
  /// of this step is replaced. Afterwards path() is the whole checkpoint.
  Status commit(TrainingState state);
  const std::string &path() const { return final; }

private:
  PendingCheckpoint(std::string outFolder, uint64_t step);
  std::string outFolder, partial, final;
  uint64_t step;
  bool committed = false;
};

struct FoundCheckpoint {
  std::string path;
  TrainingState state;
  std::map<std::string, uint64_t> files; ///< Names and bytes.
  std::shared_ptr<void> reading = {};    ///< See Access::Reads.
};

/// What whoever looks for a checkpoint may do in the run's folder.
enum class Access : uint8_t {
  Writes, ///< Holds the folder's lock: nobody else changes it.
  Reads,  ///< A run may be writing there. What it has not put in place yet is passed over, and the
          ///< checkpoint that is found is not removed as an old one while a copy of it exists.
};

/// Reads one checkpoint's state and compares its files' sizes.
Result<FoundCheckpoint> openCheckpoint(const std::string &path);

/// The newest whole checkpoint in a folder, or nothing; of the run `run` where that is given. For
/// who writes, one that was not yet put in place counts. Damaged ones, and those of other runs, are
/// passed over with a warning.
Result<std::optional<FoundCheckpoint>> findNewestCheckpoint(const std::string &outFolder, const std::string &run = "",
                                                            Access access = Access::Writes);
/// Whether somebody holds what findNewestCheckpoint(…, Access::Reads) gave, in any process.
bool isBeingRead(const std::string &outFolder, uint64_t step);

/// The steps of all checkpoints in a folder, whole or not, in ascending order.
Result<std::vector<uint64_t>> checkpointSteps(const std::string &outFolder);
/// A checkpoint that is removed is there as a whole, or not under its name.
Status removeCheckpoint(const std::string &outFolder, uint64_t step);
/// Of all that unfinished or removed checkpoints left.
void removeLeftovers(const std::string &outFolder);

/// "checkpoint-000100".
std::string checkpointName(uint64_t step);

} // namespace maestro::checkpoint

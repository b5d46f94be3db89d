// The folder of --out: locked while a run writes there, and the results of one run at a time.
//
//   out/run.json         the name of the run whose results the folder holds, drawn when it begins;
//   every checkpoint names its own out/checkpoint-…     see directory.h
//   out/best                       a link to the one whose validation loss is the best (--keep-best)
//
// A run that replaces another names itself in run.json first: what is left of the other's
// checkpoints when it is killed then is nobody's, and no run goes on from it.
#pragma once

#include "base/status.h"
#include "executor/checkpoint/directory.h"

#include <memory>
#include <optional>
#include <string>

namespace maestro::checkpoint {

class RunFolder {
public:
  enum class Start : uint8_t {
    Fresh,         ///< Nothing may be there.
    Resume,        ///< A whole checkpoint is needed.
    ResumeOrFresh, ///< Goes on from the newest whole checkpoint; begins where there is none at all.
    Replace,       ///< What is there goes.
    GoOn,          ///< The run that the folder names has claimed it; what an older one left there was to go.
  };
  /// Makes the folder where it is not there. InvalidInput where another run writes there, and where
  /// `start` does not fit.
  static Result<std::unique_ptr<RunFolder>> open(const std::string &path, Start start);
  ~RunFolder();

  /// In a process that was forked off: the lock is the other's alone.
  void leaveLock();

  const std::string &path() const { return folder; }
  const std::string &run() const { return name; }
  /// What to go on from.
  const std::optional<FoundCheckpoint> &found() const { return checkpoint; }

  /// Makes the folder this run's: of a run that begins, once its first step is done, so that one
  /// whose data or weights are bad leaves an older run's results alone.
  Status claim();
  /// Removes all checkpoints but the newest `count`, the one of step `best` (0: none) and those that are being read,
  /// which a later call removes.
  Status keepNewest(uint64_t count, uint64_t best = 0) const;
  /// The link `best` leads to the checkpoint of this step.
  Status markBest(uint64_t step) const;

private:
  explicit RunFolder(std::string path) : folder(std::move(path)) {}
  Status lock();
  Status findStart(Start start);

  std::string folder, name;
  int fd = -1;
  bool isClaimed = false;
  std::optional<FoundCheckpoint> checkpoint;
};

/// The name in a folder's run.json; empty where it has none.
Result<std::string> readRunName(const std::string &folder);

} // namespace maestro::checkpoint

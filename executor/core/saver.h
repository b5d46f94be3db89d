// Checkpoints and gradients of a run on their way to disk.
//
// A checkpoint is copied to the host's memory while no step is under way, and written while the next steps run:
//
//   the run's thread          Saver's thread, in every process that trains
//   save() ── copy ─────────▶ root: a folder aside ──begun──▶ each: its ranks' files, forced to disk ──written──▶ root:
//   indexes,
//     back to the steps                                                                       state.json, rename
//
// Where the copy does not fit into memory, the run waits until the files are written. A rank that cannot write ends the
// job.
#pragma once

#include "base/status.h"
#include "executor/checkpoint/run_folder.h"
#include "executor/core/checkpoint_files.h"
#include "executor/core/job.h"
#include "executor/core/machine_check.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace maestro::executor {

class Saver {
public:
  struct Options {
    std::string out;
    /// The root's: where old checkpoints are removed and the best one is marked.
    const checkpoint::RunFolder *folder = nullptr;
    uint64_t keepLast = 0; ///< Checkpoints; 0: all.
    bool copies = true;    ///< Else the run waits until files are written. Alike in all processes.
  };
  /// Whether all machines have memory for the copy beside the run; says so where one has not.
  static bool copiesFit(const plan::Plan &plan, const Topology &topology, std::span<const MachineShare> machines);

  /// The plan and the job must outlive it.
  Saver(const plan::Plan &plan, Job &job, Options options);
  /// What was saved is written to its end in a job of one process; one of several that has failed leaves it unfinished.
  ~Saver();

  /// Saves state.step, while no step is under way, in all processes that train alike; `best` is the step whose
  /// checkpoint stays (0: none). Returns the failure of the one before, for which it waits.
  Status save(checkpoint::TrainingState state, uint64_t best);
  /// Until all that was saved is whole, in the root, or written, elsewhere.
  Status finish();

private:
  struct Pending {
    checkpoint::TrainingState state;
    uint64_t best = 0;
  };
  /// A tensor's bytes, whole, piece by piece.
  using Source = std::function<Status(const SavedTensor &tensor, const TakePiece &take)>;

  bool isHere(const SavedFile &file) const { return job.seats().here().has(file.writer); }
  Status copy();
  Status write(const Pending &pending, const Source &source);
  Status writeFiles(const std::string &folder, const Source &source);
  Status commit(checkpoint::PendingCheckpoint &folder, const Pending &pending);
  Status await(const transport::WordPlace &word, uint64_t count) const;
  void serve();

  const plan::Plan &plan;
  Job &job;
  Options options;
  std::vector<SavedSet> sets;
  std::vector<uint32_t> writers; ///< Ranks, of all processes, in ascending order.
  uint64_t bytesHere = 0;        ///< Of tensors in files of ranks of this process.
  std::vector<std::byte> copied; ///< Those tensors, one after the other.
  uint64_t saved = 0;            ///< Checkpoints begun.

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Pending> pending;
  Status failure;
  bool ends = false;
  std::thread thread;
};

/// Every trainable parameter's gradient, to one file of the root, while no step is under way.
Status saveGradients(const plan::Plan &plan, Job &job, const std::string &path);

} // namespace maestro::executor

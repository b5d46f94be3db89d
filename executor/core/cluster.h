// This process as one of several that an engine (Slurm, mpirun, Kubernetes) has started for one job.
//
//   join()      the processes meet and are compared              transport/control
//   connect()   each makes its ranks' memory known to the others  transport/local, transport/verbs, transport/libfabric
//   decide()    the root's word about what all must do alike
//   finish(), leave()
//
// Ranks of a process are threads. The process that has the root rank saves and tells; process 0 watches.
#pragma once

#include "executor/core/cluster_gpus.h"
#include "executor/core/cluster_ways.h"
#include "executor/core/job.h"
#include "executor/core/machine_check.h"
#include "executor/core/run.h"
#include "transport/control/control.h"
#include "transport/control/progress_record.h"
#include "transport/network/network.h"

#include <memory>
#include <optional>
#include <string>

namespace maestro::executor {

class Cluster {
public:
  /// Null where this process was started alone. InvalidInput where the launcher's variables, the secret, or the number
  /// of processes are wrong, or processes have different plans, versions or flags. Where machines are lost for good, it
  /// is the job of those that are left, and `plan` its spare.
  static Result<std::unique_ptr<Cluster>> join(plan::Plan &plan, const RunOptions &options,
                                               std::function<bool()> isStopped);
  ~Cluster() { control.reset(); } // Its thread calls back.

  transport::RankRange here() const { return own; }
  bool isRoot(const World &world) const { return here().has(world.root()); }
  Seats seats() const;
  /// Opens the ways to the others and writes to each of them once. The world must outlive this; from now on an end here
  /// is everybody's.
  Status connect(const plan::Plan &plan, World &world);
  /// Null where others reach memory of devices by addresses alone, or not.
  BulkWay *bulkWay() const { return gpus.way.get(); }

  /// What is to be said of the machines of all processes, by their names, in the order of their first ranks: asked in
  /// process 0, and everybody's answer.
  using Judge = std::function<Result<std::string>(std::span<const MachineShare>)>;
  Result<std::string> judgeMachines(const Judge &judge);
  /// What the root says, everywhere; where it fails, everybody does, and for the same reason.
  Result<std::string> decide(const World &world, const Result<std::string> &root);
  /// InvalidInput, everywhere, where a process does not see what the root has just written into this folder.
  Status checkIsShared(const World &world, const std::string &folder);
  /// By the root, when all has been done that it waits for.
  void finish() { control->finish(); }
  /// Whether the root has done all: ranks that ran ahead end then.
  bool isFinished() const { return finished; }
  /// Returns when everybody is done.
  Status leave();
  /// What to add to this machine's clock for the one that all share.
  int64_t clockAheadNs() const { return control->clockAheadNs(); }
  /// "rank 5 of process 2 (node7, pid 4711)"
  std::string nameOf(uint32_t rank) const;
  Status causeOfEnd(Status own) { return control->causeOfEnd(std::move(own)); }

private:
  Cluster(std::unique_ptr<transport::Control> met, uint32_t ranks, TransportChoice choice)
      : control(std::move(met)), processes(control->processes()), ranks(ranks), choice(choice),
        own(ranksOf(control->process())) {}
  transport::RankRange ranksOf(uint32_t process) const { return transport::ranksOf(process, processes, ranks); }
  uint32_t processOf(uint32_t rank) const { return transport::processOf(rank, processes, ranks); }
  Status greet(const World &world, const std::string &ways);
  void watch(World &world);
  std::vector<MachineShare> machinesOf(const std::vector<transport::Control::Bytes> &records) const;

  std::unique_ptr<transport::Control> control;
  uint32_t processes; ///< The control's thread asks, also while it is ended.
  uint32_t ranks;
  TransportChoice choice;
  transport::RankRange own;
  bool hasTrainingRank = false;
  std::atomic<bool> finished{false};
  std::optional<transport::ProgressReceiver> progress;
  PeerRanks peers;
  std::unique_ptr<transport::Network> fabric; ///< Null where no other process is to be reached by a network.
  GpuWays gpus;
};

} // namespace maestro::executor

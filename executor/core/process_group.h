// Ranks as processes: forks them before any thread exists, and notices when one dies.
#pragma once

#include "base/status.h"
#include "executor/core/job.h"
#include "executor/core/world.h"

#include <atomic>
#include <memory>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace maestro::executor {

class ProcessGroup {
public:
  /// One process for every rank but the root, which stays in this one. Returns in all of them. The world must outlive
  /// the group.
  static Result<std::unique_ptr<ProcessGroup>> fork(World &world, uint32_t ranks);
  /// In the root: waits for the others, which end when they are done or the job's abort is raised,
  /// and kills what has not ended after a second.
  ~ProcessGroup();

  uint32_t rank() const { return ownRank; }
  bool isRoot() const { return ownRank == world.root(); }
  Seats seats() const { return {ranks, /*processes=*/ranks, ownRank, /*isForked=*/true, /*watches=*/isRoot()}; }
  /// Root only, once threads may exist: a rank that dies ends the job with its cause.
  void supervise();
  /// Root only, when all ranks have nothing left to do but to end by themselves: returns when they have.
  void awaitOthers();
  /// Not the root: ends this process at once.
  [[noreturn]] static void leave(const Status &status);

private:
  ProcessGroup(World &world, uint32_t ranks) : world(world), ranks(ranks) {}
  void watch();
  bool reap(bool isEnding);

  struct Child {
    pid_t pid = 0;
    uint32_t rank = 0;
  };
  World &world;
  uint32_t ranks, ownRank = 0;
  std::vector<Child> children;
  std::atomic<bool> ending{false};
  std::thread supervisor;
};

} // namespace maestro::executor

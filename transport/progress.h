// What every rank is doing and when it last got on, for a watcher that must say who holds the others up.
//
// A rank has two lanes, its host thread and its device's queue; each is written by one thread and read by anyone.
// report() costs a clock read and five stores.
#pragma once

#include "base/status.h"
#include "transport/shared_memory.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace maestro::transport {

enum class Activity : uint32_t {
  Starting,
  Running,        ///< Computes, reads data, saves.
  AwaitingDevice, ///< Waits for its own device.
  AwaitingCredit, ///< Waits for others, from here on:
  AwaitingArrivals,
  AwaitingBoard,
  AwaitingReduction, ///< Or an exchange.
  Finished,
};
bool awaitsOthers(Activity activity);

/// Nanoseconds of the monotonic clock, the same in all processes.
int64_t nowNs();

enum class LaneKind : uint32_t { Host, Device };

class Progress {
public:
  struct alignas(64) Lane {
    std::atomic<uint64_t> count{0};  ///< Reports so far.
    std::atomic<int64_t> sinceNs{0}; ///< The last report.
    std::atomic<int64_t> aliveNs{0}; ///< The last report, or the last time a sleeper looked around.
    std::atomic<const char *> what{nullptr};
    std::atomic<uint64_t> index{0};
    std::atomic<Activity> activity{Activity::Starting};
  };
  struct State {
    Activity activity;
    const char *what;
    uint64_t index;
  };
  struct Stall {
    uint32_t rank;
    std::string text; ///< Who does what for how long, and who waits; for Abort::raise.
  };

  static Result<Progress> create(SharedMemory &memory, uint32_t ranks);
  uint32_t ranks() const { return count; }

  /// `what` must mean the same in every process: a literal, or SharedMemory::name().
  void report(uint32_t rank, LaneKind kind, Activity activity, const char *what = nullptr, uint64_t index = 0) const;
  State state(uint32_t rank, LaneKind kind) const;
  uint64_t counter(uint32_t rank, LaneKind kind) const { return lane(rank, kind).count; }
  /// A sleeper's sign of life; no progress.
  void beat(uint32_t rank, LaneKind kind) const;

  /// The rank to blame when nothing was reported for `limitNs`: one without any sign of life, else one that is stuck
  /// in work of its own, else (all wait for each other) the one that has waited longest. A rank that only waits for
  /// one that gets on is not stalled. Call it every so often from one place.
  std::optional<Stall> findStall(int64_t limitNs, int64_t now = nowNs()) const;

  /// "rank 2: awaits arrivals of 'teacher.hidden' 17 for 3.2 s; device: running 'forward' 4 for 3.2 s"
  std::string describe(uint32_t rank, int64_t now = nowNs()) const;

private:
  Lane &lane(uint32_t rank, LaneKind kind) const { return lanes[rank * 2 + static_cast<uint32_t>(kind)]; }
  int64_t lastProgress(uint32_t rank) const;

  Lane *lanes = nullptr;
  uint32_t count = 0;
};

} // namespace maestro::transport

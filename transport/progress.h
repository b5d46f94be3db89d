// What every rank is doing and when it last made progress, for a watcher that must say who holds
// the others up.
//
// A rank has three lanes: its host thread, its device's queue, and the driver, which asks ranks for
// steps and between steps reads data, saves and checks. Each is written by one thread at a time and
// read by anyone. A process whose ranks are watched also calls beat() for them several times a
// second, whatever they are doing: who is slow still beats, who is stopped or dead does not.
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
  Idle,           ///< Nothing was asked of it.
  Running,        ///< Computes, reads data, saves.
  AwaitingDevice, ///< The host waits for its own device,
  AwaitingRanks,  ///< the driver for its ranks.
  AwaitingCredit, ///< Waits for other ranks, from here on:
  AwaitingArrivals,
  AwaitingAgreement,
  AwaitingReduction, ///< Or an exchange.
  AwaitingNetwork,   ///< What it has sent has not left.
  Finished,          ///< The driver: its rank has left for good.
};

/// Nanoseconds of the monotonic clock, the same in all processes.
int64_t nowNs();

enum class LaneKind : uint32_t { Host, Device, Driver };

/// How long a silence may be. Work of the driver has no limit: a disk or a data set may be as slow
/// as it likes.
struct StallLimits {
  int64_t beatNs;        ///< Without a beat of the rank's process.
  int64_t waitNs;        ///< While every lane of every rank waits or is idle.
  int64_t workNs;        ///< In one piece of work of a host or device; at least
  int64_t patience = 10; ///< so many times what it was expected to take.
};

class Progress {
public:
  struct alignas(64) Lane {
    std::atomic<uint64_t> count{0};  ///< Reports so far.
    std::atomic<int64_t> sinceNs{0}; ///< The last report.
    std::atomic<int64_t> expectedNs{0};
    std::atomic<const char *> what{nullptr};
    std::atomic<uint64_t> index{0};
    std::atomic<Activity> activity{Activity::Idle};
  };
  struct State {
    Activity activity;
    const char *what;
    uint64_t index;
  };
  /// All that a lane says.
  struct Snapshot {
    uint64_t count = 0;
    int64_t sinceNs = 0, expectedNs = 0;
    uint64_t index = 0;
    Activity activity = Activity::Idle;
    const char *what = nullptr;
  };
  struct Stall {
    uint32_t rank;
    std::string text; ///< Who does what for how long, and who waits; for Abort::raise.
  };

  static Result<Progress> create(SharedMemory &memory, uint32_t ranks);
  uint32_t ranks() const { return count; }

  /// `what` must mean the same in every process: a literal, or text made before ranks start that stays.
  void report(uint32_t rank, LaneKind kind, Activity activity, const char *what = nullptr, uint64_t index = 0) const;
  /// How long the lane's pieces of work may honestly take, from now on.
  void expect(uint32_t rank, LaneKind kind, int64_t ns) const;
  State state(uint32_t rank, LaneKind kind) const;
  uint64_t counter(uint32_t rank, LaneKind kind) const { return lane(rank, kind).count; }
  Snapshot snapshot(uint32_t rank, LaneKind kind) const;
  /// In place of report(), for a rank of another process.
  void restore(uint32_t rank, LaneKind kind, const Snapshot &lane) const;
  /// A sign of life; no progress. A rank without any beat is not watched yet.
  void beat(uint32_t rank) const;

  /// The rank to blame: one without beats, else one whose host or device works for too long on one
  /// thing, else, where nobody works at all and nothing was reported for `waitNs`, the one that has
  /// waited longest. While anybody works within the limits, those who wait are not stalled. Call it
  /// every so often from one place.
  std::optional<Stall> findStall(const StallLimits &limits, int64_t now = nowNs()) const;

  /// "rank 2: awaits arrivals of 'teacher.hidden' 17 for 3.2 s; device: running 'forward' 4 for 3.2 s"
  std::string describe(uint32_t rank, int64_t now = nowNs()) const;

private:
  static constexpr uint32_t kLanes = 3;
  struct alignas(64) Pulse {
    std::atomic<int64_t> beatNs{0}; ///< 0: none yet.
  };

  Lane &lane(uint32_t rank, LaneKind kind) const { return lanes[rank * kLanes + static_cast<uint32_t>(kind)]; }
  bool hasLeft(uint32_t rank) const;
  int64_t lastProgress(uint32_t rank) const;
  bool works(uint32_t rank) const;
  bool overruns(uint32_t rank, LaneKind kind, const StallLimits &limits, int64_t now) const;

  Lane *lanes = nullptr;
  Pulse *pulses = nullptr;
  uint32_t count = 0;
};

} // namespace maestro::transport

#include "transport/progress.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iterator>

namespace maestro::transport {

namespace {

constexpr LaneKind kLaneKinds[] = {LaneKind::Host, LaneKind::Device, LaneKind::Driver};

bool isWaiting(Activity activity) { return activity >= Activity::AwaitingDevice && activity < Activity::Finished; }

const char *verb(Activity activity) {
  switch (activity) {
  case Activity::Starting:
    return "starting";
  case Activity::Idle:
    return "idle";
  case Activity::Running:
    return "running";
  case Activity::AwaitingDevice:
    return "awaits its device";
  case Activity::AwaitingRanks:
    return "awaits ranks";
  case Activity::AwaitingCredit:
    return "awaits credit";
  case Activity::AwaitingArrivals:
    return "awaits arrivals";
  case Activity::AwaitingAgreement:
    return "awaits records";
  case Activity::AwaitingReduction:
    return "awaits a reduction";
  case Activity::AwaitingNetwork:
    return "awaits its network";
  case Activity::Finished:
    return "finished";
  }
  return "?";
}

std::string seconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) * 1e-9);
  return text;
}

} // namespace

int64_t nowNs() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

Result<Progress> Progress::create(SharedMemory &memory, uint32_t ranks) {
  Progress progress;
  MAESTRO_ASSIGN(progress.lanes, memory.make<Lane>(uint64_t{ranks} * kLanes, "ranks' progress"));
  MAESTRO_ASSIGN(progress.pulses, memory.make<Pulse>(ranks, "ranks' signs of life"));
  progress.count = ranks;
  for (uint32_t i = 0; i < ranks * kLanes; ++i)
    progress.lanes[i].sinceNs = nowNs();
  for (uint32_t rank = 0; rank < ranks; ++rank)
    progress.lane(rank, LaneKind::Host).activity = Activity::Starting;
  return progress;
}

void Progress::report(uint32_t rank, LaneKind kind, Activity activity, const char *what, uint64_t index) const {
  Lane &own = lane(rank, kind);
  own.activity.store(activity, std::memory_order_relaxed);
  own.what.store(what, std::memory_order_relaxed);
  own.index.store(index, std::memory_order_relaxed);
  own.count.store(own.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  own.sinceNs.store(nowNs(), std::memory_order_release);
}

void Progress::expect(uint32_t rank, LaneKind kind, int64_t ns) const {
  lane(rank, kind).expectedNs.store(ns, std::memory_order_relaxed);
}

Progress::State Progress::state(uint32_t rank, LaneKind kind) const {
  const Lane &own = lane(rank, kind);
  return {own.activity.load(std::memory_order_relaxed), own.what.load(std::memory_order_relaxed),
          own.index.load(std::memory_order_relaxed)};
}

Progress::Snapshot Progress::snapshot(uint32_t rank, LaneKind kind) const {
  const Lane &own = lane(rank, kind);
  auto [activity, what, index] = state(rank, kind);
  return {own.count, own.sinceNs, own.expectedNs, index, activity, what};
}

void Progress::restore(uint32_t rank, LaneKind kind, const Snapshot &from) const {
  Lane &own = lane(rank, kind);
  own.activity.store(from.activity, std::memory_order_relaxed);
  own.what.store(from.what, std::memory_order_relaxed);
  own.index.store(from.index, std::memory_order_relaxed);
  own.expectedNs.store(from.expectedNs, std::memory_order_relaxed);
  own.count.store(from.count, std::memory_order_relaxed);
  own.sinceNs.store(from.sinceNs, std::memory_order_release);
}

void Progress::beat(uint32_t rank) const { pulses[rank].beatNs.store(nowNs(), std::memory_order_relaxed); }

bool Progress::hasLeft(uint32_t rank) const { return state(rank, LaneKind::Driver).activity == Activity::Finished; }

int64_t Progress::lastProgress(uint32_t rank) const {
  int64_t last = 0;
  for (LaneKind kind : kLaneKinds)
    last = std::max(last, lane(rank, kind).sinceNs.load(std::memory_order_acquire));
  return last;
}

bool Progress::works(uint32_t rank) const {
  return std::any_of(std::begin(kLaneKinds), std::end(kLaneKinds),
                     [&](LaneKind kind) { return state(rank, kind).activity == Activity::Running; });
}

bool Progress::overruns(uint32_t rank, LaneKind kind, const StallLimits &limits, int64_t now) const {
  const Lane &own = lane(rank, kind);
  int64_t limit = std::max(limits.workNs, limits.patience * own.expectedNs.load(std::memory_order_relaxed));
  return own.activity.load(std::memory_order_relaxed) == Activity::Running &&
         now - own.sinceNs.load(std::memory_order_acquire) >= limit;
}

std::string Progress::describe(uint32_t rank, int64_t now) const {
  static constexpr const char *kNames[] = {"", "; device: ", "; driver: "};
  std::string text = "rank " + std::to_string(rank) + ": ";
  for (LaneKind kind : kLaneKinds) {
    auto [activity, what, index] = state(rank, kind);
    if (kind != LaneKind::Host && counter(rank, kind) == 0)
      continue;
    text += kNames[static_cast<uint32_t>(kind)];
    text += verb(activity);
    if (what)
      text += " '" + std::string(what) + "' " + std::to_string(index);
    text += " for " + seconds(now - lane(rank, kind).sinceNs.load(std::memory_order_relaxed));
  }
  return text;
}

std::optional<Progress::Stall> Progress::findStall(const StallLimits &limits, int64_t now) const {
  std::optional<uint32_t> dead, stuck, waits;
  int64_t latest = 0; // Of anybody's progress.
  bool anyWorks = false;
  auto older = [&](std::optional<uint32_t> other, uint32_t rank) {
    return !other || lastProgress(rank) < lastProgress(*other);
  };
  for (uint32_t rank = 0; rank < count; ++rank) {
    if (hasLeft(rank))
      continue;
    if (int64_t beat = pulses[rank].beatNs.load(std::memory_order_relaxed); beat != 0 && now - beat >= limits.beatNs)
      dead = dead ? dead : rank;
    bool overrun = overruns(rank, LaneKind::Host, limits, now) || overruns(rank, LaneKind::Device, limits, now);
    if (overrun && older(stuck, rank))
      stuck = rank;
    anyWorks |= works(rank);
    latest = std::max(latest, lastProgress(rank));
    bool isWaits = std::any_of(std::begin(kLaneKinds), std::end(kLaneKinds),
                               [&](LaneKind kind) { return isWaiting(state(rank, kind).activity); });
    if (isWaits && older(waits, rank))
      waits = rank;
  }
  bool circle = !anyWorks && now - latest >= limits.waitNs;
  std::optional<uint32_t> culprit = dead ? dead : stuck ? stuck : circle ? waits : std::nullopt;
  if (!culprit)
    return std::nullopt;
  std::string text = "no progress for " + seconds(now - lastProgress(*culprit));
  text += dead ? ", and no sign of life for " + seconds(now - pulses[*dead].beatNs) + " (limit " +
                     seconds(limits.beatNs) + ")"
          : stuck ? " (limit " + seconds(limits.workNs) + ")"
                  : " (limit " + seconds(limits.waitNs) +
                        "), nor by any other rank: a message is missing or all wait in a circle";
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t rank = (*culprit + i) % count;
    if (!hasLeft(rank))
      text += (i ? "; " : ": ") + describe(rank, now);
  }
  return Stall{*culprit, std::move(text)};
}

} // namespace maestro::transport

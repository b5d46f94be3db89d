#include "transport/progress.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace maestro::transport {

bool awaitsOthers(Activity activity) { return activity >= Activity::AwaitingCredit && activity < Activity::Finished; }

namespace {

const char *verb(Activity activity) {
  switch (activity) {
  case Activity::Starting:
    return "starting";
  case Activity::Running:
    return "running";
  case Activity::AwaitingDevice:
    return "awaits its device";
  case Activity::AwaitingCredit:
    return "awaits credit";
  case Activity::AwaitingArrivals:
    return "awaits arrivals";
  case Activity::AwaitingBoard:
    return "awaits records";
  case Activity::AwaitingReduction:
    return "awaits a reduction";
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
  MAESTRO_ASSIGN(progress.lanes, memory.make<Lane>(uint64_t{ranks} * 2, "ranks' progress"));
  progress.count = ranks;
  for (uint32_t i = 0; i < ranks * 2; ++i)
    progress.lanes[i].sinceNs = progress.lanes[i].aliveNs = nowNs();
  return progress;
}

void Progress::report(uint32_t rank, LaneKind kind, Activity activity, const char *what, uint64_t index) const {
  Lane &own = lane(rank, kind);
  int64_t now = nowNs();
  own.activity.store(activity, std::memory_order_relaxed);
  own.what.store(what, std::memory_order_relaxed);
  own.index.store(index, std::memory_order_relaxed);
  own.aliveNs.store(now, std::memory_order_relaxed);
  own.count.store(own.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  own.sinceNs.store(now, std::memory_order_release);
}

Progress::State Progress::state(uint32_t rank, LaneKind kind) const {
  const Lane &own = lane(rank, kind);
  return {own.activity.load(std::memory_order_relaxed), own.what.load(std::memory_order_relaxed),
          own.index.load(std::memory_order_relaxed)};
}

void Progress::beat(uint32_t rank, LaneKind kind) const {
  lane(rank, kind).aliveNs.store(nowNs(), std::memory_order_relaxed);
}

int64_t Progress::lastProgress(uint32_t rank) const {
  return std::max(lane(rank, LaneKind::Host).sinceNs.load(std::memory_order_acquire),
                  lane(rank, LaneKind::Device).sinceNs.load(std::memory_order_acquire));
}

std::string Progress::describe(uint32_t rank, int64_t now) const {
  std::string text = "rank " + std::to_string(rank) + ": ";
  for (LaneKind kind : {LaneKind::Host, LaneKind::Device}) {
    auto [activity, what, index] = state(rank, kind);
    if (kind == LaneKind::Device && counter(rank, kind) == 0)
      continue;
    text += kind == LaneKind::Device ? "; device: " : "";
    text += verb(activity);
    if (what)
      text += " '" + std::string(what) + "' " + std::to_string(index);
    text += " for " + seconds(now - lane(rank, kind).sinceNs.load(std::memory_order_relaxed));
  }
  return text;
}

std::optional<Progress::Stall> Progress::findStall(int64_t limitNs, int64_t now) const {
  std::optional<uint32_t> dead, stuck, waits;
  bool allStalled = true;
  for (uint32_t rank = 0; rank < count; ++rank) {
    const Lane &host = lane(rank, LaneKind::Host), &device = lane(rank, LaneKind::Device);
    Activity activity = host.activity.load(std::memory_order_relaxed);
    if (activity == Activity::Finished)
      continue;
    const Lane &waiting = awaitsOthers(activity) ? host : device; // A device waits for others inside a program.
    activity = waiting.activity.load(std::memory_order_relaxed);
    if (now - lastProgress(rank) < limitNs) {
      allStalled = false;
    } else if (!awaitsOthers(activity)) {
      if (!stuck || lastProgress(rank) < lastProgress(*stuck))
        stuck = rank;
    } else if (now - waiting.aliveNs.load(std::memory_order_relaxed) >= limitNs) {
      dead = dead ? dead : rank;
    } else if (!waits || lastProgress(rank) < lastProgress(*waits)) {
      waits = rank;
    }
  }
  std::optional<uint32_t> culprit = dead ? dead : stuck ? stuck : allStalled ? waits : std::nullopt;
  if (!culprit)
    return std::nullopt;
  std::string text = "no progress for " + seconds(now - lastProgress(*culprit)) + " (limit " + seconds(limitNs) + ")";
  text += dead    ? ", and no sign of life"
          : stuck ? ""
                  : ", nor by any other rank: a message is missing or all wait in a circle";
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t rank = (*culprit + i) % count;
    if (lane(rank, LaneKind::Host).activity.load(std::memory_order_relaxed) != Activity::Finished)
      text += (i ? "; " : ": ") + describe(rank, now);
  }
  return Stall{*culprit, std::move(text)};
}

} // namespace maestro::transport

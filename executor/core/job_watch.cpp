// Who is there and makes progress: what devices say of themselves, and who ends a job that hangs.
#include "executor/core/job.h"

#include <algorithm>
#include <utility>

namespace maestro::executor {

void Job::startWatching() {
  if (facts.ranks < 2)
    return;
  drives("loading");
  watcher = std::thread([this] { watch(); });
}

/// Beats for the ranks that are here; the root's ends a job in which a rank makes no progress. A
/// kernel may take long, so the limits grow with the longest work that was seen.
void Job::watch() {
  constexpr int64_t kSecond = 1'000'000'000, kPatience = 10;
  constexpr int64_t kWaitNs = 10 * kSecond, kWorkNs = 60 * kSecond;
  // Between machines as long as the control connection's: a busy one keeps a process waiting for 3.
  const int64_t beatNs = (seatTable.isForked || seatTable.processes == 1 ? 3 : 6) * kSecond;
  constexpr auto kEvery = std::chrono::milliseconds(250);
  const transport::Progress &ranks = world->abort().progress();
  std::vector<uint64_t> seen(facts.ranks, 0);
  std::vector<int64_t> since(facts.ranks, transport::nowNs());
  int64_t longest = 0, lastLook = transport::nowNs(), patientUntil = 0;
  std::unique_lock lock(mutex);
  while (!stopping && !world->abort().isRaised()) {
    for (uint32_t rank = 0; rank < facts.ranks; ++rank)
      if (seatTable.here().has(rank))
        ranks.beat(rank);
    changed.wait_for(lock, kEvery, [&] { return stopping; });
    int64_t now = transport::nowNs();
    if (now - std::exchange(lastLook, now) >
        kSecond) // This process was held up itself: so may others have been, until just now.
      patientUntil = now + beatNs;
    if (!seatTable.watches)
      continue;
    for (uint32_t rank = 0; rank < facts.ranks; ++rank) {
      uint64_t count =
          ranks.counter(rank, transport::LaneKind::Host) + ranks.counter(rank, transport::LaneKind::Device);
      if (count == seen[rank])
        continue;
      longest = std::max(longest, now - since[rank]);
      seen[rank] = count;
      since[rank] = now;
    }
    transport::StallLimits limits{beatNs, kWaitNs, std::max(kWorkNs, kPatience * longest), kPatience};
    if (auto stall = ranks.findStall(limits); stall && now >= patientUntil && !stopping) {
      lock.unlock();
      noteFailure(stall->rank, Status::unavailable(stall->text));
      lock.lock();
    }
  }
}

void Job::onDeviceSign(uint32_t rank, DeviceSign sign) {
  using transport::Activity, transport::LaneKind;
  switch (sign) {
  case DeviceSign::Kernel:
    return report(rank, LaneKind::Device, Activity::Running, "kernel");
  case DeviceSign::Idle:
    return report(rank, LaneKind::Device, Activity::Idle);
  case DeviceSign::Busy:
    return report(rank, LaneKind::Device, Activity::Running);
  case DeviceSign::HostAwaits:
    hostStates[rank] = world->abort().progress().state(rank, LaneKind::Host);
    return report(rank, LaneKind::Host, Activity::AwaitingDevice);
  case DeviceSign::HostResumes: {
    const auto &before = hostStates[rank];
    return world->abort().progress().report(rank, LaneKind::Host, before.activity, before.what, before.index);
  }
  }
}

} // namespace maestro::executor

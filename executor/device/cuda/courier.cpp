#include "executor/device/cuda/courier.h"

#include <cstring>
#include <sys/prctl.h>
#include <utility>

namespace maestro::executor {
namespace {

constexpr int64_t kSpinNs = 50'000;               ///< After something has happened.
constexpr int64_t kNapNs = 50'000;                ///< Between looks while work is under way.
constexpr int64_t kIdleNs = 250'000'000;          ///< Otherwise; whoever pushes wakes the thread.
constexpr int64_t kPatrolNs = 10'000'000;         ///< Between looks for failures that no mark follows.
constexpr uint64_t kReleased = uint64_t{1} << 62; ///< Above every count.

} // namespace

Courier::Courier(CourierListener &listener, Clock &clock, const std::array<Lane, kQueues> &lanes,
                 const transport::Abort *abort)
    : listener(listener), clock(clock), abort(abort) {
  for (size_t q = 0; q < kQueues; ++q)
    static_cast<Lane &>(queues[q]) = lanes[q];
  thread = std::thread([this] { serve(); });
}

void Courier::stop() {
  if (!thread.joinable())
    return;
  stopping = true;
  transport::notify(point);
  thread.join();
}

uint64_t Courier::push(Queue queue, const Entry &entry) {
  Lined &own = queues[static_cast<size_t>(queue)];
  uint64_t number = own.pushed.load() + 1;
  if (number > kEntries) {
    await(queue, number - kEntries);
    if (own.done.load() + kEntries <
        number) // The GPU is lost, and the courier may be at the entry whose place this is.
      return number;
  }
  own.entries[number % kEntries] = entry;
  own.pushed.store(number);
  transport::notify(point);
  return number;
}

void Courier::await(Queue queue, uint64_t count) const {
  const Lined &own = queues[static_cast<size_t>(queue)];
  while (true) {
    uint64_t seen = doneInAll.load();
    if (own.done.load() >= count || isLost)
      return;
    doneInAll.wait(seen);
  }
}

void Courier::cease() {
  std::lock_guard lock(handingOut);
  hasCeased = true;
}

void Courier::lose() {
  cease();
  isLost = true;
  ++doneInAll;
  doneInAll.notify_all();
}

bool Courier::hasWork() const {
  for (const Lined &queue : queues)
    if (queue.done.load() < queue.pushed.load())
      return true;
  return false;
}

void Courier::serve() {
  ::prctl(PR_SET_NAME, "courier");
  int64_t lastNs = transport::nowNs(), patrolNs = lastNs;
  while (true) {
    bool moved = false;
    for (Lined &queue : queues)
      moved |= serve(queue);
    bool works = hasWork() && !isLost;
    if (!works && stopping)
      return;
    int64_t now = transport::nowNs();
    if (abort && abort->isRaised())
      releaseWaits();
    if (moved)
      lastNs = now;
    else if (works && now - patrolNs > kPatrolNs) {
      patrolNs = now;
      listener.lookAfterGpu();
      reportWait(queues[static_cast<size_t>(Queue::Compute)]);
    }
    if (works && now - lastNs < kSpinNs) {
      transport::Spin::pause();
      continue;
    }
    if (!works && isBusy) {
      isBusy = false;
      listener.sign(DeviceSign::Idle);
    }
    rest(works ? kNapNs : kIdleNs);
  }
}

/// Does what the queue's marks allow; whether that was something.
bool Courier::serve(Lined &queue) {
  uint64_t done = queue.done.load(), pushed = queue.pushed.load();
  if (done < pushed && !isBusy) {
    isBusy = true;
    listener.sign(DeviceSign::Busy);
  }
  uint64_t before = done;
  while (done < pushed && isReached(queue, done + 1) && run(queue, queue.entries[(done + 1) % kEntries])) {
    queue.done.store(++done);
    ++doneInAll;
    doneInAll.notify_all();
  }
  return done > before;
}

bool Courier::run(Lined &queue, const Entry &entry) {
  keepsAll = keepsAll || listener.hasFailed();
  return std::visit([&](const auto &each) { return execute(queue, each); }, entry);
}

/// Every wait that is under way ends, and so does every one that is still queued.
void Courier::releaseWaits() {
  for (Lined &queue : queues)
    for (uint64_t number = queue.done.load() + 1; number <= queue.pushed.load(); ++number)
      if (auto *await = std::get_if<entry::Await>(&queue.entries[number % kEntries]))
        if (await->word->count() < kReleased) { // This device alone waits at its words.
          listener.waitEnded(abort->status());
          transport::signal(*await->word, kReleased);
        }
}

/// What the compute queue waits for, to whoever watches.
void Courier::reportWait(const Lined &queue) {
  uint64_t next = queue.done.load() + 1;
  if (!abort || next > queue.pushed.load() || next == reportedWait)
    return;
  auto *await = std::get_if<entry::Await>(&queue.entries[next % kEntries]);
  if (!await || await->word->count() >= await->atLeast)
    return;
  reportedWait = next;
  abort->progress().report(await->note.rank, await->note.lane, await->note.activity, await->note.what,
                           await->note.index);
}

void Courier::rest(int64_t ns) {
  point.addWaiter();
  uint32_t seen = point.epoch();
  if (!stopping && (ns != kIdleNs || !hasWork() || isLost))
    point.sleep(seen, ns);
  point.removeWaiter();
}

bool Courier::execute(Lined &, const entry::Signal &signal) {
  if (!keepsAll)
    transport::signal(signal.word, signal.more);
  return true;
}
bool Courier::execute(Lined &queue, const entry::Await &) {
  if (&queue == &queues[static_cast<size_t>(Queue::Compute)] && reportedWait == queue.done.load() + 1)
    listener.sign(DeviceSign::Busy);
  return true;
}
bool Courier::execute(Lined &queue, const entry::Deliver &deliver) {
  {
    std::lock_guard lock(handingOut);
    if (!hasCeased)
      std::memcpy(deliver.to, deliver.from.memory, deliver.bytes);
  }
  queue.ring->giveBack(deliver.from.end);
  return true;
}
bool Courier::execute(Lined &queue, const entry::Release &release) {
  queue.ring->giveBack(release.end);
  return true;
}
bool Courier::execute(Lined &, const entry::Send &send) {
  if (keepsAll)
    send.taken->add(1);
  else
    send.to.fabric->write(send.to.place, send.from, send.bytes, send.taken);
  return true;
}
bool Courier::execute(Lined &queue, const entry::SendDirectly &) {
  giveAhead(queue);
  if (queue.left < queue.given) {
    if (!queue.hasLeft() && !(abort && abort->isRaised()))
      return false;
    ++queue.left;
  }
  transport::signal(*queue.sent, 1);
  return true;
}
/// The sends that are next and reached, so that one does not wait for the other to leave.
void Courier::giveAhead(Lined &queue) {
  for (uint64_t next = queue.done.load() + 1 + (queue.given - queue.left);
       queue.given - queue.left < kDirectSends && next <= queue.pushed.load() && isReached(queue, next); ++next) {
    auto *send = std::get_if<entry::SendDirectly>(&queue.entries[next % kEntries]);
    keepsAll = keepsAll || listener.hasFailed(); // Before it was reached.
    if (!send || keepsAll)
      return;
    send->to.fabric->write(send->to.place, send->from, send->bytes, &queue.taken[queue.given++ % kDirectSends]);
  }
}
bool Courier::execute(Lined &, const entry::SendBytes &send) {
  if (!keepsAll)
    send.to.fabric->put(send.to.place, {send.bytes.data(), send.count});
  return true;
}
bool Courier::execute(Lined &, const entry::Begin &begin) {
  listener.sign(DeviceSign::Kernel);
  begin.span->startNs = clock.timeOf(*begin.event);
  listener.span(*begin.span, false);
  return true;
}
bool Courier::execute(Lined &, const entry::Rest &rest) {
  if (transport::nowNs() < rest.span->startNs + rest.span->leastNs && !(abort && abort->isRaised()))
    return false;
  rest.word->store(rest.value);
  return true;
}
bool Courier::execute(Lined &, const entry::End &end) {
  end.span->endNs = std::max(clock.timeOf(*end.event), end.span->startNs + end.span->leastNs);
  listener.span(*end.span, true);
  return true;
}
bool Courier::execute(Lined &, const entry::Call &call) {
  listener.sign(DeviceSign::Kernel);
  int64_t start = clock.timeOf(*call.start), end = clock.timeOf(*call.end);
  listener.call({call.name, call.scope, start, std::max(start, end), call.task, 0});
  return true;
}

} // namespace maestro::executor

// What streams cannot do themselves, done by a thread when they have come far enough: words are counted up, fabrics are
// given what is to leave, hosts get what they read, spans their times. It also ends the streams' waits when the job is
// aborted, and sees failures.
//
// Who queues work puts an entry into the courier's ring and lets the stream write the entry's number to a word behind
// that work: a mark.
#pragma once

#include "executor/device/cuda/clock.h"
#include "executor/device/cuda/ring.h"
#include "executor/device/device.h"

#include <array>
#include <mutex>
#include <thread>
#include <variant>

namespace maestro::executor {

namespace entry {

struct Signal {
  transport::WordTarget word{nullptr, nullptr, {}};
  uint64_t more = 0;
};
struct Await { ///< The stream waits for the word in front of its mark.
  transport::Word *word = nullptr;
  uint64_t atLeast = 0;
  transport::WaitNote note;
};
struct Deliver { ///< What was read, from pinned to the host's memory.
  std::byte *to = nullptr;
  PinnedRing::Piece from;
  uint64_t bytes = 0;
};
struct Release { ///< What was written has left pinned memory.
  uint64_t end = 0;
};
struct Send {
  transport::Target to;
  const std::byte *from = nullptr;
  uint64_t bytes = 0;
  transport::Word *taken = nullptr;
};
struct SendDirectly { ///< From the GPU's memory; done when it has left.
  transport::Target to;
  const std::byte *from = nullptr;
  uint64_t bytes = 0;
};
struct SendBytes {
  transport::Target to;
  std::array<std::byte, Device::kMostPutBytes> bytes{};
  size_t count = 0;
};
struct Begin {
  Span *span = nullptr;
  TimedEvent *event = nullptr;
};
struct Rest { ///< The stream waits for `word` to become `value`: when the span is long enough.
  const Span *span = nullptr;
  std::atomic<uint64_t> *word = nullptr;
  uint64_t value = 0;
};
struct End {
  Span *span = nullptr;
  TimedEvent *event = nullptr;
};
struct Call {
  std::string_view name, scope;
  TimedEvent *start = nullptr, *end = nullptr;
  int32_t task = -1;
};

} // namespace entry

using Entry = std::variant<entry::Signal, entry::Await, entry::Deliver, entry::Release, entry::Send,
                           entry::SendDirectly, entry::SendBytes, entry::Begin, entry::Rest, entry::End, entry::Call>;

/// What the courier tells its device; on the courier's thread.
class CourierListener {
public:
  virtual ~CourierListener() = default;
  /// With each mark: whether a kernel has failed, so that nothing may leave the device any more.
  virtual bool hasFailed() = 0;
  /// The job was aborted, and a stream waited for a word.
  virtual void waitEnded(Status cause) = 0;
  /// Every few milliseconds while work is under way: is the GPU still there?
  virtual void lookAfterGpu() = 0;
  virtual void sign(DeviceSign what) = 0;
  virtual void span(const Span &span, bool hasEnded) = 0;
  virtual void call(const TraceSpan &span) = 0;
};

class Courier {
public:
  /// By queue: the rings that `Deliver` and `Release` give back to, and the words that streams write their marks to.
  struct Lane {
    PinnedRing *ring = nullptr;
    std::atomic<uint64_t> *reached = nullptr;
    transport::Word *sent = nullptr; ///< Counts what was sent directly and has left.
  };
  Courier(CourierListener &listener, Clock &clock, const std::array<Lane, kQueues> &lanes,
          const transport::Abort *abort);
  ~Courier() { stop(); }
  /// Returns when all entries are done, or can no longer be; none may come any more.
  void stop();

  /// Host's thread; the number that the stream is to write. Blocks while the ring is full; of a GPU that is lost then
  /// it takes nothing.
  uint64_t push(Queue queue, const Entry &entry);
  uint64_t pushed(Queue queue) const { return queues[static_cast<size_t>(queue)].pushed; }
  uint64_t done(Queue queue) const { return queues[static_cast<size_t>(queue)].done; }
  /// Returns when so many of the queue's entries are done, or the GPU is lost.
  void await(Queue queue, uint64_t count) const;
  /// Hands out nothing that was read any more; when this returns, nothing is being handed out. Who was told of a
  /// failure has the host's memory for itself again. Any thread, as below.
  void cease();
  /// The GPU does nothing any more.
  void lose();

private:
  static constexpr uint64_t kEntries = 512;    ///< A queue.
  static constexpr uint64_t kDirectSends = 16; ///< Of a queue, under way.

  struct Lined : Lane {
    std::array<Entry, kEntries> entries;
    /// Where fabrics count what they were given directly, in turn: several are under way.
    std::array<transport::Word, kDirectSends> taken;
    uint64_t given = 0, left = 0;                                                             ///< In all.
    bool hasLeft() const { return taken[left % kDirectSends].count() > left / kDirectSends; } ///< The next.
    std::atomic<uint64_t> pushed{0}, done{0};
  };

  void serve();
  bool serve(Lined &queue);
  bool isReached(const Lined &queue, uint64_t number) const { return queue.reached->load() >= number; }
  /// False: not yet.
  bool run(Lined &queue, const Entry &entry);
  void giveAhead(Lined &queue);
  bool hasWork() const;
  void releaseWaits();
  void reportWait(const Lined &queue);
  void rest(int64_t ns);

  bool execute(Lined &, const entry::Signal &);
  bool execute(Lined &, const entry::Await &);
  bool execute(Lined &, const entry::Deliver &);
  bool execute(Lined &, const entry::Release &);
  bool execute(Lined &, const entry::Send &);
  bool execute(Lined &, const entry::SendDirectly &);
  bool execute(Lined &, const entry::SendBytes &);
  bool execute(Lined &, const entry::Begin &);
  bool execute(Lined &, const entry::Rest &);
  bool execute(Lined &, const entry::End &);
  bool execute(Lined &, const entry::Call &);

  CourierListener &listener;
  Clock &clock;
  const transport::Abort *abort;
  std::array<Lined, kQueues> queues;
  bool keepsAll = false; ///< After a failure nothing leaves.
  bool isBusy = false;   ///< As it was told.
  uint64_t reportedWait = ~uint64_t{0};
  transport::WaitPoint point;                 ///< Where the thread sleeps.
  mutable std::atomic<uint64_t> doneInAll{0}; ///< Changes with every `done`.
  std::atomic<bool> isLost{false}, stopping{false};
  std::mutex handingOut;
  bool hasCeased = false; ///< Under that.
  std::thread thread;
};

} // namespace maestro::executor

// A channel: asynchronous one-sided writes of one edge from P producers into one consumer station, in a ring of slots
// that the consumer owns.
//
//   producer's device                                consumer's device
//   awaitCredit(k)   ◀─ credit, counted ────────────  release(k), in any order; credit moves without gaps
//   send(k, boxes)   ── payload, header, count ────▶  awaitArrivals(k): as many posts as the schedule has for the slot
//                                                     checkHeaders(), by the host, before anything is committed
//
// All of it is queued on the rank's device: programs, waits and copies follow one another there, and no host thread has
// to wake up in between. The consumer's queue keeps a copy of every header that arrives, which the host compares with
// the schedule at the step's end.
//
// Nothing is assumed about the order in which posts of different producers, or for different sequences, arrive. The
// consumer knows from the step's schedule how many posts belong to a sequence, and of which step and micro-batch.
//
// Threads: an end belongs to the thread that drives its device. Cost: nothing here allocates once a step of this size
// was seen, unless it fails.
#pragma once

#include "executor/device/device.h"
#include "executor/world/header.h"
#include "transport/segments.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::executor {

/// The part of a header that the caller knows.
struct Message {
  uint64_t step = 0;
  uint32_t microBatch = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

/// What the step's schedule expects in a slot.
struct Expected {
  uint32_t posts = 0; ///< Of all producers together.
  uint64_t step = 0;
  uint32_t microBatch = 0;
};

struct ChannelDescription {
  std::string name; ///< For errors: the edge as the plan calls it.
  uint32_t edge = 0;
  uint32_t epoch = 0;
  uint32_t consumerRank = 0;
  std::vector<uint32_t> producerRanks;
  uint32_t slots = 1;
  uint64_t slotBytes = 0;
  uint32_t postsPerProducer = 1; ///< At most, for one sequence.
};

struct ChannelState;

class Sender {
public:
  /// Holds the queue until the slot of `sequence` may be written.
  void awaitCredit(Queue queue, uint64_t sequence);
  /// Copies to the slot, writes the header behind it and counts one arrival. `source` and what the boxes name must stay
  /// as they are until a point behind has passed. Internal where a box leaves the slot, and where posts are more than
  /// described.
  Status send(Queue queue, uint64_t sequence, Address source, std::span<const Box> boxes, const Message &message);

private:
  friend class Channel;
  /// Posts made into a slot for its latest sequence.
  struct Open {
    uint64_t sequence = 0;
    uint32_t posts = 0;
  };
  Sender(std::shared_ptr<const ChannelState> state, const transport::Segments &segments, uint32_t producer,
         Device &device);
  Status open(const transport::Segments &segments);
  Status failure(uint64_t sequence, const std::string &text) const;

  std::shared_ptr<const ChannelState> state;
  uint32_t producer;
  Device &device;
  Address payload, headers;                    ///< The ring's.
  std::vector<transport::WordTarget> arrivals; ///< The consumer's, by slot.
  transport::Word *credit;                     ///< This producer's.
  std::vector<Open> posted;                    ///< By slot.
};

class Receiver {
public:
  /// The slots: slot i begins at slots() + i · slotStride().
  Address slots() const { return payload; }
  uint64_t slotStride() const;
  Address slot(uint64_t sequence) const;

  /// Holds the queue until `sequence` has the expected posts. Those of a slot come in turn.
  Status awaitArrivals(Queue queue, uint64_t sequence, const Expected &expected);
  /// Gives the slot back, when the work before is done. Internal where it is not the sequence's any more, or was not
  /// awaited.
  Status release(Queue queue, uint64_t sequence);

  /// By the host, when the device has passed all that was awaited since the last call: compares the headers that came
  /// with what was expected. A failure names edge, producer, expected and found: version, checksum, edge, epoch,
  /// sequence, step, micro-batch, a post counted twice, more posts than expected.
  Status checkHeaders();
  /// Of the payloads whose headers were compared.
  uint64_t bytesReceived() const { return received; }

private:
  friend class Channel;
  struct Arrival {
    uint64_t sequence = 0;
    Expected expected;
    uint64_t total = 0; ///< Posts that the slot must have seen by then;
    // and copies, which the device makes:
    uint64_t counted = 0; ///< of what it has seen. Nobody has credit to post more before the slot is released.
    std::unique_ptr<Header[]> cells;
  };
  Receiver(std::shared_ptr<const ChannelState> state, const transport::Segments &segments, Device &device);
  Status open(const transport::Segments &segments);
  Status check(const Arrival &arrival);
  Status checkHeader(const Header &header, uint32_t from, const Arrival &arrival) const;
  std::string postsByProducer(const Arrival &arrival) const;
  Status failure(uint64_t sequence, const std::string &text) const;

  std::shared_ptr<const ChannelState> state;
  Device &device;
  Address payload, headers, words;
  transport::Word *arrivalWords;             ///< By slot.
  std::vector<transport::WordTarget> credit; ///< By producer.
  transport::protocol::Arrivals arrivals;
  transport::protocol::Releases releases;
  std::deque<Arrival> log; ///< As many as a step ever had; the first `logged` since the last check.
  size_t logged = 0;
  uint64_t received = 0;
};

class Channel {
public:
  /// Reserves the channel's places: a ring in the consumer's segment, a word in each producer's. Internal where the
  /// description does not fit together.
  static Result<Channel> plan(transport::SegmentPlan &plan, const ChannelDescription &description);

  /// This rank's ends; the device must outlive them.
  Result<std::unique_ptr<Sender>> sender(const transport::Segments &segments, uint32_t producer, Device &device) const;
  Result<std::unique_ptr<Receiver>> receiver(const transport::Segments &segments, Device &device) const;

private:
  std::shared_ptr<const ChannelState> state;
};

} // namespace maestro::executor

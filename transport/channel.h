// A channel: asynchronous one-sided writes of one edge from P producers into one consumer station, in a ring of slots
// that the consumer owns. This is what the executor sees; a backend implements it (backend.h).
//
//   producer, device thread            consumer
//   write(k, boxes) ─ payload ───────▶ slot k % slots
//   post(k, message) ─ header ───────▶ one cell per post, counted as one arrival of the slot
//   awaitCredit(k)  ◀─ released ────── release(k), in any order; credit moves without gaps
//
// Nothing is assumed about the order in which posts of different producers, or for different sequences, arrive. The
// consumer knows from the step's schedule how many posts belong to a sequence, and of which step and micro-batch.
//
// Threads: an end has one thread that awaits, which ChannelDescription.waits names for the watcher, and one thread at a
// time that writes, posts or releases; both may be the device's. Cost: nothing here allocates after creation, unless it
// fails.
#pragma once

#include "base/status.h"
#include "transport/abort.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport {

inline constexpr uint32_t kHeaderVersion = 1;

/// What a post says about its payload; as it lies in memory and on the wire.
struct Header {
  uint32_t version = 0;
  uint32_t edge = 0;
  uint64_t sequence = 0;
  uint64_t step = 0;
  uint32_t epoch = 0; ///< Of the run: another one after each restart.
  uint32_t producer = 0;
  uint32_t microBatch = 0; ///< The consumer's.
  uint32_t post = 0;       ///< The producer's how-manieth for this sequence.
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0; ///< Over the 56 bytes before.
};
static_assert(sizeof(Header) == 64);

uint64_t checksumOf(const Header &header);

/// A strided copy from producer memory to its final place in a slot. Dims from the outermost; strides in bytes.
struct Box {
  static constexpr size_t kMaxRank = 6;
  const void *source = nullptr;
  uint64_t destination = 0;  ///< Offset in the slot.
  uint64_t elementBytes = 1; ///< What is contiguous on both sides below the last dim.
  uint32_t rank = 0;
  std::array<uint64_t, kMaxRank> extents{};
  std::array<int64_t, kMaxRank> sourceStrides{};
  std::array<int64_t, kMaxRank> destinationStrides{};

  static Box contiguous(const void *source, uint64_t destination, uint64_t bytes) {
    Box box;
    box.source = source;
    box.destination = destination;
    box.elementBytes = bytes;
    return box;
  }
};

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
  uint32_t postsPerProducer = 1;   ///< At most, for one sequence.
  LaneKind waits = LaneKind::Host; ///< Whose threads await.
};

class Sender {
public:
  virtual ~Sender() = default;

  virtual bool hasCredit(uint64_t sequence) const = 0;
  /// Until the slot of `sequence` may be written, or the job is aborted.
  virtual Status awaitCredit(uint64_t sequence, const Abort &abort) = 0;

  /// Copies to the slot. Internal when there is no credit or a box leaves the slot. The boxes' sources may be reused
  /// when the post() that follows returns.
  virtual Status write(uint64_t sequence, std::span<const Box> boxes) = 0;
  /// The slot itself, so that a producer may write it without a copy; null where the backend cannot.
  virtual void *direct(uint64_t sequence) = 0;
  /// Makes everything written for `sequence` since the last post visible and counts one arrival.
  virtual Status post(uint64_t sequence, const Message &message) = 0;
};

class Receiver {
public:
  virtual ~Receiver() = default;

  /// Enough posts are there; says nothing about what they are. awaitArrivals() then does not wait.
  virtual bool arrived(uint64_t sequence, const Expected &expected) = 0;
  /// Until `sequence` has its slot and the expected posts, which are then checked; or the job is aborted. A failure
  /// of the check names edge, producer, expected and found: version, checksum, edge, epoch, sequence, step,
  /// micro-batch, a post counted twice, more posts than expected.
  virtual Status awaitArrivals(uint64_t sequence, const Expected &expected, const Abort &abort) = 0;
  /// Headers of a sequence whose arrivals were awaited, by producer and then by post.
  virtual uint32_t headerCount(uint64_t sequence) const = 0;
  virtual const Header &header(uint64_t sequence, uint32_t index) const = 0;

  /// The slot's memory. Read it between awaitArrivals() and release(); padding may be cleared there too.
  virtual void *slot(uint64_t sequence) = 0;
  /// Gives the slot back. Internal when the sequence was released before, has no slot yet, or got posts that nobody
  /// awaited.
  virtual Status release(uint64_t sequence) = 0;
};

/// Both ends of a channel. Ends of ranks that live elsewhere are null.
struct Channel {
  std::vector<std::unique_ptr<Sender>> senders; ///< By ChannelDescription.producerRanks.
  std::unique_ptr<Receiver> receiver;
};

/// Slots, ranks and bytes are positive and fit together.
Status check(const ChannelDescription &description);

/// Fails where a box has too many dims or would write outside of `slotBytes`.
Status checkBox(const Box &box, uint64_t slotBytes);
/// Copies one checked box into `slot`; contiguous runs by memcpy.
void copyBox(const Box &box, void *slot);

} // namespace maestro::transport

// One-sided writes to ranks that share no memory with this process, and the places that are written.
//
// A place is a rank and an offset in that rank's segment; every rank computes the same places from the plan
// (segments.h). A target is a place as this process reaches it: an address where it lies in this process's memory, else
// a fabric that moves bytes there. Protocols (executor/world/) and devices name targets and do not ask which it is.
#pragma once

#include "base/status.h"
#include "transport/own_descriptor.h"
#include "transport/word.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace maestro::transport {

struct Place {
  uint32_t rank = 0;   ///< Whose segment.
  uint64_t offset = 0; ///< In bytes; a multiple of 64 for what was reserved.
  bool isBulk = false; ///< In the part that devices alone read and write; a fabric's places are never.
  Place operator+(uint64_t bytes) const { return {rank, offset + bytes, isBulk}; }
};

/// A word's place. The owner's words are numbered, because what travels with a count is small.
struct WordPlace : Place {
  uint32_t index = 0;
  WordPlace operator+(uint32_t words) const { return {{rank, offset + words * sizeof(Word)}, index + words}; }
};

/// What has been written over a network so far.
struct Traffic {
  uint64_t bytes = 0;
  int64_t busyNs = 0; ///< While something was under way.
};

/// Memory of a device of this process that other hardware is to read and write by itself: whole pages. What it refers
/// to outlives its registration.
struct DeviceMemory {
  std::span<const std::byte> memory;           ///< As the device names it; hosts cannot use it.
  std::function<Result<OwnDescriptor>()> open; ///< As a dma-buf.
  /// Makes what other hardware has written visible to the device; empty: it always is.
  std::function<Status()> flush;
};

/// Writes to ranks of other processes. What one thread gives it for one rank, a count included, takes effect there in
/// this order: who sees the count sees what was written before. Failures end the job (Abort), so nothing here returns
/// one. Calls block only while the fabric's ring is full.
///
/// Threads: any.
class Fabric {
public:
  static constexpr size_t kMostPutBytes = 64;

  virtual ~Fabric() = default;
  /// Writes `bytes` from `from`, which must stay as they are until `taken` has been counted up by one; null where the
  /// caller knows by other means.
  virtual void write(const Place &to, const std::byte *from, uint64_t bytes, Word *taken) = 0;
  /// The bytes, at most kMostPutBytes, are taken at once.
  virtual void put(const Place &to, std::span<const std::byte> bytes) = 0;
  virtual void signal(const WordPlace &word, uint64_t more) = 0;
  /// Whether write() takes addresses of devices of this process, which nobody else has to read for it.
  virtual bool readsDevices() const { return false; }
  /// Where it does: memory from which write() may be asked to write, until removeSource(). Unavailable where the
  /// network cannot read this memory: somebody else has to.
  virtual Status addDeviceSource(const DeviceMemory &) { return Status(); }
  /// Memory of this process from which write() may be asked to write, besides that of segments; and that it goes, when
  /// nothing from it is under way. Where a network needs to know memory; by any thread.
  virtual void addSource(std::span<const std::byte>) {}
  virtual void removeSource(std::span<const std::byte>) {}
  /// Returns when all that was given has left and is counted, or, once the job has ended, when nothing of it will be
  /// touched any more. Before what write() was given goes.
  virtual void awaitIdle() = 0;
  virtual Traffic traffic() const { return {}; }
};

/// Memory that this process may write.
struct Target {
  std::byte *memory = nullptr; ///< Null: it is reached by the fabric.
  Fabric *fabric = nullptr;
  Place place;
  bool isOnDevice = false; ///< `memory` is an address of devices of this process, which the host cannot use.

  Target() = default;
  explicit Target(void *memory) : memory(static_cast<std::byte *>(memory)) {}
  Target(std::byte *memory, Fabric *fabric, const Place &place) : memory(memory), fabric(fabric), place(place) {}
  static Target onDevice(std::byte *memory) {
    Target target(memory);
    target.isOnDevice = true;
    return target;
  }
  Target operator+(uint64_t bytes) const {
    Target moved(memory ? memory + bytes : nullptr, fabric, place + bytes);
    moved.isOnDevice = isOnDevice;
    return moved;
  }
};

/// A word on which this process may count.
struct WordTarget {
  Word *word = nullptr; ///< Null: it is reached by the fabric.
  Fabric *fabric = nullptr;
  WordPlace place;

  explicit WordTarget(Word &word) : word(&word) {}
  WordTarget(Word *word, Fabric *fabric, const WordPlace &place) : word(word), fabric(fabric), place(place) {}
};

/// Counts at the word, behind what this thread wrote to its rank before.
inline void signal(const WordTarget &target, uint64_t more) {
  if (target.word)
    signal(*target.word, more);
  else
    target.fabric->signal(target.place, more);
}

} // namespace maestro::transport

// What GPUs of different processes write to each other, moved by NCCL: bulk alone, with the counts behind it.
// Everything else goes the way that ranks have anyway (memory of neighbours, or a network), and so does word of what
// NCCL moves:
//
//   courier: write ──▶ record in the peer's ring ──▶ the peer's thread: ncclRecv straight to its place
//                  └─▶ ncclSend on the pair's stream                    │
//            signal ─▶ record ─────────────────────▶ the count, when all that was received before is there
//
// Where NCCL has one-sided puts, these take the place of sends and receives: what arrives has been announced all the
// same, and the peer's thread waits for the put's signal.
//
// One communicator of two ranks for each pair and direction, each with a stream of its own (link.h), so that nothing
// waits in a circle. They are made, and used once, before the job begins: in the same order by all processes. A receive
// is posted when its send is known, so none occupies a GPU while it waits for a peer that has nothing to send.
//
// A process has one rank: what it gives for another one does not say which of its ranks is the sender.
#pragma once

#include "base/status.h"
#include "transport/abort.h"
#include "transport/fabric.h"
#include "transport/nccl/places.h"
#include "transport/segments.h"

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace maestro::transport {

struct NcclOptions {
  uint32_t rank = 0;        ///< This process's.
  uint32_t device = 0;      ///< Its GPU's number in the plan.
  std::set<uint32_t> peers; ///< Ranks with which it shares places.
  /// At most so many bytes a put, alike everywhere: 20 µs of an H100's NVLink (450 GB/s), many times what a put takes
  /// to begin.
  uint64_t stageBytes = 8ull << 20;
};

class NcclFabric : public Fabric {
public:
  /// Unavailable where the library is missing or too old.
  static Result<std::unique_ptr<NcclFabric>> open(const NcclOptions &options, const NcclPlaces &places,
                                                  const Segments &segments, const Abort &abort);

  // ---- before things move, by one thread

  /// "NCCL 2.28.9"
  virtual std::string name() const = 0;
  /// Others that a rank may write to and be written by. Each way has a stream, and where streams share a work queue of
  /// the GPU (there are 32, of which the rank's own device has six), a transfer may be behind what waits for it.
  static constexpr size_t kMaxPeers = (32 - 6) / 2;
  /// Several ranks on one GPU, which it allows from 2.30 on, where it is told before start().
  static constexpr int kSharesGpus = 23000;
  virtual int version() const = 0;
  /// Of this machine.
  virtual int gpu() const = 0;
  const std::set<uint32_t> &peers() const { return ranks; }
  /// For each rank that this one sends to: what that one must know. Then what others have told of their ways here.
  virtual std::map<uint32_t, std::vector<std::byte>> cards() const = 0;
  /// By all processes at a time: connects, by sender, and sends a byte each way. From now on things move.
  virtual Status start(const std::map<uint32_t, std::vector<std::byte>> &cards) = 0;

  // ---- by one thread, while nothing moves

  /// Whether this rank can send by puts, or why not: the library, the driver, MAESTRO_NCCL_PUTS=never.
  virtual Status canPut() const = 0;
  /// This rank's bulk is one allocation of its GPU, at this address, to which puts can be; null: no more.
  virtual void placeBulk(std::byte *memory) = 0;
  /// Likewise.
  virtual bool takesPuts() const = 0;
  /// By all processes at a time: what these ranks send to those is put from now on, as far as the library can do it
  /// between the two. Unavailable where the GPU has no memory for the stage.
  virtual Status openWindows(const std::set<uint32_t> &senders, const std::set<uint32_t> &takers) = 0;
  /// "puts", "sends and receives", or how many of the ways here and from here are which.
  virtual std::string manner() const = 0;

protected:
  explicit NcclFabric(std::set<uint32_t> peers) : ranks(std::move(peers)) {}

private:
  const std::set<uint32_t> ranks;
};

} // namespace maestro::transport

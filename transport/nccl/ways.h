// One direction between this rank and another: what NCCL moves (link.h), and the records that announce it (places.h).
#pragma once

#include "transport/abort.h"
#include "transport/nccl/link.h"
#include "transport/nccl/places.h"
#include "transport/segments.h"

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

namespace maestro::transport {

/// What a sender tells of what it has given to NCCL, or of a count behind that.
struct NcclRecord {
  enum class Kind : uint32_t { Data, Count } kind = Kind::Data;
  uint32_t word = 0;   ///< Counts: the receiver's word.
  uint64_t offset = 0; ///< Data: in the receiver's bulk.
  uint64_t amount = 0; ///< Bytes, or how much.
};
static_assert(sizeof(NcclRecord) <= Fabric::kMostPutBytes);

struct NcclWay {
  NcclWay(const NcclPlaces::Pair &pair, bool sends) : pair(pair), sends(sends) {}
  virtual ~NcclWay() = default;
  /// Something was given to NCCL and is not done, as far as was looked.
  bool isBusy() const { return link->queued() != link->finished(); }
  /// A byte, zero to where there is zero: NCCL connects with the first transfer. With the other side at the same time,
  /// when nothing is under way.
  virtual Status tryOut(std::byte *zero);

  const NcclPlaces::Pair pair;
  const bool sends;
  std::unique_ptr<NcclLink> link; ///< Null: not open yet.
};

/// To one rank.
class NcclOutgoing : public NcclWay {
public:
  NcclOutgoing(const NcclPlaces::Pair &pair, const NcclPlaces::Way &where, const Segments &segments,
               const Abort &abort);

  // ---- by any thread; each waits for room, and does nothing when the job has ended

  Status write(uint64_t offset, const std::byte *from, uint64_t bytes, Word *taken);
  void signal(uint32_t word, uint64_t more);
  /// All that was given has left, and is counted.
  bool isIdle() const { return !link || link->queued() == counted; }
  void giveUp();

  // ---- by the thread that looks

  /// Counts what has left; whether anything has.
  bool collect();
  Status tryOut(std::byte *zero) override;

private:
  bool tell(const NcclRecord &record);

  const Abort &abort;
  const Target ring;
  const WordTarget arrived;
  const Word &consumed;
  std::mutex mutex;                              ///< Of what is given.
  uint64_t records = 0;                          ///< Written.
  std::array<Word *, NcclLink::kEvents> taken{}; ///< By transfer: counted when it has left.
  std::atomic<uint64_t> counted{0};              ///< Transfers.
};

/// From one rank. Threads: one that looks.
class NcclIncoming : public NcclWay {
public:
  NcclIncoming(const NcclPlaces::Pair &pair, const NcclPlaces::Way &where, const Segments &segments,
               const Abort &abort);

  /// Receives what was announced and counts what has come; whether anything was.
  Result<bool> receive();
  /// There are counts whose bytes have not come.
  bool isWaiting() const { return isBusy() || !counts.empty(); }

private:
  Status take(const NcclRecord &record);

  const Segments &segments;
  const Abort &abort;
  const std::byte *const ring;
  const Word &arrived;
  const WordTarget consumed;
  uint64_t records = 0, givenBack = 0; ///< Read; told the sender.
  struct Count {
    uint64_t behind = 0; ///< Transfers.
    uint32_t word = 0;
    uint64_t more = 0;
  };
  std::deque<Count> counts;
};

} // namespace maestro::transport

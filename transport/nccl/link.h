// One direction between two GPUs: a communicator of two, a stream of its own, and an event for each transfer under way.
#pragma once

#include "cuda/context.h"
#include "cuda/nccl.h"
#include "transport/abort.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace maestro::transport {

/// Threads: one that queues, and one that looks.
class NcclLink {
public:
  static constexpr int kSender = 0, kReceiver = 1;
  static constexpr size_t kEvents = 64; ///< A transfer under way has one.

  NcclLink(const cuda::Context &context, const cuda::Nccl &nccl, const Abort &abort)
      : context(context), nccl(nccl), abort(abort) {}
  ~NcclLink();
  /// With the other side at the same time.
  Status open(const cuda::NcclUniqueId &id, int side);

  // ---- who queues

  Status send(const void *from, uint64_t bytes);
  Status receive(void *to, uint64_t bytes);
  bool isFull() const { return queued() - finished() == kEvents; }

  // ---- who looks

  /// Transfers that were queued; that are done, as far as was looked.
  uint64_t queued() const { return count.load(); }
  uint64_t finished() const { return done; }
  /// Whether another one is done.
  bool look();
  /// Waits for all that was queued, or the job's end.
  Status synchronize();
  /// What the library has noticed meanwhile.
  Status error() const;
  /// What is under way ends, and touches no memory any more.
  void giveUp();

private:
  const cuda::Driver &driver() const { return context.driver(); }
  Status settle(std::string_view function) const;
  Status note();

  const cuda::Context &context;
  const cuda::Nccl &nccl;
  const Abort &abort;
  cuda::NcclCommunicator *communicator = nullptr;
  bool isReady = false, isGivenUp = false;
  CUstream stream = nullptr;
  std::array<CUevent, kEvents> events{};
  std::atomic<uint64_t> count{0}, done{0};
};

} // namespace maestro::transport

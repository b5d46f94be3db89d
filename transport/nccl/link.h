// One direction between two GPUs: a communicator of two, a stream of its own, and an event for each transfer under way.
//
//   ncclSend ═══════════════▶ ncclRecv         a kernel on each side, from memory to memory
//   copy ─▶ stage ─ put ════▶ wait for signal  with a window: no kernel at all, and the receiver only waits
//
// NCCL puts from a window, of one allocation, at offsets within that window's own size: neither is so of what is sent,
// so it is copied into a stage.
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
  struct Window {
    std::byte *memory = nullptr; ///< One allocation; the sender's is at least as long as the receiver's.
    uint64_t bytes = 0;
    uint64_t stageOffset = 0; ///< At the sender: where in it the stage is.
    uint64_t stageBytes = 0;  ///< At most so many a put; alike on both sides.
  };
  /// Likewise, when nothing is under way: from now on transfers are puts to the receiver's memory, if the library can
  /// do that between the two (isPutting(), alike on both sides).
  Status openWindow(const Window &own);
  /// When nothing is under way, before the memory goes: transfers are sends and receives again.
  void closeWindow();
  bool isPutting() const { return window != nullptr; }

  // ---- who queues

  /// `offset` is the place in the receiver's window, if there is one.
  Status send(const std::byte *from, uint64_t bytes, uint64_t offset);
  Status receive(std::byte *to, uint64_t bytes);
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
  Status put(const std::byte *from, uint64_t bytes, uint64_t offset);
  Status note();

  const cuda::Context &context;
  const cuda::Nccl &nccl;
  const Abort &abort;
  cuda::NcclCommunicator *communicator = nullptr;
  int side = kSender;
  bool isReady = false, isGivenUp = false;
  cuda::NcclWindow *registered = nullptr; ///< Written by the library when it comes to it,
  cuda::NcclWindow *window = nullptr;     ///< and then in use. Null: transfers are sends and receives.
  std::byte *stage = nullptr;
  uint64_t stageBytes = 0;
  CUstream stream = nullptr;
  std::array<CUevent, kEvents> events{};
  std::atomic<uint64_t> count{0}, done{0};
};

} // namespace maestro::transport

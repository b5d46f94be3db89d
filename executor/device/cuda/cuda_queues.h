// A GPU's queues: their streams, marks and the courier that reads them, points, failures. What is put on them is the
// device's business.
#pragma once

#include "executor/device/cuda/courier.h"
#include "executor/device/cuda/stream.h"
#include "executor/device/first_failure.h"
#include "kernels/cuda/failure.h"

#include <memory>
#include <vector>

namespace maestro::executor {

class CudaQueues : public CourierListener {
public:
  /// Says what a kernel left behind.
  using Explain = std::function<Status(const kernels::cuda::Failure &)>;
  static Result<std::unique_ptr<CudaQueues>> create(const cuda::Context &context, const DeviceOptions &options,
                                                    Explain explain);
  ~CudaQueues() override { finish(); }
  /// Returns when what is queued is done; nothing may come any more.
  void finish();

  /// Calls `operation(stream)`, which puts one operation on the queue's stream; not behind a failure.
  template <typename Operation> void enqueue(Queue queue, const Operation &operation) {
    if (!failure)
      submit(queue, operation);
  }
  /// The courier executes the entry when the stream has come so far.
  void mark(Queue queue, const Entry &entry);
  /// The same, for what has left only when the fabric says so: points behind it pass then.
  void markSend(Queue queue, const entry::SendDirectly &send);
  /// An event whose time an entry asks for; null where the GPU is lost.
  TimedEvent *stamp(Queue queue);
  /// Calls `transfer(offset, count, piece)` for the parts of a transfer that goes through the queue's pinned ring.
  template <typename Transfer> void forPieces(Queue queue, uint64_t bytes, const Transfer &transfer) {
    for (uint64_t at = 0; at < bytes && !failure;) {
      auto piece = takePiece(queue, std::min(bytes - at, PinnedRing::kMaxPieceBytes));
      if (!piece)
        return;
      uint64_t count = std::min(bytes - at, PinnedRing::kMaxPieceBytes);
      transfer(at, count, *piece);
      at += count;
    }
  }

  Point record(Queue queue);
  void await(Queue queue, Point point);
  Status wait(Point point);
  void awaitWord(Queue queue, transport::Word &word, uint64_t atLeast, const transport::WaitNote &note);
  void begin(Queue queue, Span &span);
  void end(Queue queue, Span &span);

  /// Where kernels report failures, as the GPU sees it.
  CUdeviceptr failureAddress() const { return reinterpret_cast<CUdeviceptr>(&control->failure); }
  /// The host's: what it waits for at once runs here, and launches are recorded on it.
  CUstream aside() const { return asideStream->get(); }
  bool hasFailure() const { return static_cast<bool>(failure); }
  void fail(Status status) { failure.set(std::move(status), options.onFailure); }

  void enableTrace(size_t capacity) { spans.reserve(capacity); }
  bool traces() const { return spans.capacity() > 0; }
  std::span<const TraceSpan> trace() const { return spans; }

private:
  /// What kernels, streams and the courier tell each other; pinned.
  struct Control {
    kernels::cuda::Failure failure;
    struct Words {
      alignas(64) std::atomic<uint64_t> reached{0}; ///< Marks.
      alignas(64) std::atomic<uint64_t> rested{0};  ///< Spans that were long enough.
      transport::Word sent;                         ///< What was sent directly and has left.
    } queues[kQueues];
  };

  CudaQueues(const cuda::Context &context, const DeviceOptions &options, Explain explain, PinnedBlock memory,
             std::unique_ptr<Clock> clock);
  Stream &streamOf(Queue queue) { return *streams[static_cast<size_t>(queue)]; }
  template <typename Operation> void submit(Queue queue, const Operation &operation) {
    context.makeCurrent();
    Stream &stream = streamOf(queue);
    Status status = stream.makeRoom();
    if (status.isOk())
      status = operation(stream.get());
    if (!status.isOk())
      lose(std::move(status));
  }
  /// The GPU, or this program's use of it, is at an end.
  void lose(Status status);
  std::optional<PinnedRing::Piece> takePiece(Queue queue, uint64_t bytes);
  void waitForValue(Queue queue, const void *word, uint64_t atLeast);
  void awaitSent(Queue queue, Point point);

  // Of the courier.
  bool hasFailed() override;
  void waitEnded(Status cause) override { fail(std::move(cause)); }
  void lookAfterGpu() override;
  void sign(DeviceSign what) override {
    if (options.onSign)
      options.onSign(what);
  }
  void span(const Span &span, bool hasEnded) override {
    if (options.onSpan)
      options.onSpan(span, hasEnded);
  }
  void call(const TraceSpan &span) override {
    if (spans.size() < spans.capacity())
      spans.push_back(span);
  }

  const cuda::Context &context;
  const DeviceOptions &options;
  const Explain explain;
  PinnedBlock controlMemory;
  Control *control;
  std::unique_ptr<Clock> clock;
  std::array<std::optional<PinnedRing>, kQueues> rings;
  FirstFailure failure;
  std::array<uint64_t, kQueues> rests{};
  struct DirectSends {
    uint64_t count = 0;
    std::array<uint64_t, 512> entries{}; ///< Their numbers at the courier, by send: a ring.
  };
  std::array<DirectSends, kQueues> direct; ///< By queue.
  std::vector<TraceSpan> spans;
  std::unique_ptr<Courier> courier;
  std::array<std::unique_ptr<Stream>, kQueues> streams;
  std::unique_ptr<Stream> asideStream;
};

} // namespace maestro::executor

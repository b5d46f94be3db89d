// The fake driver's streams and events: a thread a stream, work that completes late.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

/// An event as it was last recorded; an older recording lives as long as somebody waits for it.
struct CUevent_st {
  struct Recording {
    std::atomic<int64_t> timeNs{0}; ///< 0: not reached yet.
  };
  unsigned flags = 0;
  std::atomic<std::shared_ptr<Recording>> last; ///< Null: never recorded.
};

namespace maestro::cuda::fake {

/// Whether the GPU has failed for good, as MAESTRO_FAKE_CUDA_LOST says: then it does nothing, and calls say so.
bool isLost(CUdevice device);

/// A queue between the host and a GPU, which streams share where there are more of them: what is behind a wait that has
/// not ended stays there, whatever stream it is of.
class WorkQueue {
public:
  /// The next one of the GPU, in turn: as many as CUDA_DEVICE_MAX_CONNECTIONS says.
  static WorkQueue &next(CUdevice device);
  /// The place of the work that is queued now.
  uint64_t enter(bool waits);
  /// Returns when all waits before the place have ended.
  void reach(uint64_t place);
  void leave(uint64_t place);

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t places = 0;
  std::set<uint64_t> waiting;
};

} // namespace maestro::cuda::fake

struct CUstream_st {
public:
  CUstream_st(uint64_t number, CUdevice device);
  /// After what is queued.
  ~CUstream_st();

  const CUdevice device;
  enum class Touches : uint8_t { Nothing, Memory, Waits };
  void push(Touches touches, std::function<void()> work);
  void awaitIdle();
  void record(CUevent_st &event);
  void await(const CUevent_st &event);

  struct Item {
    Touches touches;
    std::function<void()> work;
    uint64_t place = 0; ///< In the work queue.
  };
  /// From now on work is kept instead of done.
  void beginCapture();
  /// Nothing where no capture has begun.
  std::optional<std::vector<Item>> endCapture();
  bool isCapturing();

private:
  void serve();

  maestro::cuda::fake::WorkQueue &queue;
  uint64_t number, count = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  std::optional<std::vector<Item>> captured;
  bool busy = false, stopping = false;
  std::thread thread;
};

/// Work that was captured; a launch does it in order.
struct CUgraph_st {
  std::vector<CUstream_st::Item> items;
};
struct CUgraphExec_st {
  std::vector<CUstream_st::Item> items;
};

namespace maestro::cuda::fake {

/// Returns when the event has been reached, or the GPU of who waits is lost.
void awaitRecording(const CUevent_st::Recording &recording, CUdevice device);

} // namespace maestro::cuda::fake

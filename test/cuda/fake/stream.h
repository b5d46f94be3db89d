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
#include <thread>

/// An event as it was last recorded; an older recording lives as long as somebody waits for it.
struct CUevent_st {
  struct Recording {
    std::atomic<int64_t> timeNs{0}; ///< 0: not reached yet.
  };
  unsigned flags = 0;
  std::shared_ptr<Recording> last; ///< Null: never recorded.
};

struct CUstream_st {
public:
  CUstream_st(uint64_t number, CUdevice device);
  /// After what is queued.
  ~CUstream_st();

  const CUdevice device;
  enum class Touches : uint8_t { Nothing, Memory };
  void push(Touches touches, std::function<void()> work);
  void awaitIdle();
  void record(CUevent_st &event);
  void await(const CUevent_st &event);

private:
  struct Item {
    Touches touches;
    std::function<void()> work;
  };
  void serve();

  uint64_t number, count = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  bool busy = false, stopping = false;
  std::thread thread;
};

namespace maestro::cuda::fake {

/// Returns when the event has been reached.
void awaitRecording(const CUevent_st::Recording &recording);

} // namespace maestro::cuda::fake

#include "test/cuda/fake/stream.h"

#include "base/philox.h"
#include "test/cuda/fake/fake.h"
#include "test/cuda/fake/memory.h"

#include <array>
#include <chrono>
#include <utility>

using namespace maestro;
using namespace maestro::cuda::fake;

namespace {

std::mutex recordingMutex;
std::condition_variable recorded;

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// What a GPU has done on memory so far.
std::atomic<uint64_t> &worksOf(CUdevice device) {
  static std::array<std::atomic<uint64_t>, 64> works{};
  return works[static_cast<size_t>(device)];
}

/// Counts work, of which the last one that a GPU does not survive wakes all that wait for it.
bool survives(CUdevice device) {
  ++worksOf(device);
  if (!isLost(device))
    return true;
  std::lock_guard lock(recordingMutex);
  recorded.notify_all();
  return false;
}

} // namespace

bool maestro::cuda::fake::isLost(CUdevice device) {
  const Settings &settings = Settings::get();
  return device == settings.lostDevice && worksOf(device).load() > settings.lostAfter;
}

void maestro::cuda::fake::awaitRecording(const CUevent_st::Recording &recording, CUdevice device) {
  std::unique_lock lock(recordingMutex);
  recorded.wait(lock, [&] { return recording.timeNs.load() != 0 || isLost(device); });
}

WorkQueue &WorkQueue::next(CUdevice device) {
  struct Queues {
    std::atomic<uint64_t> taken{0};
    std::vector<WorkQueue> all{Settings::get().workQueues};
  };
  static auto *devices = new std::array<Queues, 64>(); // Outlive every thread.
  Queues &queues = (*devices)[static_cast<size_t>(device)];
  return queues.all[queues.taken++ % queues.all.size()];
}

uint64_t WorkQueue::enter(bool waits) {
  std::lock_guard lock(mutex);
  uint64_t place = ++places;
  if (waits)
    waiting.insert(place);
  return place;
}

void WorkQueue::reach(uint64_t place) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return waiting.empty() || *waiting.begin() >= place; });
}

void WorkQueue::leave(uint64_t place) {
  std::lock_guard lock(mutex);
  if (waiting.erase(place) > 0)
    changed.notify_all();
}

CUstream_st::CUstream_st(uint64_t number, CUdevice device)
    : device(device), queue(WorkQueue::next(device)), number(number), thread([this] { serve(); }) {}

CUstream_st::~CUstream_st() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void CUstream_st::push(Touches touches, std::function<void()> work) {
  {
    std::lock_guard lock(mutex);
    if (captured) {
      captured->push_back({touches, std::move(work), 0});
      return;
    }
    items.push_back({touches, std::move(work), queue.enter(touches == Touches::Waits)});
  }
  changed.notify_all();
}

void CUstream_st::beginCapture() {
  std::lock_guard lock(mutex);
  if (captured)
    complain("a capture of a stream that is captured already");
  captured.emplace();
}

std::optional<std::vector<CUstream_st::Item>> CUstream_st::endCapture() {
  std::lock_guard lock(mutex);
  return std::exchange(captured, std::nullopt);
}

bool CUstream_st::isCapturing() {
  std::lock_guard lock(mutex);
  return captured.has_value();
}

void CUstream_st::awaitIdle() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return items.empty() && !busy; });
}

void CUstream_st::record(CUevent_st &event) {
  auto last = std::make_shared<CUevent_st::Recording>();
  event.last = last;
  push(Touches::Nothing, [recording = std::move(last)] {
    std::lock_guard lock(recordingMutex);
    recording->timeNs.store(nowNs());
    recorded.notify_all();
  });
}

void CUstream_st::await(const CUevent_st &event) {
  if (auto last = event.last.load())
    push(Touches::Waits, [recording = std::move(last), device = device] { awaitRecording(*recording, device); });
}

void CUstream_st::serve() {
  const Settings &settings = Settings::get();
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return !items.empty() || stopping; });
    if (items.empty())
      return;
    Item item = std::move(items.front());
    items.pop_front();
    busy = true;
    lock.unlock();
    queue.reach(item.place);
    bool touchesMemory = item.touches == Touches::Memory, works = touchesMemory ? survives(device) : !isLost(device);
    if (works && touchesMemory) {
      auto bits = philox4x32({static_cast<uint32_t>(count++), static_cast<uint32_t>(number), 0, 0},
                             {static_cast<uint32_t>(settings.seed), static_cast<uint32_t>(settings.seed >> 32)});
      if (settings.delayUs > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(bits[0] % settings.delayUs));
      Memory::get().open();
      item.work();
      Memory::get().close();
    } else if (works) {
      item.work();
    }
    queue.leave(item.place);
    lock.lock();
    busy = false;
    if (items.empty())
      changed.notify_all();
  }
}

#include "executor/data/source.h"

#include "base/guarded.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace maestro::data {

/// Samples [head, head + filled) are read; the thread fills the one after them. The lock guards the
/// counters alone: a slot belongs to whoever may advance over it.
struct SampleSource::Ring {
  std::unique_ptr<SampleReader> reader;
  std::vector<Sample> slots;
  std::mutex mutex;
  std::condition_variable changed;
  size_t head = 0;
  size_t filled = 0;
  bool stopping = false;
  bool failed = false;
  Status failure; ///< Comes after the samples that are filled.
  std::thread thread;

  void fill() {
    for (size_t tail = 0;; tail = (tail + 1) % slots.size()) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stopping || filled < slots.size(); });
        if (stopping)
          return;
      }
      Status status = guarded([&] { return reader->read(slots[tail]); });
      std::lock_guard lock(mutex);
      failed = !status.isOk();
      failed ? void(failure = std::move(status)) : void(++filled);
      changed.notify_all();
      if (failed)
        return;
    }
  }

  /// Swaps the next sample with `sample`; false after a failure.
  bool take(Sample &sample) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return filled > 0 || failed; });
      if (filled == 0)
        return false;
    }
    std::swap(sample, slots[head]);
    head = (head + 1) % slots.size();
    std::lock_guard lock(mutex);
    --filled;
    changed.notify_all();
    return true;
  }
};

SampleSource::SampleSource(std::unique_ptr<Ring> ring) : ring(std::move(ring)) {}

SampleSource::~SampleSource() {
  {
    std::lock_guard lock(ring->mutex);
    ring->stopping = true;
    ring->changed.notify_all();
  }
  ring->thread.join();
}

Result<std::unique_ptr<SampleSource>> SampleSource::create(std::unique_ptr<SampleReader> reader, size_t queueSamples,
                                                           const DataPosition &start) {
  MAESTRO_TRY(reader->seek(start));
  auto ring = std::make_unique<Ring>();
  ring->reader = std::move(reader);
  ring->slots.resize(queueSamples);
  ring->thread = std::thread([raw = ring.get()] { raw->fill(); });
  return std::unique_ptr<SampleSource>(new SampleSource(std::move(ring)));
}

Status SampleSource::next(size_t count, SampleBatch &batch) {
  batch.count = 0;
  batch.endsPass = false;
  if (batch.samples.size() < count)
    batch.samples.resize(count);
  while (batch.count < count && !batch.endsPass) {
    Sample &sample = batch.samples[batch.count];
    if (!ring->take(sample))
      return Status(ring->failure.code(), std::string(ring->failure.message()));
    batch.next = sample.next;
    batch.endsPass = sample.endsPass;
    ++batch.count;
  }
  return {};
}

} // namespace maestro::data

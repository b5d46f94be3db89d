#include "executor/data/source.h"

#include "base/guarded.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace maestro::data {
namespace {

Status copyOf(const Status &status) {
  return status.isOk() ? Status() : Status(status.code(), std::string(status.message()));
}

Status readValues(SampleBatch &batch, ValueReader &values) {
  size_t used = 0;
  for (size_t s = 0; s < batch.count; ++s) {
    Sample &sample = batch.samples[s];
    std::span<const uint8_t> wanted = batch.wantedOf(s);
    if (std::ranges::any_of(wanted, [](uint8_t isWanted) { return isWanted != 0; })) {
      if (used == batch.storages.size())
        batch.storages.emplace_back();
      MAESTRO_TRY(values.read(sample, wanted, batch.storages[used]));
      ++used;
      for (size_t i = 0; i < wanted.size(); ++i)
        batch.valueBytes += wanted[i] && sample.fields[i].present ? sample.fields[i].byteCount() : 0;
    }
    sample.values.reset(); // Files may be closed.
  }
  return {};
}

} // namespace

/// Samples [head, head + filled) are known; the thread fills the one after them. The lock guards the
/// counters and the batches' states: a slot belongs to whoever may advance over it, a batch that is being read to the
/// thread.
struct SampleSource::Ring {
  struct Slot {
    SampleBatch batch;
    bool isReading = false;
    Status outcome = {};
  };

  std::unique_ptr<SampleReader> reader;
  std::vector<Sample> slots;
  std::vector<Slot> batches;
  std::mutex mutex;
  std::condition_variable changed;
  size_t head = 0, tail = 0;
  size_t filled = 0;
  size_t nextBatch = 0;
  std::vector<Slot *> requests; ///< Batches whose values are wanted, in order.
  bool stopping = false;
  bool failed = false;
  Status failure; ///< Comes after the samples that are filled.
  std::thread thread;

  void serve() {
    ValueReader values;
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [&] { return stopping || !requests.empty() || (!failed && filled < slots.size()); });
      if (stopping)
        return;
      Slot *request = requests.empty() ? nullptr : requests.front(); // Somebody waits, or soon will.
      lock.unlock();
      Status status = guarded([&] { return request ? readValues(request->batch, values) : reader->read(slots[tail]); });
      lock.lock();
      if (request) {
        request->outcome = std::move(status);
        request->isReading = false;
        requests.erase(requests.begin());
      } else if (status.isOk()) {
        tail = (tail + 1) % slots.size();
        ++filled;
      } else {
        failed = true;
        failure = std::move(status);
      }
      changed.notify_all();
    }
  }

  /// Swaps samples into the batch until it has `count`, or ends a pass; false where a failure comes before.
  bool take(size_t count, SampleBatch &batch) {
    std::unique_lock lock(mutex);
    while (batch.count < count && !batch.endsPass) {
      changed.wait(lock, [&] { return filled > 0 || failed; });
      if (filled == 0)
        return false;
      for (; filled > 0 && batch.count < count && !batch.endsPass; --filled) {
        Sample &sample = batch.samples[batch.count++];
        std::swap(sample, slots[head]);
        head = (head + 1) % slots.size();
        batch.next = sample.next;
        batch.endsPass = sample.endsPass;
      }
      changed.notify_all();
    }
    return true;
  }

  Slot &slotOf(const SampleBatch &batch) {
    return *std::ranges::find_if(batches, [&](const Slot &slot) { return &slot.batch == &batch; });
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

Result<std::unique_ptr<SampleSource>> SampleSource::create(std::unique_ptr<SampleReader> reader, const Options &options,
                                                           const DataPosition &start) {
  MAESTRO_TRY(reader->seek(start));
  auto ring = std::make_unique<Ring>();
  ring->reader = std::move(reader);
  ring->slots.resize(options.queueSamples);
  ring->batches = std::vector<Ring::Slot>(options.batches);
  ring->requests.reserve(options.batches);
  ring->thread = std::thread([raw = ring.get()] { raw->serve(); });
  return std::unique_ptr<SampleSource>(new SampleSource(std::move(ring)));
}

Result<SampleBatch *> SampleSource::next(size_t count) {
  Ring::Slot &slot = ring->batches[ring->nextBatch];
  SampleBatch &batch = slot.batch;
  (void)await(batch);
  batch.count = 0;
  batch.endsPass = false;
  batch.valueBytes = 0;
  slot.outcome = Status();
  if (batch.samples.size() < count)
    batch.samples.resize(count);
  if (!ring->take(count, batch))
    return copyOf(ring->failure);
  batch.wanted.assign(batch.count * batch.fields(), 0);
  ring->nextBatch = (ring->nextBatch + 1) % ring->batches.size();
  return &batch;
}

void SampleSource::read(SampleBatch &batch) {
  std::lock_guard lock(ring->mutex);
  Ring::Slot &slot = ring->slotOf(batch);
  slot.isReading = true;
  ring->requests.push_back(&slot);
  ring->changed.notify_all();
}

Status SampleSource::await(const SampleBatch &batch) {
  std::unique_lock lock(ring->mutex);
  Ring::Slot &slot = ring->slotOf(batch);
  ring->changed.wait(lock, [&] { return !slot.isReading; });
  return copyOf(slot.outcome);
}

} // namespace maestro::data

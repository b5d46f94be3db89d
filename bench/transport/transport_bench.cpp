// What the local transport costs: a small message between two ranks, large payloads beside memcpy, a reduction beside
// the memcpy of the same bytes; medians over repetitions that alternate with their reference, and allocations counted.
#include "executor/world/channel.h"
#include "executor/world/reduction.h"
#include "test/allocations/allocations.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace maestro::executor {
namespace {

using transport::Abort, transport::nowNs, transport::SharedMemory;

void require(const Status &status) {
  if (status.isOk())
    return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

/// Two ranks, with a channel each way or one of them unused. Each rank makes its end itself, where it runs.
struct Pair {
  Pair(uint32_t slots, uint64_t slotBytes, uint64_t more = 0, uint64_t floats = 0)
      : memory(std::move(*SharedMemory::create(4 * slots * (slotBytes + 4096) + (1 << 20) + more, true))),
        abort(*Abort::create(*memory, 2)) {
    for (uint32_t from : {0, 1}) {
      ChannelDescription description;
      description.name = from ? "back" : "forth";
      description.edge = from;
      description.consumerRank = 1 - from;
      description.producerRanks = {from};
      description.slots = slots;
      description.slotBytes = slotBytes;
      channels[from] = *Channel::plan(plan, description);
    }
    if (floats > 0) {
      for (uint32_t m : {0, 1})
        gradients.members.push_back({plan.reserve(m, floats * 4), {{0, floats}}});
      reduction = *Reduction::plan(plan, gradients);
    }
    segments = *transport::Segments::create(*memory, plan);
  }
  /// Where memcpy writes for comparison: memory of the same kind as a channel's slots, of what was asked for beside
  /// them.
  char *copyTarget(uint64_t bytes) { return *memory->make<char>(bytes, "copies"); }

  std::unique_ptr<SharedMemory> memory;
  Abort abort;
  transport::SegmentPlan plan{2};
  Channel channels[2];
  ReductionDescription gradients{"gradients", {}};
  Reduction reduction;
  transport::Segments segments;
};

/// One rank's device and its ends of both channels.
struct Rank {
  Rank(Pair &pair, uint32_t number, uint64_t sourceBytes) {
    CpuDeviceOptions options;
    options.abort = &pair.abort;
    device = createCpuDevice(nullptr, options);
    source = *device->allocate(sourceBytes, "source");
    std::vector<char> ones(sourceBytes, 1); // Pages that are there.
    device->write(Queue::Compute, source, ones.data(), sourceBytes);
    require(device->drain());
    sender = std::move(*pair.channels[number].sender(pair.segments, 0, *device));
    receiver = std::move(*pair.channels[1 - number].receiver(pair.segments, *device));
  }
  void send(uint64_t k, const Box &box) {
    sender->awaitCredit(Queue::Compute, k);
    require(sender->send(Queue::Compute, k, source, {&box, 1}, {1, 0, 1, box.elementBytes}));
  }
  void receive(uint64_t k) {
    require(receiver->awaitArrivals(Queue::Compute, k, {1, 1, 0}));
    require(receiver->release(Queue::Compute, k));
  }
  void finish() {
    require(device->drain());
    require(receiver->checkHeaders());
  }

  std::unique_ptr<Device> device;
  Address source;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
};

/// Rank 1 beside this one, as a thread or as a process.
class Peer {
public:
  Peer(bool process, std::function<void()> body) {
    if (!process)
      thread = std::thread(std::move(body));
    else if (child = fork(); child == 0) {
      body();
      _exit(0);
    }
  }
  ~Peer() {
    if (thread.joinable())
      thread.join();
    else
      waitpid(child, nullptr, 0);
  }

private:
  std::thread thread;
  pid_t child = 0;
};

/// memcpy as the reference: nobody reads what it wrote, but compilers must not know.
void copy(void *to, const void *from, size_t bytes) {
  std::memcpy(to, from, bytes);
  asm volatile("" : : "r"(to) : "memory");
}

/// There and back, as a device does it by itself: its host fills the queue ahead.
void benchLatency(bool processes) {
  constexpr uint64_t kBatch = 1000, kBatches = 100;
  Pair pair(4, 64);
  Box box = Box::contiguous(0, 0, 64);
  std::vector<double> ns(kBatches);
  int64_t counted = 0;
  {
    Peer peer(processes, [&] {
      Rank rank(pair, 1, 64);
      for (uint64_t batch = 0, k = 0; batch < kBatches; ++batch) {
        for (uint64_t i = 0; i < kBatch; ++i, ++k) {
          rank.receive(k);
          rank.send(k, box);
        }
        rank.finish();
      }
    });
    Rank rank(pair, 0, 64);
    for (uint64_t batch = 0, k = 0; batch < kBatches; ++batch) {
      int64_t before = test::allocations(), start = nowNs();
      for (uint64_t i = 0; i < kBatch; ++i, ++k) {
        rank.send(k, box);
        rank.receive(k);
      }
      rank.finish();
      ns[batch] = static_cast<double>(nowNs() - start) / (2.0 * kBatch);
      counted += batch > 0 ? test::allocations() - before : 0; // The first makes places for headers.
    }
  }
  std::printf("64-byte message between %-9s  %7.0f ns median, %7.0f ns fastest tenth, %7.0f ns slowest tenth; %ld "
              "allocations\n",
              processes ? "processes" : "threads", quantile(ns, 0.5), quantile(ns, 0.1), quantile(ns, 0.9),
              static_cast<long>(counted));
}

/// One device, both ends: what the protocol adds to the copy itself.
void benchCopy(uint64_t bytes, uint64_t rowBytes) {
  constexpr uint32_t kSlots = 4;
  Pair pair(kSlots, bytes, kSlots * bytes);
  uint64_t rows = bytes / rowBytes, stride = rowBytes == bytes ? bytes : 2 * rowBytes;
  Rank rank(pair, 0, rows * stride);
  auto own = std::move(*pair.channels[0].receiver(pair.segments, *rank.device)); // This rank's other end, too.
  std::vector<char> source(rows * stride, 1);
  char *target = pair.copyTarget(kSlots * bytes);
  Box box = Box::contiguous(0, 0, rowBytes);
  box.rank = 1;
  box.extents[0] = rows;
  box.sourceStrides[0] = static_cast<int64_t>(stride);
  box.destinationStrides[0] = static_cast<int64_t>(rowBytes);

  auto copies = std::max<uint64_t>(8, (64 << 20) / bytes);
  std::vector<double> channel, ratios;
  for (uint64_t repetition = 0, k = 0; repetition < 41; ++repetition) {
    int64_t start = nowNs();
    for (uint64_t i = 0; i < copies; ++i, ++k) {
      rank.send(k, box);
      require(own->awaitArrivals(Queue::Compute, k, {1, 1, 0}));
      require(own->release(Queue::Compute, k));
    }
    rank.finish();
    require(own->checkHeaders());
    int64_t middle = nowNs();
    for (uint64_t i = 0; i < copies; ++i)
      for (uint64_t row = 0; row < rows; ++row)
        copy(&target[i % kSlots * bytes + row * rowBytes], &source[row * stride], rowBytes);
    int64_t end = nowNs();
    channel.push_back(static_cast<double>(copies * bytes) / static_cast<double>(middle - start));
    ratios.push_back(static_cast<double>(end - middle) / static_cast<double>(middle - start));
  }
  std::printf("%5.2f MiB in rows of %8lu bytes   %6.2f GB/s, memcpy ratio %.3f (%.3f to %.3f)\n",
              static_cast<double>(bytes) / (1 << 20), static_cast<unsigned long>(rowBytes), quantile(channel, 0.5),
              quantile(ratios, 0.5), quantile(ratios, 0.1), quantile(ratios, 0.9));
}

/// A producer that writes as fast as credit allows, beside the same copies with nobody to wait for.
void benchStream(uint64_t bytes, bool processes) {
  constexpr uint32_t kSlots = 4;
  constexpr uint64_t kRepetitions = 21;
  Pair pair(kSlots, bytes, kSlots * bytes);
  std::vector<char> source(bytes, 1);
  char *target = pair.copyTarget(kSlots * bytes);
  Box box = Box::contiguous(0, 0, bytes);
  uint64_t copies = std::max<uint64_t>(8, (128 << 20) / bytes);
  std::vector<double> channel, ratios;
  Peer peer(processes, [&] {
    Rank rank(pair, 1, 64);
    for (uint64_t repetition = 0, k = 0; repetition < kRepetitions; ++repetition) {
      for (uint64_t i = 0; i < copies; ++i, ++k)
        rank.receive(k);
      rank.finish();
    }
  });
  Rank rank(pair, 0, bytes);
  for (uint64_t repetition = 0, k = 0; repetition < kRepetitions; ++repetition) {
    int64_t start = nowNs();
    for (uint64_t i = 0; i < copies; ++i, ++k)
      rank.send(k, box);
    rank.finish();
    int64_t middle = nowNs();
    for (uint64_t i = 0; i < copies; ++i)
      copy(&target[i % kSlots * bytes], source.data(), bytes);
    int64_t end = nowNs();
    channel.push_back(static_cast<double>(copies * bytes) / static_cast<double>(middle - start));
    ratios.push_back(static_cast<double>(end - middle) / static_cast<double>(middle - start));
  }
  std::printf("%5.2f MiB streamed between %-9s   %6.2f GB/s, memcpy ratio %.3f (%.3f to %.3f)\n",
              static_cast<double>(bytes) / (1 << 20), processes ? "processes" : "threads", quantile(channel, 0.5),
              quantile(ratios, 0.5), quantile(ratios, 0.1), quantile(ratios, 0.9));
}

void benchReduction(uint64_t floats) {
  Pair pair(1, 64, 2 * floats * 4 + (32 << 20), floats);
  std::vector<float> from(floats, 1), to(floats, 2);
  constexpr uint64_t kCalls = 15;
  std::vector<double> ms, copyMs;
  auto reduce = [&](uint32_t m, std::vector<double> *times) {
    Rank rank(pair, m, 64);
    Reduction::Member member = *pair.reduction.member(pair.segments, m, *rank.device);
    for (uint64_t call = 0; call < kCalls; ++call) {
      int64_t start = nowNs();
      require(member.reduce(Queue::Compute, call));
      require(rank.device->drain());
      if (times)
        times->push_back(static_cast<double>(nowNs() - start) * 1e-6);
    }
  };
  {
    Peer peer(false, [&] { reduce(1, nullptr); });
    reduce(0, &ms);
  }
  for (uint64_t call = 0; call < kCalls; ++call) {
    int64_t start = nowNs();
    copy(to.data(), from.data(), floats * 4);
    copyMs.push_back(static_cast<double>(nowNs() - start) * 1e-6);
  }
  std::printf(
      "sum of %4.0f MB over 2 threads           %6.2f ms; one memcpy of a vector %6.2f ms; staging %.1f MB a member\n",
      static_cast<double>(floats) * 4e-6, quantile(ms, 0.5), quantile(copyMs, 0.5),
      static_cast<double>(pair.reduction.stagingBytes()) * 1e-6);
}

} // namespace
} // namespace maestro::executor

int main() {
  using namespace maestro::executor;
  benchLatency(false);
  benchLatency(true);
  for (uint64_t mib : {1, 4, 16})
    benchCopy(mib << 20, mib << 20);
  benchCopy(4 << 20, 4096);
  benchCopy(4 << 20, 512);
  for (bool processes : {false, true})
    benchStream(4 << 20, processes);
  benchReduction(10'000'000);
}

// A channel between two processes: over libfabric beside a plain send and receive loop over the same path, or through
// memory that each maps beside memcpy, medians over repetitions that alternate; over verbs alone, once, for a script
// that runs ib_write_bw in between.
//
//   fabric_bench                                          both here, on loopback, libfabric
//   fabric_bench memory                                   both here
//   fabric_bench NUMBER ADDRESS ADDRESS                   one of them (0 produces), at these addresses
//   fabric_bench NUMBER ADDRESS ADDRESS verbs BYTES COUNT
#include "executor/world/channel.h"
#include "transport/control/connection.h"
#include "transport/libfabric/libfabric.h"
#include "transport/local/neighbour.h"
#include "transport/verbs/verbs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace maestro::executor {
namespace {

using transport::Descriptor, transport::nowNs;

constexpr uint32_t kSlots = 8; // As plans give edges 5 to 12.
constexpr uint16_t kPort = 27431;
constexpr int kRepetitions = 9;
constexpr int kPatienceMs = 20000;

void require(const Status &status) {
  if (status.isOk())
    return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::_Exit(1);
}

void requireSystem(bool good, const char *what) {
  if (!good) {
    std::perror(what);
    std::_Exit(1);
  }
}

enum class Way { Libfabric, Verbs, Memory };

/// One of the two processes: producer 0, consumer 1.
class Side {
public:
  Side(uint32_t number, const std::string addresses[2], Way way)
      : number(number), address(addresses[number]), way(way) {
    memory = std::move(*transport::SharedMemory::create(64 << 20));
    abort.emplace(*transport::Abort::create(*memory, 2));
    Descriptor listener;
    if (number == 1)
      listener = std::move(*transport::listenAt(address, kPort));
    for (Descriptor *end : {&other, &stream}) {
      if (number == 1) {
        pollfd wait{listener.get(), POLLIN, 0};
        requireSystem(::poll(&wait, 1, kPatienceMs) == 1, "poll");
        *end = Descriptor(::accept(listener.get(), nullptr, nullptr));
      } else {
        auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
        auto connection = transport::connectTo(addresses[1], kPort, deadline, [] { return false; });
        require(connection ? Status() : Status::unavailable(std::string(connection.status().message())));
        *end = connection->release();
      }
      requireSystem(end->get() >= 0, "the plain connection");
      (void)::fcntl(end->get(), F_SETFL, ::fcntl(end->get(), F_GETFL) & ~O_NONBLOCK);
    }
  }

  /// Bytes a second through a channel; 0 at the consumer.
  double channel(uint64_t bytes, uint64_t count) {
    transport::SegmentPlan plan(2);
    ChannelDescription description;
    description.name = "bench";
    description.consumerRank = 1;
    description.producerRanks = {0};
    description.slots = kSlots;
    description.slotBytes = bytes;
    Channel channel = *Channel::plan(plan, description);
    auto own = std::move(*transport::SharedMemory::createOpen(kSlots * (bytes + 4096) + (1 << 20)));
    transport::Segments segments = *transport::Segments::create(*own, plan, {number, number + 1});
    std::unique_ptr<transport::Network> fabric;
    std::unique_ptr<transport::SharedMemory> theirs;
    if (way == Way::Memory) {
      auto card = *transport::decodeNeighbourCard(exchange(encode(transport::NeighbourCard::of(*own, segments))));
      theirs = std::move(*transport::openNeighbour(card, {1 - number, 2 - number}, segments));
      transport::enter(card, *theirs, segments);
    } else {
      auto opened = open(segments);
      require(opened ? Status() : Status::unavailable(std::string(opened.status().message())));
      fabric = std::move(*opened);
      segments.connect(*fabric);
      require(fabric->connect({1 - number, 2 - number}, "the other process", exchange(fabric->card())));
      meet();
      require(fabric->probe());
      require(fabric->start());
    }
    CpuDeviceOptions deviceOptions;
    deviceOptions.abort = &*abort;
    auto device = createCpuDevice(nullptr, deviceOptions);
    double rate =
        number == 0 ? produce(channel, segments, *device, bytes, count) : consume(channel, segments, *device, count);
    meet();
    return rate;
  }

  /// The same without a channel: send and receive, or memcpy by the producer alone.
  double plain(uint64_t bytes, uint64_t count) {
    std::vector<char> buffer(kSlots * bytes, 1);
    if (way == Way::Memory)
      return number == 0 ? copy(buffer, bytes, count) : (meet(), 0);
    int64_t start = nowNs();
    for (uint64_t k = 0, confirmed = 0; k < count || (number == 0 && confirmed < count);) {
      char one = 1;
      if (number == 0 && (k == count || k - confirmed == kSlots)) {
        requireSystem(::recv(stream.get(), &one, 1, 0) == 1, "recv");
        ++confirmed;
        continue;
      }
      char *slot = buffer.data() + k % kSlots * bytes;
      for (uint64_t done = 0; done < bytes;) {
        ssize_t moved = number == 0 ? ::send(stream.get(), slot + done, bytes - done, 0)
                                    : ::recv(stream.get(), slot + done, bytes - done, 0);
        requireSystem(moved > 0, "send or recv");
        done += static_cast<uint64_t>(moved);
      }
      if (number == 1)
        requireSystem(::send(stream.get(), &one, 1, 0) == 1, "send");
      ++k;
    }
    double rate = static_cast<double>(bytes * count) / (static_cast<double>(nowNs() - start) * 1e-9);
    meet();
    return rate;
  }

private:
  Result<std::unique_ptr<transport::Network>> open(const transport::Segments &segments) const {
    if (way == Way::Libfabric)
      return transport::openLibfabric(segments, {address}, *abort);
    transport::VerbsOptions options;
    options.address = address;
    options.peers = {{1 - number, 2 - number}};
    return transport::openVerbs(segments, options, *abort);
  }

  double copy(std::vector<char> &slots, uint64_t bytes, uint64_t count) {
    std::vector<char> source(bytes, 2);
    int64_t start = nowNs();
    for (uint64_t k = 0; k < count; ++k) {
      std::memcpy(slots.data() + k % kSlots * bytes, source.data(), bytes);
      asm volatile("" ::: "memory"); // It is not left out.
    }
    double rate = static_cast<double>(bytes * count) / (static_cast<double>(nowNs() - start) * 1e-9);
    meet();
    return rate;
  }

  double produce(const Channel &channel, const transport::Segments &segments, Device &device, uint64_t bytes,
                 uint64_t count) {
    auto sender = std::move(*channel.sender(segments, 0, device));
    Address source = *device.allocate(bytes, "source");
    Box box = Box::contiguous(0, 0, bytes);
    device.fillZero(Queue::Compute, source, bytes);
    require(device.drain());
    meet();
    auto send = [&](uint64_t first, uint64_t end) {
      for (uint64_t k = first; k < end; ++k) {
        sender->awaitCredit(Queue::Send, k);
        require(sender->send(Queue::Send, k, source, {&box, 1}, {1, static_cast<uint32_t>(k), 1, bytes}));
      }
      sender->awaitCredit(Queue::Send, end + kSlots - 1); // All were released.
      require(device.drain());
    };
    send(0, kSlots); // Every slot's memory is there.
    int64_t start = nowNs();
    send(kSlots, kSlots + count);
    return static_cast<double>(bytes * count) / (static_cast<double>(nowNs() - start) * 1e-9);
  }

  double consume(const Channel &channel, const transport::Segments &segments, Device &device, uint64_t count) {
    auto receiver = std::move(*channel.receiver(segments, device));
    meet();
    for (uint64_t k = 0; k < kSlots + count; ++k) {
      require(receiver->awaitArrivals(Queue::Receive, k, {1, 1, static_cast<uint32_t>(k)}));
      require(receiver->release(Queue::Receive, k));
    }
    require(device.drain());
    require(receiver->checkHeaders());
    return 0;
  }

  /// Both are here.
  void meet() { (void)exchange({}); }
  std::vector<std::byte> exchange(std::span<const std::byte> own) const {
    uint32_t length = static_cast<uint32_t>(own.size());
    requireSystem(::write(other.get(), &length, sizeof length) == sizeof length, "write");
    requireSystem(::write(other.get(), own.data(), own.size()) == static_cast<ssize_t>(own.size()), "write");
    requireSystem(::read(other.get(), &length, sizeof length) == sizeof length, "read");
    std::vector<std::byte> theirs(length);
    requireSystem(
        length == 0 || ::recv(other.get(), theirs.data(), length, MSG_WAITALL) == static_cast<ssize_t>(length), "read");
    return theirs;
  }

  uint32_t number;
  std::string address;
  Way way;
  std::unique_ptr<transport::SharedMemory> memory;
  std::optional<transport::Abort> abort;
  Descriptor other, stream; ///< To the other side: for what both must know, and for the plain loop.
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(Side &side, bool prints, const char *plain = "send and recv") {
  for (uint64_t bytes : {uint64_t{64}, uint64_t{64} << 10, uint64_t{1} << 20, uint64_t{4} << 20}) {
    uint64_t count = std::clamp<uint64_t>((uint64_t{256} << 20) / bytes, 40, 4000);
    std::vector<double> channels, plains, ratios;
    for (int i = 0; i < kRepetitions; ++i) {
      channels.push_back(side.channel(bytes, count));
      plains.push_back(side.plain(bytes, count));
      ratios.push_back(channels.back() / plains.back());
    }
    if (prints)
      std::printf("%8lu bytes: channel %7.1f MB/s (%6.1f us a message), %s %7.1f MB/s; ratio %.2f median\n",
                  static_cast<unsigned long>(bytes), median(channels) * 1e-6,
                  static_cast<double>(bytes) / median(channels) * 1e6, plain, median(plains) * 1e-6, median(ratios));
  }
}

} // namespace
} // namespace maestro::executor

int main(int argc, char **argv) {
  using namespace maestro::executor;
  std::string addresses[2] = {"127.0.0.1", "127.0.0.1"};
  if (argc < 4) {
    bool memory = argc == 2 && std::string(argv[1]) == "memory";
    pid_t child = ::fork();
    Side side(child == 0 ? 1 : 0, addresses, memory ? Way::Memory : Way::Libfabric);
    run(side, child != 0, memory ? "memcpy" : "send and recv");
    int status = 0;
    if (child != 0)
      ::waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
  }
  uint32_t number = std::atoi(argv[1]) == 1 ? 1 : 0;
  addresses[0] = argv[2], addresses[1] = argv[3];
  Side side(number, addresses, argc == 7 ? Way::Verbs : Way::Libfabric);
  if (argc != 7)
    run(side, number == 0);
  else if (double rate = side.channel(std::strtoull(argv[5], nullptr, 10), std::strtoull(argv[6], nullptr, 10));
           rate > 0)
    std::printf("%.3f\n", rate * 1e-6);
  return 0;
}

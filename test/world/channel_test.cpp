// What every channel must do, with ranks as threads, as processes and over a network, on devices that complete at once
// and late.
#include "executor/world/channel.h"
#include "test/world/devices.h"
#include "test/world/faulty_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <unistd.h>

namespace maestro::executor::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

/// What producer p writes as word i of sequence k.
uint64_t word(uint64_t sequence, uint64_t producer, uint64_t index) {
  return (sequence * 31 + producer + 1) * 0x9e3779b97f4a7c15 ^ index;
}

/// P producers, ranks 0 … P-1, and one consumer, rank P.
ChannelDescription describe(uint32_t producers, uint32_t slots, uint64_t slotBytes, uint32_t posts = 1) {
  ChannelDescription description;
  description.name = "encoder.features";
  description.edge = 5;
  description.epoch = 2;
  description.consumerRank = producers;
  description.producerRanks.resize(producers);
  std::iota(description.producerRanks.begin(), description.producerRanks.end(), 0);
  description.slots = slots;
  description.slotBytes = slotBytes;
  description.postsPerProducer = posts;
  return description;
}

Message message(uint64_t sequence) { return {1 + sequence / 10, static_cast<uint32_t>(sequence % 10), 1, 8}; }
Expected expected(uint64_t sequence, uint32_t posts) {
  return {posts, 1 + sequence / 10, static_cast<uint32_t>(sequence % 10)};
}

/// A producer's rank: what it sends lies in memory of its own, which the next message must not overwrite too early.
struct Producer {
  Producer(const Channel &channel, const Memory &memory, uint32_t index, std::unique_ptr<Device> own, uint64_t bytes)
      : index(index), device(std::move(own)), source(*device->allocate(bytes, "test")),
        sender(std::move(*channel.sender(memory.of(index), index, *device))) {}

  /// `bytes` stay until a point behind.
  Status send(uint64_t sequence, std::span<const std::byte> bytes, std::span<const Box> boxes, const Message &text) {
    device->await(Queue::Compute, device->record(Queue::Send)); // The message before has left.
    device->write(Queue::Compute, source, bytes.data(), bytes.size());
    device->await(Queue::Send, device->record(Queue::Compute));
    sender->awaitCredit(Queue::Send, sequence);
    return sender->send(Queue::Send, sequence, source, boxes, text);
  }
  /// One word, to the producer's place in the slot.
  Status sendWord(uint64_t sequence) {
    words.push_back(std::make_unique<uint64_t>(word(sequence, index, 0)));
    Box box = Box::contiguous(0, index * 8, 8);
    return send(sequence, std::as_bytes(std::span(words.back().get(), 1)), {&box, 1}, message(sequence));
  }

  uint32_t index;
  std::unique_ptr<Device> device;
  Address source;
  std::unique_ptr<Sender> sender;
  std::vector<std::unique_ptr<uint64_t>> words;
};

/// The consumer's rank: reads every slot, then overwrites it, and gives it back.
struct Consumer {
  Consumer(const Channel &channel, const Memory &memory, std::unique_ptr<Device> own, uint64_t slotBytes)
      : device(std::move(own)), receiver(std::move(*channel.receiver(memory.of(memory.world.ranks() - 1), *device))),
        slotBytes(slotBytes) {}

  Status take(uint64_t sequence, const Expected &expected) {
    MAESTRO_TRY(receiver->awaitArrivals(Queue::Compute, sequence, expected));
    slots.emplace_back(slotBytes);
    device->read(Queue::Compute, slots.back().data(), receiver->slot(sequence), slotBytes);
    device->fillZero(Queue::Compute, receiver->slot(sequence), slotBytes);
    return Status();
  }
  Status release(uint64_t sequence) { return receiver->release(Queue::Compute, sequence); }
  Status finish() {
    MAESTRO_TRY(device->drain());
    return receiver->checkHeaders();
  }
  uint64_t wordAt(size_t taken, uint64_t index) const {
    uint64_t found;
    std::memcpy(&found, slots[taken].data() + index * 8, 8);
    return found;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Receiver> receiver;
  uint64_t slotBytes;
  std::vector<std::vector<std::byte>> slots; ///< As taken.
};

class ChannelTest : public testing::TestWithParam<Setting> {
protected:
  void make(const ChannelDescription &wanted) {
    description = wanted;
    memory.reset(); // Its threads look at the world.
    world = std::make_unique<World>(static_cast<uint32_t>(description.producerRanks.size()) + 1);
    memory.emplace(*world);
    auto made = Channel::plan(memory->plan, description);
    ASSERT_TRUE(made.isOk()) << made.status().message();
    channel = *made;
    memory->make(std::get<1>(GetParam()), std::get<0>(GetParam()));
  }
  std::unique_ptr<Device> device(uint32_t rank) { return createDevice(std::get<0>(GetParam()), *world, rank); }
  Producer producer(uint32_t rank) { return Producer(channel, *memory, rank, device(rank), 1 << 16); }
  Consumer consumer() {
    return Consumer(channel, *memory, device(static_cast<uint32_t>(description.producerRanks.size())),
                    description.slotBytes);
  }
  Status runAll(const std::function<Status(uint32_t)> &body) { return world->run(std::get<1>(GetParam()), body); }
  void run(const std::function<Status(uint32_t)> &body) {
    Status status = runAll(body);
    EXPECT_TRUE(status.isOk()) << status.message();
  }
  std::string causeOf(const std::function<Status(uint32_t)> &body) { return std::string(runAll(body).message()); }

  ChannelDescription description;
  std::unique_ptr<World> world;
  std::optional<Memory> memory;
  Channel channel;
};

TEST_P(ChannelTest, MessagesArriveWholeInEverySlot) {
  constexpr uint64_t kWords = 200, kSequences = 40;
  for (uint32_t producers : {1u, 3u})
    for (uint32_t slots : {1u, 2u, 5u}) {
      make(describe(producers, slots, producers * kWords * 8));
      auto produce = [&](uint32_t p) -> Status {
        Producer own = producer(p);
        std::vector<uint64_t> words(kSequences * kWords);
        for (uint64_t k = 0; k < kSequences; ++k) {
          std::span<uint64_t> mine(&words[k * kWords], kWords);
          for (uint64_t i = 0; i < kWords; ++i)
            mine[i] = word(k, p, i);
          Box boxes[2] = {Box::contiguous(0, p * kWords * 8, 800),
                          Box::contiguous(800, p * kWords * 8 + 800, kWords * 8 - 800)};
          MAESTRO_TRY(own.send(k, std::as_bytes(mine), boxes, message(k)));
        }
        return own.device->drain();
      };
      auto consume = [&]() -> Status {
        Consumer own = consumer();
        for (uint64_t k = 0; k < kSequences; ++k) {
          MAESTRO_TRY(own.take(k, expected(k, producers)));
          MAESTRO_TRY(own.release(k));
        }
        MAESTRO_TRY(own.finish());
        for (uint64_t k = 0; k < kSequences; ++k)
          for (uint32_t p = 0; p < producers; ++p)
            for (uint64_t i = 0; i < kWords; ++i)
              if (own.wordAt(k, p * kWords + i) != word(k, p, i))
                return fail("sequence " + std::to_string(k) + " has another payload");
        return {};
      };
      run([&](uint32_t rank) { return rank < producers ? produce(rank) : consume(); });
    }
}

TEST_P(ChannelTest, SequencesMayBeWrittenAndReleasedInAnyOrderWithinTheWindow) {
  constexpr uint64_t kSlots = 4, kSequences = 40;
  make(describe(3, kSlots, 64));
  auto shuffled = [](std::mt19937 &random, uint64_t window) {
    std::vector<uint64_t> order{window, window + 1, window + 2, window + 3};
    std::shuffle(order.begin(), order.end(), random);
    return order;
  };
  run([&](uint32_t rank) -> Status {
    std::mt19937 random(rank);
    if (rank < 3) {
      Producer own = producer(rank);
      for (uint64_t window = 0; window < kSequences; window += kSlots)
        for (uint64_t k : shuffled(random, window))
          MAESTRO_TRY(own.sendWord(k));
      return own.device->drain();
    }
    Consumer own = consumer();
    std::vector<uint64_t> taken;
    for (uint64_t window = 0; window < kSequences; window += kSlots) {
      for (uint64_t k : shuffled(random, window)) {
        MAESTRO_TRY(own.take(k, expected(k, 3)));
        taken.push_back(k);
      }
      for (uint64_t k : shuffled(random, window))
        MAESTRO_TRY(own.release(k));
    }
    MAESTRO_TRY(own.finish());
    for (size_t i = 0; i < taken.size(); ++i)
      for (uint32_t p = 0; p < 3; ++p)
        if (own.wordAt(i, p) != word(taken[i], p, 0))
          return fail("sequence " + std::to_string(taken[i]) + " has another payload");
    return {};
  });
}

TEST_P(ChannelTest, SlotsCountEveryPostOfAProducer) {
  // Producer p posts (k + 2p) % 4 times to sequence k: nothing, once, or several times.
  constexpr uint64_t kSequences = 40;
  make(describe(2, 3, 8 * 2 * 3, 3));
  auto posts = [](uint64_t k, uint32_t p) { return static_cast<uint32_t>((k + 2 * p) % 4); };
  run([&](uint32_t rank) -> Status {
    if (rank < 2) {
      Producer own = producer(rank);
      std::vector<uint64_t> words(kSequences * 3);
      for (uint64_t k = 0; k < kSequences; ++k)
        for (uint32_t post = 0; post < posts(k, rank); ++post) {
          uint64_t &value = words[k * 3 + post] = word(k, rank, post);
          Box box = Box::contiguous(0, (rank * 3 + post) * 8, 8);
          MAESTRO_TRY(own.send(k, std::as_bytes(std::span(&value, 1)), {&box, 1}, message(k)));
        }
      return own.device->drain();
    }
    Consumer own = consumer();
    for (uint64_t k = 0; k < kSequences; ++k) {
      MAESTRO_TRY(own.take(k, expected(k, posts(k, 0) + posts(k, 1))));
      MAESTRO_TRY(own.release(k));
    }
    MAESTRO_TRY(own.finish());
    for (uint64_t k = 0; k < kSequences; ++k)
      for (uint32_t p = 0; p < 2; ++p)
        for (uint32_t post = 0; post < 3; ++post)
          if (own.wordAt(k, p * 3 + post) != (post < posts(k, p) ? word(k, p, post) : 0))
            return fail("post " + std::to_string(post) + " of " + std::to_string(k) + " is not in its place");
    return {};
  });
}

TEST_P(ChannelTest, AnAbortEndsEveryWaitWithOneCause) {
  make(describe(3, 1, 64));
  auto *cause = world->make<char>(4 * 64);
  int64_t start = transport::nowNs();
  // Ranks 0 and 1 wait for credit that nobody gives, rank 3 for a post of rank 2, which aborts instead.
  std::string text = causeOf([&](uint32_t rank) -> Status {
    if (rank == 2) {
      usleep(20'000);
      world->abort().raise(2, "out of range in 'gather'");
      return {};
    }
    Status waited;
    if (rank < 2) {
      Producer own = producer(rank);
      MAESTRO_TRY(own.sendWord(0));
      MAESTRO_TRY(own.sendWord(1));
      waited = own.device->drain();
    } else {
      Consumer own = consumer();
      MAESTRO_TRY(own.take(0, expected(0, 3)));
      waited = own.device->drain();
    }
    std::strncpy(cause + rank * 64, std::string(waited.message()).c_str(), 63);
    return waited.code() == StatusCode::Unavailable ? Status() : fail("not unavailable");
  });
  EXPECT_LT(transport::nowNs() - start, 2'000'000'000);
  EXPECT_EQ(text, "rank 2: out of range in 'gather'");
  for (uint32_t rank : {0, 1, 3})
    EXPECT_STREQ(cause + rank * 64, "rank 2: out of range in 'gather'") << rank;
}

TEST_P(ChannelTest, WhatTheScheduleDoesNotExpectIsNamed) {
  auto consume = [&](const Expected &wanted, const std::string &named) {
    make(describe(2, 2, 64));
    std::string text = causeOf([&](uint32_t rank) -> Status {
      if (rank < 2) {
        Producer own = producer(rank);
        MAESTRO_TRY(own.sendWord(0));
        return own.device->drain();
      }
      const transport::Word &arrivals = *memory->of(rank).word(rank, 0); // Of slot 0: what has left may not be here.
      while (arrivals.count() < 2)
        usleep(50);
      Consumer own = consumer();
      MAESTRO_TRY(own.take(0, wanted));
      return own.finish();
    });
    EXPECT_THAT(text, HasSubstr("channel 'encoder.features' (edge 5), consumer rank 2, sequence 0"));
    EXPECT_THAT(text, HasSubstr(named));
  };
  consume({2, 9, 0}, "producer rank 0 is not the expected one: step 1 instead of 9");
  consume({2, 1, 4}, "micro-batch 0 instead of 4");
  consume({1, 1, 0}, "2 instead of 1 (rank 0 posted 1, rank 1 posted 1)");
}

TEST_P(ChannelTest, MisuseIsRefused) {
  make(describe(1, 2, 64));
  auto refuses = [&](Status status, const char *text) {
    if (status.isOk() || status.message().find(text) == std::string_view::npos)
      return fail("expected '" + std::string(text) + "', got " + std::string(status.message()));
    return Status();
  };
  run([&](uint32_t rank) -> Status {
    if (rank == 0) {
      Producer own = producer(0);
      auto send = [&](const Box &box) { return own.sender->send(Queue::Send, 0, own.source, {&box, 1}, message(0)); };
      Box many, backwards = Box::contiguous(0, 0, 4);
      many.rank = 7;
      backwards.rank = 1;
      backwards.extents[0] = 2;
      backwards.destinationStrides[0] = -4;
      MAESTRO_TRY(refuses(send(Box::contiguous(0, 60, 8)), "bytes 60 to 68 of a slot of 64"));
      MAESTRO_TRY(refuses(send(Box::contiguous(0, ~uint64_t{0} - 3, 8)), "of a slot of 64"));
      MAESTRO_TRY(refuses(send(backwards), "bytes -4 to 4"));
      MAESTRO_TRY(refuses(send(many), "7 dims; at most 6"));
      MAESTRO_TRY(own.sendWord(0));
      MAESTRO_TRY(refuses(send(Box::contiguous(0, 0, 8)), "posts more than 1 times"));
      return own.device->drain();
    }
    Consumer own = consumer();
    MAESTRO_TRY(refuses(own.release(0), "released before its arrivals were awaited"));
    MAESTRO_TRY(refuses(own.take(2, expected(2, 1)), "awaited out of its slot's turn"));
    MAESTRO_TRY(own.take(0, expected(0, 1)));
    MAESTRO_TRY(refuses(own.take(0, expected(0, 1)), "awaited out of its slot's turn"));
    MAESTRO_TRY(own.release(0));
    MAESTRO_TRY(refuses(own.release(0), "released twice"));
    return own.finish();
  });
}

TEST_P(ChannelTest, AWaiterSleepsUntilItIsWoken) {
  // Long enough apart that both sides are asleep when the other answers. A sleeper looks around by itself after a
  // quarter of a second; a busy machine may cause such a wait once, a lost wake-up does so every time.
  make(describe(1, 1, 64));
  run([&](uint32_t rank) -> Status {
    int late = 0;
    auto timed = [&](Device &device) {
      int64_t start = transport::nowNs();
      Status status = device.drain();
      late += transport::nowNs() - start > 200'000'000;
      return status;
    };
    if (rank == 0) {
      Producer own = producer(0);
      for (uint64_t k = 0; k < 20; ++k) {
        usleep(k % 2 ? 3000 : 0);
        MAESTRO_TRY(own.sendWord(k));
        MAESTRO_TRY(timed(*own.device));
      }
    } else {
      Consumer own = consumer();
      for (uint64_t k = 0; k < 20; ++k) {
        MAESTRO_TRY(own.take(k, expected(k, 1)));
        MAESTRO_TRY(timed(*own.device));
        usleep(k % 2 ? 0 : 3000);
        MAESTRO_TRY(own.release(k));
      }
    }
    return late > 2 ? fail("wake-ups were lost") : Status();
  });
}

// What a network may do at its worst, and what becomes of it. Delayed and reordered messages change nothing: the suite
// runs on late devices.

/// Two producers send to rank 2; the cause with which that ends.
std::string causeUnder(const Setting &setting, const Faults &faults) {
  constexpr uint64_t kSequences = 60;
  World world(3);
  ChannelDescription description = describe(2, 3, 64);
  Memory memory(world);
  Channel channel = *Channel::plan(memory.plan, description);
  memory.make(std::get<1>(setting), std::get<0>(setting));
  auto create = [&](uint32_t rank) {
    return createFaultyDevice(createDevice(std::get<0>(setting), world, rank), faults, rank);
  };
  Status status = world.run(std::get<1>(setting), [&](uint32_t rank) -> Status {
    if (rank < 2) {
      Producer own(channel, memory, rank, create(rank), 64);
      for (uint64_t k = 0; k < kSequences; ++k)
        MAESTRO_TRY(own.sendWord(k));
      return own.device->drain();
    }
    Consumer own(channel, memory, createDevice(std::get<0>(setting), world, rank), 64);
    for (uint64_t k = 0; k < kSequences; ++k) {
      MAESTRO_TRY(own.take(k, expected(k, 2)));
      MAESTRO_TRY(own.release(k));
      if (k % 10 == 9) // A step's end.
        MAESTRO_TRY(own.finish());
    }
    return {};
  });
  return std::string(status.message());
}

TEST_P(ChannelTest, DuplicatesAreNoticed) {
  for (uint64_t seed : {1, 2, 3}) {
    std::string text = causeUnder(GetParam(), {.duplicates = 20, .seed = seed});
    EXPECT_THAT(text, HasSubstr("channel 'encoder.features'"));
    EXPECT_THAT(text, AnyOf(HasSubstr("a post was counted twice"), HasSubstr("more posts than the schedule has")));
  }
}

TEST_P(ChannelTest, DamagedHeadersAreNoticed) {
  EXPECT_THAT(causeUnder(GetParam(), {.damagedHeaders = 20}), HasSubstr("its checksum is wrong"));
}

TEST_P(ChannelTest, MessagesOfAnEarlierRunAreNoticed) {
  EXPECT_THAT(causeUnder(GetParam(), {.staleEpochs = 20}), HasSubstr("epoch 1 instead of 2"));
}

TEST_P(ChannelTest, LostMessagesStallAndTheWatcherSaysWho) {
  make(describe(1, 2, 64));
  std::string text = causeOf([&](uint32_t rank) -> Status {
    if (rank == 0) { // The supervisor lives beside it.
      Producer own(channel, *memory, rank, createFaultyDevice(device(rank), {.drops = 100}, rank), 64);
      for (uint64_t k = 0; k < 4; ++k)
        MAESTRO_TRY(own.sendWord(k));
      transport::StallLimits limits{.beatNs = 700'000'000, .waitNs = 700'000'000, .workNs = 700'000'000};
      while (!world->abort().isRaised()) {
        usleep(20'000);
        if (auto stall = world->abort().progress().findStall(limits))
          world->abort().raise(stall->rank, stall->text);
      }
      return own.device->drain();
    }
    Consumer own = consumer();
    MAESTRO_TRY(own.take(0, expected(0, 1)));
    return own.device->drain();
  });
  EXPECT_THAT(text, HasSubstr("no progress for"));
  EXPECT_THAT(text, HasSubstr("awaits arrivals 'encoder.features'"));
}

INSTANTIATE_TEST_SUITE_P(All, ChannelTest, kSettings, settingName);
#ifdef MAESTRO_CUDA
INSTANTIATE_TEST_SUITE_P(Nccl, ChannelTest, kNcclSettings, settingName);
INSTANTIATE_TEST_SUITE_P(DmaBuf, ChannelTest, kDmaBufSettings, settingName);
#endif

} // namespace
} // namespace maestro::executor::test

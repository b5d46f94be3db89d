// What every backend of channels must do, with ranks as threads and as processes. A new backend joins by one line in
// `kBackends`; one that reorders and delays everything is there from the first day.
#include "test/transport/faulty_backend.h"
#include "test/transport/ranks.h"
#include "transport/local/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

namespace maestro::transport::test {
namespace {

using testing::HasSubstr;

const BackendUnderTest kBackends[] = {
    {"local", [](SharedMemory &memory, const Abort &abort) { return local::create(memory, abort); }},
    {"reordering",
     [](SharedMemory &memory, const Abort &abort) {
       Faults faults;
       faults.mostDelayUs = 20;
       return createFaultyBackend(memory, abort, faults);
     }},
};

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

Message message(uint64_t sequence, uint64_t bytes = 8) {
  return {1 + sequence / 10, static_cast<uint32_t>(sequence % 10), 1, bytes};
}
Expected expected(uint64_t sequence, uint32_t posts) {
  return {posts, 1 + sequence / 10, static_cast<uint32_t>(sequence % 10)};
}

Status fail(const std::string &text) { return Status::internal(text); }

class ChannelConformance : public testing::TestWithParam<std::tuple<BackendUnderTest, RankKind>> {
protected:
  const BackendUnderTest &backendUnderTest() const { return std::get<0>(GetParam()); }
  RankKind kind() const { return std::get<1>(GetParam()); }

  void make(const ChannelDescription &description) {
    world = std::make_unique<World>(static_cast<uint32_t>(description.producerRanks.size()) + 1);
    backend = backendUnderTest().create(world->memory(), world->abort());
    ASSERT_TRUE(backend->available().isOk());
    auto made = backend->createChannel(description);
    ASSERT_TRUE(made.isOk()) << made.status().message();
    channel = std::move(*made);
  }
  Sender &sender(uint32_t producer) { return *channel.senders[producer]; }
  Receiver &receiver() { return *channel.receiver; }
  const Abort &abort() { return world->abort(); }
  void run(const std::function<Status(uint32_t)> &body) {
    Status status = world->run(kind(), body);
    EXPECT_TRUE(status.isOk()) << status.message();
  }

  /// One word to the producer's place in the slot, and a post.
  Status send(uint32_t producer, uint64_t sequence) {
    MAESTRO_TRY(sender(producer).awaitCredit(sequence, abort()));
    uint64_t value = word(sequence, producer, 0);
    Box box = Box::contiguous(&value, producer * 8, 8);
    MAESTRO_TRY(sender(producer).write(sequence, {&box, 1}));
    return sender(producer).post(sequence, message(sequence));
  }
  Status checkWords(uint64_t sequence, uint32_t producers) {
    for (uint32_t p = 0; p < producers; ++p) {
      uint64_t found;
      std::memcpy(&found, static_cast<char *>(receiver().slot(sequence)) + p * 8, 8);
      if (found != word(sequence, p, 0))
        return fail("sequence " + std::to_string(sequence) + " has another payload of producer " + std::to_string(p));
    }
    return {};
  }

  std::unique_ptr<World> world;
  std::unique_ptr<Backend> backend;
  Channel channel;
};

TEST_P(ChannelConformance, MessagesArriveWholeInEverySlot) {
  constexpr uint64_t kWords = 200, kSequences = 60;
  for (uint32_t producers : {1u, 3u})
    for (uint32_t slots : {1u, 2u, 5u}) {
      make(describe(producers, slots, producers * kWords * 8));
      auto produce = [&](uint32_t p) -> Status {
        std::vector<uint64_t> source(kWords);
        for (uint64_t k = 0; k < kSequences; ++k) {
          MAESTRO_TRY(sender(p).awaitCredit(k, abort()));
          for (uint64_t i = 0; i < kWords; ++i)
            source[i] = word(k, p, i);
          Box boxes[2] = {Box::contiguous(&source[0], p * kWords * 8, 800),
                          Box::contiguous(&source[100], p * kWords * 8 + 800, kWords * 8 - 800)};
          MAESTRO_TRY(sender(p).write(k, boxes));
          MAESTRO_TRY(sender(p).post(k, {1 + k / 10, static_cast<uint32_t>(k % 10), k + p, kWords * 8}));
        }
        return {};
      };
      auto consume = [&]() -> Status {
        for (uint64_t k = 0; k < kSequences; ++k) {
          MAESTRO_TRY(receiver().awaitArrivals(k, expected(k, producers), abort()));
          if (!receiver().arrived(k, expected(k, producers)) || receiver().headerCount(k) != producers)
            return fail("awaited and not arrived");
          auto *words = static_cast<uint64_t *>(receiver().slot(k));
          for (uint32_t p = 0; p < producers; ++p) {
            const Header &header = receiver().header(k, p);
            if (header.rows != k + p || header.bytes != kWords * 8 || header.producer != p || header.sequence != k)
              return fail("the header is not what was posted");
            for (uint64_t i = 0; i < kWords; ++i)
              if (words[p * kWords + i] != word(k, p, i))
                return fail("sequence " + std::to_string(k) + " has another payload");
          }
          std::memset(words, 0xff, producers * kWords * 8); // The slot is the consumer's until it gives it back.
          MAESTRO_TRY(receiver().release(k));
        }
        return {};
      };
      run([&](uint32_t rank) { return rank < producers ? produce(rank) : consume(); });
    }
}

TEST_P(ChannelConformance, ReleasesOutOfOrderGiveCreditWithoutGaps) {
  make(describe(2, 4, 64));
  run([&](uint32_t rank) -> Status {
    for (uint64_t k = 0; k < 40 && rank < 2; ++k)
      MAESTRO_TRY(send(rank, k));
    if (rank < 2)
      return {};
    for (uint64_t window = 0; window < 40; window += 4) {
      for (uint64_t k = window; k < window + 4; ++k)
        MAESTRO_TRY(receiver().awaitArrivals(k, expected(k, 2), abort()));
      for (uint64_t k : {window + 2, window + 1, window + 3, window}) {
        if (channel.senders[0] && sender(0).hasCredit(window + 4)) // Where this process has that end at all.
          return fail("credit passed a gap");
        MAESTRO_TRY(checkWords(k, 2));
        MAESTRO_TRY(receiver().release(k));
      }
      if (channel.senders[0] && (!sender(0).hasCredit(window + 7) || sender(0).hasCredit(window + 8)))
        return fail("credit is not four slots past the last release");
    }
    return {};
  });
}

TEST_P(ChannelConformance, SequencesMayBeWrittenAndAwaitedInAnyOrder) {
  make(describe(3, 4, 64));
  run([&](uint32_t rank) -> Status {
    std::mt19937 random(rank);
    for (uint64_t window = 0; window < 80; window += 4) {
      std::vector<uint64_t> order{window, window + 1, window + 2, window + 3};
      std::shuffle(order.begin(), order.end(), random);
      for (uint64_t k : order) {
        if (rank < 3) {
          MAESTRO_TRY(send(rank, k));
          continue;
        }
        MAESTRO_TRY(receiver().awaitArrivals(k, expected(k, 3), abort()));
        MAESTRO_TRY(checkWords(k, 3));
        MAESTRO_TRY(receiver().release(k));
      }
    }
    return {};
  });
}

TEST_P(ChannelConformance, SlotsCountEveryPostOfAProducer) {
  // Producer p posts (k + p) % 4 times to sequence k: nothing, once, or several times.
  make(describe(2, 3, 8 * 2 * 3, 3));
  auto posts = [](uint64_t k, uint32_t p) { return static_cast<uint32_t>((k + 2 * p) % 4); };
  run([&](uint32_t rank) -> Status {
    for (uint64_t k = 0; k < 60; ++k) {
      if (rank < 2) {
        MAESTRO_TRY(sender(rank).awaitCredit(k, abort()));
        for (uint32_t post = 0; post < posts(k, rank); ++post) {
          uint64_t value = word(k, rank, post);
          Box box = Box::contiguous(&value, (rank * 3 + post) * 8, 8);
          MAESTRO_TRY(sender(rank).write(k, {&box, 1}));
          MAESTRO_TRY(sender(rank).post(k, message(k)));
        }
        continue;
      }
      MAESTRO_TRY(receiver().awaitArrivals(k, expected(k, posts(k, 0) + posts(k, 1)), abort()));
      for (uint32_t p = 0; p < 2; ++p)
        for (uint32_t post = 0; post < posts(k, p); ++post)
          if (static_cast<uint64_t *>(receiver().slot(k))[p * 3 + post] != word(k, p, post))
            return fail("post " + std::to_string(post) + " is not in its place");
      MAESTRO_TRY(receiver().release(k));
    }
    return {};
  });
}

/// The obvious copy, element by element.
void copyNaively(const Box &box, char *slot, uint32_t dim, const char *from, uint64_t to) {
  if (dim == box.rank || dim == Box::kMaxRank) {
    std::memcpy(slot + to, from, box.elementBytes);
    return;
  }
  for (uint64_t i = 0; i < box.extents[dim]; ++i)
    copyNaively(box, slot, dim + 1, from + static_cast<int64_t>(i) * box.sourceStrides[dim],
                to + i * static_cast<uint64_t>(box.destinationStrides[dim]));
}

TEST_P(ChannelConformance, StridedBoxesLandInTheirPlace) {
  constexpr uint64_t kSlotBytes = 1 << 16;
  make(describe(1, 2, kSlotBytes));
  auto boxOf = [](uint64_t sequence, const char *source) {
    std::mt19937 random(static_cast<uint32_t>(sequence));
    Box box;
    box.rank = random() % 5;
    box.elementBytes = std::array<uint64_t, 7>{1, 2, 4, 8, 12, 16, 40}[random() % 7];
    int64_t from = static_cast<int64_t>(box.elementBytes), to = from;
    for (uint32_t i = 0; i < box.rank; ++i) {
      uint32_t dim = box.rank - 1 - i;
      box.extents[dim] = 1 + random() % 4;
      box.sourceStrides[dim] = from + (random() % 3 == 0 ? 4 : 0);
      box.destinationStrides[dim] = to + (random() % 3 == 0 ? 12 : 0);
      from = box.sourceStrides[dim] * static_cast<int64_t>(box.extents[dim]);
      to = box.destinationStrides[dim] * static_cast<int64_t>(box.extents[dim]);
    }
    box.source = source;
    box.destination = random() % 100;
    return box;
  };
  run([&](uint32_t rank) -> Status {
    std::vector<char> source(kSlotBytes);
    for (size_t i = 0; i < source.size(); ++i)
      source[i] = static_cast<char>(i * 131 + i / 256);
    for (uint64_t k = 0; k < 300; ++k) {
      Box box = boxOf(k, source.data());
      if (rank == 0) {
        MAESTRO_TRY(sender(0).awaitCredit(k, abort()));
        MAESTRO_TRY(sender(0).write(k, {&box, 1}));
        MAESTRO_TRY(sender(0).post(k, message(k)));
        continue;
      }
      MAESTRO_TRY(receiver().awaitArrivals(k, expected(k, 1), abort()));
      std::vector<char> reference(kSlotBytes);
      copyNaively(box, reference.data(), 0, source.data(), box.destination);
      if (std::memcmp(reference.data(), receiver().slot(k), kSlotBytes) != 0) // Nothing beside the box either.
        return fail("box " + std::to_string(k) + " is not in its place");
      std::memset(receiver().slot(k), 0, kSlotBytes);
      MAESTRO_TRY(receiver().release(k));
    }
    return {};
  });
}

TEST_P(ChannelConformance, AnAbortEndsEveryWaitWithOneCause) {
  make(describe(3, 1, 64));
  auto *cause = world->make<char>(4 * 64);
  int64_t start = nowNs();
  // Ranks 0 and 1 wait for credit that nobody gives, rank 3 for a post of rank 2, which aborts instead.
  Status status = world->run(kind(), [&](uint32_t rank) -> Status {
    if (rank == 2) {
      usleep(20'000);
      abort().raise(2, "out of range in 'gather'");
      return {};
    }
    if (rank < 2) {
      MAESTRO_TRY(send(rank, 0));
    }
    Status waited =
        rank < 2 ? sender(rank).awaitCredit(1, abort()) : receiver().awaitArrivals(0, expected(0, 3), abort());
    std::strncpy(cause + rank * 64, std::string(waited.message()).c_str(), 63);
    return waited.code() == StatusCode::Unavailable ? Status() : fail("not unavailable");
  });
  EXPECT_LT(nowNs() - start, 2'000'000'000);
  EXPECT_EQ(status.message(), "rank 2: out of range in 'gather'");
  for (uint32_t rank : {0, 1, 3})
    EXPECT_STREQ(cause + rank * 64, "rank 2: out of range in 'gather'") << rank;
}

TEST_P(ChannelConformance, WhatTheScheduleDoesNotExpectIsNamed) {
  auto consume = [&](const Expected &expected, const std::string &named) {
    make(describe(2, 2, 64));
    std::vector<std::string> messages;
    Status status = world->run(kind(), [&](uint32_t rank) -> Status {
      if (rank < 2)
        return send(rank, 0);
      while (!receiver().arrived(0, {2}))
        usleep(50);
      return receiver().awaitArrivals(0, expected, abort());
    });
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("channel 'encoder.features' (edge 5), consumer rank 2, sequence 0"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(named));
  };
  consume({2, 9, 0}, "producer rank 0 is not the expected one: step 1 instead of 9");
  consume({2, 1, 4}, "micro-batch 0 instead of 4");
  consume({1, 1, 0}, "counted 2 instead of 1 (rank 0 posted 1, rank 1 posted 1)");
}

TEST_P(ChannelConformance, APostAfterTheLastExpectedOneIsNoticedAtRelease) {
  make(describe(1, 2, 64, 2));
  auto *awaited = world->make<std::atomic<bool>>(1);
  Status status = world->run(kind(), [&](uint32_t rank) -> Status {
    if (rank == 0) {
      MAESTRO_TRY(send(0, 0));
      while (!*awaited && !abort().isRaised())
        usleep(50);
      return sender(0).post(0, message(0));
    }
    MAESTRO_TRY(receiver().awaitArrivals(0, expected(0, 1), abort()));
    *awaited = true;
    while (!receiver().arrived(0, expected(0, 2)))
      usleep(50);
    return receiver().release(0);
  });
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a post came after the last one that was expected: counted 2 instead of 1"));
}

TEST_P(ChannelConformance, MisuseIsRefused) {
  make(describe(1, 2, 64));
  run([&](uint32_t rank) -> Status {
    auto refuses = [&](Status status, const char *text) {
      if (status.isOk() || status.message().find(text) == std::string_view::npos)
        return fail("expected '" + std::string(text) + "', got " + std::string(status.message()));
      return Status();
    };
    if (rank == 0) {
      char source[128] = {};
      Box outside = Box::contiguous(source, 60, 8), huge = Box::contiguous(source, ~uint64_t{0} - 3, 8), many;
      many.rank = 7;
      Box backwards = Box::contiguous(source, 0, 4);
      backwards.rank = 1;
      backwards.extents[0] = 2;
      backwards.destinationStrides[0] = -4;
      MAESTRO_TRY(refuses(sender(0).write(2, {}), "without credit: 0 released, 2 slots"));
      MAESTRO_TRY(refuses(sender(0).post(2, message(2)), "without credit"));
      MAESTRO_TRY(refuses(sender(0).write(0, {&outside, 1}), "bytes 60 to 68 of a slot of 64"));
      MAESTRO_TRY(refuses(sender(0).write(0, {&huge, 1}), "of a slot of 64"));
      MAESTRO_TRY(refuses(sender(0).write(0, {&backwards, 1}), "bytes -4 to 4"));
      MAESTRO_TRY(refuses(sender(0).write(0, {&many, 1}), "7 dims; at most 6"));
      MAESTRO_TRY(send(0, 0));
      MAESTRO_TRY(refuses(sender(0).post(0, message(0)), "posts more than 1 times"));
      MAESTRO_TRY(send(0, 1));
      MAESTRO_TRY(send(0, 2)); // Sequence 0 is released by now.
      return refuses(sender(0).write(0, {}), "after the consumer has released");
    }
    MAESTRO_TRY(refuses(receiver().release(2), "released before its slot was"));
    MAESTRO_TRY(receiver().awaitArrivals(1, expected(1, 1), abort()));
    MAESTRO_TRY(receiver().awaitArrivals(0, expected(0, 1), abort()));
    MAESTRO_TRY(receiver().release(0));
    MAESTRO_TRY(refuses(receiver().release(0), "released twice"));
    MAESTRO_TRY(refuses(receiver().awaitArrivals(0, expected(0, 1), abort()), "awaited after its release"));
    while (!receiver().arrived(2, expected(2, 1)))
      usleep(50);
    return refuses(receiver().release(2), "before its arrivals were awaited");
  });
}

TEST_P(ChannelConformance, AWaiterSleepsUntilItIsWoken) {
  // Long enough apart that both sides are asleep when the other answers. A sleeper looks around by itself after a
  // quarter of a second; a busy machine may cause such a wait once, a lost wake-up does so every time.
  make(describe(1, 1, 64));
  run([&](uint32_t rank) -> Status {
    int late = 0;
    for (uint64_t k = 0; k < 20; ++k) {
      if (rank == 0) {
        MAESTRO_TRY(sender(0).awaitCredit(k, abort()));
        usleep(k % 2 ? 3000 : 0);
        MAESTRO_TRY(send(0, k));
      } else {
        int64_t start = nowNs();
        MAESTRO_TRY(receiver().awaitArrivals(k, expected(k, 1), abort()));
        late += nowNs() - start > 200'000'000;
        usleep(k % 2 ? 0 : 3000);
        MAESTRO_TRY(receiver().release(k));
      }
    }
    return late > 2 ? fail("wake-ups were lost") : Status();
  });
}

std::string caseName(const testing::TestParamInfo<std::tuple<BackendUnderTest, RankKind>> &info) {
  return std::get<0>(info.param).name + (std::get<1>(info.param) == RankKind::Threads ? "Threads" : "Processes");
}

INSTANTIATE_TEST_SUITE_P(All, ChannelConformance,
                         testing::Combine(testing::ValuesIn(kBackends),
                                          testing::Values(RankKind::Threads, RankKind::Processes)),
                         caseName);

} // namespace
} // namespace maestro::transport::test

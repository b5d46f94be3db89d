// After creation, messages, records and reductions allocate nothing: every way to the heap is counted while they pass.
#include "test/allocations/allocations.h"
#include "transport/local/board.h"
#include "transport/local/exchange.h"
#include "transport/local/local.h"
#include "transport/local/reduction.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <unistd.h>

namespace maestro::transport {
namespace {

constexpr uint64_t kRounds = 200;

/// Runs `body` for two ranks, the first on this thread, and returns the allocations from the moment both were ready.
template <class Body> int64_t allocationsOf(const Body &body) {
  std::atomic<int> ready = 0, failures = 0;
  auto run = [&](uint32_t rank) {
    for (++ready; ready < 2;)
      usleep(10);
    failures += !body(rank).isOk();
  };
  std::thread other(run, 1);
  while (ready < 1)
    usleep(10);
  int64_t before = test::allocations();
  run(0);
  other.join();
  EXPECT_EQ(failures, 0);
  return test::allocations() - before;
}

TEST(Allocation, NothingAllocatesAfterCreation) {
  auto memory = std::move(*SharedMemory::create(32 << 20));
  Abort abort = *Abort::create(*memory, 2);
  auto backend = local::create(*memory, abort);
  ChannelDescription description;
  description.name = "h";
  description.consumerRank = 1;
  description.producerRanks = {0};
  description.slots = 3;
  description.slotBytes = 1 << 16;
  Channel channel = std::move(*backend->createChannel(description));
  local::Board board = *local::Board::create(*memory, abort, {"norms", {0, 1}, 1, 64, 3});
  std::vector<local::Board::Member> boardMembers{board.member(0), board.member(1)};
  float *gradients = *memory->make<float>(200'000, "gradients");
  local::Reduction reduction = *local::Reduction::create(
      *memory, abort,
      {"gradients", {{0, gradients, {{0, 100'000}}}, {1, gradients + 100'000, {{0, 100'000}}}}, 64 << 10});
  std::vector<local::Reduction::Member> reductionMembers{reduction.member(0), reduction.member(1)};
  local::Exchange exchange = *local::Exchange::create(*memory, abort, {"tensors", {0, 1}, 4096});
  std::vector<local::Exchange::Member> exchangeMembers{exchange.member(0), exchange.member(1)};
  std::vector<char> source(1 << 16);

  EXPECT_EQ(allocationsOf([&](uint32_t rank) -> Status {
              for (uint64_t k = 0; k < kRounds; ++k) {
                if (k % 50 == rank) // Let both sides fall asleep now and then.
                  usleep(1000);
                if (rank == 0) {
                  MAESTRO_TRY(channel.senders[0]->awaitCredit(k, abort));
                  Box box = Box::contiguous(source.data(), 0, source.size());
                  MAESTRO_TRY(channel.senders[0]->write(k, {&box, 1}));
                  MAESTRO_TRY(channel.senders[0]->post(k, {1, static_cast<uint32_t>(k), 1, source.size()}));
                } else {
                  MAESTRO_TRY(channel.receiver->awaitArrivals(k, {1, 1, static_cast<uint32_t>(k)}, abort));
                  MAESTRO_TRY(channel.receiver->release(k));
                }
              }
              return {};
            }),
            0);
  EXPECT_EQ(allocationsOf([&](uint32_t rank) -> Status {
              double mine[2] = {1, 2}, all[4];
              for (uint64_t step = 0; step < kRounds; ++step) {
                MAESTRO_TRY(boardMembers[rank].publish<double>(step, 0, mine, abort));
                MAESTRO_TRY(boardMembers[rank].awaitAll<double>(step, 0, all, abort));
              }
              return {};
            }),
            0);
  EXPECT_EQ(allocationsOf([&](uint32_t rank) -> Status {
              for (uint64_t call = 0; call < 5; ++call)
                MAESTRO_TRY(reductionMembers[rank].reduce(call, abort));
              return {};
            }),
            0);
  EXPECT_EQ(allocationsOf([&](uint32_t rank) -> Status {
              for (uint64_t call = 0; call < kRounds; ++call)
                MAESTRO_TRY(
                    exchangeMembers[rank].sum(gradients + rank * 100'000, gradients + rank * 100'000, 3000, abort));
              return {};
            }),
            0);
}

TEST(Allocation, TheCounterCounts) {
  EXPECT_GT(allocationsOf([&](uint32_t rank) -> Status {
              auto text = std::make_unique<std::string>(100, 'x');
              return text->size() == 100 ? Status() : Status::internal(*text);
            }),
            0);
}

} // namespace
} // namespace maestro::transport

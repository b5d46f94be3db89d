// After creation, messages, records and sums allocate nothing: every way to the heap is counted while they pass.
#include "executor/world/agreement.h"
#include "executor/world/channel.h"
#include "executor/world/exchange.h"
#include "executor/world/reduction.h"
#include "test/allocations/allocations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <unistd.h>

namespace maestro::executor {
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
  auto memory = std::move(*transport::SharedMemory::create(32 << 20));
  transport::Abort abort = *transport::Abort::create(*memory, 2);
  CpuDeviceOptions options;
  options.abort = &abort;
  std::unique_ptr<Device> devices[] = {createCpuDevice(nullptr, options), createCpuDevice(nullptr, options)};
  ChannelDescription description;
  description.name = "h";
  description.consumerRank = 1;
  description.producerRanks = {0};
  description.slots = 3;
  description.slotBytes = 1 << 16;
  transport::SegmentPlan plan(2);
  Channel channel = *Channel::plan(plan, description);
  Agreement agreement = *Agreement::plan(plan, {"norms", "schedules", {0, 1}, 8});
  transport::Place gradients[] = {plan.reserve(0, 400'000), plan.reserve(1, 400'000)};
  Reduction reduction = *Reduction::plan(
      plan, {"gradients", {{gradients[0], {{0, 100'000}}}, {gradients[1], {{0, 100'000}}}}, {}, 64 << 10});
  Exchange exchange = *Exchange::plan(plan, {"tensors", {0, 1}, 4096});
  transport::Segments segments = *transport::Segments::create(*memory, plan);
  auto sender = std::move(*channel.sender(segments, 0, *devices[0]));
  auto receiver = std::move(*channel.receiver(segments, *devices[1]));
  std::vector<Agreement::Member> agreementMembers;
  std::vector<Reduction::Member> reductionMembers;
  std::vector<Exchange::Member> exchangeMembers;
  for (uint32_t rank : {0, 1}) {
    agreementMembers.push_back(agreement.member(segments, rank));
    reductionMembers.push_back(*reduction.member(segments, rank, *devices[rank]));
    exchangeMembers.push_back(*exchange.member(segments, rank, *devices[rank]));
  }
  Address source = *devices[0]->allocate(1 << 16, "test");
  std::vector<Address> tensors{*devices[0]->allocate(1 << 16, "test"), *devices[1]->allocate(1 << 16, "test")};

  auto passMessages = [&](uint64_t first) {
    return allocationsOf([&, first](uint32_t rank) -> Status {
      for (uint64_t k = first; k < first + kRounds; ++k) {
        if (k % 50 == rank) // Let both sides fall asleep now and then.
          usleep(1000);
        if (rank == 0) {
          Box box = Box::contiguous(0, 0, 1 << 16);
          sender->awaitCredit(Queue::Send, k);
          MAESTRO_TRY(sender->send(Queue::Send, k, source, {&box, 1}, {1, static_cast<uint32_t>(k), 1, 1 << 16}));
        } else {
          MAESTRO_TRY(receiver->awaitArrivals(Queue::Compute, k, {1, 1, static_cast<uint32_t>(k)}));
          MAESTRO_TRY(receiver->release(Queue::Compute, k));
        }
      }
      MAESTRO_TRY(devices[rank]->drain());
      return rank == 1 ? receiver->checkHeaders() : Status();
    });
  };
  (void)passMessages(0); // The first step of a size has its headers' places made.
  EXPECT_EQ(passMessages(kRounds), 0);
  EXPECT_EQ(allocationsOf([&](uint32_t rank) -> Status {
              double mine[2] = {1, 2}, all[2];
              for (uint64_t step = 0; step < kRounds; ++step) {
                MAESTRO_TRY(agreementMembers[rank].publish(step, 0, mine, abort));
                MAESTRO_TRY(agreementMembers[rank].await(step, all, abort));
              }
              return {};
            }),
            0);
  EXPECT_EQ(allocationsOf([&](uint32_t rank) -> Status {
              for (uint64_t call = 0; call < 5; ++call)
                MAESTRO_TRY(reductionMembers[rank].reduce(Queue::Compute, call));
              return devices[rank]->drain();
            }),
            0);
  EXPECT_EQ(allocationsOf([&](uint32_t rank) -> Status {
              for (uint64_t call = 0; call < kRounds; ++call)
                exchangeMembers[rank].sum(Queue::Compute, tensors[rank], tensors[rank], 3000);
              return devices[rank]->drain();
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
} // namespace maestro::executor

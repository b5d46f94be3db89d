// Devices for tests of what ranks tell each other: one per rank, made by the rank itself, as processes do.
#pragma once

#include "executor/device/device.h"
#ifdef MAESTRO_CUDA
#include "cuda/context.h"
#include "executor/device/cuda/cuda_device.h"
#include "executor/device/cuda/cuda_segment.h"
#include "transport/nccl/nccl.h"
#endif
#include "test/transport/ranks.h"
#include "transport/libfabric/libfabric.h"
#include "transport/local/neighbour.h"
#include "transport/segments.h"
#include "transport/verbs/verbs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <tuple>

namespace maestro::executor::test {

using transport::test::RankKind;
using transport::test::World;

/// Late: work completes late, each queue by itself, and memory is hidden. Cuda: on whatever driver there is; what ranks
/// send each other as threads lies in memory of GPUs, otherwise in the host's. CudaNccl, CudaDmaBuf: memory of GPUs in
/// a network, and NCCL moves what they write, or the network itself.
enum class DeviceKind { Prompt, Late, Cuda, CudaNccl, CudaDmaBuf };

inline std::unique_ptr<Device> createDevice(DeviceKind kind, const World &world, uint32_t rank) {
  auto onFailure = [&world, rank](const Status &status) { world.abort().raise(rank, status); };
#ifdef MAESTRO_CUDA
  if (kind != DeviceKind::Prompt && kind != DeviceKind::Late) {
    static auto kept = cuda::Context::open(0); // Making a context takes a real GPU longer than a test does.
    CudaDeviceOptions options;
    options.rank = rank;
    options.device = rank;
    options.abort = &world.abort();
    options.onFailure = onFailure;
    options.shared = world.mappings();
    options.runsKernels = false;
    auto device = createCudaDevice(options);
    if (!device)
      throw std::runtime_error(std::string(device.status().message()));
    return std::move(*device);
  }
#endif
  CpuDeviceOptions options;
  options.abort = &world.abort();
  options.onFailure = onFailure;
  return kind == DeviceKind::Prompt ? createCpuDevice(nullptr, options)
                                    : createLateCpuDevice(nullptr, options, {rank + 1u, 40});
}

/// Memory that the ranks of a test write to each other: plan it, then make it.
struct Memory {
  explicit Memory(World &world) : world(world), plan(world.ranks()) {}
  ~Memory() {
#ifdef MAESTRO_CUDA
    for (const auto &fabric : ncclFabrics)
      fabric->awaitIdle();
    for (const auto &fabric : ncclFabrics)
      fabric->placeBulk(nullptr);
#endif
    for (const auto &fabric : fabrics) // Before anybody whom they write to goes.
      fabric->awaitIdle();
  }
  void make(RankKind kind, DeviceKind devices) {
#ifdef MAESTRO_CUDA
    for (uint32_t one = 0; devices == DeviceKind::CudaNccl && one < world.ranks(); ++one)
      for (uint32_t other = 0; other < one; ++other)
        ncclPlaces.plan(plan, one, other);
#endif
    if (kind == RankKind::Threads || kind == RankKind::Processes) {
      segments.push_back(std::make_unique<transport::Segments>(*transport::Segments::create(world.memory(), plan)));
      if (kind == RankKind::Threads && devices == DeviceKind::Cuda)
        placeOnGpus();
      return;
    }
    if (kind == RankKind::Mapped)
      return map();
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
      segments.push_back(
          std::make_unique<transport::Segments>(*transport::Segments::create(world.memory(), plan, {rank, rank + 1})));
      auto fabric = openNetwork(*segments.back(), rank);
      ASSERT_TRUE(fabric.isOk()) << fabric.status().message();
      fabrics.push_back(std::move(*fabric));
      segments.back()->connect(*fabrics.back());
    }
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
      for (uint32_t other = 0; other < world.ranks(); ++other)
        if (other != rank)
          ASSERT_TRUE(fabrics[rank]
                          ->connect({other, other + 1}, "rank " + std::to_string(other), fabrics[other]->card())
                          .isOk());
    }
    for (const auto &fabric : fabrics) {
      Status reached = fabric->probe();
      ASSERT_TRUE(reached.isOk()) << reached.message();
      ASSERT_TRUE(fabric->start().isOk());
    }
    if (devices == DeviceKind::CudaNccl) {
      placeOnGpus();
      connectGpus();
    }
    if (devices == DeviceKind::CudaDmaBuf) {
      placeOnGpus();
      tellNetwork();
    }
  }
  /// As the rank sees them.
  const transport::Segments &of(uint32_t rank) const { return *segments[segments.size() > 1 ? rank : 0]; }

  World &world;
  transport::SegmentPlan plan;

private:
  void placeOnGpus() {
#ifdef MAESTRO_CUDA
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
      if (plan.bulkBytes(rank) == 0)
        continue;
      auto made = createCudaSegment(rank, plan.bulkBytes(rank));
      ASSERT_TRUE(made.isOk()) << made.status().message();
      for (uint32_t other = 0; segments.size() == 1 && other < world.ranks(); ++other)
        ASSERT_TRUE((*made)->allow(other).isOk());
      segments[segments.size() > 1 ? rank : 0]->placeBulk(rank, (*made)->address());
      gpuOf[rank] = made->get();
      onGpus.push_back(std::move(*made));
    }
#endif
  }
  /// As processes do: each lets its network write there, and learns of the others'.
  void tellNetwork() {
#ifdef MAESTRO_CUDA
    for (const auto &[rank, segment] : gpuOf) {
      auto memory = segment->forNics();
      ASSERT_TRUE(memory.isOk()) << memory.status().message();
      Status taken = fabrics[rank]->tryDevice(*memory);
      ASSERT_TRUE(taken.isOk()) << taken.message();
      ASSERT_TRUE(fabrics[rank]->placeBulk(rank, *memory).isOk());
    }
    for (uint32_t rank = 0; rank < world.ranks(); ++rank)
      for (uint32_t other = 0; other < world.ranks(); ++other)
        if (other != rank)
          ASSERT_TRUE(fabrics[rank]->connectBulk({other, other + 1}, fabrics[other]->bulkCard()).isOk());
    for (const auto &fabric : fabrics)
      fabric->readDevices();
#endif
  }
  /// As processes do: each opens its ways, learns of the others', and starts while they do.
  void connectGpus() {
#ifdef MAESTRO_CUDA
    std::map<uint32_t, std::map<uint32_t, std::vector<std::byte>>> cards; // By receiver, by sender.
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
      transport::NcclOptions options{rank, rank, {}, 512}; // Most messages take several puts.
      for (uint32_t other = 0; other < world.ranks(); ++other)
        if (other != rank)
          options.peers.insert(other);
      auto opened = transport::NcclFabric::open(options, ncclPlaces, *segments[rank], world.abort());
      ASSERT_TRUE(opened.isOk()) << opened.status().message();
      ncclFabrics.push_back(std::move(*opened));
      for (auto &[to, card] : ncclFabrics.back()->cards())
        cards[to][rank] = card;
    }
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0); // Where there are more ranks than GPUs.
    std::set<uint32_t> senders, takers;
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
      if (ncclFabrics[rank]->canPut().isOk())
        senders.insert(rank);
      if (gpuOf.contains(rank) && rank % 3 != 2) // The others' is as if it were in the host's memory.
        ncclFabrics[rank]->placeBulk(gpuOf[rank]->address());
      if (ncclFabrics[rank]->takesPuts())
        takers.insert(rank);
    }
    std::vector<std::thread> threads;
    std::atomic<uint32_t> started{0};
    for (uint32_t rank = 0; rank < world.ranks(); ++rank)
      threads.emplace_back([&, rank] {
        Status status = ncclFabrics[rank]->start(cards[rank]);
        if (status.isOk())
          status = ncclFabrics[rank]->openWindows(senders, takers);
        EXPECT_TRUE(status.isOk()) << status.message();
        started += status.isOk();
      });
    for (std::thread &thread : threads)
      thread.join();
    ASSERT_EQ(started, world.ranks());
    bool puts = !senders.empty() && !takers.empty() && world.ranks() > 1;
    EXPECT_EQ(ncclFabrics[0]->manner() != "sends and receives", puts) << ncclFabrics[0]->manner();
    for (uint32_t rank = 0; rank < world.ranks(); ++rank)
      for (uint32_t other : ncclFabrics[rank]->peers())
        segments[rank]->reachBulkBy(other, *ncclFabrics[rank]);
#endif
  }
  void map() {
    std::vector<transport::NeighbourCard> cards;
    for (uint32_t rank = 0; rank < world.ranks(); ++rank) {
      memories.push_back(std::move(*transport::SharedMemory::createOpen(plan.bytes(rank))));
      segments.push_back(std::make_unique<transport::Segments>(
          *transport::Segments::create(*memories.back(), plan, {rank, rank + 1})));
      cards.push_back(
          *transport::decodeNeighbourCard(encode(transport::NeighbourCard::of(*memories.back(), *segments.back()))));
    }
    for (uint32_t rank = 0; rank < world.ranks(); ++rank)
      world.addMapping(memories[rank]->span());
    for (uint32_t rank = 0; rank < world.ranks(); ++rank)
      for (uint32_t other = 0; other < world.ranks(); ++other)
        if (other != rank) {
          auto theirs = transport::openNeighbour(cards[other], {other, other + 1}, *segments[rank]);
          ASSERT_TRUE(theirs.isOk()) << theirs.status().message();
          transport::enter(cards[other], **theirs, *segments[rank]);
          world.addMapping((*theirs)->span());
          memories.push_back(std::move(*theirs));
        }
  }

  /// RDMA where MAESTRO_TEST_NETWORK asks for it: a machine that has none does not have it tested (test/guests).
  Result<std::unique_ptr<transport::Network>> openNetwork(const transport::Segments &own, uint32_t rank) const {
    const char *network = std::getenv("MAESTRO_TEST_NETWORK");
    if (network && std::string_view(network) == "verbs") {
      transport::VerbsOptions options;
      for (uint32_t other = 0; other < world.ranks(); ++other)
        if (other != rank)
          options.peers.push_back({other, other + 1});
      return transport::openVerbs(own, options, world.abort());
    }
    transport::LibfabricOptions options;
    options.unordered = rank % 2 == 1; // Both ways to keep counts behind what they count.
    if (const char *provider = std::getenv("MAESTRO_LIBFABRIC_PROVIDER"))
      options.provider = provider;
    return transport::openLibfabric(own, options, world.abort());
  }

#ifdef MAESTRO_CUDA
  std::vector<std::unique_ptr<DeviceSegment>> onGpus;
  std::map<uint32_t, DeviceSegment *> gpuOf; ///< By rank.
  transport::NcclPlaces ncclPlaces;
#endif
  std::vector<std::unique_ptr<transport::SharedMemory>> memories;
  std::vector<std::unique_ptr<transport::Segments>> segments;
  std::vector<std::unique_ptr<transport::Network>> fabrics;
#ifdef MAESTRO_CUDA
  std::vector<std::unique_ptr<transport::NcclFabric>> ncclFabrics; ///< Which write by the others.
#endif
};

using Setting = std::tuple<DeviceKind, RankKind>;

inline std::string settingName(const testing::TestParamInfo<Setting> &info) {
  constexpr const char *kNames[] = {"Prompt", "Late", "Cuda", "CudaNccl", "CudaDmaBuf"};
  return std::string(kNames[static_cast<size_t>(std::get<0>(info.param))]) + nameOf(std::get<1>(info.param));
}

/// As many as the machine's GPUs serve, where ranks are threads. NCCL's ways take two streams for each pair: of the 32
/// work queues of each of two GPUs, three ranks of five would need 42. Many fake GPUs in a network are slow.
inline uint32_t mostRanks(const Setting &setting) {
#ifdef MAESTRO_CUDA
  if (std::get<0>(setting) == DeviceKind::CudaNccl)
    return 4;
  if (std::get<0>(setting) == DeviceKind::CudaDmaBuf)
    return 6;
  if (std::get<0>(setting) == DeviceKind::Cuda && std::get<1>(setting) != RankKind::Processes)
    return 5 * static_cast<uint32_t>(*cuda::Context::count());
#endif
  (void)setting;
  return UINT32_MAX;
}

inline const auto kSettings =
    testing::Combine(testing::Values(DeviceKind::Prompt, DeviceKind::Late
#ifdef MAESTRO_CUDA
                                     ,
                                     DeviceKind::Cuda
#endif
                                     ),
                     testing::Values(RankKind::Threads, RankKind::Processes, RankKind::Mapped, RankKind::Networked));

#ifdef MAESTRO_CUDA
inline const auto kNcclSettings = testing::Values(Setting{DeviceKind::CudaNccl, RankKind::Networked});
/// Over verbs alone: MAESTRO_TEST_NETWORK.
inline const auto kDmaBufSettings = testing::Values(Setting{DeviceKind::CudaDmaBuf, RankKind::Networked});
#endif

inline Status fail(const std::string &text) { return Status::internal(text); }

} // namespace maestro::executor::test

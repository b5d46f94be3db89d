// Machines: who talks over which level, and what transfers and collectives take, by formulas worked out by hand.
#include "cost_models/collectives.h"
#include "cost_models/compound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace maestro::cost_models {
namespace {

/// 2 nodes of 4 devices: 100 GB/s and 1 µs within a node, 10 GB/s and 5 µs between them.
Machine twoNodes() {
  Machine machine;
  machine.devices = 8;
  machine.links = {{"inner", 4, gigabytesPerSecond(100), microseconds(1)},
                   {"outer", 8, gigabytesPerSecond(10), microseconds(5)}};
  return machine;
}

std::vector<uint32_t> first(uint32_t count) {
  std::vector<uint32_t> devices(count);
  std::iota(devices.begin(), devices.end(), 0u);
  return devices;
}

Bytes bytes(double value) { return Bytes(value); }

TEST(Machine, TheLevelIsTheInnermostThatBothShare) {
  Machine machine = twoNodes();
  ASSERT_TRUE(check(machine).isOk());
  EXPECT_EQ(levelBetween(machine, 0, 3)->name, "inner");
  EXPECT_EQ(levelBetween(machine, 3, 4)->name, "outer");
  EXPECT_EQ(levelBetween(machine, 5, 7)->name, "inner");
  EXPECT_EQ(levelBetween(machine, 5, 5), nullptr);
  machine.links.clear();
  EXPECT_EQ(levelBetween(machine, 0, 3), nullptr);
}

TEST(Machine, ATransferTakesTheLinkBetween) {
  Machine machine = twoNodes();
  EXPECT_NEAR(transferCost(machine, 0, 1).of(bytes(1e6)).value, 1e-6 + 1e6 / 100e9, 1e-15);
  EXPECT_NEAR(transferCost(machine, 0, 4).of(bytes(1e6)).value, 5e-6 + 1e6 / 10e9, 1e-15);
  machine.kinds[0].rates.stream = gigabytesPerSecond(1000);
  machine.kinds[0].rates.call = microseconds(3);
  EXPECT_NEAR(transferCost(machine, 2, 2).of(bytes(1e6)).value, 3e-6 + 2e6 / 1000e9, 1e-15);
  std::vector<uint32_t> here{0, 1}, near{2, 3}, far{3, 5};
  EXPECT_EQ(transferCost(machine, here, near).level->name, "inner");
  EXPECT_EQ(transferCost(machine, here, far).level->name, "outer");
  machine.links.clear(); // One process: a wake and a copy, also to itself.
  const DeviceRates &rates = machine.kinds[0].rates;
  for (uint32_t to : {0u, 1u})
    EXPECT_NEAR(transferCost(machine, 0, to).of(bytes(1e6)).value, rates.wake.value + 1e6 / rates.channel.value, 1e-15);
}

TEST(Machine, DevicesExchangeDirectly) {
  Machine machine = twoNodes();
  double large = 1e9;
  // Within a node: 2 α + 2 (n − 1)/n · B/β.
  CommunicationCost cost = collectiveCost(Collective::AllReduce, first(4), machine);
  EXPECT_EQ(cost.exchange, Exchange::Direct);
  EXPECT_NEAR(cost.of(bytes(large)).value, 2 * 1e-6 + 2 * 0.75 * large / 100e9, 1e-12);
  // Over both, half of each device's shares go to the other node by its own link, which takes longer.
  cost = collectiveCost(Collective::AllReduce, first(8), machine);
  EXPECT_EQ(cost.level->name, "outer");
  EXPECT_NEAR(cost.of(bytes(large)).value, 2 * 5e-6 + 2 * 0.5 * large / 10e9, 1e-12);
  machine.links[1].bandwidth = gigabytesPerSecond(80); // Seven eighths leave a device, half of them the node.
  EXPECT_NEAR(collectiveCost(Collective::AllReduce, first(8), machine).of(bytes(large)).value,
              2 * 5e-6 + 2 * 0.875 * large / 100e9, 1e-12);
  std::vector<uint32_t> strided{1, 5}; // One in each node: the outer level alone.
  EXPECT_EQ(collectiveCost(Collective::AllReduce, strided, machine).level->name, "outer");
  std::vector<uint32_t> same{3, 3};
  EXPECT_EQ(collectiveCost(Collective::AllReduce, same, machine).exchange, Exchange::OnDevice);
  EXPECT_EQ(collectiveCost(Collective::AllReduce, first(1), machine).of(bytes(1e9)), Seconds(0));
}

TEST(Machine, GradientsAreSummedWithinANodeFirst) {
  Machine machine = twoNodes();
  double large = 1e9;
  CommunicationCost cost = reductionCost(first(8), machine);
  EXPECT_EQ(cost.exchange, Exchange::Stages);
  EXPECT_EQ(cost.level->name, "outer");
  EXPECT_NEAR(cost.of(bytes(large)).value, 2 * 1e-6 + 2 * 0.75 * large / 100e9 + 2 * 5e-6 + 2 * 0.5 * large / 4 / 10e9,
              1e-12);
  EXPECT_EQ(sumDegrees(first(8), machine), (std::vector<uint32_t>{4, 2}));
  EXPECT_EQ(sumDegrees(first(4), machine), (std::vector<uint32_t>{4}));
  EXPECT_TRUE(sumDegrees(first(1), machine).empty());
  // In one stage: groups differ in size, or the order is not that of the devices.
  for (std::vector<uint32_t> devices : {std::vector<uint32_t>{0, 1, 2, 4}, {0, 4, 1, 5}, {0, 1, 4, 4}}) {
    EXPECT_EQ(sumDegrees(devices, machine), (std::vector<uint32_t>{4}));
    EXPECT_EQ(reductionCost(devices, machine).exchange, Exchange::Direct);
  }
  // Three of four shares leave the node of the device that is alone there.
  std::vector<uint32_t> lopsided{0, 1, 2, 4};
  EXPECT_NEAR(reductionCost(lopsided, machine).of(bytes(large)).value, 2 * 5e-6 + 2 * 0.75 * large / 10e9, 1e-12);
}

TEST(Machine, FewMeetInAStage) {
  Machine machine = twoNodes();
  auto degreesOf = [&](uint32_t devices) {
    machine.devices = devices;
    machine.links = {{"flat", devices, gigabytesPerSecond(10), microseconds(5)}};
    return sumDegrees(first(devices), machine);
  };
  EXPECT_EQ(degreesOf(8), (std::vector<uint32_t>{8}));
  EXPECT_EQ(degreesOf(12), (std::vector<uint32_t>{4, 3}));
  EXPECT_EQ(degreesOf(13), (std::vector<uint32_t>{13}));
  EXPECT_EQ(degreesOf(26), (std::vector<uint32_t>{2, 13}));
  EXPECT_EQ(degreesOf(1024), (std::vector<uint32_t>{4, 4, 4, 4, 4}));
  // As many bytes as in one stage, and two latencies more for each of the others.
  EXPECT_NEAR(reductionCost(first(1024), machine).of(bytes(1e9)).value, 10 * 5e-6 + 2 * 1023.0 / 1024 * 1e9 / 10e9,
              1e-9);
}

TEST(Machine, AGatherIsHalfASumOfAllThatIsGathered) {
  Machine machine = twoNodes();
  double own = 1e8;
  EXPECT_NEAR(collectiveCost(Collective::AllGather, first(4), machine).of(bytes(own)).value, 1e-6 + 3 * own / 100e9,
              1e-12);
  EXPECT_NEAR(collectiveCost(Collective::AllGather, first(8), machine).of(bytes(own)).value, 5e-6 + 4 * own / 10e9,
              1e-12);
}

TEST(Machine, MoreOfALevelNeverTakesLonger) {
  for (uint32_t devices : {2u, 4u, 8u})
    for (double size : {1e3, 1e6, 1e9}) {
      Machine machine = twoNodes(), faster = machine;
      for (LinkLevel &level : faster.links)
        level.bandwidth *= 2;
      Seconds slow = reductionSeconds(static_cast<uint64_t>(size), first(devices), machine);
      EXPECT_LE(reductionSeconds(static_cast<uint64_t>(size), first(devices), faster), slow);
      EXPECT_LT(reductionSeconds(static_cast<uint64_t>(size / 2), first(devices), machine), slow);
    }
}

TEST(Machine, TheSlowestKindOfAStageSetsItsPace) {
  MicroBatchCapacity capacity{4, {4}, {}};
  wavefront::Cost quick{{{100, {0}}}}, slow{{{300, {0}}}};
  StageCosts costs{quick, quick, 0, 0, 0, {{slow, slow}}};
  Machine machine;
  machine.devices = 4;
  machine.kinds.resize(2);
  machine.kindOf = {0, 0, 1, 1};
  machine.kinds[1].rates.stream = machine.kinds[0].rates.stream * 0.5;
  std::vector<uint32_t> fast{0, 1}, mixed{1, 2};
  EXPECT_EQ(taskCosts(capacity, costs, fast, machine).forward.terms[0].picoseconds, 100);
  EXPECT_EQ(taskCosts(capacity, costs, mixed, machine).forward.terms[0].picoseconds, 300);
  StageModel stage;
  stage.parameters.gradients = 200;
  EXPECT_EQ(updateSeconds(stage, mixed, machine), updateSeconds(stage, fast, machine) * 2);
  machine.kinds[0].rates.update = 6; // Of small parameters, as measured.
  EXPECT_EQ(updateSeconds(stage, mixed, machine), updateSeconds(stage, fast, machine));
  machine.kinds[1].rates.update = 6;
  EXPECT_EQ(updateSeconds(stage, mixed, machine), updateSeconds(stage, fast, machine) * 2);
}

TEST(Machine, WhatCannotBeIsNamed) {
  auto message = [](auto change) {
    Machine machine = twoNodes();
    change(machine);
    return std::string(check(machine).message());
  };
  EXPECT_NE(message([](Machine &m) { m.links[1].spans = 6; }).find("no multiple of the 4"), std::string::npos);
  EXPECT_NE(message([](Machine &m) { m.devices = 16; }).find("spans 8 of 16"), std::string::npos);
  EXPECT_NE(message([](Machine &m) { m.links[0].bandwidth = BytesPerSecond(0); }).find("'inner'"), std::string::npos);
  EXPECT_NE(message([](Machine &m) { m.kindOf = {0}; }).find("1 of 8"), std::string::npos);
  EXPECT_NE(message([](Machine &m) { m.kindOf = {0, 0, 0, 0, 0, 0, 0, 3}; }).find("kind 3, of 1"), std::string::npos);
}

TEST(Units, QuantitiesCombineByTheirUnits) {
  EXPECT_EQ(Bytes(1e9) / gigabytesPerSecond(2), Seconds(0.5));
  EXPECT_EQ(Flops(6e12) / teraflopsPerSecond(3), Seconds(2));
  EXPECT_EQ(Bytes(10) / Seconds(2), BytesPerSecond(5));
  EXPECT_LT(microseconds(1), microseconds(2));
  EXPECT_EQ(ratio(microseconds(3), microseconds(2)), 1.5);
}

} // namespace
} // namespace maestro::cost_models

// From cluster files to machines: kinds, links, memory; and what cannot be.
#include "planner/workload/cluster_machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace maestro::planner {
namespace {

using namespace cost_models;

Result<PlannedMachine> machine(std::string_view text) {
  auto cluster = parseCluster(text, "c.yaml");
  if (!cluster)
    return std::move(cluster).takeStatus();
  return machineOf(*cluster, "c.yaml");
}
std::string messageOf(std::string_view text) { return std::string(machine(text).status().message()); }

const std::string kHead = "nodes: 2\ndevices_per_node: 8\ndevice: h100-sxm\n";
const std::string kInner = "links:\n  - {name: nvlink, spans: 8, bandwidth: 450 GB/s, latency: 2 us}\n";
const std::string kOuter = "  - {name: rail, spans: 16, bandwidth: 50 GB/s, latency: 6 us}\n";

TEST(ClusterMachine, KindsAndLinksAreAsTheFileSays) {
  auto read = machine("name: pair\n" + kHead + kInner + kOuter);
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->name, "pair");
  const Machine &m = read->machine;
  EXPECT_EQ(m.devices, 16u);
  ASSERT_EQ(m.kinds.size(), 1u);
  EXPECT_EQ(m.kinds[0].kind, "h100-sxm");
  EXPECT_TRUE(m.kindOf.empty());
  EXPECT_EQ(m.memoryBytes(15), 78'000'000'000u); // 80 GB less what is kept.
  ASSERT_EQ(m.links.size(), 2u);
  EXPECT_EQ(levelBetween(m, 0, 7)->name, "nvlink");
  EXPECT_EQ(levelBetween(m, 7, 8)->name, "rail");
  EXPECT_EQ(levelBetween(m, 7, 8)->bandwidth, gigabytesPerSecond(50));
}

TEST(ClusterMachine, MixedNodesNicsAndMemory) {
  auto read = machine("nodes: 2\ndevices_per_node: 8\ndevice: [h100-sxm, a100-80gb]\nmemory: [72 GB, 60 GB]\n" +
                      kInner + "  - {name: ib, spans: 16, bandwidth: 50 GB/s, latency: 6 us, nics: 4}\n");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  const Machine &m = read->machine;
  EXPECT_EQ(m.device(7).kind, "h100-sxm");
  EXPECT_EQ(m.device(8).kind, "a100-80gb");
  EXPECT_EQ(m.memoryBytes(0), 70'000'000'000u);
  EXPECT_EQ(m.memoryBytes(8), 58'000'000'000u);
  EXPECT_EQ(m.links[1].bandwidth, gigabytesPerSecond(25)); // 4 NICs for 8 devices.
}

/// Where nothing was measured bf16 is twice as fast only on processors that have products of it, as Linux lists them.
TEST(ClusterMachine, Bf16GainsNothingWithoutInstructions) {
  std::stringstream flags;
  flags << std::ifstream("/proc/cpuinfo").rdbuf();
  bool hasProducts =
      flags.str().find("avx512_bf16") != std::string::npos || flags.str().find("amx_bf16") != std::string::npos;
  auto read = machine("devices_per_node: 1\ndevice: cpu\n");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  const DeviceModel &device = read->machine.kinds[0];
  EXPECT_DOUBLE_EQ(device.rates.arithmeticBf16.value, device.rates.arithmetic.value * (hasProducts ? 2 : 1));
  EXPECT_EQ(device.source.rfind("assumed: 100 GFLOP/s", 0), 0u) << device.source;
  EXPECT_EQ(device.source.find("bf16 no faster") == std::string::npos, hasProducts) << device.source;
}

/// A machine with these GPUs; `settings` as --set has them.
Result<PlannedMachine> machineWith(const std::vector<std::string> &models, const std::vector<std::string> &settings) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "gpus";
  std::filesystem::remove_all(folder);
  for (size_t i = 0; i < models.size(); ++i) {
    std::filesystem::path place = folder / ("0000:0" + std::to_string(i) + ":00.0");
    std::filesystem::create_directories(place);
    std::ofstream(place / "information") << "Model: \t\t " << models[i] << "\nIRQ:   \t\t 16\n";
  }
  auto cluster = thisMachine(settings);
  return cluster ? machineOf(*cluster, "", folder.string()) : std::move(cluster).takeStatus();
}

TEST(ClusterMachine, GpusOfThisMachineAreFound) {
  auto two = machineWith({"NVIDIA H200", "NVIDIA H200"}, {});
  ASSERT_TRUE(two.isOk()) << two.status().message();
  EXPECT_EQ(two->machine.kinds[0].kind, "h200");
  EXPECT_EQ(two->machine.devices, 2u);
  EXPECT_NE(two->note.find("2 x NVIDIA H200"), std::string::npos) << two->note;
  EXPECT_EQ(machineWith({"NVIDIA H200", "NVIDIA H200"}, {"cluster.device=cpu"})->machine.kinds[0].kind, "cpu");
  EXPECT_EQ(machineWith({"NVIDIA H200", "NVIDIA H200"}, {"cluster.devices_per_node=1"})->machine.devices, 1u);
  for (auto models :
       {std::vector<std::string>{}, {"NVIDIA GeForce GTX 1080"}, {"NVIDIA H200", "NVIDIA A100-SXM4-80GB"}})
    EXPECT_EQ(machineWith(models, {})->machine.kinds[0].kind, "cpu");
  auto named = machineWith({}, {"cluster.device=h200"}); // Planned for elsewhere: one.
  ASSERT_TRUE(named.isOk()) << named.status().message();
  EXPECT_EQ(named->machine.kinds[0].kind, "h200");
  EXPECT_EQ(named->machine.devices, 1u);
  EXPECT_EQ(machineWith({"NVIDIA H200", "NVIDIA H200"}, {"cluster.device=h200"})->machine.devices, 2u);
}

TEST(ClusterMachine, ANodeHasItsDevicesOwnLinks) {
  auto read = machine("devices_per_node: 8\ndevice: b200\n");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  ASSERT_EQ(read->machine.links.size(), 1u);
  EXPECT_EQ(read->machine.links[0].spans, 8u);
  EXPECT_EQ(read->machine.links[0].bandwidth, gigabytesPerSecond(900));
  EXPECT_TRUE(machine("devices_per_node: 4\ndevice: cpu\n")->machine.sharesMemory());
  auto wide =
      machine("nodes: 1\ndevices_per_node: 8\ndevice: h200\n" + kInner + kOuter); // A switch with ports to spare.
  ASSERT_TRUE(wide.isOk()) << wide.status().message();
  EXPECT_EQ(wide->machine.links.size(), 1u);
}

TEST(ClusterMachine, WhatCannotBeIsNamed) {
  EXPECT_NE(
      messageOf("nodes: 2\ndevices_per_node: 8\ndevice: h100-sxn\n" + kInner + kOuter).find("did you mean 'h100-sxm'"),
      std::string::npos);
  EXPECT_NE(messageOf("devices_per_node: 8\ndevice: tpu\n").find("a100-80gb"), std::string::npos);
  EXPECT_NE(messageOf("device: h100-sxm\n").find("devices_per_node is missing"), std::string::npos);
  EXPECT_NE(messageOf("devices_per_node: 8\n").find("device is missing"), std::string::npos);
  EXPECT_NE(messageOf(kHead).find("8 of 16 devices are joined"), std::string::npos);
  EXPECT_NE(messageOf(kHead + kInner).find("8 of 16 devices are joined"), std::string::npos);
  EXPECT_NE(
      messageOf(kHead + "links: [{spans: 6, bandwidth: 1 GB/s}, {spans: 18, bandwidth: 1 GB/s}]\n").find("spans 6"),
      std::string::npos);
  EXPECT_NE(messageOf(kHead + kInner + "  - {spans: 12, bandwidth: 1 GB/s}\n").find("multiple"), std::string::npos);
  EXPECT_NE(messageOf(kHead + "links: [{spans: 16, bandwidth: 0 GB/s}]\n").find("above 0"), std::string::npos);
  EXPECT_NE(messageOf(kHead + "links: [{spans: 16, bandwidth: 1 GB/s, latency: 2}]\n").find("2 us"), std::string::npos);
  EXPECT_NE(messageOf("nodes: 3\ndevices_per_node: 8\ndevice: [h100-sxm, h200]\n").find("lists 2 kinds for 3 nodes"),
            std::string::npos);
  EXPECT_NE(messageOf("nodes: 2\ndevices_per_node: 8\ndevice: [h100-sxm, cpu]\n" + kInner + kOuter).find("'cpu'"),
            std::string::npos);
  EXPECT_NE(messageOf(kHead + "memory: 1 GB\n" + kInner + kOuter).find("kept for its context"), std::string::npos);
  EXPECT_NE(messageOf(kHead + "memory: [1 GB, 2 GB]\n" + kInner + kOuter).find("list of 2"), std::string::npos);
}

} // namespace
} // namespace maestro::planner

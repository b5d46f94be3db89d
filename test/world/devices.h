// Devices for tests of what ranks tell each other: one per rank, made by the rank itself, as processes do.
#pragma once

#include "executor/device/device.h"
#include "test/transport/ranks.h"
#include "transport/segments.h"

#include <gtest/gtest.h>

#include <memory>
#include <tuple>

namespace maestro::executor::test {

using transport::test::RankKind;
using transport::test::World;

/// Late: work completes late, each queue by itself, and memory is hidden.
enum class DeviceKind { Prompt, Late };

inline std::unique_ptr<Device> createDevice(DeviceKind kind, const World &world, uint32_t rank) {
  CpuDeviceOptions options;
  options.abort = &world.abort();
  options.onFailure = [&world, rank](const Status &status) { world.abort().raise(rank, status); };
  return kind == DeviceKind::Prompt ? createCpuDevice(nullptr, options)
                                    : createLateCpuDevice(nullptr, options, {rank + 1u, 40});
}

/// Memory that the ranks of a test write to each other: plan it, then make it.
struct Memory {
  explicit Memory(World &world) : world(world), plan(world.ranks()) {}
  void make() { segments = *transport::Segments::create(world.memory(), plan); }
  World &world;
  transport::SegmentPlan plan;
  transport::Segments segments;
};

using Setting = std::tuple<DeviceKind, RankKind>;

inline std::string settingName(const testing::TestParamInfo<Setting> &info) {
  return std::string(std::get<0>(info.param) == DeviceKind::Prompt ? "Prompt" : "Late") +
         (std::get<1>(info.param) == RankKind::Threads ? "Threads" : "Processes");
}

inline const auto kSettings = testing::Combine(testing::Values(DeviceKind::Prompt, DeviceKind::Late),
                                               testing::Values(RankKind::Threads, RankKind::Processes));

inline Status fail(const std::string &text) { return Status::internal(text); }

} // namespace maestro::executor::test

// What a plan is made for, as numbers: kinds of devices, and the levels of links between them.
//
//   links[0] "nvlink"  ├─ 8 devices ─┤├─ 8 devices ─┤ …      two devices talk over the innermost level that both share;
//   links[1] "rail"    ├──────────── 64 devices ──────┤      groups of a level are consecutive devices
//
// Without links the devices are those of one process, which pass memory to each other.
#pragma once

#include "base/status.h"
#include "cost_models/device_rates.h"
#include "cost_models/kernel_curves.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::cost_models {

/// Memory of a device that no rank's regions may take.
struct KeptMemory {
  std::string what; ///< "CUDA context"
  uint64_t bytes = 0;
  std::string source; ///< Of the number, for people.
};

/// One kind of device.
struct DeviceModel {
  std::string kind = "cpu";                                   ///< As plans and cluster files name it: "h100-sxm".
  std::string name;                                           ///< For people.
  std::string source = "100 GFLOP/s f32 and 8 GB/s a thread"; ///< Of its numbers, for people.
  uint64_t memoryBytes = UINT64_MAX;                          ///< What a plan may use of it: all but what is kept.
  std::vector<KeptMemory> kept = {};
  DeviceRates rates = cpuRates(1);
  /// Of products in f32 and bf16 by an accelerator's data sheet: what MFU is a share of. 0: there is none, and what
  /// products are known to reach stands for it.
  FlopsPerSecond peak = {}, peakBf16 = {};
  Bf16Products bf16Products =
      Bf16Products::Widened;    ///< Of a CPU: the kind that needs more memory, where nothing is known.
  uint32_t multiprocessors = 0; ///< Of an accelerator; 0: a CPU.
  std::shared_ptr<const KernelCurves> curves = {}; ///< As measured; null where nothing was.
  double curveScale = 1; ///< Their times are of another number of threads, and multiplied by this.
  uint32_t atOnce = 1;   ///< So many worked at the same time when it was measured.

  FlopsPerSecond peakOf(bool bf16) const {
    FlopsPerSecond sheet = bf16 ? peakBf16 : peak;
    return sheet.value > 0 ? sheet : bf16 ? rates.arithmeticBf16 : rates.arithmetic;
  }
  uint64_t keptBytes() const {
    uint64_t bytes = 0;
    for (const KeptMemory &own : kept)
      bytes += own.bytes;
    return bytes;
  }
};

/// One level of the network, per device and direction.
struct LinkLevel {
  std::string name;
  uint32_t spans = 1; ///< Devices d with equal d / spans reach each other through it.
  BytesPerSecond bandwidth;
  Seconds latency;
};

struct Machine {
  uint32_t devices = 1;
  std::vector<DeviceModel> kinds = std::vector<DeviceModel>(1);
  std::vector<uint32_t> kindOf; ///< By device; empty: all are kinds[0].
  std::vector<LinkLevel> links; ///< Innermost first; the last spans all devices. Empty: one process.
  uint64_t processBytes = 0;    ///< Of every stage's hostBytes: the stations of a device share it.
  uint64_t stagingBytes = 0;    ///< On each device of a stage whose gradients are added up over replicas.

  uint32_t kindIndex(uint32_t device) const { return kindOf.empty() ? 0 : kindOf[device]; }
  const DeviceModel &device(uint32_t number) const { return kinds[kindIndex(number)]; }
  uint64_t memoryBytes(uint32_t device) const { return kinds[kindIndex(device)].memoryBytes; }
  bool sharesMemory() const { return links.empty(); }
};

/// Kinds and links that fit the devices: spans that ascend and divide each other up to all devices, bandwidths above 0.
Status check(const Machine &machine);

/// One device of this kind by itself.
Machine machineOfOne(const Machine &machine, uint32_t kind);

/// The level over which two devices talk; null within one device, and where they share memory.
const LinkLevel *levelBetween(const Machine &machine, uint32_t a, uint32_t b);

/// How devices exchange data.
enum class Exchange : uint8_t {
  None,         ///< Nothing to exchange: one device.
  SharedMemory, ///< Copies within a process.
  OnDevice,     ///< A copy in one device's own memory.
  Direct,       ///< From one device to another, or from each to each other one.
  Stages, ///< Direct within the innermost level, then of what that left to each device over the next one, and back.
};

/// Time of an exchange, linear in what each device has to give.
struct CommunicationCost {
  Exchange exchange = Exchange::None;
  const LinkLevel *level = nullptr; ///< The outermost that it crosses, of the machine; null where there is none.
  Seconds latency;
  double secondsPerByte = 0;

  Seconds of(Bytes bytes) const { return latency + Seconds(bytes.value * secondsPerByte); }
};

/// "in stages over rail: 42 us, then 61.2 GB/s".
std::string describe(const CommunicationCost &cost);

/// One device's bytes to another: latency and bandwidth of the level between them; in one process a wake and a copy.
CommunicationCost transferCost(const Machine &machine, uint32_t from, uint32_t to);
/// Between any of one group and any of another, by the slowest pair. Both groups have members.
CommunicationCost transferCost(const Machine &machine, std::span<const uint32_t> from, std::span<const uint32_t> to);

/// The one of the two that crosses the wider level.
const CommunicationCost &wider(const CommunicationCost &a, const CommunicationCost &b);

/// The kinds of these devices, each once.
std::vector<const DeviceModel *> kindsOf(const Machine &machine, std::span<const uint32_t> devices);
/// The slowest device of a group, by its memory; `devices` has members.
BytesPerSecond slowestStream(const Machine &machine, std::span<const uint32_t> devices);

} // namespace maestro::cost_models

#include "cost_models/devices.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace maestro::cost_models {
namespace {

/// Numbers of a data sheet. Tensor-core rates are dense: sheets print twice that, "with sparsity".
struct Sheet {
  const char *name, *title, *product; ///< The last is part of what drivers call it.
  double memoryGb, memoryGbps;        ///< Capacity and bandwidth.
  double f32Tflops, bf16Tflops;       ///< f32 outside the tensor cores (TF32 off); bf16 on them, summed in f32.
  uint32_t multiprocessors;
  const char *link;
  double linkGbps; ///< Per direction: half of what sheets print.
  const char *source;
};

constexpr std::array kSheets{
    // "NVIDIA A100 Tensor Core GPU" data sheet (nvidia-1758950-r4, 2021): SXM columns; 108 SMs: "NVIDIA A100 Tensor
    // Core GPU
    // Architecture" white paper, table 4. 600 GB/s NVLink, both directions.
    Sheet{"a100-40gb", "NVIDIA A100 SXM 40 GB", "A100-SXM4-40GB", 40, 1555, 19.5, 312, 108, "nvlink", 300,
          "NVIDIA A100 data sheet (2021), A100 SXM 40GB"},
    Sheet{"a100-80gb", "NVIDIA A100 SXM 80 GB", "A100-SXM4-80GB", 80, 2039, 19.5, 312, 108, "nvlink", 300,
          "NVIDIA A100 data sheet (2021), A100 SXM 80GB"},
    // "NVIDIA H100 Tensor Core GPU" data sheet (2023): 67 TFLOP/s f32, 1,979 bf16 with sparsity, 3.35 TB/s, 900 GB/s
    // NVLink;
    // 132 SMs: "NVIDIA H100 Tensor Core GPU Architecture" white paper.
    Sheet{"h100-sxm", "NVIDIA H100 SXM 80 GB", "H100 80GB HBM3", 80, 3350, 67, 989.5, 132, "nvlink", 450,
          "NVIDIA H100 data sheet (2023), H100 SXM"},
    // "NVIDIA H200 Tensor Core GPU" data sheet (2024): the arithmetic of the H100; 141 GB at 4.8 TB/s.
    Sheet{"h200", "NVIDIA H200 SXM 141 GB", "H200", 141, 4800, 67, 989.5, 132, "nvlink", 450,
          "NVIDIA H200 data sheet (2024), H200 SXM"},
    // "NVIDIA Blackwell" data sheet (2025), HGX B200, a GPU: 75 TFLOP/s f32, 4.5 PFLOP/s bf16 with sparsity, 180 GB
    // at 7.7 TB/s,
    // 1.8 TB/s NVLink. 148 SMs: as the driver reports them.
    Sheet{"b200", "NVIDIA B200 SXM 180 GB", "B200", 180, 7700, 75, 2250, 148, "nvlink", 900,
          "NVIDIA Blackwell data sheet (2025), HGX B200"},
    // "NVIDIA L40S" data sheet (2023): 91.6 TFLOP/s f32, 362.05 bf16 dense, 864 GB/s, PCIe 4.0 x16 (64 GB/s both ways),
    // no NVLink;
    // 142 SMs: "NVIDIA Ada GPU Architecture" white paper.
    Sheet{"l40s", "NVIDIA L40S 48 GB", "L40S", 48, 864, 91.6, 362.05, 142, "pcie", 32, "NVIDIA L40S data sheet (2023)"},
};

/// What a data sheet's rate is never reached by. Arithmetic and memory: as cuBLAS reaches in bf16 and as copies and
/// additions do on an H200 at the clock that its power limit leaves (test/cost_models/h200_times.txt); of others taken
/// to be alike. Links: assumed.
constexpr double kReachedArithmetic = 0.7, kReachedMemory = 0.9, kReachedLink = 0.8;

/// A kernel's own time on a device whose queue is kept full: 0.9 µs between short kernels that are launched ahead
/// ("Getting started with CUDA Graphs", NVIDIA 2019: 3.8 µs a kernel of 2.9 µs; as much on an H200), and about as much
/// until all multiprocessors work.
constexpr Seconds kCall = microseconds(2);

/// From one device to another within a node: the base latency that NCCL's own cost model has for a ring's step over
/// NVLink (its tuning table: 0.5 to 3.4 µs, by protocol).
constexpr Seconds kNodeLatency = microseconds(2);

/// What a process takes of a GPU before a rank has memory of its own. No number here was measured on these devices:
/// maestro-profile does that.
struct Kept {
  const char *what;
  double gb;
};
constexpr std::array kKept{Kept{"CUDA context", 0.6}, Kept{"kernels", 0.1}, Kept{"product library", 0.4},
                           Kept{"communicators and what else runs there", 0.9}};

const Sheet *find(std::string_view name) {
  auto found = std::find_if(kSheets.begin(), kSheets.end(), [&](const Sheet &sheet) { return name == sheet.name; });
  return found == kSheets.end() ? nullptr : found;
}

} // namespace

std::vector<std::string> builtInDevices() {
  std::vector<std::string> names;
  for (const Sheet &sheet : kSheets)
    names.emplace_back(sheet.name);
  return names;
}

std::optional<DeviceModel> builtInDevice(std::string_view name) {
  const Sheet *sheet = find(name);
  if (!sheet)
    return std::nullopt;
  DeviceModel device;
  device.kind = sheet->name;
  device.name = sheet->title;
  device.source = sheet->source;
  for (const Kept &own : kKept)
    device.kept.push_back({own.what, static_cast<uint64_t>(std::llround(own.gb * 1e9)), "assumed, not measured"});
  device.memoryBytes = static_cast<uint64_t>(gigabytes(sheet->memoryGb).value) - device.keptBytes();
  device.multiprocessors = sheet->multiprocessors;
  device.peak = teraflopsPerSecond(sheet->f32Tflops);
  device.peakBf16 = teraflopsPerSecond(sheet->bf16Tflops);
  device.rates.arithmetic = device.peak * kReachedArithmetic;
  device.rates.arithmeticBf16 = device.peakBf16 * kReachedArithmetic;
  device.rates.operands = device.rates.stream = gigabytesPerSecond(sheet->memoryGbps) * kReachedMemory;
  device.rates.call = kCall;
  device.rates.channel = gigabytesPerSecond(sheet->linkGbps) * kReachedLink;
  device.rates.wake = kNodeLatency;
  return device;
}

std::optional<std::string> builtInOf(std::string_view product) {
  for (const Sheet &sheet : kSheets)
    if (product.find(sheet.product) != product.npos)
      return sheet.name;
  return std::nullopt;
}

LinkLevel builtInNodeLink(std::string_view name) {
  const Sheet *sheet = find(name);
  if (!sheet)
    return {};
  return {sheet->link, 1, gigabytesPerSecond(sheet->linkGbps), kNodeLatency};
}

} // namespace maestro::cost_models

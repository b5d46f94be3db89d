#include "cost_models/operator_time.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace maestro::cost_models {
namespace {

/// Result tiles of product libraries and the share of the peak that each reaches beside a full wave. Sizes: section 2.3
/// of the guide named in the header; shares: assumed, in its order.
struct Tile {
  double rows, columns, share;
};
constexpr std::array kTiles{Tile{256, 128, 1},  Tile{128, 256, 1},  Tile{128, 128, 0.95},
                            Tile{128, 64, 0.8}, Tile{64, 128, 0.8}, Tile{64, 64, 0.65}};
/// Fused attention works on blocks of so many queries and keys, and of so much depth (Dao 2023, "FlashAttention-2",
/// section 3.3).
constexpr double kAttentionBlock = 128, kDepthBlock = 64;
/// A score (one query, one key) costs its products, four or ten multiplications and additions of the depth, and as much
/// as so many operations at the products' rate: its exponential, and what does not overlap. Of lengths that a mask
/// makes causal half the blocks count, and so many in each row: the diagonal, and rows that end at different times.
/// Fitted to cuDNN's on an H200 (test/cost_models/h200_times.txt).
constexpr double kScore = 160, kScoreGrad = 540, kCausalBlocks = 3;

/// In waves of tiles over the multiprocessors.
Seconds tiledTime(const KernelWork &work, FlopsPerSecond peak, double multiprocessors) {
  Seconds least(INFINITY);
  for (const Tile &tile : kTiles) {
    double tiles = std::ceil(work.m / tile.rows) * std::ceil(work.n / tile.columns) * work.batch;
    double waves = std::ceil(tiles / multiprocessors);
    Flops wave(2 * tile.rows * tile.columns * work.k * multiprocessors);
    least = std::min(least, wave / (peak * tile.share) * waves);
  }
  return least;
}

double upTo(double size, double block) { return std::ceil(size / block) * block; }

/// In blocks. As many queries as keys are taken to belong to one another, as each head's do where a sequence attends to
/// itself.
Seconds attentionTime(const KernelWork &work, FlopsPerSecond rate) {
  bool gradient = work.kernel.starts_with("attention_grad"),
       causal = work.kernel.ends_with("causal") || work.kernel.ends_with("masked");
  double keys = upTo(work.n, kAttentionBlock), depth = upTo(work.k, kDepthBlock);
  bool toItself = std::fmod(work.m, work.n) == 0;
  double queries = toItself ? work.m / work.n * keys : work.m;
  double share = causal && toItself ? std::min(1.0, 0.5 + kCausalBlocks * kAttentionBlock / keys) : 1;
  return Flops(work.batch * queries * keys * share * (gradient ? 10 * depth + kScoreGrad : 4 * depth + kScore)) / rate;
}

Seconds arithmeticTime(const KernelWork &work, const DeviceModel &device) {
  FlopsPerSecond rate = arithmeticRate(work, device);
  if (device.multiprocessors > 0 && work.isProduct())
    return tiledTime(work, rate, device.multiprocessors);
  return device.multiprocessors > 0 && work.isAttention() ? attentionTime(work, rate) : work.flops / rate;
}

OperatorTime builtInTime(const KernelWork &work, const DeviceModel &device) {
  Seconds arithmetic = arithmeticTime(work, device), memory = work.bytes / device.rates.operands;
  bool overlap = device.multiprocessors > 0;
  return {(overlap ? std::max(arithmetic, memory) : arithmetic + memory) + device.rates.call, arithmetic > memory,
          Provenance::BuiltIn};
}

std::optional<OperatorTime> measuredTime(const KernelWork &work, const DeviceModel &device) {
  if (!device.curves)
    return std::nullopt;
  Provenance provenance = device.curveScale == 1 ? Provenance::Measured : Provenance::Scaled;
  std::optional<Seconds> time =
      device.curves->time(work.kernel, work.bf16, {work.m, work.n, work.k, work.bytes.value, Seconds(0)});
  if (!time)
    return std::nullopt;
  return OperatorTime{*time * (work.batch * device.curveScale) + device.rates.call,
                      work.isProduct() || work.isAttention(), provenance};
}

} // namespace

FlopsPerSecond arithmeticRate(const KernelWork &work, const DeviceModel &device) {
  if (!work.isProduct() && !work.isAttention())
    return device.rates.arithmetic;
  return work.bf16 ? device.rates.arithmeticBf16 : device.rates.arithmetic;
}

OperatorTime operatorTime(const KernelWork &work, const DeviceModel &device) {
  return measuredTime(work, device).value_or(builtInTime(work, device));
}

std::string sourceOf(const DeviceModel &device, Provenance provenance) {
  switch (provenance) {
  case Provenance::BuiltIn:
    return device.source.starts_with("assumed") ? device.source : "built in: " + device.source;
  case Provenance::Measured:
    return "measured: " + device.source;
  case Provenance::Scaled:
    return "scaled: " + device.source;
  }
  return "";
}

} // namespace maestro::cost_models

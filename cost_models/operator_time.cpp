#include "cost_models/operator_time.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace maestro::cost_models {
namespace {

/// Result tiles of product libraries and the share of the peak that each reaches beside a full wave. Sizes: section 2.3 of the guide
/// named in the header; shares: assumed, in its order.
struct Tile {
  double rows, columns, share;
};
constexpr std::array kTiles{Tile{256, 128, 1}, Tile{128, 256, 1}, Tile{128, 128, 0.95}, Tile{128, 64, 0.8}, Tile{64, 128, 0.8},
                            Tile{64, 64, 0.65}};
/// Of the peak that products reach, by fused attention: forward and backward on A100 (Dao 2023, "FlashAttention-2": up to 73 and
/// 63 % of the sheet's rate).
constexpr double kAttentionShare = 0.9, kAttentionGradShare = 0.75;

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

Seconds arithmeticTime(const KernelWork &work, const DeviceModel &device) {
  FlopsPerSecond rate = arithmeticRate(work, device);
  return device.multiprocessors > 0 && work.isProduct() ? tiledTime(work, rate, device.multiprocessors) : work.flops / rate;
}

OperatorTime builtInTime(const KernelWork &work, const DeviceModel &device) {
  Seconds arithmetic = arithmeticTime(work, device), memory = work.bytes / device.rates.operands;
  bool overlap = device.multiprocessors > 0;
  return {(overlap ? std::max(arithmetic, memory) : arithmetic + memory) + device.rates.call, arithmetic > memory, Provenance::BuiltIn};
}

std::optional<OperatorTime> measuredTime(const KernelWork &work, const DeviceModel &device) {
  if (!device.curves)
    return std::nullopt;
  Provenance provenance = device.curveScale == 1 ? Provenance::Measured : Provenance::Scaled;
  std::optional<Seconds> time = device.curves->time(work.kernel, work.bf16, {work.m, work.n, work.k, work.bytes.value, Seconds(0)});
  if (!time)
    return std::nullopt;
  return OperatorTime{*time * (work.batch * device.curveScale) + device.rates.call, work.isProduct() || work.isAttention(), provenance};
}

} // namespace

FlopsPerSecond arithmeticRate(const KernelWork &work, const DeviceModel &device) {
  if (!work.isProduct() && !work.isAttention())
    return device.rates.arithmetic;
  FlopsPerSecond products = work.bf16 ? device.rates.arithmeticBf16 : device.rates.arithmetic;
  if (work.isAttention() && device.multiprocessors > 0)
    return products * (work.kernel.starts_with("attention_grad") ? kAttentionGradShare : kAttentionShare);
  return products;
}

OperatorTime operatorTime(const KernelWork &work, const DeviceModel &device) {
  return measuredTime(work, device).value_or(builtInTime(work, device));
}

std::string sourceOf(const DeviceModel &device, Provenance provenance) {
  switch (provenance) {
  case Provenance::BuiltIn:
    return "built in: " + device.source;
  case Provenance::Measured:
    return "measured: " + device.source;
  case Provenance::Scaled:
    return "scaled: " + device.source;
  }
  return "";
}

} // namespace maestro::cost_models

// The first cost model: a device does arithmetic at one rate and moves memory at another, and the slower of
// the two decides. Calibrated profiles replace the built-in rates later.
#pragma once

namespace maestro::cost_models {

struct DeviceRates {
  double flopsPerSecond = 0;
  double bytesPerSecond = 0;       ///< Of operands and results, as operators report them; some of it from caches.
  double callSeconds = 1e-6;       ///< Of every kernel call beside that. Assumed.
  double streamBytesPerSecond = 0; ///< Of tensors larger than caches: updates, reductions.
  /// Between devices of one machine: copies by one core, and waking who waits. Assumed.
  double channelBytesPerSecond = 5e9, channelLatencySeconds = 10e-6;
};

/// Built-in rates of a CPU device per thread: 100 GFLOP/s in f32 (measured for oneDNN's products on servers with
/// AVX-512: 99 to 116 per core) and 8 GB/s (assumed: a core's share of a server socket's memory bandwidth).
DeviceRates cpuRates(int threads);

/// Seconds of an operation that does `flops` and moves `bytes`.
double rooflineSeconds(double flops, double bytes, const DeviceRates &rates);

} // namespace maestro::cost_models

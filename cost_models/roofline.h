// The first cost model: a device does arithmetic at one rate and moves memory at another, and the slower of
// the two decides. Calibrated profiles replace the built-in rates later.
#pragma once

#include "cost_models/units.h"

namespace maestro::cost_models {

struct DeviceRates {
  FlopsPerSecond arithmetic;        ///< In f32.
  BytesPerSecond operands;          ///< Of operands and results, as operators report them; some of it from caches.
  Seconds call = microseconds(1);   ///< Of every kernel call beside that. Assumed.
  BytesPerSecond stream;            ///< Of tensors larger than caches: updates, reductions.
  /// Between devices that share a process's memory: copies by one core, and waking who waits. Assumed.
  BytesPerSecond channel = gigabytesPerSecond(5);
  Seconds wake = microseconds(10);
};

/// Built-in rates of a CPU device per thread: 100 GFLOP/s in f32 (measured for oneDNN's products on servers with
/// AVX-512: 99 to 116 per core) and 8 GB/s (assumed: a core's share of a server socket's memory bandwidth).
DeviceRates cpuRates(int threads);

/// The time of an operation that does `flops` and moves `bytes`.
Seconds rooflineSeconds(Flops flops, Bytes bytes, const DeviceRates &rates);

} // namespace maestro::cost_models

// What a device does in a second, where nothing says more of a kernel: the rates behind operator_time.h.
#pragma once

#include "cost_models/units.h"

#include <cstdint>

namespace maestro::cost_models {

/// How a CPU multiplies bf16: with instructions for it (AVX512_BF16), or in f32, where operands and results are copied
/// for it.
enum class Bf16Products : uint8_t { Widened, Native };

struct DeviceRates {
  FlopsPerSecond arithmetic;      ///< In f32; also of bf16 kernels that are no products.
  BytesPerSecond operands;        ///< Of operands and results, as operators report them; some of it from caches.
  Seconds call = microseconds(1); ///< Of every kernel call beside that. Assumed.
  BytesPerSecond stream;          ///< Of tensors larger than caches: updates, reductions.
  /// Between devices that share a process's memory: copies by one core, and waking who waits. Assumed.
  BytesPerSecond channel = gigabytesPerSecond(5);
  Seconds wake = microseconds(10);
  FlopsPerSecond arithmeticBf16 = {}; ///< Of products of bf16, summed in f32.
  /// Of a task beside its calls: what the host and the device's queue do before, between and after them.
  Seconds task = Seconds(0);
  /// Of a step beside its tasks: ranks are woken, agree and update. Assumed to be nothing where it was not measured.
  Seconds step = Seconds(0);
  /// Processor time that a job's own threads take in a step: they read, schedule, and drive the devices. A device that
  /// has all processors waits for them. Measured with plans; nothing where none were given.
  Seconds host = Seconds(0);
  /// A task's time while no other device of the machine works, over what it is while all do, as everything else here
  /// is.
  double alone = 1;
  /// Devices that work at the same time wait for each other, so for the slowest: its time over the mean device's.
  /// Processors that are shared differ in speed, now one and now the other, for seconds. Measured with plans' programs;
  /// 1 where none were given.
  double together = 1;
  /// Norm's and optimizer's time over what `stream` says of them: small parameters lie in caches, in part another
  /// core's. Measured with plans' programs; 1 where none were given.
  double update = 1;
};

/// Built-in rates of a CPU device per thread: 100 GFLOP/s in f32, 200 in bf16 (measured for oneDNN's products on
/// servers with AVX-512: 99 to 116 per core, and 192 to 230), and 8 GB/s (assumed: a core's share of a server socket's
/// memory bandwidth).
DeviceRates cpuRates(int threads);

} // namespace maestro::cost_models

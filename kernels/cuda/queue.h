// Parameters of the kernels that a device's queues use themselves: what the driver's own copies cannot do on a stream.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

/// Bytes that travel in the launch itself.
struct PutBytesParams {
  static constexpr int kMaxBytes = 64;
  void *to;
  int32_t bytes;
  uint8_t data[kMaxBytes];
};

/// Zeros in host memory, where the driver's memset would wait for the stream.
struct FillZeroParams {
  void *to;
  int64_t bytes;
};

/// A strided copy in units of 1, 2, 4, 8 or 16 bytes.
struct CopyBoxParams {
  const void *from;
  void *to;
  int32_t unitBytes;
  int64_t count;  ///< Units.
  Strided<2> map; ///< From a unit to its place in `from` and in `to`, in units.
};

/// to[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + …
struct SumPartsParams {
  static constexpr int kMaxParts = 256;
  float *to;
  int64_t count;
  bool packed; ///< 16 bytes at a time.
  int32_t parts;
  const float *from[kMaxParts];
};

} // namespace maestro::kernels::cuda

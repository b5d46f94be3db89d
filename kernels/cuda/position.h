// Parameters of rotary embedding and dropout: what depends on where an element lies.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct RopeParams {
  const void *x;
  void *y; ///< May lie over x.
  AnyTensor cosine, sine;
  int64_t pairs, width;
  Strided<2> map; ///< An element of x in cosine and sine.
  bool interleaved, adjoint;
};

struct DropoutParams {
  const void *x;
  void *y;
  AnyTensor state, sampleIds;
  int64_t count, width, rowsPerSample, stream; ///< width: elements of a row.
  Strided<1> position;                         ///< An element of a row to its position.
  float ratio, scale;
  int32_t perThread; ///< 1, or 8 neighbours, whose numbers are two counters'.
  bool packed;       ///< They lie at aligned places.
};

} // namespace maestro::kernels::cuda

// Parameters of recurrence and its gradient: a block a row of the batch.
#pragma once

#include "base/recurrent_cell.h"
#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct RecurrenceParams {
  RecurrentCell cell;
  bool reverse;
  int64_t rows, length, hidden;
  int64_t inputs, states, gates; ///< Elements of a row and position.
  const void *weight, *initial;
  AnyTensor lengths; ///< Null: every row has all positions.

  const void *x, *bias; ///< Forward. bias: of gru, and null where it has none.
  void *statesOut, *gatesOut;

  const void *dstates, *statesIn, *gatesIn; ///< Backward.
  void *dx, *dinitial;

  float *products; ///< [rows, inputs]: W·h, or its gradient.
  float *carried;  ///< Backward, [rows, states]: the gradient of the states behind a position.
};

} // namespace maestro::kernels::cuda

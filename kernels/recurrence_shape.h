// The sizes of recurrence and its gradient, for every library.
#pragma once

#include "base/recurrent_cell.h"
#include "kernels/kernel.h"

namespace maestro::kernels {

struct RecurrenceShape {
  RecurrentCell cell;
  bool reverse;
  int64_t rows, length, hidden;
  int64_t inputs, states, gates; ///< Elements of a row and position.

  /// `sequence` is x or states: [rows, length, …].
  RecurrenceShape(const CallSpec &spec, const TensorType &sequence)
      : cell(*recurrentCellFromName(spec.attributes.getText("cell", ""))), reverse(spec.attributes.getFlag("reverse")),
        rows(sequence.dims[0]), length(sequence.dims[1]), hidden(spec.inputs[1].dims[1]),
        inputs(blocksOf(cell).inputs * hidden), states(blocksOf(cell).states * hidden),
        gates(blocksOf(cell).gates * hidden) {}

  /// Of step s.
  int64_t position(int64_t s) const { return reverse ? length - 1 - s : s; }
};

} // namespace maestro::kernels

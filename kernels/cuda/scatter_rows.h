// Adding, or otherwise combining, rows at indices that are data, in a fixed order: keys, their ranks, then each row
// once.
#pragma once

#include "kernels/cuda/gather.h"
#include "kernels/cuda/sequence.h"

namespace maestro::kernels::cuda {

TupleDims tupleDims(const TensorType &data, const TensorType &indices, int64_t batchDims); // gather.cpp

/// Whether rows and updates can be counted in 32 bits.
bool fitsKeys(const ScatterRowsParams &rows);

/// Operand `indexAt` has the indices, operand `updateAt` the updates; result 0 holds what they are combined with.
Status addScatterRows(Sequence &sequence, AnyTensor indices, const TupleDims &tuples, const ScatterRowsParams &rows,
                      size_t indexAt, size_t updateAt);

/// The gradient of a gather: rows of operand 1 added at the indices of operand 0, to zeros or to what is there.
PreparedKernel prepareGatheredGrad(const Call &call, const TupleDims &tuples, const ScatterRowsParams &rows);

} // namespace maestro::kernels::cuda

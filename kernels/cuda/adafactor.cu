// Adafactor (kernels/adafactor.h is the host's), launch by launch: rows, columns, updates' size, update.
#include "kernels/cuda/adafactor.h"

#include "kernels/cuda/block.h"
#include "kernels/optimizer_scalars.h"

namespace maestro::kernels::cuda {
namespace {

__device__ __forceinline__ float weightOfNew(const AdafactorParams &p) {
  return static_cast<float>(exp(p.beta2Decay * log(static_cast<double>(p.scalars[kStep])))); // pow() would be a call.
}
__device__ __forceinline__ float scaled(const AdafactorParams &p, int64_t i) {
  return p.grad[i] * p.scalars[kGradientScale];
}
__device__ __forceinline__ int64_t rowEnd(const AdafactorParams &p, int64_t row) {
  return (row + 1) * p.columns < p.count ? (row + 1) * p.columns : p.count;
}

/// A block a row: the parameter's squares; the row's mean of squared gradients, or a vector's second moments.
__device__ void adafactorRows(const AdafactorParams &p) {
  int64_t row = blockIdx.x, end = rowEnd(p, row);
  float weight = weightOfNew(p);
  double gradients = 0, params = 0;
  for (int64_t i = row * p.columns + threadIdx.x; i < end; i += kBlock) {
    float g = scaled(p, i), square = g * g, param = p.param[i];
    gradients += square;
    params += static_cast<double>(param) * param;
    if (!p.factored)
      p.second[i] += weight * (square - p.second[i]);
  }
  gradients = blockReduce(gradients, Sum());
  params = blockReduce(params, Sum());
  if (threadIdx.x != 0)
    return;
  p.paramSquares[row] = params;
  if (p.factored)
    p.rowMeans[row] += weight * (static_cast<float>(gradients / static_cast<double>(p.columns)) - p.rowMeans[row]);
}

/// A thread a column of a chunk of rows.
__device__ void adafactorColumns(const AdafactorParams &p) {
  int64_t strips = (p.columns + kBlock - 1) / kBlock, chunk = blockIdx.x / strips;
  int64_t column = blockIdx.x % strips * kBlock + threadIdx.x;
  if (column >= p.columns)
    return;
  int64_t matrix = chunk / p.chunks, first = chunk % p.chunks * kRowsPerChunk;
  int64_t end = first + kRowsPerChunk < p.rows ? first + kRowsPerChunk : p.rows;
  double sum = 0;
  for (int64_t row = first; row < end; ++row) {
    float g = scaled(p, (matrix * p.rows + row) * p.columns + column);
    sum += g * g;
  }
  p.columnSums[chunk * p.columns + column] = sum;
}

/// A thread a column of a matrix.
__device__ void adafactorColumnMeans(const AdafactorParams &p) {
  int64_t i = threadOfGrid();
  if (i >= p.matrices * p.columns)
    return;
  int64_t matrix = i / p.columns, column = i % p.columns;
  double sum = 0;
  for (int64_t chunk = 0; chunk < p.chunks; ++chunk)
    sum += p.columnSums[(matrix * p.chunks + chunk) * p.columns + column];
  p.second[i] += weightOfNew(p) * (static_cast<float>(sum / static_cast<double>(p.rows)) - p.second[i]);
}

/// A block a matrix.
__device__ void adafactorMeanOfRows(const AdafactorParams &p) {
  double sum = 0;
  for (int64_t row = threadIdx.x; row < p.rows; row += kBlock)
    sum += p.rowMeans[blockIdx.x * p.rows + row];
  sum = blockReduce(sum, Sum());
  if (threadIdx.x == 0)
    p.meanOfRows[blockIdx.x] = larger(static_cast<float>(sum / static_cast<double>(p.rows)), p.eps1);
}

/// The update of element i of a row, before its size is limited.
struct RowUpdate {
  const AdafactorParams &p;
  int64_t row;
  float share = 0;
  const float *columnMeans = nullptr;

  __device__ RowUpdate(const AdafactorParams &p, int64_t row) : p(p), row(row) {
    if (!p.factored)
      return;
    int64_t matrix = row / p.rows;
    share = p.rowMeans[row] / p.meanOfRows[matrix];
    columnMeans = p.second + matrix * p.columns;
  }
  __device__ float operator()(int64_t i) const {
    float variance = p.factored ? share * columnMeans[i - row * p.columns] : p.second[i];
    return scaled(p, i) / sqrtf(larger(variance, p.eps1 * p.eps1));
  }
};

__device__ void adafactorUpdates(const AdafactorParams &p) {
  int64_t row = blockIdx.x, end = rowEnd(p, row);
  RowUpdate update(p, row);
  double sum = 0;
  for (int64_t i = row * p.columns + threadIdx.x; i < end; i += kBlock) {
    float u = update(i);
    sum += static_cast<double>(u) * u;
  }
  sum = blockReduce(sum, Sum());
  if (threadIdx.x == 0)
    p.updateSquares[row] = sum;
}

__device__ void adafactorApply(const AdafactorParams &p) {
  int64_t row = blockIdx.x, end = rowEnd(p, row);
  double learningRate = p.scalars[kLearningRate], slower = 1 / sqrt(static_cast<double>(p.scalars[kStep]));
  double elements = static_cast<double>(p.count), size = sqrt(*p.paramSquaresSum / elements);
  double excess = sqrt(*p.updateSquaresSum / elements) / p.clip;
  double rho = static_cast<float>(learningRate < slower ? learningRate : slower);
  float shrink = static_cast<float>(1 - learningRate * p.weightDecay);
  float stepSize = static_cast<float>((size > p.eps2 ? size : p.eps2) * rho / (excess > 1 ? excess : 1));
  RowUpdate update(p, row);
  for (int64_t i = row * p.columns + threadIdx.x; i < end; i += kBlock) {
    float param = p.param[i] * shrink - stepSize * update(i);
    p.param[i] = param;
    if (p.cleared)
      p.cleared[i] = 0;
    if (p.copy.data)
      store(p.copy, i, param);
  }
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(adafactor_rows, AdafactorParams, adafactorRows)                                                                    \
  X(adafactor_columns, AdafactorParams, adafactorColumns)                                                              \
  X(adafactor_column_means, AdafactorParams, adafactorColumnMeans)                                                     \
  X(adafactor_mean_of_rows, AdafactorParams, adafactorMeanOfRows)                                                      \
  X(adafactor_updates, AdafactorParams, adafactorUpdates)                                                              \
  X(adafactor_apply, AdafactorParams, adafactorApply)

MAESTRO_KERNELS(adafactor, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda

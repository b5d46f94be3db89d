// Adafactor (N. Shazeer, M. Stern, 2018, arXiv:1804.04235), in the order of torch.optim.Adafactor: of a matrix's second
// moment only the means of its rows and of its columns are kept; of a vector's, all.
#pragma once

#include "kernels/lambda_kernel.h"
#include "kernels/optimizer_scalars.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace maestro::kernels {

/// What is the same for all elements of a parameter [matrices, rows, columns]; one of less than two dims is rows of
/// kVectorRow elements, the last one shorter, and `isFactored` is false.
struct AdafactorStep {
  static constexpr int64_t kVectorRow = 4096;

  bool isFactored;
  int64_t matrices = 1, rows, columns, count;
  float eps1, eps2,
      clip; ///< Least squared gradient, least scale of a parameter, most root mean square of an update ("d").
  double beta2Decay, weightDecay;
  float gradientScale = 1, shrink = 1, oneMinusBeta2 = 1, rho = 0;

  explicit AdafactorStep(const CallSpec &spec)
      : isFactored(spec.inputs[0].rank >= 2), count(spec.inputs[0].elements()),
        eps1(static_cast<float>(spec.attributes.getFloat("eps1", 1.1920928955078125e-07))), // f32's epsilon, as PyTorch
        eps2(static_cast<float>(spec.attributes.getFloat("eps2", 1e-3))),
        clip(static_cast<float>(spec.attributes.getFloat("clip", 1))),
        beta2Decay(spec.attributes.getFloat("beta2_decay", -0.8)),
        weightDecay(spec.attributes.getFloat("weight_decay", 0)) {
    const TensorType &type = spec.inputs[0];
    columns = isFactored ? type.dims[type.rank - 1] : kVectorRow;
    rows = isFactored ? type.dims[type.rank - 2] : (count + kVectorRow - 1) / kVectorRow;
    for (int d = 0; d + 2 < type.rank; ++d)
      matrices *= type.dims[d];
  }

  int64_t allRows() const { return matrices * rows; }
  int64_t rowEnd(int64_t row) const { return std::min((row + 1) * columns, count); }

  void setScalars(const float *scalars) {
    double learningRate = scalars[kLearningRate], t = scalars[kStep];
    gradientScale = scalars[kGradientScale];
    shrink = static_cast<float>(1 - learningRate * weightDecay);
    oneMinusBeta2 = static_cast<float>(std::pow(t, beta2Decay));
    rho = static_cast<float>(std::min(learningRate, 1 / std::sqrt(t)));
  }
  void average(float &kept, float now) const { kept += oneMinusBeta2 * (now - kept); }
  float update(float grad, float variance) const {
    return grad * gradientScale / std::sqrt(std::max(variance, eps1 * eps1));
  }
  /// By what updates are multiplied, given the sums of squares of parameter and updates before it.
  float stepSize(double paramSquares, double updateSquares) const {
    auto elements = static_cast<double>(count);
    double scale = std::max<double>(eps2, std::sqrt(paramSquares / elements));
    return static_cast<float>(scale * rho / std::max(1.0, std::sqrt(updateSquares / elements) / clip));
  }
  /// Of adafactorStep().
  size_t scratchBytes() const {
    return static_cast<size_t>(2 * allRows()) * sizeof(double) + static_cast<size_t>(matrices) * sizeof(float);
  }
};

/// `adafactor` in the host's memory. `parallel(count, grain, f)` calls f(begin, end) for parts of [0, count).
/// Operands: param, grad, row and column means (of a vector: none, and its second moment), scalars.
template <typename Parallel>
void adafactorStep(const AdafactorStep &prepared, const Operands &call, Parallel parallel) {
  AdafactorStep step = prepared;
  step.setScalars(call.input<float>(4));
  auto *param = call.output<float>(0), *rowMeans = call.output<float>(1), *second = call.output<float>(2);
  const auto *grad = call.input<float>(1);
  auto *paramSquares = static_cast<double *>(call.scratch), *updateSquares = paramSquares + step.allRows();
  auto *meanOfRows = reinterpret_cast<float *>(updateSquares + step.allRows()); // Of each matrix.
  int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(step.columns, 1));
  auto squareOf = [&](int64_t i) {
    return static_cast<double>(grad[i] * step.gradientScale) * (grad[i] * step.gradientScale);
  };

  parallel(step.allRows(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double gradients = 0, params = 0;
      for (int64_t i = row * step.columns; i < step.rowEnd(row); ++i) {
        gradients += squareOf(i);
        params += static_cast<double>(param[i]) * param[i];
        if (!step.isFactored)
          step.average(second[i], static_cast<float>(squareOf(i)));
      }
      paramSquares[row] = params;
      if (step.isFactored)
        step.average(rowMeans[row], static_cast<float>(gradients / static_cast<double>(step.columns)));
    }
  });
  if (step.isFactored) {
    constexpr int64_t kStrip = 16; // Columns that are summed side by side.
    int64_t strips = (step.columns + kStrip - 1) / kStrip;
    parallel(step.matrices * strips, std::max<int64_t>(1, 1024 / std::max<int64_t>(step.rows, 1)),
             [&](int64_t begin, int64_t end) {
               for (int64_t item = begin; item < end; ++item) {
                 int64_t matrix = item / strips, first = item % strips * kStrip,
                         width = std::min(kStrip, step.columns - first);
                 double sums[kStrip] = {};
                 for (int64_t row = 0; row < step.rows; ++row)
                   for (int64_t c = 0; c < width; ++c)
                     sums[c] += squareOf((matrix * step.rows + row) * step.columns + first + c);
                 for (int64_t c = 0; c < width; ++c)
                   step.average(second[matrix * step.columns + first + c],
                                static_cast<float>(sums[c] / static_cast<double>(step.rows)));
               }
             });
    for (int64_t matrix = 0; matrix < step.matrices; ++matrix) {
      double sum = 0;
      for (int64_t row = 0; row < step.rows; ++row)
        sum += rowMeans[matrix * step.rows + row];
      meanOfRows[matrix] = std::max(static_cast<float>(sum / static_cast<double>(step.rows)), step.eps1);
    }
  }
  /// f(element, its update) for a row.
  auto forUpdates = [&](int64_t row, auto f) {
    int64_t matrix = row / step.rows, first = row * step.columns;
    float rowShare = step.isFactored ? rowMeans[row] / meanOfRows[matrix] : 0;
    const float *columnMeans = second + matrix * step.columns;
    for (int64_t i = first; i < step.rowEnd(row); ++i)
      f(i, step.update(grad[i], step.isFactored ? rowShare * columnMeans[i - first] : second[i]));
  };
  parallel(step.allRows(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double updates = 0;
      forUpdates(row, [&](int64_t, float update) { updates += static_cast<double>(update) * update; });
      updateSquares[row] = updates;
    }
  });
  double params = 0, updates = 0;
  for (int64_t row = 0; row < step.allRows(); ++row) {
    params += paramSquares[row];
    updates += updateSquares[row];
  }
  float stepSize = step.stepSize(params, updates);
  parallel(step.allRows(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      forUpdates(row, [&](int64_t i, float update) {
        param[i] = param[i] * step.shrink - stepSize * update;
        if (call.hasOutput(4))
          call.output<BFloat16>(4)[i] = BFloat16(param[i]);
      });
    if (int64_t first = begin * step.columns; call.hasOutput(3) && begin < end)
      std::memset(call.output<float>(3) + first, 0, static_cast<size_t>(step.rowEnd(end - 1) - first) * sizeof(float));
  });
}

} // namespace maestro::kernels

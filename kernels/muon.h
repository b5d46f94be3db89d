// Muon: momentum, then the matrix that is nearest to orthogonal, by Newton–Schulz iterations (K. Jordan et al., "Muon:
// An optimizer for hidden layers in neural networks", 2024), in the order of torch.optim.Muon.
#pragma once

#include "kernels/lambda_kernel.h"
#include "kernels/optimizer_scalars.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace maestro::kernels {

/// What is the same for all elements of a matrix [rows, columns].
struct MuonStep {
  /// Of the quintic that each iteration applies to the singular values: a·x + b·x³ + c·x⁵. They lead to about
  /// [0.7, 1.2], not to 1.
  static constexpr float kA = 3.4445F, kB = -4.7750F, kC = 2.0315F;

  int64_t rows, columns;
  int iterations;
  bool nesterov;
  float momentum, eps; ///< eps: the least norm that is divided by.
  double weightDecay, ratio;
  float gradientScale = 1, shrink = 1, stepSize = 0;

  explicit MuonStep(const CallSpec &spec)
      : rows(spec.inputs[0].dims[0]), columns(spec.inputs[0].dims[1]),
        iterations(static_cast<int>(spec.attributes.getInt("iterations", 5))),
        nesterov(spec.attributes.getFlag("nesterov")),
        momentum(static_cast<float>(spec.attributes.getFloat("momentum", 0.95))),
        eps(static_cast<float>(spec.attributes.getFloat("eps", 1e-7))),
        weightDecay(spec.attributes.getFloat("weight_decay", 0.1)),
        ratio(spec.attributes.getFlag("match_rms_adamw")
                  ? 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)))
                  : std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)))) {}

  /// The products are of the smaller side's Gram matrix, [side, side]: from the left where rows are fewer.
  bool fromLeft() const { return rows <= columns; }
  int64_t side() const { return std::min(rows, columns); }

  void setScalars(const float *scalars) {
    gradientScale = scalars[kGradientScale];
    shrink = static_cast<float>(1 - double(scalars[kLearningRate]) * weightDecay);
    stepSize = static_cast<float>(double(scalars[kLearningRate]) * ratio);
  }
  /// Returns what is to be made orthogonal.
  float direction(float grad, float &buffer) const {
    float g = grad * gradientScale;
    buffer += (1 - momentum) * (g - buffer);
    return nesterov ? g + momentum * (buffer - g) : buffer;
  }
  float apply(float param, float orthogonal) const { return param * shrink - stepSize * orthogonal; }
};

/// `muon` in the host's memory, all of it in f32. `products` is asked for the `matmul` kernels that it consists of.
PreparedKernel prepareMuon(const CallSpec &spec, const Library &products);

} // namespace maestro::kernels

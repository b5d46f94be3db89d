// The optimizers' arithmetic per element, in f32 and in PyTorch's order of operations; both libraries
// run the same functions, so that they differ in speed only.
#pragma once

#include "kernels/kernel.h"
#include "kernels/optimizer_scalars.h"

#include <cmath>

namespace maestro::kernels {

/// adam and adamw, everything that is the same for all elements worked out.
struct AdamStep {
  bool decoupled; ///< adamw: decay by shrinking the parameter; adam: by adding to the gradient.
  double weightDecay;
  float beta2, oneMinusBeta1, oneMinusBeta2, addedDecay, eps;
  float gradientScale = 1, shrink = 1, stepSize = 0, rootCorrection2 = 1;

  AdamStep(const Attributes &attributes, bool decoupled)
      : decoupled(decoupled), weightDecay(attributes.getFloat("weight_decay", decoupled ? 0.01 : 0.0)),
        beta2(static_cast<float>(attributes.getFloat("beta2", 0.999))),
        oneMinusBeta1(static_cast<float>(1 - attributes.getFloat("beta1", 0.9))),
        oneMinusBeta2(static_cast<float>(1 - attributes.getFloat("beta2", 0.999))),
        addedDecay(decoupled ? 0 : static_cast<float>(weightDecay)),
        eps(static_cast<float>(attributes.getFloat("eps", 1e-8))) {}

  void setScalars(const float *scalars) {
    gradientScale = scalars[kGradientScale];
    if (decoupled)
      shrink = static_cast<float>(1 - double(scalars[kLearningRate]) * weightDecay);
    stepSize = static_cast<float>(double(scalars[kLearningRate]) / scalars[kBiasCorrection1]);
    rootCorrection2 = static_cast<float>(std::sqrt(double(scalars[kBiasCorrection2])));
  }

  void apply(float &param, float grad, float &m, float &v) const {
    float g = grad * gradientScale + addedDecay * param;
    param *= shrink;
    m += oneMinusBeta1 * (g - m);
    v = v * beta2 + oneMinusBeta2 * g * g;
    param -= stepSize * m / (std::sqrt(v) / rootCorrection2 + eps);
  }
};

struct SgdStep {
  float momentum, weightDecay;
  bool nesterov;
  float learningRate = 0, gradientScale = 1;
  bool first = false;

  explicit SgdStep(const Attributes &attributes)
      : momentum(static_cast<float>(attributes.getFloat("momentum", 0))),
        weightDecay(static_cast<float>(attributes.getFloat("weight_decay", 0))),
        nesterov(attributes.getFlag("nesterov")) {}
  void setScalars(const float *scalars) {
    learningRate = scalars[kLearningRate];
    gradientScale = scalars[kGradientScale];
    first = scalars[kStep] <= 1;
  }

  /// Without momentum the buffer is neither read nor written.
  void apply(float &param, float grad) const { param -= learningRate * (grad * gradientScale + weightDecay * param); }
  void apply(float &param, float grad, float &buffer) const {
    float g = grad * gradientScale + weightDecay * param;
    buffer = first ? g : momentum * buffer + g;
    param -= learningRate * (nesterov ? g + momentum * buffer : buffer);
  }
};

/// `average`: an exponential moving average of a parameter, as torch.optim.swa_utils.get_ema_multi_avg_fn; the first
/// one is the parameter.
struct AverageStep {
  float oneMinusDecay;
  float weight = 1;

  explicit AverageStep(const Attributes &attributes)
      : oneMinusDecay(static_cast<float>(1 - attributes.getFloat("decay", 0.999))) {}
  void setScalars(const float *scalars) { weight = scalars[kStep] <= 1 ? 1 : oneMinusDecay; }
  float apply(float average, float param) const { return weight == 1 ? param : average + weight * (param - average); }
};

} // namespace maestro::kernels

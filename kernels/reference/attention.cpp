// Attention, its gradient, and rotary embedding.
#include "kernels/attention_shape.h"
#include "kernels/reference/prepare.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

AttentionShape shapeOf(const CallSpec &spec, size_t q, size_t mask) {
  bool masked = spec.inputs.size() > mask && spec.inputs[mask].present;
  return AttentionShape(spec.attributes, spec.inputs[q], spec.inputs[q + 1], spec.inputs[q + 2],
                        masked ? &spec.inputs[mask] : nullptr);
}

/// Scores of one call: `q` is the operand index of q (k follows), `mask` that of the mask.
struct Scores {
  const AttentionShape &shape;
  Source<double> q, k, mask;
  bool masked, boolean;

  Scores(const AttentionShape &shape, const Call &call, size_t q, size_t mask)
      : shape(shape), q(call.source(q)), k(call.source(q + 1)), mask(call.source(call.hasInput(mask) ? mask : 0)),
        masked(call.hasInput(mask)), boolean(masked && call.in[mask].dtype == DType::Bool) {}

  /// cap(q·k·scale), without the mask.
  double capped(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t qRow = shape.queryRow(b, h, i), kRow = shape.keyRow(b, h / shape.group(), j);
    double dot = 0;
    for (int64_t d = 0; d < shape.depth; ++d)
      dot += q[qRow + d] * k[kRow + d];
    dot *= shape.scale;
    return shape.softcap > 0 ? shape.softcap * std::tanh(dot / shape.softcap) : dot;
  }
  /// What the mask adds; −∞ where query i does not attend key j.
  double bias(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (shape.hidden(i, j))
      return kMinusInfinity;
    if (!masked)
      return 0;
    double value = mask[shape.maskAt(b, h, i, j)];
    return boolean ? (value != 0 ? 0 : kMinusInfinity) : value;
  }
};

template <typename Visit> void forEachQuery(const AttentionShape &shape, Visit visit) {
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.heads; ++h)
      for (int64_t i = 0; i < shape.queries; ++i)
        visit(b, h, i);
}

} // namespace

PreparedKernel prepareAttention(const CallSpec &spec) {
  AttentionShape shape = shapeOf(spec, 0, 3);
  auto body = [shape](const Call &call) {
    Scores scores(shape, call, 0, 3);
    Source<double> v = call.source(2);
    Sink<double> o = call.sink(0), lse = call.sink(1);
    double *weights = static_cast<double *>(call.scratch);
    forEachQuery(shape, [&](int64_t b, int64_t h, int64_t i) {
      double largest = kMinusInfinity, sum = 0;
      for (int64_t j = 0; j < shape.keys; ++j) {
        weights[j] = scores.bias(b, h, i, j);
        if (weights[j] != kMinusInfinity)
          weights[j] += scores.capped(b, h, i, j);
        largest = std::max(largest, weights[j]);
      }
      for (int64_t j = 0; j < shape.keys; ++j) {
        weights[j] = weights[j] == kMinusInfinity ? 0 : std::exp(weights[j] - largest);
        sum += weights[j];
      }
      for (int64_t d = 0; d < shape.valueDepth; ++d) {
        double mean = 0;
        for (int64_t j = 0; j < shape.keys; ++j)
          if (weights[j] != 0)
            mean += weights[j] * v[shape.valueRow(b, h / shape.group(), j) + d];
        o.set(shape.resultRow(b, h, i) + d, sum == 0 ? 0 : mean / sum);
      }
      lse.set(shape.lseAt(b, h, i), sum == 0 ? kMinusInfinity : largest + std::log(sum));
    });
  };
  return makeKernel(spec, body, static_cast<size_t>(shape.keys) * sizeof(double));
}

PreparedKernel prepareAttentionGrad(const CallSpec &spec) {
  AttentionShape shape = shapeOf(spec, 1, 6);
  size_t sums = 0;
  for (const TensorType &result : spec.outputs)
    sums += static_cast<size_t>(result.elements());
  auto body = [shape, sums](const Call &call) {
    Scores scores(shape, call, 1, 6);
    Source<double> grad = call.source(0), q = call.source(1), k = call.source(2), v = call.source(3);
    Source<double> o = call.source(4), lse = call.source(5);
    double *dq = static_cast<double *>(call.scratch);
    double *dk = dq + call.out[0].elements(), *dv = dk + call.out[1].elements();
    std::fill_n(dq, sums, 0.0);
    forEachQuery(shape, [&](int64_t b, int64_t h, int64_t i) {
      int64_t oRow = shape.resultRow(b, h, i), qRow = shape.queryRow(b, h, i);
      double total = lse[shape.lseAt(b, h, i)], dot = 0;
      if (total == kMinusInfinity)
        return;
      for (int64_t d = 0; d < shape.valueDepth; ++d)
        dot += grad[oRow + d] * o[oRow + d];
      for (int64_t j = 0; j < shape.keys; ++j) {
        double bias = scores.bias(b, h, i, j);
        if (bias == kMinusInfinity)
          continue;
        double capped = scores.capped(b, h, i, j), weight = std::exp(capped + bias - total);
        int64_t kRow = shape.keyRow(b, h / shape.group(), j), vRow = shape.valueRow(b, h / shape.group(), j);
        double dweight = 0;
        for (int64_t d = 0; d < shape.valueDepth; ++d) {
          dweight += grad[oRow + d] * v[vRow + d];
          dv[vRow + d] += weight * grad[oRow + d];
        }
        double dscore = weight * (dweight - dot) * shape.scale;
        if (shape.softcap > 0)
          dscore *= 1 - capped / shape.softcap * (capped / shape.softcap);
        for (int64_t d = 0; d < shape.depth; ++d) {
          dq[qRow + d] += dscore * k[kRow + d];
          dk[kRow + d] += dscore * q[qRow + d];
        }
      }
    });
    for (size_t r = 0; r < 3; dq += call.out[r].elements(), ++r)
      for (int64_t i = 0, n = call.out[r].elements(); i < n; ++i)
        call.sink(r).set(i, dq[i]);
  };
  return makeKernel(spec, body, sums * sizeof(double));
}

PreparedKernel prepareRope(const CallSpec &spec) {
  auto shape = spec.outputs[0].shape();
  IndexMap cosMap = broadcastMap(spec.inputs[1].shape(), shape);
  IndexMap sinMap = broadcastMap(spec.inputs[2].shape(), shape);
  bool interleaved = spec.attributes.getFlag("interleaved"), adjoint = spec.attributes.getFlag("adjoint");
  int64_t width = shape.back();
  return makeKernel(spec, [=](const Call &call) {
    Source<double> x = call.source(0), cos = call.source(1), sin = call.source(2);
    Sink<double> y = call.sink(0);
    int64_t half = width / 2;
    for (int64_t i = 0, n = call.out[0].elements() / 2; i < n; ++i) {
      int64_t row = i / half * width, pair = i % half;
      int64_t first = row + (interleaved ? 2 * pair : pair);
      int64_t second = interleaved ? first + 1 : first + half;
      double a = x[first], b = x[second]; // The result may lie over the operand.
      double sinA = sin[sinMap(first)], sinB = sin[sinMap(second)];
      // rotate(x) = (−b, a); its transpose applied to x·sin = (b·sinB, −a·sinA).
      y.set(first, a * cos[cosMap(first)] + (adjoint ? b * sinB : -b * sinA));
      y.set(second, b * cos[cosMap(second)] + (adjoint ? -a * sinA : a * sinB));
    }
  });
}

} // namespace maestro::kernels::reference

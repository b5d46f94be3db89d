#include "cost_models/kernel_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace maestro::cost_models {
namespace {

Status wrong(const std::string &name, std::string_view what) { return Status::invalidInput(fmt::format("curve '{}': {}", name, what)); }

std::vector<double> axis(const std::vector<ProductSample> &samples, double ProductSample::*size) {
  std::vector<double> values;
  for (const ProductSample &sample : samples)
    values.push_back(sample.*size);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

size_t placeOf(const std::vector<double> &values, double value) {
  return static_cast<size_t>(std::lower_bound(values.begin(), values.end(), value) - values.begin());
}

/// Between which two points of an axis a size lies, and how far from the first, in logarithms.
struct Between {
  size_t low = 0, high = 0;
  double share = 0;
};

Between between(const std::vector<double> &values, double value) {
  size_t above = placeOf(values, value);
  if (above == 0)
    return {0, 0, 0};
  if (above == values.size())
    return {above - 1, above - 1, 0};
  return {above - 1, above, std::log(value / values[above - 1]) / std::log(values[above] / values[above - 1])};
}

} // namespace

Status KernelCurves::addProducts(const std::string &name, std::vector<ProductSample> samples) {
  Grid grid{axis(samples, &ProductSample::m), axis(samples, &ProductSample::n), axis(samples, &ProductSample::k), {}};
  if (samples.empty() || samples.size() != grid.m.size() * grid.n.size() * grid.k.size())
    return wrong(name, fmt::format("{} products are no grid of {} x {} x {} sizes", samples.size(), grid.m.size(), grid.n.size(),
                                   grid.k.size()));
  grid.logRates.assign(samples.size(), std::nan(""));
  for (const ProductSample &s : samples) {
    if (!(s.m >= 1 && s.n >= 1 && s.k >= 1 && s.time.value > 0) || !std::isfinite(s.time.value))
      return wrong(name, "has a size below 1 or a time that is not above 0");
    size_t place = (placeOf(grid.m, s.m) * grid.n.size() + placeOf(grid.n, s.n)) * grid.k.size() + placeOf(grid.k, s.k);
    if (!std::isnan(grid.logRates[place]))
      return wrong(name, fmt::format("has the product {} x {} x {} twice", s.m, s.n, s.k));
    grid.logRates[place] = std::log(2 * s.m * s.n * s.k / s.time.value);
  }
  products[name] = std::move(grid);
  return Status();
}

Status KernelCurves::addCurve(const std::string &name, std::vector<WorkSample> samples) {
  std::sort(samples.begin(), samples.end(), [](const WorkSample &a, const WorkSample &b) { return a.work < b.work; });
  if (samples.empty())
    return wrong(name, "has no points");
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!(samples[i].work > 0 && samples[i].time.value > 0) || !std::isfinite(samples[i].work + samples[i].time.value))
      return wrong(name, "has a point that is not above 0");
    if (i > 0 && samples[i].work == samples[i - 1].work)
      return wrong(name, fmt::format("has the size {} twice", samples[i].work));
  }
  curves[name] = std::move(samples);
  return Status();
}

std::optional<Seconds> KernelCurves::productTime(std::string_view name, double m, double n, double k) const {
  auto found = products.find(name);
  if (found == products.end())
    return std::nullopt;
  const Grid &grid = found->second;
  std::array<Between, 3> at{between(grid.m, m), between(grid.n, n), between(grid.k, k)};
  double logRate = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    std::array<size_t, 3> index{};
    for (unsigned d = 0; d < 3; ++d) {
      bool high = corner >> d & 1;
      index[d] = high ? at[d].high : at[d].low;
      weight *= high ? at[d].share : 1 - at[d].share;
    }
    if (weight > 0)
      logRate += weight * grid.logRates[(index[0] * grid.n.size() + index[1]) * grid.k.size() + index[2]];
  }
  return Flops(2 * m * n * k) / FlopsPerSecond(std::exp(logRate));
}

std::optional<Seconds> KernelCurves::timeOf(std::string_view name, double work) const {
  auto found = curves.find(name);
  if (found == curves.end())
    return std::nullopt;
  const std::vector<WorkSample> &samples = found->second;
  if (work <= samples.front().work) // Less than the smallest takes its share of what is above a call's own time; that is small.
    return samples.front().time * std::max(work / samples.front().work, 0.25);
  if (work >= samples.back().work)
    return samples.back().time * (work / samples.back().work);
  auto above = std::lower_bound(samples.begin(), samples.end(), work, [](const WorkSample &s, double w) { return s.work < w; });
  const WorkSample &high = *above, &low = *(above - 1);
  double share = std::log(work / low.work) / std::log(high.work / low.work);
  return low.time * std::exp(share * std::log(ratio(high.time, low.time)));
}

std::string_view curveOf(std::string_view kernel) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 34> like{{
      {"gelu", "gelu"}, {"gelu_grad", "gelu"}, {"silu", "gelu"}, {"silu_grad", "gelu"}, {"tanh", "gelu"}, {"sigmoid", "gelu"},
      {"erf", "gelu"}, {"exp", "gelu"}, {"log", "gelu"}, {"pow", "gelu"}, {"sin", "gelu"}, {"cos", "gelu"},
      {"dropout", "gelu"}, {"softmax", "softmax"}, {"log_softmax", "softmax"}, {"softmax_grad", "softmax"},
      {"log_softmax_grad", "softmax"}, {"cross_entropy", "cross_entropy"}, {"cross_entropy_grad", "cross_entropy"},
      {"kl_divergence", "cross_entropy"}, {"kl_divergence_grad", "cross_entropy"}, {"rms_norm", "rms_norm"},
      {"layer_norm", "rms_norm"}, {"rms_norm_grad", "rms_norm_grad"}, {"layer_norm_grad", "rms_norm_grad"},
      {"transpose", "transpose"}, {"concat", "transpose"}, {"slice", "transpose"}, {"pad", "transpose"},
      {"gather", "gather"}, {"gather_grad", "gather_grad"}, {"attention", "attention"}, {"attention_grad", "attention_grad"},
      {"rope", "rope"}}};
  for (const auto &[name, curve] : like)
    if (name == kernel)
      return curve;
  return kernel.starts_with("reduce_") || kernel == "sum_squares" ? "reduce_sum" : "add";
}

bool isByFlops(std::string_view curve) { return curve == "attention" || curve == "attention_grad"; }

} // namespace maestro::cost_models

#include "cost_models/kernel_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace maestro::cost_models {
namespace {

constexpr std::string_view kBf16 = " bf16";

Status wrong(const std::string &name, std::string_view what) {
  return Status::invalidInput(fmt::format("curve '{}': {}", name, what));
}

std::vector<double> axis(const std::vector<GridSample> &samples, double GridSample::*size) {
  std::vector<double> values;
  for (const GridSample &sample : samples)
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

Status KernelCurves::addGrid(const std::string &name, std::vector<GridSample> samples) {
  Grid grid;
  grid.m = axis(samples, &GridSample::m);
  grid.n = axis(samples, &GridSample::n);
  grid.k = axis(samples, &GridSample::k);
  if (samples.empty() || samples.size() != grid.m.size() * grid.n.size() * grid.k.size())
    return wrong(name, fmt::format("{} points are no grid of {} x {} x {} sizes", samples.size(), grid.m.size(),
                                   grid.n.size(), grid.k.size()));
  grid.logRates.assign(samples.size(), std::nan(""));
  for (const GridSample &s : samples) {
    if (!(s.m >= 1 && s.n >= 1 && s.k >= 1 && s.time.value > 0) || !std::isfinite(s.time.value))
      return wrong(name, "has a size below 1 or a time that is not above 0");
    size_t place = (placeOf(grid.m, s.m) * grid.n.size() + placeOf(grid.n, s.n)) * grid.k.size() + placeOf(grid.k, s.k);
    if (!std::isnan(grid.logRates[place]))
      return wrong(name, fmt::format("has {} x {} x {} twice", s.m, s.n, s.k));
    grid.logRates[place] = std::log(2 * s.m * s.n * s.k / s.time.value);
  }
  grids[name] = std::move(grid);
  return Status();
}

Status KernelCurves::addCurve(const std::string &name, std::vector<CurveSample> samples) {
  std::sort(samples.begin(), samples.end(),
            [](const CurveSample &a, const CurveSample &b) { return a.bytes < b.bytes; });
  if (samples.empty())
    return wrong(name, "has no points");
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!(samples[i].bytes > 0 && samples[i].time.value > 0) ||
        !std::isfinite(samples[i].bytes + samples[i].time.value))
      return wrong(name, "has a point that is not above 0");
    if (i > 0 && samples[i].bytes == samples[i - 1].bytes)
      return wrong(name, fmt::format("has the size {} twice", samples[i].bytes));
  }
  curves[name] = std::move(samples);
  return Status();
}

double KernelCurves::Grid::logRate(double atM, double atN, double atK) const {
  std::array<Between, 3> at{between(m, atM), between(n, atN), between(k, atK)};
  double rate = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    std::array<size_t, 3> index{};
    for (unsigned d = 0; d < 3; ++d) {
      bool high = corner >> d & 1;
      index[d] = high ? at[d].high : at[d].low;
      weight *= high ? at[d].share : 1 - at[d].share;
    }
    if (weight > 0)
      rate += weight * logRates[(index[0] * n.size() + index[1]) * k.size() + index[2]];
  }
  return rate;
}

/// The mean of what calls exceed the others by, weighed by the inverse squared distance in octaves, beside a weight of
/// 1 for nothing. Four octaves of rows, or of bytes, count as one: how a product runs depends on its matrix.
double KernelCurves::Calls::excess(const CallSample &work) const {
  constexpr double kRows = 0.25, kSame = 1.0 / 400;
  auto octaves = [](double a, double b) { return std::log2(a / b); };
  double sum = 0, weights = 1;
  for (size_t i = 0; i < samples.size(); ++i) {
    double rows = kRows * octaves(work.m, samples[i].m), bytes = kRows * octaves(work.bytes, samples[i].bytes);
    double columns = octaves(work.n, samples[i].n), depth = octaves(work.k, samples[i].k);
    double weight = 1 / (rows * rows + bytes * bytes + columns * columns + depth * depth + kSame);
    sum += weight * logExcess[i];
    weights += weight;
  }
  return sum / weights;
}

Status KernelCurves::addCalls(const std::string &name, std::vector<CallSample> samples) {
  bool bf16 = name.ends_with(kBf16);
  std::string_view kernel(name.data(), name.size() - (bf16 ? kBf16.size() : 0));
  Calls own;
  for (const CallSample &s : samples) {
    if (!(s.m >= 1 && s.n >= 1 && s.k >= 1 && s.bytes > 0 && s.time.value > 0) ||
        !std::isfinite(s.m * s.n * s.k + s.bytes + s.time.value))
      return wrong(name, "has a call with a size below 1 or a time that is not above 0");
    std::optional<Seconds> usual = standInTime(curveOf(kernel, bf16), s);
    if (!usual)
      return wrong(name, "has calls, and no grid or curve stands for it before");
    own.logExcess.push_back(std::log(ratio(s.time, *usual)));
  }
  own.samples = std::move(samples);
  calls[name] = std::move(own);
  return Status();
}

std::optional<Seconds> KernelCurves::standInTime(std::string_view curve, const CallSample &work) const {
  std::optional<Seconds> time;
  for (; !time && !curve.empty(); curve = standInOf(curve))
    time = isGrid(curve) ? gridTime(curve, work.m, work.n, work.k) : curveTime(curve, work.bytes);
  return time;
}

std::optional<Seconds> KernelCurves::time(std::string_view kernel, bool bf16, const CallSample &work) const {
  std::optional<Seconds> usual = standInTime(curveOf(kernel, bf16), work);
  auto own = calls.find(callsOf(kernel, bf16));
  if (!usual || own == calls.end())
    return usual;
  return *usual * std::exp(own->second.excess(work));
}

std::optional<Seconds> KernelCurves::gridTime(std::string_view name, double m, double n, double k) const {
  auto found = grids.find(name);
  if (found == grids.end())
    return std::nullopt;
  const Grid &grid = found->second;
  return Flops(2 * m * n * k) / FlopsPerSecond(std::exp(grid.logRate(m, n, k)));
}

std::optional<Seconds> KernelCurves::curveTime(std::string_view name, double bytes) const {
  auto found = curves.find(name);
  if (found == curves.end())
    return std::nullopt;
  const std::vector<CurveSample> &samples = found->second;
  if (bytes <= samples.front()
                   .bytes) // Less than the smallest takes its share of what is above a call's own time; that is small.
    return samples.front().time * std::max(bytes / samples.front().bytes, 0.25);
  if (bytes >= samples.back().bytes)
    return samples.back().time * (bytes / samples.back().bytes);
  auto above = std::lower_bound(samples.begin(), samples.end(), bytes,
                                [](const CurveSample &s, double size) { return s.bytes < size; });
  const CurveSample &high = *above, &low = *(above - 1);
  double share = std::log(bytes / low.bytes) / std::log(high.bytes / low.bytes);
  return low.time * std::exp(share * std::log(ratio(high.time, low.time)));
}

std::string callsOf(std::string_view kernel, bool bf16) {
  std::string name(kernel);
  return bf16 ? name.append(kBf16) : name;
}

std::string_view curveOf(std::string_view kernel, bool bf16) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 48> like{
      {{"gelu", "gelu"},
       {"gelu_grad", "gelu_grad"},
       {"gelu tanh", "gelu tanh"},
       {"gelu_grad tanh", "gelu_grad tanh"},
       {"silu", "silu"},
       {"silu_grad", "silu_grad"},
       {"tanh", "silu"},
       {"sigmoid", "silu"},
       {"mul", "mul"},
       {"glu", "mul"},
       {"glu_grad", "silu_grad"},
       {"exp", "silu"},
       {"erf", "gelu"},
       {"log", "gelu"},
       {"pow", "sin"},
       {"sin", "sin"},
       {"cos", "sin"},
       {"dropout", "gelu"},
       {"softmax", "softmax"},
       {"log_softmax", "softmax"},
       {"softmax_grad", "softmax"},
       {"log_softmax_grad", "softmax"},
       {"cross_entropy", "cross_entropy"},
       {"cross_entropy_grad", "cross_entropy_grad"},
       {"kl_divergence", "kl_divergence"},
       {"kl_divergence_grad", "cross_entropy"},
       {"rms_norm", "rms_norm"},
       {"layer_norm", "layer_norm"},
       {"rms_norm_grad", "rms_norm_grad"},
       {"layer_norm_grad", "layer_norm_grad"},
       {"transpose", "transpose"},
       {"concat", "concat"},
       {"slice", "transpose"},
       {"pad", "transpose"},
       {"gather", "gather"},
       {"gather_nd", "gather"},
       {"gather_grad", "gather_grad"},
       {"attention", "attention"},
       {"attention_grad", "attention_grad"},
       {"attention causal", "attention causal"},
       {"attention_grad causal", "attention_grad causal"},
       {"attention masked", "attention masked"},
       {"attention_grad masked", "attention_grad masked"},
       {"rope", "rope"},
       {"sum_squares", "reduce_sum"},
       {"masked_scatter", "masked_scatter"},
       {"masked_scatter_grad", "masked_scatter"}}};
  if (kernel.starts_with("conv") && !bf16)
    return kernel;
  if (kernel == "matmul transposed" && !bf16)
    return "matmul transposed f32";
  if (kernel.starts_with("matmul") || kernel.starts_with("conv"))
    return bf16 ? "matmul bf16" : "matmul f32";
  for (const auto &[name, curve] : like)
    if (name == kernel)
      return curve;
  return kernel.starts_with("reduce_") ? "reduce_sum" : "add";
}

std::string_view standInOf(std::string_view curve) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 16> standIns{
      {{"attention causal", "attention"},
       {"attention masked", "attention"},
       {"attention_grad causal", "attention_grad"},
       {"attention_grad masked", "attention_grad"},
       {"matmul transposed f32", "matmul f32"},
       {"gelu tanh", "gelu"},
       {"gelu_grad tanh", "gelu_grad"},
       {"gelu_grad", "gelu"},
       {"silu", "gelu"},
       {"silu_grad", "silu"},
       {"sin", "gelu"},
       {"mul", "add"},
       {"concat", "transpose"},
       {"layer_norm", "rms_norm"},
       {"layer_norm_grad", "rms_norm_grad"},
       {"cross_entropy_grad", "softmax"}}};
  for (const auto &[name, like] : standIns)
    if (name == curve)
      return like;
  return {};
}

bool isGrid(std::string_view curve) {
  static constexpr std::array<std::string_view, 20> grids{"matmul f32",
                                                          "matmul transposed f32",
                                                          "matmul bf16",
                                                          "attention",
                                                          "attention_grad",
                                                          "attention causal",
                                                          "attention_grad causal",
                                                          "attention masked",
                                                          "attention_grad masked",
                                                          "rms_norm",
                                                          "rms_norm_grad",
                                                          "layer_norm",
                                                          "layer_norm_grad",
                                                          "softmax",
                                                          "cross_entropy",
                                                          "cross_entropy_grad",
                                                          "kl_divergence",
                                                          "conv",
                                                          "conv_grad_input",
                                                          "conv_grad_weight"};
  return std::find(grids.begin(), grids.end(), curve) != grids.end();
}

} // namespace maestro::cost_models

// Products as plain loops, each element of the result by one thread or block: for what no library takes.
#include "kernels/cuda/product.h"

#include "kernels/cuda/block.h"

namespace maestro::kernels::cuda {
namespace {

constexpr int kPartial = 32; ///< Products that are summed before they are added to the others: sums of sums round less.

template <typename C> __device__ void matmul(const MatmulParams &p) {
  int64_t at = threadOfGrid(), starts[2];
  if (at >= p.count)
    return;
  int64_t j = at % p.n, i = at / p.n % p.m;
  offsetsOf(p.batch, at / p.n / p.m, starts);
  int64_t a = starts[0] + (p.transposeA ? i : i * p.k), stepA = p.transposeA ? p.m : 1;
  int64_t b = starts[1] + (p.transposeB ? j * p.k : j), stepB = p.transposeB ? 1 : p.n;
  C sum = p.bias.data ? load<C>(p.bias, j) : C(0);
  for (int64_t first = 0; first < p.k; first += kPartial) {
    C partial = C(0);
    for (int64_t l = first; l < first + kPartial && l < p.k; ++l)
      partial = static_cast<C>(partial + load<C>(p.a, a + l * stepA) * load<C>(p.b, b + l * stepB));
    sum = static_cast<C>(sum + partial);
  }
  store(p.y, at, p.addend.data ? static_cast<C>(load<C>(p.addend, at) + sum) : sum);
}

//===--- Windows ----------------------------------------------------------------===//

__device__ int64_t volume(const int64_t (&dims)[3]) { return dims[0] * dims[1] * dims[2]; }

/// The input element under tap `tap` of the window of output element `out`; −1 in the padding, −2 beyond it.
__device__ int64_t inputAt(const WindowDims &w, int64_t out, int64_t tap) {
  int64_t position = 0, stride = 1;
  bool padding = false;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    int64_t at = out % w.output[d] * w.stride[d] + tap % w.kernel[d] * w.dilation[d] - w.low[d];
    out /= w.output[d];
    tap /= w.kernel[d];
    if (at >= w.input[d] + w.high[d])
      return -2;
    padding |= at < 0 || at >= w.input[d];
    position += at * stride;
    stride *= w.input[d];
  }
  return padding ? -1 : position;
}

/// The output element whose window has input element `in` under tap `tap`; −1: none.
__device__ int64_t outputAt(const WindowDims &w, int64_t in, int64_t tap) {
  int64_t position = 0, stride = 1;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    int64_t at = in % w.input[d] + w.low[d] - tap % w.kernel[d] * w.dilation[d];
    in /= w.input[d];
    tap /= w.kernel[d];
    if (at < 0 || at % w.stride[d] || at / w.stride[d] >= w.output[d])
      return -1;
    position += at / w.stride[d] * stride;
    stride *= w.output[d];
  }
  return position;
}

__device__ void conv(const ConvParams &p) {
  int64_t at = threadOfGrid(), outputs = volume(p.window.output), inputs = volume(p.window.input);
  if (at >= p.samples * p.outChannels * outputs)
    return;
  int64_t taps = volume(p.window.kernel), out = at % outputs, m = at / outputs % p.outChannels;
  int64_t n = at / outputs / p.outChannels, channels = p.inChannels / p.groups;
  int64_t first = n * p.inChannels + m / (p.outChannels / p.groups) * channels;
  float sum = p.bias.data ? load<float>(p.bias, m) : 0;
  for (int64_t c = 0; c < channels; ++c) {
    float partial = 0;
    for (int64_t tap = 0; tap < taps; ++tap)
      if (int64_t in = inputAt(p.window, out, tap); in >= 0)
        partial += load<float>(p.x, (first + c) * inputs + in) * load<float>(p.w, (m * channels + c) * taps + tap);
    sum += partial;
  }
  store(p.y, at, sum);
}

/// The gradient of x, which is p.x.
__device__ void convGradInput(const ConvParams &p) {
  int64_t at = threadOfGrid(), outputs = volume(p.window.output), inputs = volume(p.window.input);
  if (at >= p.samples * p.inChannels * inputs)
    return;
  int64_t taps = volume(p.window.kernel), in = at % inputs, channel = at / inputs % p.inChannels;
  int64_t n = at / inputs / p.inChannels, channels = p.inChannels / p.groups, perGroup = p.outChannels / p.groups;
  int64_t firstOut = channel / channels * perGroup, c = channel % channels;
  float sum = 0;
  for (int64_t m = firstOut; m < firstOut + perGroup; ++m) {
    float partial = 0;
    for (int64_t tap = 0; tap < taps; ++tap)
      if (int64_t out = outputAt(p.window, in, tap); out >= 0)
        partial += load<float>(p.y, (n * p.outChannels + m) * outputs + out) *
                   load<float>(p.w, (m * channels + c) * taps + tap);
    sum += partial;
  }
  store(p.x, at, sum);
}

/// The gradient of w, which is p.w; a block an element.
__device__ void convGradWeight(const ConvParams &p) {
  int64_t at = blockIdx.x, outputs = volume(p.window.output), inputs = volume(p.window.input);
  int64_t taps = volume(p.window.kernel), channels = p.inChannels / p.groups;
  int64_t tap = at % taps, c = at / taps % channels, m = at / taps / channels;
  int64_t channel = m / (p.outChannels / p.groups) * channels + c;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < p.samples * outputs; i += kBlock) {
    int64_t n = i / outputs, out = i % outputs;
    if (int64_t in = inputAt(p.window, out, tap); in >= 0)
      sum += load<float>(p.x, (n * p.inChannels + channel) * inputs + in) *
             load<float>(p.y, (n * p.outChannels + m) * outputs + out);
  }
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    store(p.w, at, sum);
}

/// The position in the plane of the window's first largest element (NaN counts as largest), or −1.
__device__ int64_t largestAt(const PoolParams &p, int64_t plane, int64_t out) {
  int64_t best = -1, taps = volume(p.window.kernel);
  float held = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t at = inputAt(p.window, out, tap);
    if (at < 0)
      continue;
    float value = load<float>(p.x, plane + at);
    if (best < 0 || value > held || (value != value && held == held)) {
      best = at;
      held = value;
    }
  }
  return best;
}

/// The number of elements that the mean of output `out` divides by.
__device__ float divisorOf(const PoolParams &p, int64_t out) {
  int64_t count = 0, taps = volume(p.window.kernel);
  for (int64_t tap = 0; tap < taps; ++tap)
    count += inputAt(p.window, out, tap) >= (p.countPadding ? -1 : 0);
  return static_cast<float>(count);
}

__device__ void maxPool(const PoolParams &p) {
  int64_t at = threadOfGrid(), outputs = volume(p.window.output);
  if (at >= p.planes * outputs)
    return;
  int64_t plane = at / outputs * volume(p.window.input), best = largestAt(p, plane, at % outputs);
  store(p.y, at, best < 0 ? -kInfinity : load<float>(p.x, plane + best));
}

__device__ void maxPoolGrad(const PoolParams &p) {
  int64_t at = threadOfGrid(), inputs = volume(p.window.input), outputs = volume(p.window.output);
  if (at >= p.planes * inputs)
    return;
  int64_t plane = at / inputs, in = at % inputs;
  float sum = 0;
  for (int64_t tap = volume(p.window.kernel); tap-- > 0;)
    if (int64_t out = outputAt(p.window, in, tap); out >= 0 && largestAt(p, plane * inputs, out) == in)
      sum += load<float>(p.dy, plane * outputs + out);
  store(p.y, at, sum);
}

__device__ void averagePool(const PoolParams &p) {
  int64_t at = threadOfGrid(), outputs = volume(p.window.output), taps = volume(p.window.kernel);
  if (at >= p.planes * outputs)
    return;
  int64_t plane = at / outputs * volume(p.window.input), out = at % outputs;
  float sum = 0;
  for (int64_t tap = 0; tap < taps; ++tap)
    if (int64_t in = inputAt(p.window, out, tap); in >= 0)
      sum += load<float>(p.x, plane + in);
  store(p.y, at, sum / divisorOf(p, out));
}

__device__ void averagePoolGrad(const PoolParams &p) {
  int64_t at = threadOfGrid(), inputs = volume(p.window.input), outputs = volume(p.window.output);
  if (at >= p.planes * inputs)
    return;
  int64_t plane = at / inputs;
  float sum = 0;
  for (int64_t tap = volume(p.window.kernel); tap-- > 0;)
    if (int64_t out = outputAt(p.window, at % inputs, tap); out >= 0)
      sum += load<float>(p.dy, plane * outputs + out) / divisorOf(p, out);
  store(p.y, at, sum);
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(matmul_f32, MatmulParams, matmul<float>)                                                                           \
  X(matmul_f64, MatmulParams, matmul<double>)                                                                          \
  X(matmul_integer, MatmulParams, matmul<uint64_t>)                                                                    \
  X(conv_any, ConvParams, conv)                                                                                        \
  X(conv_grad_input_any, ConvParams, convGradInput)                                                                    \
  X(conv_grad_weight_any, ConvParams, convGradWeight)                                                                  \
  X(max_pool_any, PoolParams, maxPool)                                                                                 \
  X(max_pool_grad_any, PoolParams, maxPoolGrad)                                                                        \
  X(avg_pool_any, PoolParams, averagePool)                                                                             \
  X(avg_pool_grad_any, PoolParams, averagePoolGrad)

MAESTRO_KERNELS(product, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda

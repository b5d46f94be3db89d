// Preparing products as plain loops.
#include "kernels/cuda/product.h"

#include "kernels/accumulate.h"
#include "kernels/cuda/conv.h"
#include "kernels/cuda/prepare.h"
#include "kernels/window.h"

namespace maestro::kernels::cuda {
namespace {

std::span<const int64_t> leading(const TensorType &type) {
  return type.shape().first(static_cast<size_t>(type.rank - 2));
}

/// Strides of an operand's matrices, of `elements` each, in the result's leading dims.
Dims batchStrides(const TensorType &type, const TensorType &result, int64_t elements) {
  Dims strides = broadcastStrides(leading(type), leading(result));
  for (int64_t &stride : strides)
    stride *= elements;
  return strides;
}

WindowDims windowDims(const Window &w) {
  WindowDims dims{};
  for (size_t d = 0; d < 3; ++d) {
    dims.input[d] = w.input[d];
    dims.kernel[d] = w.kernel[d];
    dims.output[d] = w.output[d];
    dims.stride[d] = w.stride[d];
    dims.dilation[d] = w.dilation[d];
    dims.low[d] = w.low[d];
    dims.high[d] = w.high[d];
  }
  return dims;
}

/// f32 is computed in: what is not f64 or an integer.
bool isNarrowFloat(const TensorType &type) { return isFloat(type.dtype) && type.dtype != DType::F64; }

} // namespace

PreparedKernel prepareMatmul(const Call &call) {
  const TensorType &a = call.in(0), &b = call.in(1), &y = call.out(0);
  MatmulParams params{};
  params.transposeA = call.attributes().getFlag("transpose_a");
  params.transposeB = call.attributes().getFlag("transpose_b");
  params.a = anyTensor(a);
  params.b = anyTensor(b);
  params.bias = call.hasIn(2) ? anyTensor(call.in(2)) : AnyTensor{};
  params.y = params.addend = anyTensor(y);
  params.count = y.elements();
  params.m = y.dims[y.rank - 2];
  params.n = y.dims[y.rank - 1];
  params.k = a.dims[a.rank - (params.transposeA ? 2 : 1)];
  params.batch =
      joinDims<2>(leading(y), {batchStrides(a, y, params.m * params.k), batchStrides(b, y, params.k * params.n)});
  const char *type = y.dtype == DType::F64 ? "f64" : isFloat(y.dtype) ? "f32" : "integer";
  bool adds = (accumulateMask(call.spec) & 1) != 0;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string("matmul_") + type, blocksFor(params.count), params,
                            [adds](MatmulParams &p, const Operands &o) {
                              p.a.data = address(o.in(0));
                              p.b.data = address(o.in(1));
                              p.bias.data = address(o.in(2));
                              p.addend.data = adds ? o.out(0) : address(o.in(3));
                              p.y.data = o.out(0);
                            }));
  return prepared(std::move(sequence));
}

namespace {

/// Indices of x, w and y: operands from 0 on, the result −1, absent −2.
struct ConvOperands {
  int x, w, y, bias;
};

PreparedKernel prepareConvolution(const Call &call, const char *name, ConvOperands at) {
  auto typeOf = [&](int i) -> const TensorType & { return i < 0 ? call.out(0) : call.in(static_cast<size_t>(i)); };
  const TensorType &x = typeOf(at.x), &w = typeOf(at.w), &y = typeOf(at.y);
  if (!isNarrowFloat(x) || !isNarrowFloat(w) || !isNarrowFloat(y))
    return unsupported();
  MAESTRO_ASSIGN(std::unique_ptr<Kernel> byProducts, prepareConvolutionByProducts(call, kMaxPatchBytes));
  if (byProducts)
    return PreparedKernel(std::move(byProducts));
  ConvParams params{};
  params.x = anyTensor(x);
  params.w = anyTensor(w);
  params.y = anyTensor(y);
  bool biased = at.bias >= 0 && call.hasIn(static_cast<size_t>(at.bias));
  params.bias = biased ? anyTensor(typeOf(at.bias)) : AnyTensor{};
  params.window = windowDims(Window(x, w.shape().subspan(2), y, call.attributes()));
  params.samples = x.dims[0];
  params.inChannels = x.dims[1];
  params.outChannels = w.dims[0];
  params.groups = call.attributes().getInt("group", 1);
  int64_t elements = call.out(0).elements();
  Grid grid = at.w < 0 ? Grid{static_cast<unsigned>(std::min<int64_t>(elements, UINT32_MAX))} : blocksFor(elements);
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(name, grid, params, [at](ConvParams &p, const Operands &o) {
    auto addressOf = [&](int i) { return i < 0 ? o.out(0) : address(o.in(static_cast<size_t>(i))); };
    p.x.data = addressOf(at.x);
    p.w.data = addressOf(at.w);
    p.y.data = addressOf(at.y);
    p.bias.data = at.bias < 0 ? nullptr : addressOf(at.bias);
  }));
  return prepared(std::move(sequence));
}

/// x is operand 0, except in the gradient of a mean, which needs none.
PreparedKernel preparePooling(const Call &call, const char *name, const TensorType &x, const TensorType &y, int dy) {
  if (!isNarrowFloat(call.in(0)) || !isNarrowFloat(call.out(0)))
    return unsupported();
  PoolParams params{};
  params.x = anyTensor(x);
  params.dy = dy >= 0 ? anyTensor(call.in(static_cast<size_t>(dy))) : AnyTensor{};
  params.y = anyTensor(call.out(0));
  params.window = windowDims(Window(x, call.attributes().getInts("kernel"), y, call.attributes()));
  params.planes = x.dims[0] * x.dims[1];
  params.countPadding = call.attributes().getFlag("count_include_pad");
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(name, blocksFor(call.out(0).elements()), params, [dy](PoolParams &p, const Operands &o) {
    p.x.data = address(o.in(0));
    p.dy.data = dy < 0 ? nullptr : address(o.in(static_cast<size_t>(dy)));
    p.y.data = o.out(0);
  }));
  return prepared(std::move(sequence));
}

} // namespace

PreparedKernel prepareConv(const Call &call) { return prepareConvolution(call, "conv_any", {0, 1, -1, 2}); }
PreparedKernel prepareConvGradInput(const Call &call) {
  return prepareConvolution(call, "conv_grad_input_any", {-1, 1, 0, -2});
}
PreparedKernel prepareConvGradWeight(const Call &call) {
  return prepareConvolution(call, "conv_grad_weight_any", {0, -1, 1, -2});
}
PreparedKernel prepareMaxPool(const Call &call) {
  return preparePooling(call, "max_pool_any", call.in(0), call.out(0), -1);
}
PreparedKernel prepareMaxPoolGrad(const Call &call) {
  return preparePooling(call, "max_pool_grad_any", call.in(0), call.in(1), 1);
}
PreparedKernel prepareAvgPool(const Call &call) {
  return preparePooling(call, "avg_pool_any", call.in(0), call.out(0), -1);
}
PreparedKernel prepareAvgPoolGrad(const Call &call) {
  return preparePooling(call, "avg_pool_grad_any", call.out(0), call.in(0), 0);
}

} // namespace maestro::kernels::cuda

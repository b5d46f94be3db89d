// Kernels that treat rows independently: softmax, log-softmax, rotary embedding.
#include "kernels/cpu/prepare.h"

namespace maestro::kernels::cpu {
namespace {

/// The element type's loops if every operand has it and `axis` is the last dim; otherwise null.
const FloatLoops *lastAxisLoops(const CallSpec &spec, const Loops &loops) {
  int index = floatIndex(spec.outputs[0].dtype);
  if (index < 0 || spec.attributes.getInt("axis", 0) != spec.outputs[0].rank - 1)
    return nullptr;
  for (const TensorType &operand : spec.inputs)
    if (operand.dtype != spec.outputs[0].dtype)
      return nullptr;
  return &loops.floats[index];
}

} // namespace

PreparedKernel prepareSoftmax(const CallSpec &spec, const Loops &loops) {
  const FloatLoops *floats = lastAxisLoops(spec, loops);
  if (!floats)
    return unsupported();
  SoftmaxLoop loop = spec.kernel == "softmax" ? floats->softmax : floats->logSoftmax;
  int64_t width = spec.outputs[0].shape().back(),
          rows = product(spec.outputs[0].shape().first(spec.outputs[0].rank - 1));
  int64_t bytes = width * static_cast<int64_t>(byteSize(spec.outputs[0].dtype));
  if (width == 0)
    return unsupported();
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    parallelFor(threads, rows, rowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        loop(at(call.outputs[0], r, bytes), at(call.inputs[0], r, bytes), width);
    });
  });
}

PreparedKernel prepareSoftmaxGrad(const CallSpec &spec, const Loops &loops) {
  const FloatLoops *floats = lastAxisLoops(spec, loops);
  if (!floats)
    return unsupported();
  SoftmaxGradLoop loop = spec.kernel == "softmax_grad" ? floats->softmaxGrad : floats->logSoftmaxGrad;
  int64_t width = spec.outputs[0].shape().back(),
          rows = product(spec.outputs[0].shape().first(spec.outputs[0].rank - 1));
  int64_t bytes = width * static_cast<int64_t>(byteSize(spec.outputs[0].dtype));
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    parallelFor(threads, rows, rowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        loop(at(call.outputs[0], r, bytes), at(call.inputs[0], r, bytes), at(call.inputs[1], r, bytes), width);
    });
  });
}

PreparedKernel prepareRope(const CallSpec &spec, const Loops &loops) {
  const TensorType &x = spec.inputs[0], &cos = spec.inputs[1], &sin = spec.inputs[2];
  int index = floatIndex(x.dtype), table = floatIndex(cos.dtype);
  int64_t width = x.shape().back();
  bool wholeRows = cos.rank > 0 && sin.rank > 0 && cos.shape().back() == width && sin.shape().back() == width;
  if (index < 0 || table < 0 || sin.dtype != cos.dtype || !wholeRows || width == 0)
    return unsupported();
  auto loop = loops.floats[index].rope[table];
  auto outer = x.shape().first(x.rank - 1);
  IndexMap cosRows = broadcastMap(cos.shape().first(cos.rank - 1), outer);
  IndexMap sinRows = broadcastMap(sin.shape().first(sin.rank - 1), outer);
  int64_t bytes = width * static_cast<int64_t>(byteSize(x.dtype));
  int64_t tableBytes = width * static_cast<int64_t>(byteSize(cos.dtype)), rows = product(outer);
  bool interleaved = spec.attributes.getFlag("interleaved"), adjoint = spec.attributes.getFlag("adjoint");
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    parallelFor(threads, rows, rowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        loop(at(call.outputs[0], r, bytes), at(call.inputs[0], r, bytes), at(call.inputs[1], cosRows(r), tableBytes),
             at(call.inputs[2], sinRows(r), tableBytes), width, interleaved, adjoint);
    });
  });
}

} // namespace maestro::kernels::cpu

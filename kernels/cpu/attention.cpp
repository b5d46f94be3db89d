// Attention: work items of one (batch, head, block of queries) forward, one (batch, key head) backward.
#include "kernels/attention_shape.h"
#include "kernels/cpu/loops/attention_call.h"
#include "kernels/cpu/prepare.h"

namespace maestro::kernels::cpu {
namespace {

MaskKind maskKind(DType dtype) {
  if (dtype == DType::Bool)
    return MaskKind::Boolean;
  if (dtype == DType::F32)
    return MaskKind::Float;
  return dtype == DType::BF16 ? MaskKind::BFloat16 : MaskKind::None;
}

RowStrides strides(const AttentionShape &shape, int64_t count, int64_t length, int64_t width) {
  if (shape.sequenceMajor)
    return {length * count * width, width, count * width};
  return {count * length * width, length * width, width};
}

AttentionCall describe(const CallSpec &spec, const AttentionShape &shape, size_t mask) {
  AttentionCall call{};
  call.heads = shape.heads;
  call.keyHeads = shape.keyHeads;
  call.queries = shape.queries;
  call.keys = shape.keys;
  call.depth = shape.depth;
  call.valueDepth = shape.valueDepth;
  call.scale = static_cast<float>(shape.scale);
  call.softcap = static_cast<float>(shape.softcap);
  call.causal = shape.causal;
  call.causalOffset = shape.causalOffset;
  if (spec.inputs.size() > mask && spec.inputs[mask].present)
    call.maskKind = maskKind(spec.inputs[mask].dtype);
  call.maskBatch = shape.maskStrides[0];
  call.maskHead = shape.maskStrides[1];
  call.maskQuery = shape.maskStrides[2];
  call.maskKey = shape.maskStrides[3];
  call.qStrides = strides(shape, shape.heads, shape.queries, shape.depth);
  call.kStrides = strides(shape, shape.keyHeads, shape.keys, shape.depth);
  call.vStrides = strides(shape, shape.keyHeads, shape.keys, shape.valueDepth);
  call.oStrides = strides(shape, shape.heads, shape.queries, shape.valueDepth);
  return call;
}

/// Whether q, k, v (from operand `q` on) share a floating type and the mask is of a known kind.
bool covered(const CallSpec &spec, size_t q, size_t mask) {
  DType dtype = spec.inputs[q].dtype;
  bool masked = spec.inputs.size() > mask && spec.inputs[mask].present;
  return floatIndex(dtype) >= 0 && spec.inputs[q + 1].dtype == dtype && spec.inputs[q + 2].dtype == dtype &&
         (!masked || maskKind(spec.inputs[mask].dtype) != MaskKind::None);
}

/// Products of pairs read two neighbours along the depth at once.
AttentionLoops bestLoops(const Loops &loops, DType dtype, const AttentionShape &shape) {
  bool even = shape.depth % 2 == 0 && shape.valueDepth % 2 == 0;
  bool paired = dtype == DType::BF16 && even && loops.pairedAttention.forward;
  return paired ? loops.pairedAttention : loops.floats[floatIndex(dtype)].attention;
}

AttentionShape shapeOf(const CallSpec &spec, size_t q, size_t mask) {
  bool masked = spec.inputs.size() > mask && spec.inputs[mask].present;
  return AttentionShape(spec.attributes, spec.inputs[q], spec.inputs[q + 1], spec.inputs[q + 2],
                        masked ? &spec.inputs[mask] : nullptr);
}

} // namespace

PreparedKernel prepareAttention(const CallSpec &spec, const Loops &loops) {
  if (!covered(spec, 0, 3) || spec.outputs[1].dtype != DType::F32)
    return unsupported();
  AttentionShape shape = shapeOf(spec, 0, 3);
  AttentionCall prepared = describe(spec, shape, 3);
  auto loop = bestLoops(loops, spec.inputs[0].dtype, shape).forward;
  int64_t blocks = (shape.queries + AttentionCall::kQueryBlock - 1) / AttentionCall::kQueryBlock;
  int64_t perWorker = paddedWidth(forwardScratch(prepared));
  auto body = [=, threads = spec.threads](const Operands &operands) {
    AttentionCall call = prepared;
    call.q = operands.inputs[0];
    call.k = operands.inputs[1];
    call.v = operands.inputs[2];
    call.mask = operands.hasInput(3) ? operands.inputs[3] : nullptr;
    call.o = operands.outputs[0];
    call.lse = operands.output<float>(1);
    float *scratch = static_cast<float *>(operands.scratch);
    int64_t items = shape.batch * shape.heads * blocks;
    parallelItems(threads, items, [&](int64_t item, int worker) {
      int64_t head = item / blocks, block = blocks - 1 - item % blocks; // Long causal rows first.
      loop(call, head / shape.heads, head % shape.heads, block, scratch + worker * perWorker);
    });
  };
  return makeKernel(spec, body, static_cast<size_t>(perWorker * spec.threads) * sizeof(float));
}

PreparedKernel prepareAttentionGrad(const CallSpec &spec, const Loops &loops) {
  DType dtype = spec.inputs[0].dtype;
  if (!covered(spec, 1, 6) || spec.inputs[1].dtype != dtype || spec.inputs[4].dtype != dtype ||
      spec.inputs[5].dtype != DType::F32)
    return unsupported();
  for (const TensorType &result : spec.outputs)
    if (!result.present || result.dtype != dtype)
      return unsupported();
  AttentionShape shape = shapeOf(spec, 1, 6);
  AttentionCall prepared = describe(spec, shape, 6);
  auto loop = bestLoops(loops, dtype, shape).backward;
  int64_t perWorker = paddedWidth(backwardScratch(prepared));
  auto body = [=, threads = spec.threads](const Operands &operands) {
    AttentionCall call = prepared;
    call.grad = operands.inputs[0];
    call.q = operands.inputs[1];
    call.k = operands.inputs[2];
    call.v = operands.inputs[3];
    call.result = operands.inputs[4];
    call.lse = const_cast<float *>(operands.input<float>(5)); // Only read here.
    call.mask = operands.hasInput(6) ? operands.inputs[6] : nullptr;
    call.dq = operands.outputs[0];
    call.dk = operands.outputs[1];
    call.dv = operands.outputs[2];
    float *scratch = static_cast<float *>(operands.scratch);
    parallelItems(threads, shape.batch * shape.keyHeads, [&](int64_t item, int worker) {
      loop(call, item / shape.keyHeads, item % shape.keyHeads, scratch + worker * perWorker);
    });
  };
  return makeKernel(spec, body, static_cast<size_t>(perWorker * spec.threads) * sizeof(float));
}

} // namespace maestro::kernels::cpu

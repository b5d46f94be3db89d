// Losses: one row of logits after the other, each read once from memory.
#include "kernels/cpu/prepare.h"
#include "kernels/indices.h"

#include <cmath>

namespace maestro::kernels::cpu {
namespace {

int64_t labelAt(const void *labels, DType dtype, int64_t i) {
  return dtype == DType::I64 ? static_cast<const int64_t *>(labels)[i] : static_cast<const int32_t *>(labels)[i];
}

/// Labels are checked before any thread starts.
Status checkLabels(const Operands &call, int64_t ignored, std::string_view kernel) {
  int64_t classes = call.in[0].shape().back();
  for (int64_t i = 0, n = call.in[1].elements(); i < n; ++i) {
    int64_t label = labelAt(call.inputs[1], call.in[1].dtype, i);
    if (label != ignored && (label < 0 || label >= classes))
      return indexError(kernel, label, i, 0, classes);
  }
  return Status();
}

float valueAt(const void *x, DType dtype, int64_t i) {
  return dtype == DType::F32 ? static_cast<const float *>(x)[i]
                             : static_cast<float>(static_cast<const BFloat16 *>(x)[i]);
}
bool isLabel(DType dtype) { return dtype == DType::I64 || dtype == DType::I32; }

} // namespace

PreparedKernel prepareCrossEntropy(const CallSpec &spec, const Loops &loops) {
  DType dtype = spec.inputs[0].dtype;
  int64_t width = spec.inputs[0].shape().back(), rows = spec.inputs[1].elements();
  if (floatIndex(dtype) < 0 || !isLabel(spec.inputs[1].dtype) || spec.outputs[0].dtype != DType::F32 ||
      spec.outputs[1].dtype != DType::F32 || width == 0)
    return unsupported();
  auto logSumExp = loops.floats[floatIndex(dtype)].loss.logSumExp;
  int64_t ignored = spec.attributes.getInt("ignore_index", -100), bytes = width * static_cast<int64_t>(byteSize(dtype));
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) -> Status {
    MAESTRO_TRY(checkLabels(call, ignored, "cross_entropy"));
    parallelFor(threads, rows, rowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const void *row = at(call.inputs[0], r, bytes);
        int64_t label = labelAt(call.inputs[1], call.in[1].dtype, r);
        float lse = logSumExp(row, width, 1.0f);
        call.output<float>(1)[r] = lse;
        call.output<float>(0)[r] = label == ignored ? 0.0f : lse - valueAt(row, dtype, label);
      }
    });
    return Status();
  });
}

PreparedKernel prepareCrossEntropyGrad(const CallSpec &spec, const Loops &loops) {
  DType dtype = spec.inputs[0].dtype;
  int64_t width = spec.inputs[0].shape().back(), rows = spec.inputs[1].elements();
  if (floatIndex(dtype) < 0 || !isLabel(spec.inputs[1].dtype) || spec.inputs[2].dtype != DType::F32 ||
      spec.inputs[3].dtype != DType::F32 || spec.outputs[0].dtype != dtype || width == 0)
    return unsupported();
  auto softmaxScaled = loops.floats[floatIndex(dtype)].loss.softmaxScaled;
  int64_t ignored = spec.attributes.getInt("ignore_index", -100), bytes = width * static_cast<int64_t>(byteSize(dtype));
  IndexMap spread = broadcastMap(spec.inputs[3].shape(), spec.inputs[1].shape());
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) -> Status {
    MAESTRO_TRY(checkLabels(call, ignored, "cross_entropy_grad"));
    parallelFor(threads, rows, rowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        void *row = at(call.outputs[0], r, bytes);
        int64_t label = labelAt(call.inputs[1], call.in[1].dtype, r);
        float dloss = call.input<float>(3)[spread(r)];
        if (label == ignored || dloss == 0) {
          std::fill_n(static_cast<char *>(row), bytes, 0);
          continue;
        }
        const void *logits = at(call.inputs[0], r, bytes);
        float lse = call.input<float>(2)[r];
        float own = std::exp(valueAt(logits, dtype, label) - lse); // Before its place is overwritten.
        softmaxScaled(row, logits, width, lse, dloss);
        if (dtype == DType::F32)
          static_cast<float *>(row)[label] = (own - 1) * dloss;
        else
          static_cast<BFloat16 *>(row)[label] = BFloat16((own - 1) * dloss);
      }
    });
    return Status();
  });
}

PreparedKernel prepareKlDivergence(const CallSpec &spec, const Loops &loops) {
  DType dtype = spec.inputs[0].dtype;
  int64_t width = spec.inputs[0].shape().back(), rows = spec.outputs[0].elements();
  if (floatIndex(dtype) < 0 || spec.inputs[1].dtype != dtype || spec.outputs[0].dtype != DType::F32 || width == 0)
    return unsupported();
  const LossLoops &loss = loops.floats[floatIndex(dtype)].loss;
  float inverse = static_cast<float>(1 / spec.attributes.getFloat("temperature", 1));
  int64_t bytes = width * static_cast<int64_t>(byteSize(dtype));
  return makeKernel(spec, [=, &loss, threads = spec.threads](const Operands &call) {
    parallelFor(threads, rows, rowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const void *student = at(call.inputs[0], r, bytes), *teacher = at(call.inputs[1], r, bytes);
        float ls = loss.logSumExp(student, width, inverse), lt = loss.logSumExp(teacher, width, inverse);
        call.output<float>(0)[r] = loss.klDivergence(student, teacher, width, inverse, ls, lt);
        call.output<float>(1)[r] = ls;
        call.output<float>(2)[r] = lt;
      }
    });
  });
}

PreparedKernel prepareKlDivergenceGrad(const CallSpec &spec, const Loops &loops) {
  DType dtype = spec.inputs[0].dtype;
  int64_t width = spec.inputs[0].shape().back(), rows = spec.inputs[2].elements();
  if (floatIndex(dtype) < 0 || spec.inputs[1].dtype != dtype || spec.outputs[0].dtype != dtype ||
      spec.inputs[2].dtype != DType::F32 || spec.inputs[4].dtype != DType::F32 || width == 0)
    return unsupported();
  auto loop = loops.floats[floatIndex(dtype)].loss.klDivergenceGrad;
  float inverse = static_cast<float>(1 / spec.attributes.getFloat("temperature", 1));
  int64_t bytes = width * static_cast<int64_t>(byteSize(dtype));
  IndexMap spread = broadcastMap(spec.inputs[4].shape(), spec.inputs[2].shape());
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    parallelFor(threads, rows, rowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        loop(at(call.outputs[0], r, bytes), at(call.inputs[0], r, bytes), at(call.inputs[1], r, bytes), width, inverse,
             call.input<float>(2)[r], call.input<float>(3)[r], call.input<float>(4)[spread(r)]);
    });
  });
}

} // namespace maestro::kernels::cpu

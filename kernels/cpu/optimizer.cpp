// Optimizer steps: every element read and written once.
#include "kernels/optimizer.h"
#include "kernels/adafactor.h"
#include "kernels/cpu/prepare.h"

#include <cstring>

namespace maestro::kernels::cpu {
namespace {

bool copyIsBFloat16(const CallSpec &spec, size_t copy) {
  return spec.outputs.size() <= copy || !spec.outputs[copy].present || spec.outputs[copy].dtype == DType::BF16;
}

} // namespace

PreparedKernel prepareAdam(const CallSpec &spec, const Loops &loops) {
  if (!copyIsBFloat16(spec, 4))
    return unsupported();
  AdamStep prepared(spec.attributes, spec.kernel == "adamw");
  int64_t count = spec.inputs[0].elements();
  return makeKernel(spec, [=, loop = loops.adam, threads = spec.threads](const Operands &call) {
    AdamStep step = prepared;
    step.setScalars(call.input<float>(4));
    AdamCall pointers{call.output<float>(0),
                      call.output<float>(1),
                      call.output<float>(2),
                      call.input<float>(1),
                      call.hasOutput(3) ? call.output<float>(3) : nullptr,
                      call.hasOutput(4) ? call.output<BFloat16>(4) : nullptr};
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) { loop(pointers, &step, begin, end); });
  });
}

PreparedKernel prepareSgd(const CallSpec &spec, const Loops &) {
  if (!copyIsBFloat16(spec, 3))
    return unsupported();
  SgdStep prepared(spec.attributes);
  int64_t count = spec.inputs[0].elements();
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    SgdStep step = prepared;
    step.setScalars(call.input<float>(3));
    float *param = call.output<float>(0), *buffer = call.hasOutput(1) ? call.output<float>(1) : nullptr;
    const float *grad = call.input<float>(1);
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        if (buffer)
          step.apply(param[i], grad[i], buffer[i]);
        else
          step.apply(param[i], grad[i]);
      if (call.hasOutput(3))
        for (int64_t i = begin; i < end; ++i)
          call.output<BFloat16>(3)[i] = BFloat16(param[i]);
      if (call.hasOutput(2))
        std::memset(call.output<float>(2) + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
    });
  });
}

PreparedKernel prepareAdafactor(const CallSpec &spec, const Loops &) {
  if (!copyIsBFloat16(spec, 4))
    return unsupported();
  AdafactorStep step(spec);
  return makeKernel(
      spec,
      [step, threads = spec.threads](const Operands &call) {
        adafactorStep(step, call,
                      [threads](int64_t count, int64_t grain, auto f) { parallelFor(threads, count, grain, f); });
      },
      step.scratchBytes());
}

PreparedKernel prepareAverage(const CallSpec &spec, const Loops &) {
  AverageStep prepared(spec.attributes);
  int64_t count = spec.inputs[0].elements();
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    AverageStep step = prepared;
    step.setScalars(call.input<float>(2));
    const float *param = call.input<float>(0);
    float *average = call.output<float>(0);
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        average[i] = step.apply(average[i], param[i]);
    });
  });
}

PreparedKernel prepareAddInto(const CallSpec &spec, const Loops &loops) {
  int index = floatIndex(spec.inputs[0].dtype);
  if (index < 0 || spec.outputs[0].dtype != DType::F32)
    return unsupported();
  int64_t count = spec.outputs[0].elements(), bytes = static_cast<int64_t>(byteSize(spec.inputs[0].dtype));
  return makeKernel(spec, [=, addTo = loops.floats[index].addTo, threads = spec.threads](const Operands &call) {
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
      addTo(call.output<float>(0) + begin, at(call.inputs[0], begin, bytes), end - begin);
    });
  });
}

} // namespace maestro::kernels::cpu

// Optimizer steps in place, and adding one tensor into another.
#include "kernels/optimizer.h"
#include "kernels/accumulate.h"
#include "kernels/adafactor.h"
#include "kernels/reference/prepare.h"

#include <cstring>

namespace maestro::kernels::reference {
namespace {

/// Writes what follows an update: the bf16 copy of the parameter and the zeroed gradient.
void finish(const Call &call, size_t gradient, const float *param, int64_t count) {
  if (call.hasOutput(gradient))
    std::memset(call.outputs[gradient], 0, call.out[gradient].bytes());
  if (call.hasOutput(gradient + 1))
    for (int64_t i = 0; i < count; ++i)
      call.sink(gradient + 1).set(i, param[i]);
}

} // namespace

PreparedKernel prepareAdam(const CallSpec &spec) {
  AdamStep step(spec.attributes, spec.kernel == "adamw");
  return makeKernel(spec, [step](const Call &call) {
    AdamStep now = step;
    now.setScalars(static_cast<const float *>(call.inputs[4]));
    const float *grad = static_cast<const float *>(call.inputs[1]);
    float *param = static_cast<float *>(call.outputs[0]);
    float *m = static_cast<float *>(call.outputs[1]), *v = static_cast<float *>(call.outputs[2]);
    int64_t count = call.in[0].elements();
    for (int64_t i = 0; i < count; ++i)
      now.apply(param[i], grad[i], m[i], v[i]);
    finish(call, 3, param, count);
  });
}

PreparedKernel prepareSgd(const CallSpec &spec) {
  SgdStep step(spec.attributes);
  return makeKernel(spec, [step](const Call &call) {
    SgdStep now = step;
    now.setScalars(static_cast<const float *>(call.inputs[3]));
    const float *grad = static_cast<const float *>(call.inputs[1]);
    float *param = static_cast<float *>(call.outputs[0]);
    float *buffer = call.hasOutput(1) ? static_cast<float *>(call.outputs[1]) : nullptr;
    int64_t count = call.in[0].elements();
    for (int64_t i = 0; i < count; ++i)
      if (buffer)
        now.apply(param[i], grad[i], buffer[i]);
      else
        now.apply(param[i], grad[i]);
    finish(call, 2, param, count);
  });
}

PreparedKernel prepareAdafactor(const CallSpec &spec) {
  AdafactorStep step(spec);
  return makeKernel(
      spec,
      [step](const Call &call) {
        adafactorStep(step, call, [](int64_t count, int64_t, auto f) { f(int64_t(0), count); });
      },
      step.scratchBytes());
}

PreparedKernel prepareAverage(const CallSpec &spec) {
  AverageStep step(spec.attributes);
  return makeKernel(spec, [step](const Call &call) {
    AverageStep now = step;
    now.setScalars(call.input<float>(2));
    for (int64_t i = 0; i < call.in[0].elements(); ++i)
      call.output<float>(0)[i] = now.apply(call.output<float>(0)[i], call.input<float>(0)[i]);
  });
}

PreparedKernel prepareAddInto(const CallSpec &spec) {
  return makeKernel(spec, [](const Call &call) {
    addElements(call.outputs[0], call.out[0].dtype, call.inputs[0], call.in[0].dtype, call.out[0].elements());
  });
}

} // namespace maestro::kernels::reference

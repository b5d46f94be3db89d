// Losses per position, and their gradients for the logits.
#include "kernels/indices.h"
#include "kernels/reference/prepare.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

/// ln Σ e^(x·inverse) of a row.
double logSumExp(const Source<double> &x, int64_t start, int64_t width, double inverse) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < width; ++i)
    largest = std::max(largest, x[start + i] * inverse);
  for (int64_t i = 0; i < width; ++i)
    sum += std::exp(x[start + i] * inverse - largest);
  return largest + std::log(sum);
}

} // namespace

PreparedKernel prepareCrossEntropy(const CallSpec &spec) {
  int64_t ignored = spec.attributes.getInt("ignore_index", -100);
  return makeKernel(spec, [ignored](const Call &call) -> Status {
    Source<double> logits = call.source(0);
    Source<int64_t> labels = call.source<int64_t>(1);
    Sink<double> loss = call.sink(0), lse = call.sink(1);
    int64_t width = call.in[0].shape().back();
    for (int64_t i = 0, n = call.in[1].elements(); i < n; ++i) {
      int64_t label = labels[i];
      if (label != ignored && (label < 0 || label >= width))
        return indexError("cross_entropy", label, i, 0, width);
      double total = logSumExp(logits, i * width, width, 1);
      lse.set(i, total);
      loss.set(i, label == ignored ? 0 : total - logits[i * width + label]);
    }
    return Status();
  });
}

PreparedKernel prepareCrossEntropyGrad(const CallSpec &spec) {
  int64_t ignored = spec.attributes.getInt("ignore_index", -100);
  IndexMap spread = broadcastMap(spec.inputs[3].shape(), spec.inputs[1].shape());
  return makeKernel(spec, [=](const Call &call) -> Status {
    Source<double> logits = call.source(0), lse = call.source(2), dloss = call.source(3);
    Source<int64_t> labels = call.source<int64_t>(1);
    Sink<double> dlogits = call.sink(0);
    int64_t width = call.in[0].shape().back();
    for (int64_t i = 0, n = call.in[1].elements(); i < n; ++i) {
      int64_t label = labels[i];
      if (label != ignored && (label < 0 || label >= width))
        return indexError("cross_entropy_grad", label, i, 0, width);
      for (int64_t k = 0; k < width; ++k) {
        double p = std::exp(logits[i * width + k] - lse[i]);
        dlogits.set(i * width + k, label == ignored ? 0 : (p - (k == label)) * dloss[spread(i)]);
      }
    }
    return Status();
  });
}

PreparedKernel prepareKlDivergence(const CallSpec &spec) {
  double inverse = 1 / spec.attributes.getFloat("temperature", 1);
  return makeKernel(spec, [inverse](const Call &call) {
    Source<double> student = call.source(0), teacher = call.source(1);
    Sink<double> loss = call.sink(0), studentLse = call.sink(1), teacherLse = call.sink(2);
    int64_t width = call.in[0].shape().back();
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i) {
      double ls = logSumExp(student, i * width, width, inverse);
      double lt = logSumExp(teacher, i * width, width, inverse), sum = 0;
      for (int64_t k = i * width; k < (i + 1) * width; ++k) {
        double logTeacher = teacher[k] * inverse - lt, p = std::exp(logTeacher);
        if (p > 0)
          sum += p * (logTeacher - (student[k] * inverse - ls));
      }
      loss.set(i, sum);
      studentLse.set(i, ls);
      teacherLse.set(i, lt);
    }
  });
}

PreparedKernel prepareKlDivergenceGrad(const CallSpec &spec) {
  double inverse = 1 / spec.attributes.getFloat("temperature", 1);
  IndexMap spread = broadcastMap(spec.inputs[4].shape(), spec.inputs[2].shape());
  return makeKernel(spec, [=](const Call &call) {
    Source<double> student = call.source(0), teacher = call.source(1);
    Source<double> ls = call.source(2), lt = call.source(3), dloss = call.source(4);
    Sink<double> dstudent = call.sink(0);
    int64_t width = call.in[0].shape().back();
    for (int64_t i = 0, n = call.in[2].elements(); i < n; ++i)
      for (int64_t k = i * width; k < (i + 1) * width; ++k)
        dstudent.set(k, (std::exp(student[k] * inverse - ls[i]) - std::exp(teacher[k] * inverse - lt[i])) * inverse *
                            dloss[spread(i)]);
  });
}

} // namespace maestro::kernels::reference

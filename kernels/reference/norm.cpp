// Layer normalisation and RMS normalisation over the dims from `axis` on: rows of `width` elements.
#include "kernels/reference/prepare.h"

namespace maestro::kernels::reference {
namespace {

struct Rows {
  int64_t count, width;
  Rows(const TensorType &x, const Attributes &attributes) {
    int64_t axis = attributes.getInt("axis", 0);
    count = product(x.shape().first(axis));
    width = product(x.shape().subspan(axis));
  }
};

/// An optional scale or bias: its elements, or one value for all.
class Optional {
public:
  Optional(const Call &call, size_t i, double otherwise)
      : there(call.hasInput(i)), values(call.source(there ? i : 0)), otherwise(otherwise) {}
  double operator[](int64_t i) const { return there ? values[i] : otherwise; }

private:
  bool there;
  Source<double> values;
  double otherwise;
};

} // namespace

PreparedKernel prepareLayerNorm(const CallSpec &spec) {
  Rows rows(spec.inputs[0], spec.attributes);
  double epsilon = spec.attributes.getFloat("epsilon", 1e-5);
  return makeKernel(spec, [=](const Call &call) {
    Source<double> x = call.source(0);
    Optional scale(call, 1, 1), bias(call, 2, 0);
    Sink<double> y = call.sink(0), means = call.sink(1), rstds = call.sink(2);
    double width = static_cast<double>(rows.width);
    for (int64_t r = 0; r < rows.count; ++r) {
      int64_t start = r * rows.width;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < rows.width; ++i)
        mean += x[start + i] / width;
      for (int64_t i = 0; i < rows.width; ++i)
        variance += (x[start + i] - mean) * (x[start + i] - mean) / width;
      double rstd = 1 / std::sqrt(variance + epsilon);
      for (int64_t i = 0; i < rows.width; ++i)
        y.set(start + i, (x[start + i] - mean) * rstd * scale[i] + bias[i]);
      means.set(r, mean);
      rstds.set(r, rstd);
    }
  });
}

PreparedKernel prepareLayerNormGrad(const CallSpec &spec) {
  Rows rows(spec.inputs[1], spec.attributes);
  return makeKernel(spec, [=](const Call &call) {
    Source<double> dy = call.source(0), x = call.source(1), mean = call.source(2), rstd = call.source(3);
    Optional scale(call, 4, 1);
    Sink<double> dx = call.sink(0);
    double width = static_cast<double>(rows.width);
    auto normalised = [&](int64_t r, int64_t i) { return (x[r * rows.width + i] - mean[r]) * rstd[r]; };
    for (int64_t i = 0; i < rows.width; ++i) {
      double dscale = 0, dbias = 0;
      for (int64_t r = 0; r < rows.count; ++r) {
        dscale += dy[r * rows.width + i] * normalised(r, i);
        dbias += dy[r * rows.width + i];
      }
      if (call.hasOutput(1))
        call.sink(1).set(i, dscale);
      if (call.hasOutput(2))
        call.sink(2).set(i, dbias);
    }
    for (int64_t r = 0; r < rows.count; ++r) {
      double sum = 0, sumNormalised = 0;
      for (int64_t i = 0; i < rows.width; ++i) {
        double g = dy[r * rows.width + i] * scale[i];
        sum += g / width;
        sumNormalised += g * normalised(r, i) / width;
      }
      for (int64_t i = 0; i < rows.width; ++i) {
        double g = dy[r * rows.width + i] * scale[i];
        dx.set(r * rows.width + i, rstd[r] * (g - sum - normalised(r, i) * sumNormalised));
      }
    }
  });
}

PreparedKernel prepareRmsNorm(const CallSpec &spec) {
  Rows rows(spec.inputs[0], spec.attributes);
  double epsilon = spec.attributes.getFloat("epsilon", 1e-6);
  return makeKernel(spec, [=](const Call &call) {
    Source<double> x = call.source(0);
    Optional scale(call, 1, 1);
    Sink<double> y = call.sink(0), rstds = call.sink(1);
    for (int64_t r = 0; r < rows.count; ++r) {
      int64_t start = r * rows.width;
      double square = 0;
      for (int64_t i = 0; i < rows.width; ++i)
        square += x[start + i] * x[start + i] / static_cast<double>(rows.width);
      double rstd = 1 / std::sqrt(square + epsilon);
      for (int64_t i = 0; i < rows.width; ++i)
        y.set(start + i, x[start + i] * rstd * scale[i]);
      rstds.set(r, rstd);
    }
  });
}

PreparedKernel prepareRmsNormGrad(const CallSpec &spec) {
  Rows rows(spec.inputs[1], spec.attributes);
  return makeKernel(spec, [=](const Call &call) {
    Source<double> dy = call.source(0), x = call.source(1), rstd = call.source(2);
    Optional scale(call, 3, 1);
    Sink<double> dx = call.sink(0);
    if (call.hasOutput(1))
      for (int64_t i = 0; i < rows.width; ++i) {
        double dscale = 0;
        for (int64_t r = 0; r < rows.count; ++r)
          dscale += dy[r * rows.width + i] * x[r * rows.width + i] * rstd[r];
        call.sink(1).set(i, dscale);
      }
    for (int64_t r = 0; r < rows.count; ++r) {
      int64_t start = r * rows.width;
      double dot = 0;
      for (int64_t i = 0; i < rows.width; ++i)
        dot += dy[start + i] * scale[i] * x[start + i] * rstd[r] / static_cast<double>(rows.width);
      for (int64_t i = 0; i < rows.width; ++i)
        dx.set(start + i, rstd[r] * (dy[start + i] * scale[i] - x[start + i] * rstd[r] * dot));
    }
  });
}

} // namespace maestro::kernels::reference

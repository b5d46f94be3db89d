// Loops of the update: sums of squares and the optimizers.
#include "kernels/cpu/loops/groups.h"
#include "kernels/cpu/loops/tables.h"
#include "kernels/optimizer.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

double sumSquares(const float *x, int64_t n) {
  constexpr int64_t kStep = kLanes / 2;
  Doubles parts[4] = {};
  int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep)
    for (int k = 0; k < 4; ++k) {
      HalfFloats v;
      __builtin_memcpy(&v, x + i + kStep * k, sizeof v);
      Doubles d = __builtin_convertvector(v, Doubles);
      parts[k] += d * d;
    }
  Doubles all = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  double total = 0;
  for (int64_t k = 0; k < kStep; ++k)
    total += all[k];
  for (; i < n; ++i)
    total += static_cast<double>(x[i]) * x[i];
  return total;
}

/// The arithmetic of AdamStep::apply on a vector, everything touched once.
void adam(const AdamCall &call, const void *stepp, int64_t begin, int64_t end) {
  const AdamStep &step = *static_cast<const AdamStep *>(stepp);
  forEachGroup(end - begin, [&](int64_t offset, int64_t lanes) MAESTRO_LAMBDA {
    int64_t i = begin + offset;
    Floats param = loadGroup(call.param + i, lanes), grad = loadGroup(call.grad + i, lanes);
    Floats m = loadGroup(call.m + i, lanes), v = loadGroup(call.v + i, lanes);
    Floats g = grad * step.gradientScale + step.addedDecay * param;
    param *= step.shrink;
    m += step.oneMinusBeta1 * (g - m);
    v = v * step.beta2 + step.oneMinusBeta2 * g * g;
    param -= step.stepSize * m / (squareRoot(v) / step.rootCorrection2 + step.eps);
    storeGroup(call.param + i, param, lanes);
    storeGroup(call.m + i, m, lanes);
    storeGroup(call.v + i, v, lanes);
    if (call.zeroed)
      storeGroup(call.zeroed + i, Floats{}, lanes);
    if (call.copy)
      storeGroup(call.copy + i, param, lanes);
  });
}

} // namespace

void addUpdates(Loops &loops) {
  loops.sumSquares = sumSquares;
  loops.adam = adam;
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA

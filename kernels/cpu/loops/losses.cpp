// Loops of the losses over one row of logits.
#include "kernels/cpu/loops/groups.h"
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

/// One pass: a running maximum and sum per lane, corrected when the maximum grows. Rows of logits do
/// not fit in the first-level cache, so reading them once is what counts.
template <typename T> float logSumExp(const void *xp, int64_t n, float inverse) {
  const T *x = static_cast<const T *>(xp);
  constexpr int64_t kBlock = 16 * kLanes;
  float top = -kInfinity;
  Floats total{};
  for (int64_t start = 0; start < n; start += kBlock) {
    int64_t count = n - start < kBlock ? n - start : kBlock;
    Floats best = splat(-kInfinity);
    forEachGroup(count, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
      Floats v = loadGroup(x + start + i, lanes) * inverse;
      best = larger(best, keep(v, lanes, -kInfinity));
    });
    float blockTop = largest(best);
    if (blockTop > top) {
      total *= exponential(splat(top - blockTop));
      top = blockTop;
    }
    if (top == -kInfinity)
      continue; // Nothing but −∞ so far: no power to add.
    Floats shift = splat(top);
    forEachGroup(count, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
      total += keep(exponential(loadGroup(x + start + i, lanes) * inverse - shift), lanes);
    });
  }
  return top + __builtin_logf(sum(total));
}

template <typename T> void softmaxScaled(void *dxp, const void *xp, int64_t n, float lse, float d) {
  T *dx = static_cast<T *>(dxp);
  const T *x = static_cast<const T *>(xp);
  forEachGroup(n, [&](int64_t i, int64_t lanes)
                      MAESTRO_LAMBDA { storeGroup(dx + i, exponential(loadGroup(x + i, lanes) - lse) * d, lanes); });
}

template <typename T>
float klDivergence(const void *studentp, const void *teacherp, int64_t n, float inverse, float ls, float lt) {
  const T *student = static_cast<const T *>(studentp), *teacher = static_cast<const T *>(teacherp);
  return sumOf(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    Floats logTeacher = loadGroup(teacher + i, lanes) * inverse - lt;
    Floats logStudent = loadGroup(student + i, lanes) * inverse - ls;
    Floats p = keep(exponential(logTeacher), lanes);
    return p > 0.0f ? p * (logTeacher - logStudent) : Floats{};
  });
}

template <typename T>
void klDivergenceGrad(void *dxp, const void *studentp, const void *teacherp, int64_t n, float inverse, float ls,
                      float lt, float d) {
  T *dx = static_cast<T *>(dxp);
  const T *student = static_cast<const T *>(studentp), *teacher = static_cast<const T *>(teacherp);
  float scale = d * inverse;
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    Floats ps = exponential(loadGroup(student + i, lanes) * inverse - ls);
    Floats pt = exponential(loadGroup(teacher + i, lanes) * inverse - lt);
    storeGroup(dx + i, (ps - pt) * scale, lanes);
  });
}

} // namespace

void addLosses(Loops &loops) {
  loops.floats[0].loss = {logSumExp<float>, softmaxScaled<float>, klDivergence<float>, klDivergenceGrad<float>};
  loops.floats[1].loss = {logSumExp<BFloat16>, softmaxScaled<BFloat16>, klDivergence<BFloat16>,
                          klDivergenceGrad<BFloat16>};
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA

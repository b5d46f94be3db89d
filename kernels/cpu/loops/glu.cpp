// Loops of gated linear units: activation(gate) · up, and its two gradients at once.
#include "kernels/cpu/loops/groups.h"
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

/// A value and the slope there.
struct Point {
  Floats value, slope;
};

struct Silu {
  static inline MAESTRO_LAMBDA Floats at(Floats x) { return x * logistic(x); }
  static inline MAESTRO_LAMBDA Point both(Floats x) {
    Floats s = logistic(x);
    return {x * s, s * (1.0f + x * (1.0f - s))};
  }
};
struct Gelu {
  static inline MAESTRO_LAMBDA Floats at(Floats x) { return gelu(x); }
  static inline MAESTRO_LAMBDA Point both(Floats x) { return {gelu(x), geluSlope(x)}; }
};
struct GeluTanh {
  static inline MAESTRO_LAMBDA Floats at(Floats x) { return geluTanh(x); }
  static inline MAESTRO_LAMBDA Point both(Floats x) { return {geluTanh(x), geluTanhSlope(x)}; }
};

template <typename T, typename Activation> void forward(void *yp, const void *gatep, const void *upp, int64_t n) {
  T *y = static_cast<T *>(yp);
  const T *gate = static_cast<const T *>(gatep), *up = static_cast<const T *>(upp);
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    storeGroup(y + i, Activation::at(loadGroup(gate + i, lanes)) * loadGroup(up + i, lanes), lanes);
  });
}

template <typename T, typename Activation>
void backward(void *dgatep, void *dupp, const void *dyp, const void *gatep, const void *upp, int64_t n) {
  T *dgate = static_cast<T *>(dgatep), *dup = static_cast<T *>(dupp);
  const T *dy = static_cast<const T *>(dyp), *gate = static_cast<const T *>(gatep), *up = static_cast<const T *>(upp);
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    Floats d = loadGroup(dy + i, lanes), u = loadGroup(up + i, lanes);
    Point activated = Activation::both(loadGroup(gate + i, lanes));
    storeGroup(dgate + i, d * u * activated.slope, lanes);
    storeGroup(dup + i, d * activated.value, lanes);
  });
}

template <typename T> void addFor(FloatLoops &loops) {
  loops.glu[0] = {forward<T, Silu>, backward<T, Silu>};
  loops.glu[1] = {forward<T, Gelu>, backward<T, Gelu>};
  loops.glu[2] = {forward<T, GeluTanh>, backward<T, GeluTanh>};
}

} // namespace

void addGlu(Loops &loops) {
  addFor<float>(loops.floats[0]);
  addFor<BFloat16>(loops.floats[1]);
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA

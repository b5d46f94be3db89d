// What a recurrent cell does between its products, a row at a time.
#include "kernels/cpu/loops/groups.h"
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

/// A group of elements of each block of a row.
struct Lanes {
  int64_t at, count, hidden;

  MAESTRO_LAMBDA inline Floats of(const float *row, int64_t block) const {
    return loadGroup(row + block * hidden + at, count);
  }
  MAESTRO_LAMBDA inline void put(float *row, int64_t block, Floats value) const {
    storeGroup(row + block * hidden + at, value, count);
  }
};

template <typename F> MAESTRO_INLINE void forLanes(int64_t hidden, F f) {
  forEachGroup(hidden, [&](int64_t at, int64_t count) MAESTRO_LAMBDA { f(Lanes{at, count, hidden}); });
}

void lstm(const RecurrenceRow &row, const float *product, float *states, float *gates) {
  forLanes(row.hidden, [&](Lanes l) MAESTRO_LAMBDA {
    Floats i = logistic(l.of(product, 0)), o = logistic(l.of(product, 1)), f = logistic(l.of(product, 2));
    Floats g = hyperbolicTangent(l.of(product, 3));
    Floats c = f * l.of(row.before, 1) + i * g;
    l.put(gates, 0, i);
    l.put(gates, 1, o);
    l.put(gates, 2, f);
    l.put(gates, 3, g);
    l.put(states, 0, o * hyperbolicTangent(c));
    l.put(states, 1, c);
  });
}

void lstmBack(const RecurrenceRow &row, const float *states, const float *gates, float *dstate, float *dx,
              float *dproduct) {
  forLanes(row.hidden, [&](Lanes l) MAESTRO_LAMBDA {
    Floats i = l.of(gates, 0), o = l.of(gates, 1), f = l.of(gates, 2), g = l.of(gates, 3);
    Floats bent = hyperbolicTangent(l.of(states, 1)), dh = l.of(dstate, 0);
    Floats dc = l.of(dstate, 1) + dh * o * (1.0f - bent * bent);
    Floats d[] = {dc * g * i * (1.0f - i), dh * bent * o * (1.0f - o), dc * l.of(row.before, 1) * f * (1.0f - f),
                  dc * i * (1.0f - g * g)};
    for (int64_t block = 0; block < 4; ++block) {
      l.put(dx, block, d[block]);
      l.put(dproduct, block, d[block]);
    }
    l.put(dstate, 0, Floats{});
    l.put(dstate, 1, dc * f);
  });
}

void gru(const RecurrenceRow &row, const float *product, float *states, float *gates) {
  forLanes(row.hidden, [&](Lanes l) MAESTRO_LAMBDA {
    Floats z = logistic(l.of(product, 0)), r = logistic(l.of(product, 1)), q = l.of(product, 2);
    Floats n = hyperbolicTangent(l.of(row.x, 2) + r * q);
    l.put(gates, 0, z);
    l.put(gates, 1, r);
    l.put(gates, 2, n);
    l.put(gates, 3, q);
    l.put(states, 0, (1.0f - z) * n + z * l.of(row.before, 0));
  });
}

void gruBack(const RecurrenceRow &row, const float *, const float *gates, float *dstate, float *dx, float *dproduct) {
  forLanes(row.hidden, [&](Lanes l) MAESTRO_LAMBDA {
    Floats z = l.of(gates, 0), r = l.of(gates, 1), n = l.of(gates, 2), q = l.of(gates, 3), dh = l.of(dstate, 0);
    Floats dn = dh * (1.0f - z) * (1.0f - n * n);
    Floats dz = dh * (l.of(row.before, 0) - n) * z * (1.0f - z), dr = dn * q * r * (1.0f - r);
    l.put(dx, 0, dz);
    l.put(dx, 1, dr);
    l.put(dx, 2, dn);
    l.put(dproduct, 0, dz);
    l.put(dproduct, 1, dr);
    l.put(dproduct, 2, dn * r);
    l.put(dstate, 0, dh * z);
  });
}

template <bool kTanh> void simple(const RecurrenceRow &row, const float *product, float *states, float *gates) {
  forLanes(row.hidden, [&](Lanes l) MAESTRO_LAMBDA {
    Floats sum = l.of(product, 0);
    Floats h = kTanh ? hyperbolicTangent(sum) : sum < 0.0f ? Floats{} : sum;
    l.put(gates, 0, h);
    l.put(states, 0, h);
  });
}

template <bool kTanh>
void simpleBack(const RecurrenceRow &row, const float *, const float *gates, float *dstate, float *dx,
                float *dproduct) {
  forLanes(row.hidden, [&](Lanes l) MAESTRO_LAMBDA {
    Floats h = l.of(gates, 0), dh = l.of(dstate, 0);
    Floats d = kTanh ? dh * (1.0f - h * h) : h > 0.0f ? dh : Floats{};
    l.put(dx, 0, d);
    l.put(dproduct, 0, d);
    l.put(dstate, 0, Floats{});
  });
}

void forward(const RecurrenceRow &row, const float *product, float *states, float *gates) {
  switch (row.cell) {
  case RecurrentCell::Lstm:
    return lstm(row, product, states, gates);
  case RecurrentCell::Gru:
    return gru(row, product, states, gates);
  case RecurrentCell::RnnTanh:
    return simple<true>(row, product, states, gates);
  case RecurrentCell::RnnRelu:
    return simple<false>(row, product, states, gates);
  }
}

void backward(const RecurrenceRow &row, const float *states, const float *gates, float *dstate, float *dx,
              float *dproduct) {
  switch (row.cell) {
  case RecurrentCell::Lstm:
    return lstmBack(row, states, gates, dstate, dx, dproduct);
  case RecurrentCell::Gru:
    return gruBack(row, states, gates, dstate, dx, dproduct);
  case RecurrentCell::RnnTanh:
    return simpleBack<true>(row, states, gates, dstate, dx, dproduct);
  case RecurrentCell::RnnRelu:
    return simpleBack<false>(row, states, gates, dstate, dx, dproduct);
  }
}

} // namespace

void addRecurrences(Loops &loops) { loops.recurrence = {forward, backward}; }

} // namespace maestro::kernels::cpu::MAESTRO_ISA

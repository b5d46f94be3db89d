// Recurrences in f32. Rows of the batch are independent: each thread takes some of them through all positions, with one
// product a position. Sums do not depend on which rows a thread has.
#include "kernels/recurrence_shape.h"

#include "kernels/cpu/loops/product_call.h"
#include "kernels/cpu/prepare.h"
#include "kernels/element.h"

#include <cstring>

namespace maestro::kernels::cpu {
namespace {

bool floatsOnly(const CallSpec &spec, size_t lengths) {
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (spec.inputs[i].present && i != lengths && spec.inputs[i].dtype != DType::F32)
      return false;
  return std::ranges::all_of(spec.outputs, [](const TensorType &type) { return type.dtype == DType::F32; });
}

/// Multiplications that another thread is worth.
constexpr int64_t kGrain = int64_t{1} << 18;

int64_t rowGrain(const RecurrenceShape &n) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n.length * n.inputs * n.hidden));
}

/// What each thread has of scratch memory, for products.
size_t panelFloats(int threads) { return static_cast<size_t>(threads) * ProductCall::kScratchFloats; }
float *panelOf(float *panels) { return panels + omp_get_thread_num() * ProductCall::kScratchFloats; }

/// Whether a position of a row lies behind the row's end.
bool isBehind(const Operands &call, size_t lengths, int64_t row, int64_t position) {
  return call.hasInput(lengths) && position >= readInteger(call.inputs[lengths], call.in[lengths].dtype, row);
}

void copyFloats(float *to, const float *from, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

struct Forward {
  RecurrenceShape n;
  const Loops &loops;
  const Operands &call;
  float *weight;   ///< Transposed, [hidden, inputs], so that no product packs it.
  float *products; ///< [rows, inputs]

  const float *stateBefore(int64_t row, int64_t s) const {
    return s == 0 ? call.input<float>(2) + row * n.states
                  : call.output<float>(0) + (row * n.length + n.position(s - 1)) * n.states;
  }

  /// Rows [begin, end) over step s.
  void step(int64_t s, int64_t begin, int64_t end, float *panel) const {
    int64_t position = n.position(s), own = n.cell == RecurrentCell::Gru ? n.inputs - n.hidden : n.inputs;
    for (int64_t row = begin; row < end; ++row) {
      float *product = products + row * n.inputs;
      copyFloats(product, call.input<float>(0) + (row * n.length + position) * n.inputs, own);
      if (own < n.inputs && call.hasInput(3))
        copyFloats(product + own, call.input<float>(3), n.hidden);
      else
        std::fill(product + own, product + n.inputs, 0.0f);
    }
    ProductCall product{n.hidden,
                        stateBefore(0, s),
                        s == 0 ? n.states : n.length * n.states,
                        1,
                        weight,
                        n.inputs,
                        1,
                        products,
                        n.inputs,
                        true,
                        nullptr};
    loops.product(product, {begin, end, 0, n.inputs}, panel);
    for (int64_t row = begin; row < end; ++row) {
      int64_t place = row * n.length + position;
      float *states = call.output<float>(0) + place * n.states, *gates = call.output<float>(1) + place * n.gates;
      if (isBehind(call, 4, row, position)) {
        copyFloats(states, stateBefore(row, s), n.states);
        std::fill_n(gates, n.gates, 0.0f);
        continue;
      }
      RecurrenceRow at{n.cell, n.hidden, stateBefore(row, s), call.input<float>(0) + place * n.inputs};
      loops.recurrence.forward(at, products + row * n.inputs, states, gates);
    }
  }
};

struct Backward {
  RecurrenceShape n;
  const Loops &loops;
  const Operands &call;
  float *dstates;   ///< [rows, states]: of the states behind the position at hand.
  float *dproducts; ///< [rows, inputs]

  const float *stateBefore(int64_t row, int64_t s) const {
    return s == 0 ? call.input<float>(2) + row * n.states
                  : call.input<float>(3) + (row * n.length + n.position(s - 1)) * n.states;
  }

  void step(int64_t s, int64_t begin, int64_t end, float *panel) const {
    int64_t position = n.position(s);
    for (int64_t row = begin; row < end; ++row) {
      int64_t place = row * n.length + position;
      float *dstate = dstates + row * n.states, *dx = call.output<float>(0) + place * n.inputs;
      loops.floats[0].addTo(dstate, call.input<float>(0) + place * n.states, n.states);
      if (isBehind(call, 5, row, position)) {
        std::fill_n(dx, n.inputs, 0.0f);
        std::fill_n(dproducts + row * n.inputs, n.inputs, 0.0f);
        continue;
      }
      RecurrenceRow at{n.cell, n.hidden, stateBefore(row, s), nullptr};
      loops.recurrence.backward(at, call.input<float>(3) + place * n.states, call.input<float>(4) + place * n.gates,
                                dstate, dx, dproducts + row * n.inputs);
    }
    ProductCall product{n.inputs, dproducts, n.inputs, 1,      call.input<float>(1), n.hidden, 1,
                        dstates,  n.states,  true,     nullptr};
    loops.product(product, {begin, end, 0, n.hidden}, panel);
  }
};

} // namespace

PreparedKernel prepareRecurrence(const CallSpec &spec, const Loops &loops) {
  RecurrenceShape n(spec, spec.inputs[0]);
  if (!floatsOnly(spec, 4) || n.hidden == 0)
    return unsupported();
  size_t weights = static_cast<size_t>(n.inputs * n.hidden), products = static_cast<size_t>(n.rows * n.inputs);
  auto body = [=, &loops, threads = spec.threads](const Operands &call) {
    float *panels = static_cast<float *>(call.scratch), *weight = panels + panelFloats(threads);
    for (int64_t row = 0; row < n.inputs; ++row)
      for (int64_t k = 0; k < n.hidden; ++k)
        weight[k * n.inputs + row] = call.input<float>(1)[row * n.hidden + k];
    Forward forward{n, loops, call, weight, weight + weights};
    parallelFor(threads, n.rows, rowGrain(n), [&](int64_t begin, int64_t end) {
      for (int64_t s = 0; s < n.length; ++s)
        forward.step(s, begin, end, panelOf(panels));
    });
  };
  return makeKernel(spec, body, (weights + products + panelFloats(spec.threads)) * sizeof(float));
}

PreparedKernel prepareRecurrenceGrad(const CallSpec &spec, const Loops &loops) {
  RecurrenceShape n(spec, spec.inputs[3]);
  if (!floatsOnly(spec, 5) || n.hidden == 0)
    return unsupported();
  size_t products = static_cast<size_t>(n.rows * n.inputs);
  auto body = [=, &loops, threads = spec.threads](const Operands &call) {
    float *panels = static_cast<float *>(call.scratch);
    Backward backward{n, loops, call, call.output<float>(1), panels + panelFloats(threads)};
    std::fill_n(backward.dstates, n.rows * n.states, 0.0f);
    parallelFor(threads, n.rows, rowGrain(n), [&](int64_t begin, int64_t end) {
      for (int64_t s = n.length; s-- > 0;)
        backward.step(s, begin, end, panelOf(panels));
    });
  };
  return makeKernel(spec, body, (products + panelFloats(spec.threads)) * sizeof(float));
}

} // namespace maestro::kernels::cpu

// Recurrences: one row of the batch after the other, position by position.
#include "kernels/recurrence_shape.h"
#include "kernels/reference/prepare.h"

#include <algorithm>
#include <cmath>

namespace maestro::kernels::reference {
namespace {

/// Whether a position of a row lies behind the row's end.
bool isBehind(const Call &call, size_t lengths, int64_t row, int64_t position) {
  return call.hasInput(lengths) && position >= call.source<int64_t>(lengths)[row];
}

/// One row between two positions. `at(j, k)` is element k of block j.
class Step {
public:
  Step(const Call &call, const RecurrenceShape &n, double *state, int64_t place)
      : call(call), n(n), state(state), place(place) {}

  void run() const {
    switch (n.cell) {
    case RecurrentCell::Lstm:
      return lstm();
    case RecurrentCell::Gru:
      return gru();
    default:
      return simple();
    }
  }

  void store() const {
    for (int64_t k = 0; k < n.states; ++k)
      call.sink(0).set(place * n.states + k, state[k]);
  }

private:
  double x(int64_t block, int64_t k) const { return call.source(0)[place * n.inputs + block * n.hidden + k]; }
  double product(int64_t block, int64_t k) const {
    Source<double> weight = call.source(1);
    double sum = 0;
    for (int64_t i = 0; i < n.hidden; ++i)
      sum += weight[(block * n.hidden + k) * n.hidden + i] * state[i];
    return sum;
  }
  double gate(int64_t block, int64_t k, double value) const {
    call.sink(1).set(place * n.gates + block * n.hidden + k, value);
    return value;
  }
  /// New states of h, put in place once all of the old ones were read.
  double *next() const { return state + n.states; }

  void lstm() const {
    double *h = next(), *c = h + n.hidden;
    for (int64_t k = 0; k < n.hidden; ++k) {
      double i = gate(0, k, sigmoid(x(0, k) + product(0, k)));
      double o = gate(1, k, sigmoid(x(1, k) + product(1, k)));
      double f = gate(2, k, sigmoid(x(2, k) + product(2, k)));
      double g = gate(3, k, std::tanh(x(3, k) + product(3, k)));
      c[k] = f * state[n.hidden + k] + i * g;
      h[k] = o * std::tanh(c[k]);
    }
    std::copy_n(next(), n.states, state);
  }

  void gru() const {
    double *h = next();
    for (int64_t k = 0; k < n.hidden; ++k) {
      double z = gate(0, k, sigmoid(x(0, k) + product(0, k)));
      double r = gate(1, k, sigmoid(x(1, k) + product(1, k)));
      double q = gate(3, k, product(2, k) + (call.hasInput(3) ? call.source(3)[k] : 0));
      double candidate = gate(2, k, std::tanh(x(2, k) + r * q));
      h[k] = (1 - z) * candidate + z * state[k];
    }
    std::copy_n(next(), n.states, state);
  }

  void simple() const {
    double *h = next();
    for (int64_t k = 0; k < n.hidden; ++k) {
      double sum = x(0, k) + product(0, k);
      h[k] = gate(0, k, n.cell == RecurrentCell::RnnTanh ? std::tanh(sum) : std::max(sum, 0.0));
    }
    std::copy_n(next(), n.states, state);
  }

  const Call &call;
  const RecurrenceShape &n;
  double *state;
  int64_t place;
};

/// The way back over one position: `dstate` is the gradient of the states behind it, and becomes that of those before.
class StepBack {
public:
  StepBack(const Call &call, const RecurrenceShape &n, double *dstate, double *dproduct, int64_t row, int64_t s)
      : call(call), n(n), dstate(dstate), dproduct(dproduct), place(row * n.length + n.position(s)),
        before(s == 0 ? row : row * n.length + n.position(s - 1)), isFirst(s == 0) {}

  void run() const {
    switch (n.cell) {
    case RecurrentCell::Lstm:
      lstm();
      break;
    case RecurrentCell::Gru:
      gru();
      break;
    default:
      simple();
    }
    Source<double> weight = call.source(1);
    for (int64_t row = 0; row < n.inputs; ++row)
      for (int64_t k = 0; k < n.hidden; ++k)
        dstate[k] += dproduct[row] * weight[row * n.hidden + k];
  }

private:
  double gate(int64_t block, int64_t k) const { return call.source(4)[place * n.gates + block * n.hidden + k]; }
  double state(int64_t k) const { return call.source(3)[place * n.states + k]; }
  double stateBefore(int64_t k) const { return call.source(isFirst ? 2 : 3)[before * n.states + k]; }
  void set(int64_t block, int64_t k, double dx, double dw) const {
    call.sink(0).set(place * n.inputs + block * n.hidden + k, dx);
    dproduct[block * n.hidden + k] = dw;
  }
  void set(int64_t block, int64_t k, double both) const { set(block, k, both, both); }

  void lstm() const {
    for (int64_t k = 0; k < n.hidden; ++k) {
      double i = gate(0, k), o = gate(1, k), f = gate(2, k), g = gate(3, k), bent = std::tanh(state(n.hidden + k));
      double dh = dstate[k], dc = dstate[n.hidden + k] + dh * o * (1 - bent * bent);
      set(0, k, dc * g * i * (1 - i));
      set(1, k, dh * bent * o * (1 - o));
      set(2, k, dc * stateBefore(n.hidden + k) * f * (1 - f));
      set(3, k, dc * i * (1 - g * g));
      dstate[k] = 0;
      dstate[n.hidden + k] = dc * f;
    }
  }

  void gru() const {
    for (int64_t k = 0; k < n.hidden; ++k) {
      double z = gate(0, k), r = gate(1, k), candidate = gate(2, k), q = gate(3, k), dh = dstate[k];
      double dcandidate = dh * (1 - z) * (1 - candidate * candidate);
      set(0, k, dh * (stateBefore(k) - candidate) * z * (1 - z));
      set(1, k, dcandidate * q * r * (1 - r));
      set(2, k, dcandidate, dcandidate * r);
      dstate[k] = dh * z;
    }
  }

  void simple() const {
    for (int64_t k = 0; k < n.hidden; ++k) {
      double h = gate(0, k);
      set(0, k, dstate[k] * (n.cell == RecurrentCell::RnnTanh ? 1 - h * h : double(h > 0)));
      dstate[k] = 0;
    }
  }

  const Call &call;
  const RecurrenceShape &n;
  double *dstate, *dproduct;
  int64_t place, before;
  bool isFirst;
};

} // namespace

PreparedKernel prepareRecurrence(const CallSpec &spec) {
  RecurrenceShape n(spec, spec.inputs[0]);
  auto body = [n](const Call &call) {
    double *state = static_cast<double *>(call.scratch);
    for (int64_t row = 0; row < n.rows; ++row) {
      for (int64_t k = 0; k < n.states; ++k)
        state[k] = call.source(2)[row * n.states + k];
      for (int64_t s = 0; s < n.length; ++s) {
        int64_t place = row * n.length + n.position(s);
        Step step(call, n, state, place);
        if (isBehind(call, 4, row, n.position(s)))
          for (int64_t k = 0; k < n.gates; ++k)
            call.sink(1).set(place * n.gates + k, 0);
        else
          step.run();
        step.store();
      }
    }
  };
  return makeKernel(spec, body, static_cast<size_t>(2 * n.states) * sizeof(double));
}

PreparedKernel prepareRecurrenceGrad(const CallSpec &spec) {
  RecurrenceShape n(spec, spec.inputs[3]);
  auto body = [n](const Call &call) {
    double *dstate = static_cast<double *>(call.scratch), *dproduct = dstate + n.states;
    for (int64_t row = 0; row < n.rows; ++row) {
      std::fill_n(dstate, n.states, 0.0);
      for (int64_t s = n.length; s-- > 0;) {
        int64_t place = row * n.length + n.position(s);
        for (int64_t k = 0; k < n.states; ++k)
          dstate[k] += call.source(0)[place * n.states + k];
        if (isBehind(call, 5, row, n.position(s)))
          for (int64_t k = 0; k < n.inputs; ++k)
            call.sink(0).set(place * n.inputs + k, 0);
        else
          StepBack(call, n, dstate, dproduct, row, s).run();
      }
      for (int64_t k = 0; k < n.states; ++k)
        call.sink(1).set(row * n.states + k, dstate[k]);
    }
  };
  return makeKernel(spec, body, static_cast<size_t>(n.states + n.inputs) * sizeof(double));
}

} // namespace maestro::kernels::reference

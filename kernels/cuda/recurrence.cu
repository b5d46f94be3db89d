// Recurrences: a block takes one row of the batch through all positions, since nothing of a row depends on another. A
// position is a product, a warp an element of W·h, and what the cell makes of it, a thread an element of h.
#include "kernels/cuda/recurrence.h"

#include "kernels/cuda/block.h"

#include <type_traits>

namespace maestro::kernels::cuda {
namespace {

/// Where a row stands at one step.
struct RecurrentStep {
  int64_t place;  ///< Of its position among those of all rows.
  int64_t before; ///< That of the position before, or the row where that is the first.
  bool isFirst, isBehind;
};

__device__ RecurrentStep stepOf(const RecurrenceParams &p, int64_t row, int64_t s) {
  int64_t position = p.reverse ? p.length - 1 - s : s;
  int64_t before = p.reverse ? position + 1 : position - 1;
  bool isBehind = p.lengths.data != nullptr && position >= load<int64_t>(p.lengths, row);
  return {row * p.length + position, s == 0 ? row : row * p.length + before, s == 0, isBehind};
}

template <typename T> struct RecurrentRow {
  T *data;
  int64_t hidden;
  __device__ float get(int64_t block, int64_t k) const { return toFloat(data[block * hidden + k]); }
  __device__ void set(int64_t block, int64_t k, float value) const {
    using Element = std::remove_const_t<T>;
    if constexpr (!std::is_const_v<T>)
      data[block * hidden + k] = fromFloat<Element>(value);
  }
};

template <typename T>
__device__ RecurrentRow<const T> rowAt(const void *data, int64_t place, int64_t width, int64_t hidden) {
  return {static_cast<const T *>(data) + place * width, hidden};
}
template <typename T> __device__ RecurrentRow<T> rowAt(void *data, int64_t place, int64_t width, int64_t hidden) {
  return {static_cast<T *>(data) + place * width, hidden};
}

/// products[j] = Σ weight[j][k]·h[k]: a warp an element.
template <typename T> __device__ void multiply(const RecurrenceParams &p, const T *h, float *products) {
  for (int64_t j = warpOf(); j < p.inputs; j += kBlock / kWarp) {
    const T *weight = static_cast<const T *>(p.weight) + j * p.hidden;
    float sum = 0;
    for (int64_t k = laneOf(); k < p.hidden; k += kWarp)
      sum += toFloat(weight[k]) * toFloat(h[k]);
    sum = warpReduce(sum, Sum());
    if (laneOf() == 0)
      products[j] = sum;
  }
}

template <typename T> __device__ void recurrence(const RecurrenceParams &p) {
  int64_t row = blockIdx.x;
  float *product = p.products + row * p.inputs;
  for (int64_t s = 0; s < p.length; ++s) {
    RecurrentStep step = stepOf(p, row, s);
    RecurrentRow<const T> before =
        rowAt<T>(step.isFirst ? p.initial : static_cast<const void *>(p.statesOut), step.before, p.states, p.hidden);
    RecurrentRow<T> states = rowAt<T>(p.statesOut, step.place, p.states, p.hidden);
    RecurrentRow<T> gates = rowAt<T>(p.gatesOut, step.place, p.gates, p.hidden);
    if (!step.isBehind)
      multiply(p, before.data, product);
    __syncthreads();
    RecurrentRow<const T> x = rowAt<T>(p.x, step.place, p.inputs, p.hidden);
    for (int64_t k = threadIdx.x; step.isBehind && k < p.states; k += kBlock)
      states.data[k] = before.data[k];
    for (int64_t k = threadIdx.x; step.isBehind && k < p.gates; k += kBlock)
      gates.data[k] = fromFloat<T>(0);
    for (int64_t k = threadIdx.x; !step.isBehind && k < p.hidden; k += kBlock) {
      auto sum = [&](int64_t block) { return x.get(block, k) + product[block * p.hidden + k]; };
      if (p.cell == RecurrentCell::Lstm) {
        float i = sigmoid(sum(0)), o = sigmoid(sum(1)), f = sigmoid(sum(2)), g = tanhf(sum(3));
        float c = f * before.get(1, k) + i * g;
        gates.set(0, k, i);
        gates.set(1, k, o);
        gates.set(2, k, f);
        gates.set(3, k, g);
        states.set(1, k, c);
        states.set(0, k, o * tanhf(c));
      } else if (p.cell == RecurrentCell::Gru) {
        float bias = p.bias ? toFloat(static_cast<const T *>(p.bias)[k]) : 0;
        float z = sigmoid(sum(0)), r = sigmoid(sum(1)), q = product[2 * p.hidden + k] + bias;
        float n = tanhf(x.get(2, k) + r * q);
        gates.set(0, k, z);
        gates.set(1, k, r);
        gates.set(2, k, n);
        gates.set(3, k, q);
        states.set(0, k, (1 - z) * n + z * before.get(0, k));
      } else {
        float h = p.cell == RecurrentCell::RnnTanh ? tanhf(sum(0)) : sum(0) < 0 ? 0 : sum(0);
        gates.set(0, k, h);
        states.set(0, k, h);
      }
    }
    __syncthreads(); // The next step reads the states, and writes the products.
  }
}

template <typename T> __device__ void recurrenceGrad(const RecurrenceParams &p) {
  int64_t row = blockIdx.x;
  float *dproduct = p.products + row * p.inputs, *carried = p.carried + row * p.states;
  int64_t blocks = p.states / p.hidden;
  for (int64_t k = threadIdx.x; k < p.hidden; k += kBlock)
    for (int64_t block = 0; block < blocks; ++block)
      carried[block * p.hidden + k] = 0; // Read by this thread alone.
  for (int64_t s = p.length; s-- > 0;) {
    RecurrentStep step = stepOf(p, row, s);
    RecurrentRow<const T> dstates = rowAt<T>(p.dstates, step.place, p.states, p.hidden);
    RecurrentRow<const T> gates = rowAt<T>(p.gatesIn, step.place, p.gates, p.hidden);
    RecurrentRow<const T> states = rowAt<T>(p.statesIn, step.place, p.states, p.hidden);
    RecurrentRow<const T> before = rowAt<T>(step.isFirst ? p.initial : p.statesIn, step.before, p.states, p.hidden);
    RecurrentRow<T> dx = rowAt<T>(p.dx, step.place, p.inputs, p.hidden);
    for (int64_t k = threadIdx.x; k < p.hidden; k += kBlock) {
      auto put = [&](int64_t block, float value, float ofProduct) {
        dx.set(block, k, value);
        dproduct[block * p.hidden + k] = ofProduct;
      };
      float dh = carried[k] + dstates.get(0, k);
      float dc = p.cell == RecurrentCell::Lstm ? carried[p.hidden + k] + dstates.get(1, k) : 0;
      if (step.isBehind) {
        for (int64_t block = 0; block < p.inputs / p.hidden; ++block)
          put(block, 0, 0);
      } else if (p.cell == RecurrentCell::Lstm) {
        float i = gates.get(0, k), o = gates.get(1, k), f = gates.get(2, k), g = gates.get(3, k);
        float bent = tanhf(states.get(1, k));
        dc += dh * o * (1 - bent * bent);
        float di = dc * g * i * (1 - i), dout = dh * bent * o * (1 - o), df = dc * before.get(1, k) * f * (1 - f);
        float dg = dc * i * (1 - g * g);
        put(0, di, di);
        put(1, dout, dout);
        put(2, df, df);
        put(3, dg, dg);
        dh = 0;
        dc *= f;
      } else if (p.cell == RecurrentCell::Gru) {
        float z = gates.get(0, k), r = gates.get(1, k), n = gates.get(2, k), q = gates.get(3, k);
        float dn = dh * (1 - z) * (1 - n * n), dz = dh * (before.get(0, k) - n) * z * (1 - z),
              dr = dn * q * r * (1 - r);
        put(0, dz, dz);
        put(1, dr, dr);
        put(2, dn, dn * r);
        dh *= z;
      } else {
        float h = gates.get(0, k), d = p.cell == RecurrentCell::RnnTanh ? dh * (1 - h * h) : h > 0 ? dh : 0;
        put(0, d, d);
        dh = 0;
      }
      carried[k] = dh;
      if (p.cell == RecurrentCell::Lstm)
        carried[p.hidden + k] = dc;
    }
    __syncthreads(); // Each element of h reads the gradients of all products.
    for (int64_t k = threadIdx.x; !step.isBehind && k < p.hidden; k += kBlock) {
      float sum = 0;
      for (int64_t j = 0; j < p.inputs; ++j)
        sum += dproduct[j] * toFloat(static_cast<const T *>(p.weight)[j * p.hidden + k]);
      carried[k] += sum;
    }
    __syncthreads(); // The next step writes the products' gradients.
  }
  RecurrentRow<T> dinitial = rowAt<T>(p.dinitial, row, p.states, p.hidden);
  for (int64_t k = threadIdx.x; k < p.hidden; k += kBlock)
    for (int64_t block = 0; block < blocks; ++block)
      dinitial.set(block, k, carried[block * p.hidden + k]);
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(recurrence_f32, RecurrenceParams, recurrence<float>)                                                               \
  X(recurrence_bf16, RecurrenceParams, recurrence<Bf16>)                                                               \
  X(recurrence_grad_f32, RecurrenceParams, recurrenceGrad<float>)                                                      \
  X(recurrence_grad_bf16, RecurrenceParams, recurrenceGrad<Bf16>)

MAESTRO_KERNELS(recurrence, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda

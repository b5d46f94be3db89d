// Preparing recurrences: a block a row.
#include "kernels/cuda/recurrence.h"

#include "kernels/cuda/prepare.h"
#include "kernels/recurrence_shape.h"

namespace maestro::kernels::cuda {
namespace {

/// Whether all operands but the lengths, and all results, have x's type.
bool alike(const Call &call, size_t lengths) {
  DType dtype = call.in(0).dtype;
  for (size_t i = 0; i < call.spec.inputs.size(); ++i)
    if (call.hasIn(i) && i != lengths && call.in(i).dtype != dtype)
      return false;
  return fastSuffix(dtype) && call.out(0).dtype == dtype && call.out(1).dtype == dtype;
}

RecurrenceParams sizes(const RecurrenceShape &n) {
  RecurrenceParams params{};
  params.cell = n.cell;
  params.reverse = n.reverse;
  params.rows = n.rows;
  params.length = n.length;
  params.hidden = n.hidden;
  params.inputs = n.inputs;
  params.states = n.states;
  params.gates = n.gates;
  return params;
}

Grid rowGrid(const RecurrenceShape &n) { return {static_cast<unsigned>(std::min<int64_t>(n.rows, UINT32_MAX))}; }

} // namespace

PreparedKernel prepareRecurrence(const Call &call) {
  if (!alike(call, 4))
    return unsupported();
  RecurrenceShape n(call.spec, call.in(0));
  RecurrenceParams params = sizes(n);
  if (call.hasIn(4))
    params.lengths = anyTensor(call.in(4));
  auto sequence = call.sequence();
  size_t products = sequence->reserve(static_cast<size_t>(n.rows * n.inputs) * sizeof(float));
  MAESTRO_TRY(sequence->add(std::string("recurrence_") + fastSuffix(call.in(0).dtype), rowGrid(n), params,
                            [=](RecurrenceParams &p, const Operands &o) {
                              p.x = o.in(0);
                              p.weight = o.in(1);
                              p.initial = o.in(2);
                              p.bias = o.in(3);
                              p.lengths.data = address(o.in(4));
                              p.statesOut = o.out(0);
                              p.gatesOut = o.out(1);
                              p.products = o.scratchAt<float>(products);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareRecurrenceGrad(const Call &call) {
  if (!alike(call, 5))
    return unsupported();
  RecurrenceShape n(call.spec, call.in(3));
  RecurrenceParams params = sizes(n);
  if (call.hasIn(5))
    params.lengths = anyTensor(call.in(5));
  auto sequence = call.sequence();
  size_t products = sequence->reserve(static_cast<size_t>(n.rows * n.inputs) * sizeof(float));
  size_t carried = sequence->reserve(static_cast<size_t>(n.rows * n.states) * sizeof(float));
  MAESTRO_TRY(sequence->add(std::string("recurrence_grad_") + fastSuffix(call.in(0).dtype), rowGrid(n), params,
                            [=](RecurrenceParams &p, const Operands &o) {
                              p.dstates = o.in(0);
                              p.weight = o.in(1);
                              p.initial = o.in(2);
                              p.statesIn = o.in(3);
                              p.gatesIn = o.in(4);
                              p.lengths.data = address(o.in(5));
                              p.dx = o.out(0);
                              p.dinitial = o.out(1);
                              p.products = o.scratchAt<float>(products);
                              p.carried = o.scratchAt<float>(carried);
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

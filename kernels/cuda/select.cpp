// Preparing the extremes along an axis.
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reduce.h"

namespace maestro::kernels::cuda {
namespace {

SelectParams lines(const Call &call) {
  AxisView view(call.in(0).shape(), call.attributes().getInt("axis", 0));
  SelectParams params{};
  params.x = anyTensor(call.in(0));
  params.dims = {view.outer, view.axis, view.inner};
  return params;
}

/// A warp a line.
Grid lineGrid(const SelectParams &params) { return blocksFor(params.dims.outer * params.dims.inner * 32); }

} // namespace

PreparedKernel prepareTopK(const Call &call) {
  SelectParams params = lines(call);
  params.values = anyTensor(call.out(0));
  params.indices = anyTensor(call.out(1));
  params.k = call.out(0).dims[call.attributes().getInt("axis", 0)];
  params.largest = call.attributes().getInt("largest", 1) != 0;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string("top_k_") + computedAs(call.in(0).dtype), lineGrid(params), params,
                            [](SelectParams &p, const Operands &o) {
                              p.x.data = address(o.in(0));
                              p.values.data = o.out(0);
                              p.indices.data = o.out(1);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareArgExtreme(const Call &call) {
  SelectParams params = lines(call);
  params.indices = anyTensor(call.out(0));
  params.largest = call.spec.kernel == "arg_max";
  params.last = call.attributes().getFlag("select_last");
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string("arg_extreme_") + computedAs(call.in(0).dtype), lineGrid(params), params,
                            [](SelectParams &p, const Operands &o) {
                              p.x.data = address(o.in(0));
                              p.indices.data = o.out(0);
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

// Preparing softmax: rows where the axis is the last, lines elsewhere.
#include "kernels/cuda/softmax.h"

#include "kernels/cuda/prepare.h"
#include "kernels/cuda/row_launch.h"

namespace maestro::kernels::cuda {

PreparedKernel prepareSoftmax(const Call &call) {
  bool grad = call.spec.kernel.ends_with("_grad");
  DType type = call.in(0).dtype;
  const char *suffix = fastSuffix(type);
  if (!suffix || call.out(0).dtype != type || (grad && call.in(1).dtype != type))
    return unsupported();
  AxisView view(call.in(0).shape(), call.attributes().getInt("axis", 0));
  SoftmaxParams params{};
  params.dims = {view.outer, view.axis, view.inner};
  params.logarithm = call.spec.kernel.starts_with("log_");
  std::string stem = grad ? "softmax_grad" : "softmax";
  bool rows = view.inner == 1;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(stem + (rows ? rowInfix(view.axis) : "_line_") + suffix,
                            rows ? rowGrid(view.outer, view.axis) : blocksFor(view.outer * view.inner), params,
                            [grad](SoftmaxParams &p, const Operands &o) {
                              p.x = o.in(0);
                              p.dy = grad ? o.in(1) : nullptr;
                              p.y = o.out(0);
                              p.packed = p.dims.axis % 8 == 0 && aligned(p.x) && aligned(p.dy) && aligned(p.y);
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

// Preparing losses: a warp or a block a position.
#include "kernels/cuda/loss.h"

#include "kernels/cuda/prepare.h"
#include "kernels/cuda/row_launch.h"

#include <algorithm>

namespace maestro::kernels::cuda {
namespace {

bool allF32(std::initializer_list<const TensorType *> types) {
  return std::ranges::all_of(types, [](const TensorType *type) { return type->dtype == DType::F32; });
}

/// dloss, broadcast to the positions.
Strided<1> spreadOver(const TensorType &dloss, std::span<const int64_t> positions) {
  return joinDims<1>(positions, {broadcastStrides(dloss.shape(), positions)});
}

} // namespace

PreparedKernel prepareCrossEntropy(const Call &call) {
  const char *suffix = fastSuffix(call.in(0).dtype);
  if (!suffix || isFloat(call.in(1).dtype) || !allF32({&call.out(0), &call.out(1)}))
    return unsupported();
  CrossEntropyParams params{};
  params.labels = anyTensor(call.in(1));
  params.rows = call.in(1).elements();
  params.width = call.in(0).shape().back();
  params.ignored = call.attributes().getInt("ignore_index", -100);
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string("cross_entropy") + rowInfix(params.width) + suffix,
                            rowGrid(params.rows, params.width), params, [](CrossEntropyParams &p, const Operands &o) {
                              p.logits = o.in(0);
                              p.labels.data = address(o.in(1));
                              p.loss = o.out<float>(0);
                              p.lse = o.out<float>(1);
                              p.packed = p.width % 8 == 0 && aligned(p.logits);
                              p.report = o.report();
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareCrossEntropyGrad(const Call &call) {
  const char *suffix = fastSuffix(call.in(0).dtype);
  if (!suffix || isFloat(call.in(1).dtype) || call.in(2).dtype != DType::F32 || call.out(0).dtype != call.in(0).dtype)
    return unsupported();
  CrossEntropyGradParams params{};
  params.labels = anyTensor(call.in(1));
  params.dloss = anyTensor(call.in(3));
  params.rows = call.in(1).elements();
  params.width = call.in(0).shape().back();
  params.ignored = call.attributes().getInt("ignore_index", -100);
  params.spread = spreadOver(call.in(3), call.in(1).shape());
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string("cross_entropy_grad") + rowInfix(params.width) + suffix,
                            rowGrid(params.rows, params.width), params,
                            [](CrossEntropyGradParams &p, const Operands &o) {
                              p.logits = o.in(0);
                              p.labels.data = address(o.in(1));
                              p.lse = o.in<float>(2);
                              p.dloss.data = address(o.in(3));
                              p.dlogits = o.out(0);
                              p.packed = p.width % 8 == 0 && aligned(p.logits) && aligned(p.dlogits);
                              p.report = o.report();
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareKlDivergence(const Call &call) {
  const char *student = fastSuffix(call.in(0).dtype), *teacher = fastSuffix(call.in(1).dtype);
  if (!student || !teacher || !allF32({&call.out(0), &call.out(1), &call.out(2)}))
    return unsupported();
  KlParams params{};
  params.rows = call.out(0).elements();
  params.width = call.in(0).shape().back();
  params.inverseTemperature = static_cast<float>(1 / call.attributes().getFloat("temperature", 1));
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string("kl_divergence") + rowInfix(params.width) + student + "_" + teacher,
                            rowGrid(params.rows, params.width), params, [](KlParams &p, const Operands &o) {
                              p.student = o.in(0);
                              p.teacher = o.in(1);
                              p.loss = o.out<float>(0);
                              p.lseStudent = o.out<float>(1);
                              p.lseTeacher = o.out<float>(2);
                              p.packed = p.width % 8 == 0 && aligned(p.student) && aligned(p.teacher);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareKlDivergenceGrad(const Call &call) {
  const char *student = fastSuffix(call.in(0).dtype), *teacher = fastSuffix(call.in(1).dtype);
  if (!student || !teacher || !allF32({&call.in(2), &call.in(3)}) || call.out(0).dtype != call.in(0).dtype)
    return unsupported();
  KlGradParams params{};
  params.dloss = anyTensor(call.in(4));
  params.rows = call.in(2).elements();
  params.width = call.in(0).shape().back();
  params.inverseTemperature = static_cast<float>(1 / call.attributes().getFloat("temperature", 1));
  params.spread = spreadOver(call.in(4), call.in(2).shape());
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string("kl_divergence_grad") + rowInfix(params.width) + student + "_" + teacher,
                            rowGrid(params.rows, params.width), params, [](KlGradParams &p, const Operands &o) {
                              p.student = o.in(0);
                              p.teacher = o.in(1);
                              p.lseStudent = o.in<float>(2);
                              p.lseTeacher = o.in<float>(3);
                              p.dloss.data = address(o.in(4));
                              p.dstudent = o.out(0);
                              p.packed =
                                  p.width % 8 == 0 && aligned(p.student) && aligned(p.teacher) && aligned(p.dstudent);
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

// Preparing norms: a warp or a block a row, and how the sums over rows are cut.
#include "kernels/cuda/norm.h"

#include "kernels/accumulate.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/row_launch.h"

namespace maestro::kernels::cuda {
namespace {

constexpr int64_t kChunkRows = 64;

/// "f32_bf16": the types of x and of scale and bias; empty where there is no such kernel.
std::string suffixOf(const TensorType &x, const TensorType *scale, const TensorType *bias) {
  const char *rows = fastSuffix(x.dtype);
  DType weights = scale ? scale->dtype : bias ? bias->dtype : DType::F32;
  const char *weight = fastSuffix(weights);
  if (!rows || !weight || (bias && bias->dtype != weights))
    return "";
  return std::string(rows) + "_" + weight;
}

struct NormRows {
  int64_t count, width;
  NormRows(const TensorType &x, const Attributes &attributes)
      : count(product(x.shape().first(static_cast<size_t>(attributes.getInt("axis", 0))))),
        width(product(x.shape().subspan(static_cast<size_t>(attributes.getInt("axis", 0))))) {}
};

} // namespace

PreparedKernel prepareNorm(const Call &call) {
  bool centred = call.spec.kernel == "layer_norm";
  std::string suffix =
      suffixOf(call.in(0), call.hasIn(1) ? &call.in(1) : nullptr, call.hasIn(2) ? &call.in(2) : nullptr);
  for (size_t i = 1; i < call.spec.outputs.size(); ++i)
    if (call.out(i).dtype != DType::F32)
      return unsupported();
  if (suffix.empty() || call.out(0).dtype != call.in(0).dtype)
    return unsupported();
  NormRows rows(call.in(0), call.attributes());
  NormParams params{};
  params.rows = rows.count;
  params.width = rows.width;
  params.epsilon = static_cast<float>(call.attributes().getFloat("epsilon", 1e-5));
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string(call.spec.kernel) + rowInfix(rows.width) + suffix,
                            rowGrid(rows.count, rows.width), params, [centred](NormParams &p, const Operands &o) {
                              p.x = o.in(0);
                              p.scale = o.in(1);
                              p.bias = centred ? o.in(2) : nullptr;
                              p.y = o.out(0);
                              p.mean = centred ? o.out<float>(1) : nullptr;
                              p.rstd = o.out<float>(centred ? 2 : 1);
                              p.packed = p.width % 8 == 0 && aligned(p.x) && aligned(p.scale) && aligned(p.bias) &&
                                         aligned(p.y);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareNormGrad(const Call &call) {
  bool centred = call.spec.kernel == "layer_norm_grad";
  size_t scaleAt = centred ? 4 : 3, rstdAt = centred ? 3 : 2;
  std::string suffix = suffixOf(call.in(1), call.hasIn(scaleAt) ? &call.in(scaleAt) : nullptr, nullptr);
  if (suffix.empty() || call.in(0).dtype != call.in(1).dtype || call.out(0).dtype != call.in(1).dtype ||
      call.in(rstdAt).dtype != DType::F32 || call.in(2).dtype != DType::F32)
    return unsupported();
  NormRows rows(call.in(1), call.attributes());
  auto sequence = call.sequence();
  NormGradParams params{};
  params.rows = rows.count;
  params.width = rows.width;
  MAESTRO_TRY(sequence->add(std::string(call.spec.kernel) + rowInfix(rows.width) + suffix,
                            rowGrid(rows.count, rows.width), params, [=](NormGradParams &p, const Operands &o) {
                              p.dy = o.in(0);
                              p.x = o.in(1);
                              p.mean = centred ? o.in<float>(2) : nullptr;
                              p.rstd = o.in<float>(rstdAt);
                              p.scale = o.in(scaleAt);
                              p.dx = o.out(0);
                              p.packed = p.width % 8 == 0 && aligned(p.dy) && aligned(p.x) && aligned(p.scale) &&
                                         aligned(p.dx);
                            }));
  // dscale is result 1, dbias result 2.
  NormSumsParams sums{};
  sums.rows = rows.count;
  sums.width = rows.width;
  sums.chunkRows = kChunkRows;
  int64_t chunks = (rows.count + kChunkRows - 1) / kChunkRows;
  std::array<size_t, 3> partial{};
  std::array<bool, 3> wanted{};
  for (size_t i = 1; i < 3; ++i) {
    wanted[i] = call.hasOut(i);
    if (wanted[i] && call.out(i).dtype != DType::F32)
      return unsupported();
    if (wanted[i])
      partial[i] = sequence->reserve(static_cast<size_t>(chunks * rows.width) * sizeof(float));
  }
  if (!wanted[1] && !wanted[2])
    return prepared(std::move(sequence));
  Grid grid = blocksFor(rows.width);
  grid.y = static_cast<unsigned>(chunks);
  MAESTRO_TRY(sequence->add(std::string("norm_sums_") + fastSuffix(call.in(1).dtype), grid, sums,
                            [=](NormSumsParams &p, const Operands &o) {
                              p.dy = o.in(0);
                              p.x = o.in(1);
                              p.mean = centred ? o.in<float>(2) : nullptr;
                              p.rstd = o.in<float>(rstdAt);
                              p.dscale = wanted[1] ? o.scratchAt<float>(partial[1]) : nullptr;
                              p.dbias = wanted[2] ? o.scratchAt<float>(partial[2]) : nullptr;
                            }));
  for (size_t i = 1; i < 3; ++i)
    if (wanted[i]) {
      ColumnSumParams column{nullptr, nullptr, chunks, rows.width, (accumulateMask(call.spec) >> i & 1) != 0};
      MAESTRO_TRY(sequence->add("column_sum", blocksFor(rows.width), column,
                                [offset = partial[i], i](ColumnSumParams &p, const Operands &o) {
                                  p.partial = o.scratchAt<const float>(offset);
                                  p.result = o.out<float>(i);
                                }));
    }
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

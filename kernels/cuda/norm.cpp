// Preparing norms: a warp or a block a row, and how the sums over rows are cut.
#include "kernels/cuda/norm.h"

#include "kernels/accumulate.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/row_launch.h"

#include <optional>

namespace maestro::kernels::cuda {
namespace {

constexpr int64_t kChunkRows = 64;
/// Among so many blocks, or warps, rows are divided where a gradient reads them once: two blocks, or one of eight
/// warps, for each of an H200's 132 multiprocessors.
constexpr int64_t kBlockGroups = 264, kWarpGroups = 1056;

/// "f32_bf16": the types of x and of y; empty where there is no such kernel, or none for those of scale and bias.
std::string suffixOf(const TensorType &x, const TensorType &y, DType weights) {
  const char *rows = fastSuffix(x.dtype), *results = fastSuffix(y.dtype);
  bool known = rows && results && fastSuffix(weights) && (x.dtype == y.dtype || x.dtype == DType::F32);
  return known ? std::string(rows) + "_" + results : "";
}

/// The type of what is there of scale and bias; f64, which no kernel takes, where they differ.
DType weightsOf(const Call &call, std::initializer_list<size_t> operands) {
  std::optional<DType> type;
  for (size_t i : operands)
    if (call.hasIn(i))
      type = type && *type != call.in(i).dtype ? DType::F64 : call.in(i).dtype;
  return type.value_or(DType::F32);
}

struct NormRows {
  int64_t count, width;
  NormRows(const TensorType &x, const Attributes &attributes)
      : count(product(x.shape().first(static_cast<size_t>(attributes.getInt("axis", 0))))),
        width(product(x.shape().subspan(static_cast<size_t>(attributes.getInt("axis", 0))))) {}
};

/// The kernel that reads rows of that width once, "_sums_wide_2_" (of two chunks a thread), and rows that each of its
/// groups goes through; nothing where rows are too wide.
struct OneReading {
  std::string infix;
  int64_t perGroup;
  Grid grid;
};
std::optional<OneReading> oneReading(const NormRows &rows) {
  bool wide = rows.width > kWideRow;
  int64_t threads = wide ? kBlock : 32, warps = wide ? 1 : kBlock / 32;
  for (int64_t chunks : {2, 4}) {
    if (rows.width > threads * 8 * chunks || (chunks == 2 && !wide))
      continue;
    int64_t wanted = wide ? kBlockGroups : kWarpGroups;
    int64_t perGroup = std::max<int64_t>((rows.count + wanted - 1) / wanted, wide ? 1 : 4);
    int64_t groups = (rows.count + perGroup - 1) / perGroup;
    return OneReading{std::string("_sums_") + (wide ? "wide_" : "") + std::to_string(chunks) + "_",
                      perGroup,
                      {static_cast<unsigned>((groups + warps - 1) / warps)}};
  }
  return std::nullopt;
}

/// What layer_norm's and rms_norm's gradients have in common.
struct NormGradient {
  const Call &call;
  bool centred = call.spec.kernel == "layer_norm_grad";
  size_t scaleAt = centred ? 4 : 3, rstdAt = centred ? 3 : 2;
  DType weights = weightsOf(call, {scaleAt});
  NormRows rows{call.in(1), call.attributes()};
  std::array<size_t, 3> partial{}; ///< Where the sums of results 1 (dscale) and 2 (dbias) lie in scratch memory.
  std::array<bool, 3> wanted{};

  Status addGradient(Sequence &sequence, const std::string &kernel, Grid grid, int64_t perGroup) {
    NormGradParams params{};
    params.rows = rows.count;
    params.width = rows.width;
    params.perGroup = perGroup;
    params.narrowWeights = weights == DType::BF16;
    return sequence.add(kernel, grid, params,
                        [centred = centred, rstdAt = rstdAt, scaleAt = scaleAt, partial = partial,
                         wanted = wanted](NormGradParams &p, const Operands &o) {
                          p.dy = o.in(0);
                          p.x = o.in(1);
                          p.mean = centred ? o.in<float>(2) : nullptr;
                          p.rstd = o.in<float>(rstdAt);
                          p.scale = o.in(scaleAt);
                          p.dx = o.out(0);
                          p.dscale = wanted[1] ? o.scratchAt<float>(partial[1]) : nullptr;
                          p.dbias = wanted[2] ? o.scratchAt<float>(partial[2]) : nullptr;
                          p.packed =
                              p.width % 8 == 0 && aligned(p.dy) && aligned(p.x) && aligned(p.scale) && aligned(p.dx);
                        });
  }
  Status addSums(Sequence &sequence) {
    NormSumsParams sums{};
    sums.rows = rows.count;
    sums.width = rows.width;
    sums.chunkRows = kChunkRows;
    Grid grid = blocksFor(rows.width);
    grid.y = static_cast<unsigned>((rows.count + kChunkRows - 1) / kChunkRows);
    std::string kernel = std::string("norm_sums_") + fastSuffix(call.in(1).dtype) + "_" + fastSuffix(call.in(0).dtype);
    return sequence.add(
        kernel, grid, sums,
        [centred = centred, rstdAt = rstdAt, partial = partial, wanted = wanted](NormSumsParams &p, const Operands &o) {
          p.dy = o.in(0);
          p.x = o.in(1);
          p.mean = centred ? o.in<float>(2) : nullptr;
          p.rstd = o.in<float>(rstdAt);
          p.dscale = wanted[1] ? o.scratchAt<float>(partial[1]) : nullptr;
          p.dbias = wanted[2] ? o.scratchAt<float>(partial[2]) : nullptr;
        });
  }
  Status addColumnSum(Sequence &sequence, size_t result, int64_t chunks) {
    ColumnSumParams column{nullptr, nullptr, chunks, rows.width, (accumulateMask(call.spec) >> result & 1) != 0};
    return sequence.add("column_sum", {static_cast<unsigned>((rows.width + kSumColumns - 1) / kSumColumns)}, column,
                        [offset = partial[result], result](ColumnSumParams &p, const Operands &o) {
                          p.partial = o.scratchAt<const float>(offset);
                          p.result = o.out<float>(result);
                        });
  }
};

} // namespace

PreparedKernel prepareNorm(const Call &call) {
  bool centred = call.spec.kernel == "layer_norm";
  DType weights = centred ? weightsOf(call, {1, 2}) : weightsOf(call, {1});
  std::string suffix = suffixOf(call.in(0), call.out(0), weights);
  for (size_t i = 1; i < call.spec.outputs.size(); ++i)
    if (call.out(i).dtype != DType::F32)
      return unsupported();
  if (suffix.empty())
    return unsupported();
  NormRows rows(call.in(0), call.attributes());
  NormParams params{};
  params.rows = rows.count;
  params.width = rows.width;
  params.narrowWeights = weights == DType::BF16;
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
  NormGradient norm{call};
  std::string suffix = suffixOf(call.in(1), call.in(0), norm.weights);
  if (suffix.empty() || call.out(0).dtype != call.in(1).dtype || call.in(norm.rstdAt).dtype != DType::F32 ||
      call.in(2).dtype != DType::F32)
    return unsupported();
  for (size_t i = 1; i < 3; ++i) {
    norm.wanted[i] = call.hasOut(i);
    if (norm.wanted[i] && call.out(i).dtype != DType::F32)
      return unsupported();
  }
  auto sequence = call.sequence();
  std::optional<OneReading> once = oneReading(norm.rows);
  int64_t perChunk = once ? once->perGroup : kChunkRows, chunks = (norm.rows.count + perChunk - 1) / perChunk;
  for (size_t i = 1; i < 3; ++i)
    if (norm.wanted[i])
      norm.partial[i] = sequence->reserve(static_cast<size_t>(chunks * norm.rows.width) * sizeof(float));
  bool sums = norm.wanted[1] || norm.wanted[2];
  std::string stem(call.spec.kernel);
  if (once && sums) {
    MAESTRO_TRY(norm.addGradient(*sequence, stem + once->infix + suffix, once->grid, once->perGroup));
  } else {
    MAESTRO_TRY(norm.addGradient(*sequence, stem + rowInfix(norm.rows.width) + suffix,
                                 rowGrid(norm.rows.count, norm.rows.width), 0));
    if (sums)
      MAESTRO_TRY(norm.addSums(*sequence));
  }
  for (size_t i = 1; i < 3; ++i)
    if (norm.wanted[i])
      MAESTRO_TRY(norm.addColumnSum(*sequence, i, chunks));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

// Preparing reductions: which dims stay, and how the others are cut into chunks.
#include "kernels/cuda/reduce.h"

#include "kernels/accumulate.h"
#include "kernels/cuda/prepare.h"

#include <algorithm>

namespace maestro::kernels::cuda {
namespace {

constexpr int64_t kRowChunk = 8192, kColumnChunk = 128;
constexpr int64_t kMaxChunks = 0xffff; ///< A grid's second dimension.
constexpr int64_t kMinRow = 64;        ///< Shorter ones leave most of a block idle.

/// "sum", "max", "min" or "prod".
std::string operationOf(std::string_view kernel) {
  return kernel == "reduce_mean" ? "sum" : std::string(kernel.substr(std::string_view("reduce_").size()));
}

/// Whether what is kept lies side by side, and what is reduced is rows of that: gradients of biases.
bool isMatrix(const ReduceParams &params) {
  const Strided<1> &kept = params.keptMap, &reduced = params.reducedMap;
  return kept.rank == 1 && reduced.rank == 1 && kept.strides[0][0] == 1 && reduced.strides[0][0] == params.kept;
}

/// The type that is computed in: "any" (f32), "f64" or "integer".
const char *reducedAs(DType dtype) { return dtype == DType::F64 ? "f64" : isFloat(dtype) ? "any" : "integer"; }

} // namespace

PreparedKernel prepareReduce(const Call &call) {
  auto shape = call.in(0).shape();
  auto axes = call.attributes().getInts("axes");
  Dims dense = denseStrides(shape), keptStrides{}, reducedStrides{};
  std::vector<int64_t> kept, reduced;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool gone = std::ranges::find(axes, static_cast<int64_t>(d)) != axes.end();
    (gone ? reducedStrides[reduced.size()] : keptStrides[kept.size()]) = dense[d];
    (gone ? reduced : kept).push_back(shape[d]);
  }
  ReduceParams params{};
  params.x = anyTensor(call.in(0));
  params.kept = product(kept);
  params.length = product(reduced);
  params.keptMap = joinDims<1>(kept, {keptStrides});
  params.reducedMap = joinDims<1>(reduced, {reducedStrides});
  const Strided<1> &inner = params.reducedMap;
  bool rows = params.length >= kMinRow && inner.rank > 0 && inner.strides[0][inner.rank - 1] == 1;
  params.chunk = std::max(rows ? kRowChunk : kColumnChunk, (params.length + kMaxChunks - 1) / kMaxChunks);
  int64_t chunks = (params.length + params.chunk - 1) / params.chunk;

  std::string op = operationOf(call.spec.kernel), stem = "reduce_" + op, type = reducedAs(call.in(0).dtype);
  std::string loads = op == "sum" && fastSuffix(call.in(0).dtype) ? fastSuffix(call.in(0).dtype) : type;
  bool matrix = !rows && op == "sum" && fastSuffix(call.in(0).dtype) && isMatrix(params);
  Grid grid = rows ? Grid{static_cast<unsigned>(std::min<int64_t>(params.kept, UINT32_MAX))} : blocksFor(params.kept);
  static_assert(kMatrixColumns == kBlock, "blocksFor() is right for both");
  grid.y = static_cast<unsigned>(chunks);
  auto sequence = call.sequence();
  size_t partial = sequence->reserve(static_cast<size_t>(chunks * params.kept) * sizeof(int64_t));
  MAESTRO_TRY(sequence->add(stem +
                                (rows     ? "_rows_"
                                 : matrix ? "_matrix_"
                                          : "_columns_") +
                                loads,
                            grid, params, [partial](ReduceParams &p, const Operands &o) {
                              p.x.data = address(o.in(0));
                              p.packed = p.kept % 8 == 0 && aligned(p.x.data);
                              p.partial = o.scratchAt(partial);
                            }));
  ReduceFinalParams last{};
  last.y = anyTensor(call.out(0));
  last.kept = params.kept;
  last.chunks = chunks;
  last.length = params.length;
  last.mean = call.spec.kernel == "reduce_mean";
  last.adds = (accumulateMask(call.spec) & 1) != 0;
  MAESTRO_TRY(sequence->add(stem + "_final_" + type, blocksFor(params.kept), last,
                            [partial](ReduceFinalParams &p, const Operands &o) {
                              p.partial = o.scratchAt<const void>(partial);
                              p.y.data = o.out(0);
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

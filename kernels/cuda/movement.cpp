// Preparing what fills and moves elements.
#include "kernels/cuda/movement.h"

#include "kernels/cuda/move.h"
#include "kernels/cuda/prepare.h"

namespace maestro::kernels::cuda {
namespace {

constexpr auto kInput = [](const Operands &o) { return o.in(0); };
constexpr auto kOutput = [](const Operands &o) { return o.out(0); };

/// The result's elements in order, each from where `from` says.
PreparedKernel prepareMove(const Call &call, const Dims &from, int64_t start = 0) {
  auto shape = call.out(0).shape();
  if (call.in(0).dtype != call.out(0).dtype)
    return unsupported();
  Strided<2> map = joinDims<2>(shape, {from, denseStrides(shape)});
  map.starts[0] = start;
  auto sequence = call.sequence();
  MAESTRO_TRY(addMove(*sequence, call.out(0).dtype, product(shape), map, kInput, kOutput));
  return prepared(std::move(sequence));
}

/// Where the elements of a slice lie in the whole.
struct SliceMap {
  Dims strides{};
  int64_t start = 0;

  SliceMap(const Call &call, std::span<const int64_t> whole) {
    auto offsets = call.attributes().getInts("offsets"), steps = call.attributes().getInts("steps");
    Dims dense = denseStrides(whole);
    for (size_t d = 0; d < whole.size(); ++d) {
      start += offsets[d] * dense[d];
      strides[d] = (steps.empty() ? 1 : steps[d]) * dense[d];
    }
  }
};

/// Whether the last two dims of the result are swapped in the operand, and what lies before them is one dim at most.
bool swapsRowsAndColumns(const Strided<2> &map) {
  int last = map.rank - 1;
  if (map.rank < 2 || map.rank > 3)
    return false;
  bool swapped = map.strides[0][last - 1] == 1 && map.strides[0][last] == map.dims[last - 1];
  return swapped && (map.rank == 2 || map.strides[0][0] == map.dims[last] * map.dims[last - 1]);
}

} // namespace

PreparedKernel prepareTranspose(const Call &call) {
  auto permutation = call.attributes().getInts("permutation");
  Dims dense = denseStrides(call.in(0).shape()), from{};
  for (size_t i = 0; i < permutation.size(); ++i)
    from[i] = dense[permutation[i]];
  auto shape = call.out(0).shape();
  Strided<2> map = joinDims<2>(shape, {from, denseStrides(shape)});
  constexpr int64_t kTile = 32, kMaxBlocks = 0xffff, kMaxBatch = 1024; // Blocks take turns with what is beyond.
  if (!swapsRowsAndColumns(map) || map.dims[map.rank - 1] > kTile * kMaxBlocks ||
      call.in(0).dtype != call.out(0).dtype || product(shape) == 0)
    return prepareMove(call, from);
  TransposeParams params{nullptr, nullptr, map.rank == 3 ? map.dims[0] : 1, map.dims[map.rank - 1],
                         map.dims[map.rank - 2]};
  Grid grid{static_cast<unsigned>((params.columns + kTile - 1) / kTile),
            static_cast<unsigned>((params.rows + kTile - 1) / kTile),
            static_cast<unsigned>(std::min(params.batch, kMaxBatch))};
  auto sequence = call.sequence();
  MAESTRO_TRY(
      sequence->add(bySize("transpose", call.out(0).dtype), grid, params, [](TransposeParams &p, const Operands &o) {
        p.x = o.in(0);
        p.y = o.out(0);
      }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareBroadcastTo(const Call &call) {
  return prepareMove(call, broadcastStrides(call.in(0).shape(), call.out(0).shape()));
}

PreparedKernel prepareSlice(const Call &call) {
  SliceMap slice(call, call.in(0).shape());
  return prepareMove(call, slice.strides, slice.start);
}

PreparedKernel prepareSliceGrad(const Call &call) {
  DType type = call.out(0).dtype;
  if (call.in(0).dtype != type)
    return unsupported();
  SliceMap slice(call, call.out(0).shape());
  auto shape = call.in(0).shape();
  Strided<2> map = joinDims<2>(shape, {denseStrides(shape), slice.strides});
  map.starts[1] = slice.start;
  auto sequence = call.sequence();
  MAESTRO_TRY(addFill(*sequence, type, call.out(0).elements(), 0, kOutput));
  MAESTRO_TRY(addMove(*sequence, type, product(shape), map, kInput, kOutput));
  return prepared(std::move(sequence));
}

PreparedKernel prepareConcat(const Call &call) {
  AxisView whole(call.out(0).shape(), call.attributes().getInt("axis", 0));
  auto sequence = call.sequence();
  int64_t start = 0;
  for (size_t k = 0; k < call.spec.inputs.size(); ++k) {
    if (call.in(k).dtype != call.out(0).dtype)
      return unsupported();
    int64_t run = AxisView(call.in(k).shape(), call.attributes().getInt("axis", 0)).axis * whole.inner;
    int64_t shape[] = {whole.outer, run};
    Strided<2> map = joinDims<2>(shape, {Dims{run, 1}, Dims{whole.axis * whole.inner, 1}});
    map.starts[1] = start;
    start += run;
    MAESTRO_TRY(addMove(
        *sequence, call.out(0).dtype, whole.outer * run, map, [k](const Operands &o) { return o.in(k); }, kOutput));
  }
  return prepared(std::move(sequence));
}

PreparedKernel prepareFill(const Call &call) {
  auto sequence = call.sequence();
  MAESTRO_TRY(
      addFill(*sequence, call.out(0).dtype, call.out(0).elements(), call.attributes().getFloat("value", 0), kOutput));
  return prepared(std::move(sequence));
}

PreparedKernel prepareIota(const Call &call) {
  IotaParams params{anyTensor(call.out(0)), call.out(0).elements(), call.attributes().getInt("start", 0),
                    call.attributes().getInt("step", 1)};
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add("iota_elements", blocksFor(params.count), params,
                            [](IotaParams &p, const Operands &o) { p.y.data = o.out(0); }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareDimValues(const Call &call) {
  auto values = call.attributes().getInts("values");
  ValuesParams params{anyTensor(call.out(0)), static_cast<int64_t>(values.size()), {}};
  if (values.size() > std::size(params.values))
    return unsupported();
  std::ranges::copy(values, params.values);
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add("value_elements", blocksFor(params.count), params,
                            [](ValuesParams &p, const Operands &o) { p.y.data = o.out(0); }));
  return prepared(std::move(sequence));
}

PreparedKernel preparePad(const Call &call) {
  std::string_view mode = call.attributes().getText("mode", "constant");
  PadParams params{};
  params.x = anyTensor(call.in(0));
  params.y = anyTensor(call.out(0));
  params.count = call.out(0).elements();
  params.rank = call.out(0).rank;
  params.mode = mode == "reflect" ? PadMode::Reflect
                : mode == "edge"  ? PadMode::Edge
                : mode == "wrap"  ? PadMode::Wrap
                                  : PadMode::Constant;
  params.value = call.attributes().getFloat("value", 0);
  auto low = call.attributes().getInts("low");
  for (int d = 0; d < params.rank; ++d) {
    params.from[d] = call.in(0).dims[d];
    params.to[d] = call.out(0).dims[d];
    params.low[d] = low[d];
  }
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(isFloat(call.out(0).dtype) ? "pad_double" : "pad_integer", blocksFor(params.count), params,
                            [](PadParams &p, const Operands &o) {
                              p.x.data = address(o.in(0));
                              p.y.data = o.out(0);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareCumsum(const Call &call) {
  AxisView view(call.in(0).shape(), call.attributes().getInt("axis", 0));
  CumsumParams params{anyTensor(call.in(0)),
                      anyTensor(call.out(0)),
                      {view.outer, view.axis, view.inner},
                      call.attributes().getFlag("exclusive"),
                      call.attributes().getFlag("reverse")};
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(isFloat(call.out(0).dtype) ? "cumsum_double" : "cumsum_integer",
                            blocksFor(view.outer * view.inner), params, [](CumsumParams &p, const Operands &o) {
                              p.x.data = address(o.in(0));
                              p.y.data = o.out(0);
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

// Preparing rotary embedding and dropout.
#include "kernels/cuda/position.h"

#include "kernels/cuda/prepare.h"

namespace maestro::kernels::cuda {

namespace {

/// Whether eight neighbours of x find cosine and sine as neighbours, at aligned places. Buffers in plans begin at
/// multiples of 64.
bool besideEachOther(const Strided<2> &map) {
  return packs(map, 8) && map.strides[0][map.rank - 1] == 1 && map.strides[1][map.rank - 1] == 1;
}

} // namespace

PreparedKernel prepareRope(const Call &call) {
  DType type = call.in(0).dtype;
  const char *suffix = fastSuffix(type);
  if (!suffix || call.out(0).dtype != type || call.in(1).dtype == DType::F64 || call.in(2).dtype == DType::F64)
    return unsupported();
  auto shape = call.out(0).shape();
  RopeParams params{};
  params.cosine = anyTensor(call.in(1));
  params.sine = anyTensor(call.in(2));
  params.pairs = call.out(0).elements() / 2;
  params.width = shape.back();
  params.map =
      joinDims<2>(shape, {broadcastStrides(call.in(1).shape(), shape), broadcastStrides(call.in(2).shape(), shape)});
  params.interleaved = call.attributes().getFlag("interleaved");
  params.adjoint = call.attributes().getFlag("adjoint");
  DType table = call.in(1).dtype;
  bool packed = !params.interleaved && fastSuffix(table) && call.in(2).dtype == table && params.width % 16 == 0 &&
                besideEachOther(params.map);
  std::string kernel =
      packed ? std::string("rope_packed_") + suffix + "_" + fastSuffix(table) : std::string("rope_") + suffix;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(kernel, blocksFor(packed ? params.pairs / 8 : params.pairs), params,
                            [](RopeParams &p, const Operands &o) {
                              p.x = o.in(0);
                              p.cosine.data = address(o.in(1));
                              p.sine.data = address(o.in(2));
                              p.y = o.out(0);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareDropout(const Call &call) {
  DType type = call.in(0).dtype;
  const char *suffix = fastSuffix(type);
  if (!suffix || call.out(0).dtype != type)
    return unsupported();
  auto shape = call.in(0).shape();
  Dims strides{};
  std::ranges::copy(call.attributes().getInts("strides"), strides.begin());
  double ratio = call.attributes().getFloat("ratio", 0.5);
  DropoutParams params{};
  params.state = anyTensor(call.in(1));
  params.sampleIds = anyTensor(call.in(2));
  params.count = call.out(0).elements();
  params.width = std::max<int64_t>(product(shape.subspan(1)), 1);
  params.rowsPerSample = std::max<int64_t>(shape[0] / std::max<int64_t>(call.in(2).elements(), 1), 1);
  params.stream = call.attributes().getInt("stream", 0);
  params.position = joinDims<1>(shape.subspan(1), {strides});
  params.ratio = static_cast<float>(ratio);
  params.scale = ratio < 1 ? static_cast<float>(1 / (1 - ratio)) : 0;
  bool eight = packs(params.position, 8) && params.position.strides[0][params.position.rank - 1] == 1;
  params.perThread = eight ? 8 : 1;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(std::string("dropout_") + suffix, blocksFor(params.count / params.perThread), params,
                            [](DropoutParams &p, const Operands &o) {
                              p.x = o.in(0);
                              p.state.data = address(o.in(1));
                              p.sampleIds.data = address(o.in(2));
                              p.y = o.out(0);
                              p.packed = aligned(p.x) && aligned(p.y);
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda

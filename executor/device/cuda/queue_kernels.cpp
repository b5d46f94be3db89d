#include "executor/device/cuda/queue_kernels.h"

#include "kernels/cuda/kernel.h"
#include "kernels/cuda/queue.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace maestro::executor {

namespace kc = kernels::cuda;

namespace {

template <typename T> T *pointer(CUdeviceptr address) { return reinterpret_cast<T *>(address); }

/// The most bytes, up to 16, by which all of them can be divided.
int32_t unitOf(uint64_t bits) {
  int32_t unit = 16;
  while (bits % static_cast<uint64_t>(unit) != 0)
    unit /= 2;
  return unit;
}

} // namespace

Result<QueueKernels> QueueKernels::find(const kc::Functions &functions) {
  QueueKernels found(functions);
  MAESTRO_ASSIGN(found.putBytes, functions.find("put_bytes"));
  MAESTRO_ASSIGN(found.fillZeros, functions.find("fill_zero"));
  MAESTRO_ASSIGN(found.copyBox, functions.find("copy_box"));
  MAESTRO_ASSIGN(found.sumParts, functions.find("sum_parts"));
  return found;
}

Status QueueKernels::launch(CUfunction function, uint64_t threads, CUstream stream, void *params) const {
  uint64_t blocks = (threads + kc::kBlock - 1) / kc::kBlock;
  if (blocks > 0x7fffffff)
    return Status::internal("a copy or sum of " + std::to_string(threads) + " units is above what one launch takes");
  return functions->launch(function, {static_cast<unsigned>(blocks), 1, 1}, kc::kBlock, 0, stream, params);
}

Status QueueKernels::put(CUstream stream, CUdeviceptr to, std::span<const std::byte> bytes) const {
  kc::PutBytesParams params{pointer<void>(to), static_cast<int32_t>(bytes.size()), {}};
  std::memcpy(params.data, bytes.data(), bytes.size());
  return launch(putBytes, bytes.size(), stream, &params);
}

Status QueueKernels::fillZero(CUstream stream, CUdeviceptr to, uint64_t bytes) const {
  kc::FillZeroParams params{pointer<void>(to), static_cast<int64_t>(bytes)};
  return launch(fillZeros, bytes, stream, &params);
}

Status QueueKernels::copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, const Box &box) const {
  kc::CopyBoxParams params{};
  uint64_t all = box.elementBytes | (to + box.destination) | (from + box.source);
  for (uint32_t dim = 0; dim < box.rank; ++dim)
    all |= static_cast<uint64_t>(box.sourceStrides[dim]) | static_cast<uint64_t>(box.destinationStrides[dim]);
  int32_t unit = unitOf(all);
  params.from = pointer<void>(from + box.source);
  params.to = pointer<void>(to + box.destination);
  params.unitBytes = unit;
  params.count = static_cast<int64_t>(box.elementBytes / static_cast<uint64_t>(unit));
  params.map.rank = static_cast<int32_t>(box.rank) + 1;
  for (uint32_t dim = 0; dim < box.rank; ++dim) {
    params.map.dims[dim] = static_cast<int64_t>(box.extents[dim]);
    params.map.strides[0][dim] = box.sourceStrides[dim] / unit;
    params.map.strides[1][dim] = box.destinationStrides[dim] / unit;
  }
  params.map.dims[box.rank] = params.count;
  params.map.strides[0][box.rank] = params.map.strides[1][box.rank] = 1;
  for (uint32_t dim = 0; dim < box.rank; ++dim)
    params.count *= params.map.dims[dim];
  params.map.narrow = params.count <= INT64_C(0xffffffff);
  return launch(copyBox, static_cast<uint64_t>(params.count), stream, &params);
}

Status QueueKernels::sum(CUstream stream, CUdeviceptr to, std::span<const CUdeviceptr> parts, uint64_t floats) const {
  kc::SumPartsParams params{};
  CUdeviceptr all = to | floats * sizeof(float);
  for (size_t p = 0; p < parts.size(); ++p) {
    params.from[p] = pointer<const float>(parts[p]);
    all |= parts[p];
  }
  params.to = pointer<float>(to);
  params.count = static_cast<int64_t>(floats);
  params.packed = all % 16 == 0;
  params.parts = static_cast<int32_t>(parts.size());
  return launch(sumParts, params.packed ? floats / 4 : floats, stream, &params);
}

} // namespace maestro::executor

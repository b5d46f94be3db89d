#include "executor/device/box.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>

namespace maestro::executor {
namespace {

bool isEmpty(const Box &box) {
  return box.elementBytes == 0 ||
         std::any_of(box.extents.begin(), box.extents.begin() + box.rank, [](uint64_t extent) { return extent == 0; });
}

/// The innermost loop; short runs of a size known to the compiler need no call.
template <size_t bytes>
void copyFixed(std::byte *to, const std::byte *from, uint64_t count, int64_t toStride, int64_t fromStride) {
  for (uint64_t i = 0; i < count; ++i, to += toStride, from += fromStride)
    std::memcpy(to, from, bytes);
}

void copyRow(std::byte *to, const std::byte *from, uint64_t count, int64_t toStride, int64_t fromStride,
             uint64_t bytes) {
  switch (bytes) {
  case 1:
    return copyFixed<1>(to, from, count, toStride, fromStride);
  case 2:
    return copyFixed<2>(to, from, count, toStride, fromStride);
  case 4:
    return copyFixed<4>(to, from, count, toStride, fromStride);
  case 8:
    return copyFixed<8>(to, from, count, toStride, fromStride);
  case 16:
    return copyFixed<16>(to, from, count, toStride, fromStride);
  default:
    for (uint64_t i = 0; i < count; ++i, to += toStride, from += fromStride)
      std::memcpy(to, from, bytes);
  }
}

void copyDims(const Box &runs, uint32_t dim, std::byte *to, const std::byte *from) {
  if (dim + 1 == runs.rank)
    return copyRow(to, from, runs.extents[dim], runs.destinationStrides[dim], runs.sourceStrides[dim],
                   runs.elementBytes);
  for (uint64_t i = 0; i < runs.extents[dim]; ++i)
    copyDims(runs, dim + 1, to + static_cast<int64_t>(i) * runs.destinationStrides[dim],
             from + static_cast<int64_t>(i) * runs.sourceStrides[dim]);
}

} // namespace

Status checkBox(const Box &box, uint64_t bytes) {
  if (box.rank > Box::kMaxRank)
    return Status::internal("a box has " + std::to_string(box.rank) + " dims; at most " +
                            std::to_string(Box::kMaxRank));
  // In 128 bits nothing wraps: strides and extents have 64.
  __int128 lowest = box.destination, highest = lowest + box.elementBytes;
  for (uint32_t dim = 0; dim < box.rank; ++dim) {
    if (box.extents[dim] == 0)
      return {};
    if (box.extents[dim] > UINT64_MAX >> 8)
      return Status::internal("dim " + std::to_string(dim) + " of a box has " + std::to_string(box.extents[dim]) +
                              " elements");
    __int128 reach = static_cast<__int128>(box.extents[dim] - 1) * box.destinationStrides[dim];
    (reach < 0 ? lowest : highest) += reach;
  }
  if (lowest < 0 || highest > static_cast<__int128>(bytes))
    return Status::internal("a box at byte " + std::to_string(box.destination) + " writes bytes " +
                            std::to_string(static_cast<int64_t>(lowest)) + " to " +
                            std::to_string(static_cast<int64_t>(highest)) + " of a slot of " + std::to_string(bytes));
  return {};
}

Box mergeDims(const Box &box) {
  Box runs = box;
  runs.rank = 0;
  if (isEmpty(box)) {
    runs.elementBytes = 0;
    return runs;
  }
  uint32_t outer = box.rank;
  while (outer > 0) {
    uint32_t dim = outer - 1;
    auto run = static_cast<int64_t>(runs.elementBytes);
    if (box.extents[dim] != 1 && (box.sourceStrides[dim] != run || box.destinationStrides[dim] != run))
      break;
    runs.elementBytes *= box.extents[dim];
    --outer;
  }
  for (uint32_t dim = 0; dim < outer; ++dim) {
    if (box.extents[dim] == 1)
      continue;
    runs.extents[runs.rank] = box.extents[dim];
    runs.sourceStrides[runs.rank] = box.sourceStrides[dim];
    runs.destinationStrides[runs.rank++] = box.destinationStrides[dim];
  }
  return runs;
}

uint64_t runsOf(const Box &box) {
  Box runs = mergeDims(box);
  if (runs.elementBytes == 0)
    return 0;
  return std::accumulate(runs.extents.begin(), runs.extents.begin() + runs.rank, uint64_t{1}, std::multiplies<>());
}

RunCursor::RunCursor(const Box &box) : merged(mergeDims(box)), hasMore(merged.elementBytes > 0) {}

bool RunCursor::next(Run &run) {
  if (!hasMore)
    return false;
  run = {static_cast<int64_t>(merged.destination), static_cast<int64_t>(merged.source), merged.elementBytes};
  for (uint32_t dim = 0; dim < merged.rank; ++dim) {
    run.destination += static_cast<int64_t>(at[dim]) * merged.destinationStrides[dim];
    run.source += static_cast<int64_t>(at[dim]) * merged.sourceStrides[dim];
  }
  uint32_t dim = merged.rank; // On to the next, in row-major order.
  while (dim > 0 && ++at[dim - 1] == merged.extents[dim - 1])
    at[--dim] = 0;
  hasMore = dim > 0;
  return true;
}

void copyBox(const Box &box, std::byte *to, const std::byte *from) {
  Box runs = mergeDims(box);
  if (runs.elementBytes == 0)
    return;
  to += runs.destination;
  from += runs.source;
  if (runs.rank == 0)
    std::memcpy(to, from, runs.elementBytes);
  else
    copyDims(runs, 0, to, from);
}

} // namespace maestro::executor

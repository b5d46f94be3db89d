// How much one micro-batch of an executable may hold, and the largest micro-batches that there are then: what buffers'
// bytes rest on. Emission and the verifier ask here alike.
//
//   rows ▲                      bounds alone: every size is largest at the corner ●
//        │ ┌┐                   with an area (rows · padded ≤ value): at one of the corners of the staircase,
//        │ │└┐                  of which the one of the longest samples comes first
//        │ │ └──┐
//        │ │    └───────┐ ●     what grows with every symbol is nowhere larger than at one of them
//        └─┴────────────┴─▶ padded
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace maestro::plan {

namespace fb {
struct Executable;
struct Plan;
} // namespace fb

/// Of one executable; symbols are those of Plan.symbols, or whatever the caller numbers.
struct Capacity {
  struct Area {
    uint32_t rows = 0, padded = 0; ///< Symbols.
    int64_t value = 0;             ///< Most of their product; padded's bound at least.
  };
  std::vector<int64_t> bounds;    ///< By symbol; DimTable::kUndefined: there is none.
  std::vector<int64_t> multiples; ///< By symbol: padded sizes are multiples of it.
  std::vector<Area> areas;        ///< Of one rows symbol, each with a padded symbol of its own.
};

/// Of a verified executable, or one whose bounds and areas name symbols.
Capacity capacityOf(const fb::Plan &plan, const fb::Executable &executable);

/// Sizes by symbol, ascending in rows; the bounds alone where there are no areas. One for each number of rows up to 64;
/// beyond, numbers within a 32nd of each other share one, which is up to 3 % too large.
std::vector<std::vector<int64_t>> largestMicroBatches(const Capacity &capacity);
/// How many these are: some eight hundred at most.
size_t countLargestMicroBatches(const Capacity &capacity);
/// One after the other, in the same order, in memory that the next one overwrites; ends with the first failure.
Status forEachLargestMicroBatch(const Capacity &capacity, const std::function<Status(std::span<const int64_t>)> &visit);

} // namespace maestro::plan

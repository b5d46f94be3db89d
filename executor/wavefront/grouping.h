// Which samples of a global batch form which micro-batch of a section.
//
// Pure: plain data in, plain data out, no I/O, no threads, no clock, integers only, so that the
// simulator and every rank compute the same answer.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace maestro::wavefront {
/// Apart from schedule.h's types of the same names; callers move there.
inline namespace in_order {

/// How one symbolic dim combines over the samples of a micro-batch, and its capacity.
struct DimRule {
  std::string name; ///< For messages.
  bool sum = false; ///< Sum of the samples' values; otherwise their maximum.
  int64_t multipleOf = 1; ///< A maximum is rounded up to this.
  int64_t capacity = 0;   ///< Largest combined value in one micro-batch.
};

/// samples × rules: `sizes[sample * rules.size() + rule]`.
struct GroupingProblem {
  std::span<const DimRule> rules;
  std::span<const int64_t> sizes;
  int64_t maxSamples = 0; ///< Capacity in samples.

  size_t sampleCount() const { return rules.empty() ? 0 : sizes.size() / rules.size(); }
};

/// Consecutive samples [first, first + count) and the combined dims.
struct MicroBatch {
  size_t first = 0, count = 0;
  std::vector<int64_t> dims;
};

/// A sample that no micro-batch can hold (names it by its position, the dim, value and capacity).
Status check(const GroupingProblem &problem);

/// Micro-batches in file order, each as full as the capacities allow. `groups` is reused: nothing
/// is allocated once it has grown. Requires check(problem).
void groupInOrder(const GroupingProblem &problem, std::vector<MicroBatch> &groups, size_t &groupCount);

/// Every sample in exactly one group, combined dims right and within capacity.
Status verify(const GroupingProblem &problem, std::span<const MicroBatch> groups);

} // namespace in_order
} // namespace maestro::wavefront

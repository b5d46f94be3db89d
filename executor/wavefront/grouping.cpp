#include "executor/wavefront/grouping.h"

#include <algorithm>

namespace maestro::wavefront {
inline namespace in_order {
namespace {

int64_t roundUp(int64_t value, int64_t multiple) {
  return multiple > 1 ? (value + multiple - 1) / multiple * multiple : value;
}

/// The combined value when a sample of size `added` joins a group whose value is `current`.
int64_t combine(const DimRule &rule, int64_t current, int64_t added) {
  return rule.sum ? current + added : std::max(current, roundUp(added, rule.multipleOf));
}

std::string sampleName(size_t sample) { return "sample " + std::to_string(sample) + " of the batch"; }

} // namespace

Status check(const GroupingProblem &problem) {
  if (problem.maxSamples < 1)
    return Status::invalidInput("a micro-batch must hold at least 1 sample, not " +
                                std::to_string(problem.maxSamples));
  for (size_t sample = 0; sample < problem.sampleCount(); ++sample)
    for (size_t r = 0; r < problem.rules.size(); ++r) {
      const DimRule &rule = problem.rules[r];
      int64_t value = combine(rule, 0, problem.sizes[sample * problem.rules.size() + r]);
      if (value > rule.capacity)
        return Status::invalidInput(sampleName(sample) + ": " + rule.name + " = " +
                                    std::to_string(value) + " exceeds the micro-batch's capacity of " +
                                    std::to_string(rule.capacity) + "; raise dims." + rule.name +
                                    ".max and plan again");
    }
  return Status();
}

void groupInOrder(const GroupingProblem &problem, std::vector<MicroBatch> &groups, size_t &groupCount) {
  size_t ruleCount = problem.rules.size();
  groupCount = 0;
  for (size_t sample = 0; sample < problem.sampleCount(); ++sample) {
    const int64_t *sizes = problem.sizes.data() + sample * ruleCount;
    auto fits = [&](const MicroBatch &group) {
      if (static_cast<int64_t>(group.count) >= problem.maxSamples)
        return false;
      for (size_t r = 0; r < ruleCount; ++r)
        if (combine(problem.rules[r], group.dims[r], sizes[r]) > problem.rules[r].capacity)
          return false;
      return true;
    };
    if (groupCount == 0 || !fits(groups[groupCount - 1])) {
      if (groups.size() == groupCount)
        groups.emplace_back();
      MicroBatch &fresh = groups[groupCount++];
      fresh.first = sample;
      fresh.count = 0;
      fresh.dims.assign(ruleCount, 0);
    }
    MicroBatch &group = groups[groupCount - 1];
    for (size_t r = 0; r < ruleCount; ++r)
      group.dims[r] = combine(problem.rules[r], group.dims[r], sizes[r]);
    ++group.count;
  }
}

Status verify(const GroupingProblem &problem, std::span<const MicroBatch> groups) {
  size_t next = 0;
  for (const MicroBatch &group : groups) {
    if (group.first != next || group.count == 0)
      return Status::internal("micro-batch starts at sample " + std::to_string(group.first) +
                              ", expected " + std::to_string(next));
    next += group.count;
    if (static_cast<int64_t>(group.count) > problem.maxSamples || next > problem.sampleCount())
      return Status::internal("micro-batch holds too many samples: " + std::to_string(group.count));
    for (size_t r = 0; r < problem.rules.size(); ++r) {
      int64_t value = 0;
      for (size_t s = group.first; s < next; ++s)
        value = combine(problem.rules[r], value, problem.sizes[s * problem.rules.size() + r]);
      if (value != group.dims[r] || value > problem.rules[r].capacity)
        return Status::internal("micro-batch's " + problem.rules[r].name + " is " +
                                std::to_string(group.dims[r]) + ", expected " + std::to_string(value));
    }
  }
  if (next != problem.sampleCount())
    return Status::internal("micro-batches cover " + std::to_string(next) + " of " +
                            std::to_string(problem.sampleCount()) + " samples");
  return Status();
}

} // namespace in_order
} // namespace maestro::wavefront

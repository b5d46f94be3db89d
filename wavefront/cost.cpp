// What of problem.h runs for every micro-batch: costs, combined sizes and capacities.
#include "wavefront/problem.h"

#include <algorithm>
#include <limits>

namespace maestro::wavefront {
namespace {

using Wide = unsigned __int128;

/// Exact while it is at most `largestNs`, and never past it.
int64_t evaluateWide(const Cost &cost, const int64_t *dims) {
  const Wide limit = static_cast<Wide>(kMaxNs) * 1000;
  Wide total = 0;
  for (const CostTerm &term : cost.terms) {
    bool zero = term.picoseconds == 0 ||
                std::any_of(term.dims.begin(), term.dims.end(), [&](uint32_t dim) { return dims[dim] == 0; });
    if (zero)
      continue;
    Wide value = static_cast<Wide>(term.picoseconds);
    for (uint32_t dim : term.dims) {
      if (value > limit / static_cast<Wide>(dims[dim]))
        return kMaxNs;
      value *= static_cast<Wide>(dims[dim]);
    }
    total += value;
    if (total > limit)
      return kMaxNs;
  }
  return static_cast<int64_t>((total + 999) / 1000);
}

} // namespace

int64_t evaluate(const Cost &cost, const int64_t *dims) {
  int64_t total = 0;
  for (const CostTerm &term : cost.terms) {
    int64_t value = term.picoseconds;
    for (uint32_t dim : term.dims)
      if (__builtin_mul_overflow(value, dims[dim], &value))
        return evaluateWide(cost, dims);
    if (__builtin_add_overflow(total, value, &total))
      return evaluateWide(cost, dims);
  }
  return total / 1000 + (total % 1000 != 0);
}

int64_t alone(const Dim &dim, int64_t value) { return combine(dim, 0, value); }

int64_t combine(const Dim &dim, int64_t combined, int64_t value) {
  if (dim.sum)
    return combined + value;
  if (dim.unpadded)
    return value == 0 || value == combined ? combined : combined == 0 ? value : kDiffering;
  if (value <= combined) // Which is rounded up.
    return combined;
  if (dim.multipleOf > 1)
    value = (value + dim.multipleOf - 1) / dim.multipleOf * dim.multipleOf;
  return std::max(combined, value);
}

int64_t combineLargest(const Dim &dim, int64_t combined, int64_t value) {
  return dim.unpadded ? std::max(combined, value) : combine(dim, combined, value);
}

void join(const Problem &problem, const int64_t *combined, const int64_t *sizes, int64_t *joined) {
  for (size_t d = 0; d < problem.dims.size(); ++d)
    joined[d] = combine(problem.dims[d], combined[d], sizes[d]);
}

bool isUnpadded(const Section &section, uint32_t dim) {
  return std::find(section.unpadded.begin(), section.unpadded.end(), dim) != section.unpadded.end();
}

bool fits(const Section &section, int64_t samples, const int64_t *combined) {
  if (samples > section.maxSamples)
    return false;
  for (size_t d = 0; d < section.capacity.size(); ++d)
    if (combined[d] > section.capacity[d] &&
        (combined[d] != kDiffering || isUnpadded(section, static_cast<uint32_t>(d))))
      return false;
  for (const Area &area : section.areas) {
    int64_t tokens = 0;
    if (__builtin_mul_overflow(combined[area.rows], combined[area.padded], &tokens) || tokens > area.capacity)
      return false;
  }
  return true;
}

bool takesPart(const Section &section, const int64_t *sizes) {
  for (uint32_t dim : section.activeDims)
    if (sizes[dim] <= 0)
      return false;
  return true;
}

} // namespace maestro::wavefront

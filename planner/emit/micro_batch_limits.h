// How much one micro-batch of a section may hold. Where samples differ in length it is bounded by padded tokens, so
// that many short samples go through in the time and memory of a few long ones.
#pragma once

#include "plan/capacity.h"
#include "planner/emit/emit_plan.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace maestro::planner {

using DimSizes = std::map<std::string, int64_t>;

struct MicroBatchLimits {
  int64_t samples = 1;
  double presence = 1;           ///< Of all samples, those that take part.
  plan::Capacity capacity;       ///< Its symbols are GraphSummary.dims.
  DimSizes bounds;               ///< Capacity.bounds by name.
  std::vector<DimSizes> largest; ///< plan::largestMicroBatches by name: what memory rests on.
  std::vector<DimSizes>
      usual; ///< Full and half full ones of short, middling and long samples: where costs have to be right.
  /// A micro-batch of the longest samples: what costs are asked at.
  const DimSizes &full() const { return largest.front(); }
};

/// Of a section that takes the samples which have some of `activeDims` (empty: all). SectionLayout.microBatch of the
/// longest samples fit, and as many as have as many rows typically as one may have; of shorter ones up to kMostStretch
/// times as many, but not more than a step's or SectionLayout.mostSamples, unless samples alone count.
MicroBatchLimits limitsOf(const GraphSummary &graph, const SectionLayout &layout,
                          std::span<const std::string> activeDims, int64_t globalBatch);

} // namespace maestro::planner

// The lower bound's part for padding: what micro-batches cost at least where their samples are padded to the longest.
#pragma once

#include "wavefront/problem.h"

#include <span>

namespace maestro::wavefront {

/// Keeps its memory.
class BatchingBound {
public:
  /// Picoseconds of these costs over all micro-batches of a section's `active` samples (0 or 1 for each), in whatever
  /// way they are formed within its capacities; of its stages nothing is read. `sizes`: samples x dims, each as it is
  /// alone. 0 where no dim pads, and where that takes long.
  int64_t ps(const std::vector<Dim> &dims, const Section &section, std::span<const int64_t> sizes,
             std::span<const uint8_t> active, std::span<const Cost *const> costs);

private:
  struct Padded {
    int64_t length;            ///< Of the dim that samples are padded to.
    int64_t groupPs, samplePs; ///< Of a micro-batch that it is the longest of, and of each of its samples.
    size_t most;               ///< So many fit in it.
  };
  int64_t list(const std::vector<Dim> &dims, std::span<const int64_t> sizes, std::span<const uint8_t> active,
               std::span<const Cost *const> costs, uint32_t pad);
  void measure(const std::vector<Dim> &dims, const Section &section, std::span<const Cost *const> costs, uint32_t pad,
               Padded &own);

  std::vector<Padded> padded;   ///< The longest first.
  std::vector<int64_t> minDims; ///< Of any of the samples.
  std::vector<int64_t> values;  ///< By first samples: what they cost at least.
};

} // namespace maestro::wavefront

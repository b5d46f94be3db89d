// The scheduling problem of one step, as plain data. README.md has the rules of a valid schedule.
//
// Times are integer nanoseconds. Sizes are the values of symbolic dims: per sample in `sizes`, combined
// (summed, or the largest rounded up) for a micro-batch.
#pragma once

#include "base/status.h"
#include "wavefront/choice.h"

#include <cstdint>
#include <string>
#include <vector>

namespace maestro::wavefront {

/// How one symbolic dim combines over the samples of a micro-batch.
struct Dim {
  std::string name;
  bool sum = false;       ///< Sum of the samples' values; otherwise their maximum,
  int64_t multipleOf = 1; ///< rounded up to this.
  bool unpadded = false;  ///< A maximum that some sections want to be the value of every sample (Section.unpadded).
};

/// What combine() gives for an unpadded dim of which samples have different values; above every capacity.
inline constexpr int64_t kDiffering = INT64_MAX / 4;

/// Times are cut off there, so that a few of them can be added.
inline constexpr int64_t kMaxNs = INT64_MAX / 4;

/// picoseconds · Π of the dims listed (repeated for powers; none: a constant).
struct CostTerm {
  int64_t picoseconds = 0;
  std::vector<uint32_t> dims; ///< Problem.dims
  bool operator==(const CostTerm &) const = default;
};

/// The time of a task or a transfer, as a polynomial over combined dims.
struct Cost {
  std::vector<CostTerm> terms;
  bool operator==(const Cost &) const = default;
};

/// Rounded up to a nanosecond; INT64_MAX / 4 when it would be more.
int64_t evaluate(const Cost &cost, const int64_t *dims);

/// One pipeline stage of a section.
struct Stage {
  Cost forward;
  Cost backward;       ///< All of it, or only the inputs' gradients when the section splits it.
  Cost weightGradient; ///< Only when the section splits its backward.
  uint32_t slots = 1;  ///< Micro-batches in flight on one station.
  Cost update;         ///< At the step's end, once all gradients are known; constant terms only.
};

/// The most that a padded dim times the rows that are padded to it may be in one micro-batch: its padded tokens. So a
/// micro-batch of short samples may hold more of them than one of the longest.
struct Area {
  uint32_t rows = 0;   ///< Problem.dims; a sum,
  uint32_t padded = 0; ///< and a maximum.
  int64_t capacity = 0;
};

struct Section {
  std::string name;
  bool trains = false;         ///< Has backward tasks.
  bool splitsBackward = false; ///< Backward in two tasks; nothing waits for the second but the step's end.
  /// A sample takes part iff all these dims of it are above 0 (Problem.dims; empty: always).
  std::vector<uint32_t> activeDims;
  int64_t maxSamples = 1;        ///< Capacity of a micro-batch in samples,
  std::vector<int64_t> capacity; ///< in each of Problem.dims,
  std::vector<Area> areas;       ///< and in padded tokens.
  std::vector<Stage> stages;
  /// replica × stage: the device that runs the station. Stations may share a device.
  std::vector<std::vector<uint32_t>> devices;
  /// The samples of a micro-batch have the same value in each of these: padding would change what they mean.
  std::vector<uint32_t> unpadded;
};

/// One tensor that passes from a stage to another: of the same section (then of the same micro-batch), or of
/// another section (then sample by sample, whatever the micro-batches).
struct Edge {
  uint32_t producer = 0, producerStage = 0; ///< Problem.sections
  uint32_t consumer = 0, consumerStage = 0;
  bool gradient = false;           ///< The consumer's backward sends the producer's backward something.
  bool heldUntilBackward = false;  ///< The consumer's backward reads the slot too.
  uint32_t depth = 1;              ///< Slots of the consumer's ring, in its micro-batches.
  uint32_t gradientDepth = 1;      ///< Slots of the producer's ring for gradients, in its micro-batches.
  Cost transfer, gradientTransfer; ///< From the end of the sender's task to arrival; over the sender's dims.
};

struct Problem {
  std::vector<Dim> dims;
  std::vector<Section> sections; ///< Producers before consumers.
  std::vector<Edge> edges;
  uint32_t devices = 1;
  std::vector<int64_t> sizes; ///< samples × dims
  std::vector<Choice>
      hints; ///< Where scheduling begins, the first first: what was best for such steps (tuner.h). They decide nothing.

  size_t sampleCount() const { return dims.empty() ? 0 : sizes.size() / dims.size(); }
};

/// `value` of one sample as a micro-batch holds it, and what the combination becomes when a sample joins: kDiffering
/// where the samples of an unpadded dim differ (a value of 0 differs from none).
int64_t alone(const Dim &dim, int64_t value);
int64_t combine(const Dim &dim, int64_t combined, int64_t value);

/// The same, but the largest value where samples differ: what sections that may hold such samples have.
int64_t combineLargest(const Dim &dim, int64_t combined, int64_t value);

/// combine() for all dims: `joined` is `combined` with one more sample (a row of `sizes`), and may be `combined`
/// itself.
void join(const Problem &problem, const int64_t *combined, const int64_t *sizes, int64_t *joined);

/// Whether the samples of a section's micro-batches must agree in the dim.
bool isUnpadded(const Section &section, uint32_t dim);

/// Whether so many samples, of these combined dims, fit in one micro-batch: samples, dims and padded tokens. What fits,
/// fits with any of its samples left out.
bool fits(const Section &section, int64_t samples, const int64_t *combined);

/// Whether a sample (a row of `sizes`) takes part in a section.
bool takesPart(const Section &section, const int64_t *sizes);

/// Indices in range, capacities that hold every sample, producers before consumers, positive depths and slots.
Status check(const Problem &problem);

} // namespace maestro::wavefront

// The trunk's micro-batches, and the order in which they flow: samples that need the same sections and are of like
// length share one; all sections' work progresses alike; those that need least lie at the step's two ends, where sizes
// taper.
#pragma once

#include "wavefront/micro_batch_sizes.h"

namespace maestro::wavefront {

struct TrunkGroup {
  static constexpr int64_t kFullTime = 256;

  uint32_t first = 0, count = 0;      ///< Into TrunkFlow.order.
  uint64_t sampleClass = 0;           ///< Of its samples, which have it in common.
  int64_t workNs = 0;                 ///< In the trunk,
  int64_t beforeNs = 0, aroundNs = 0; ///< and at most, of a sample, before it and in all sections but it.
  int64_t place = 0;                  ///< In the flow: of kWhole, but for those pulled to its ends.
  int64_t timePart = kFullTime;       ///< Of the usual time, what it and those formed along it may take.
  uint32_t replica = 0, position = 0; ///< Whose, and which of its.
};

/// Keeps its memory.
class TrunkFlow {
public:
  void prepare(const Problem &problem, const SampleWork &work);
  void form(const Problem &problem, const ProblemIndex &index, const SampleWork &work, MicroBatchSizes &sizes,
            const Choice &choice);

  std::vector<uint32_t> order;    ///< Samples, alike ones side by side.
  std::vector<TrunkGroup> groups; ///< As they flow; replicas are the caller's.
  size_t compared = 0; ///< What the last form() did, for what it costs: micro-batches looked at for their turn,
  size_t sorted = 0;   ///< and samples sorted.

private:
  struct Bucket {
    uint32_t first, next, end; ///< Into groups.
  };
  struct Ranked {
    int64_t first, second;
    uint32_t group;
    auto operator<=>(const Ranked &) const = default;
  };

  void sort(const Problem &problem, const SampleWork &work, int64_t classes);
  uint64_t toldApart(const Problem &problem, const SampleWork &work, int64_t classes) const;
  void cut(const Problem &problem, const SampleWork &work, const MicroBatchSizes &sizes);
  void measureNeeds(const Problem &problem, const SampleWork &work);
  void fillBuckets(int64_t bands);
  void sequence(uint32_t trunk);
  int64_t unevenness(uint32_t group, uint32_t trunk) const;
  int64_t stall(uint32_t from, uint32_t to) const;
  void pullEnds(const Problem &problem, const SampleWork &work, const MicroBatchSizes &sizes, int64_t quarters);
  template <typename Score> void pullEnd(Score score, int64_t place, int64_t step, int64_t coverNs);
  void sortByPlace();
  void taper(const Problem &problem, const ProblemIndex &index, const SampleWork &work, MicroBatchSizes &sizes);
  template <typename PartAt>
  void cutTapered(const Problem &problem, const SampleWork &work, int64_t fullNs, const TrunkGroup &group,
                  bool backwards, PartAt partAt);

  uint64_t told = 0; ///< The sections by which `order` tells classes apart.
  std::vector<TrunkGroup> next;
  std::vector<Ranked> ranked;
  std::vector<Bucket> buckets;
  std::vector<int64_t> needs;    ///< group × section: its samples' work there, of kAll.
  std::vector<int64_t> progress; ///< By section: work so far, of kAll.
  std::vector<int64_t> weights;  ///< By section: its load, in 256ths of the fullest's.
  std::vector<int64_t> held;
};

} // namespace maestro::wavefront

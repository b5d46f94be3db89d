// Micro-batches regrouped across the whole batch, and the order in which they should flow.
//
// The trunk is the section that sees most samples; of those, the one with most neighbours, then with most work a
// station. Its samples are grouped by which sections they need and then by length, so that nothing is padded much; its
// micro-batches flow so that all sections' work progresses alike, those that need the least before and after the trunk
// at the step's two ends. Every other section forms its micro-batches along the trunk's: whole trunk micro-batches
// together, or pieces of one, so that nothing waits in a circle. How large they become is the recipe's choice: large
// ones cost fewer constants and need fewer places in flight, small ones fill and drain pipelines sooner.
#pragma once

#include "wavefront/groups.h"
#include "wavefront/recipe.h"

namespace maestro::wavefront {

class Regrouper {
public:
  void prepare(const Problem &problem, const ProblemIndex &index);
  /// Forms groups, deals them to replicas, and gives each its place in the forward and in the backward flow.
  void form(const Problem &problem, const ProblemIndex &index, Recipe recipe, Groups &groups);
  /// The pace that balances constants against filling and draining, were that all.
  int64_t goodPace(const Problem &problem, const ProblemIndex &index);

  /// All samples as the last form() has them: alike ones side by side, or as they flow.
  void listSamples(bool flowing, std::vector<uint32_t> &samples) const;

  std::vector<int64_t> forwardKey, backwardKey;     ///< By group.
  size_t compared = 0;                              ///< Micro-batches that goal chasing looked at in the last form(),
  size_t resorted = 0;                              ///< and samples that it sorted anew, as classes changed.
  int64_t mostPace = 1;                             ///< Larger paces change nothing.
  bool hasShelves = false;                          ///< Some other section pads by a length that is not the trunk's.
  bool hasBelow() const { return belowTrunk != 0; } ///< The trunk waits for some other section's gradients.

private:
  static constexpr int64_t wholePart = 256;
  struct TrunkGroup {
    uint32_t first, count;      ///< Into order.
    uint32_t replica, position; ///< Whose, and which of its.
    uint64_t signature, needed; ///< Of its class; of all its samples.
    int64_t workNs, beforeNs, aroundNs;
    int64_t place;            ///< In the flow,
    int64_t back = 0;         ///< and on the way back.
    int64_t part = wholePart; ///< Of the usual times, what its micro-batch and those formed along it may take.
    int64_t wayNs(int64_t ways) const { return workNs + ways * aroundNs; } ///< Of its samples through all sections.
  };
  struct Bucket {
    uint32_t first, next, end; ///< Into trunkGroups.
  };
  /// A micro-batch of another section that takes more samples.
  struct Bin {
    int64_t time, back;      ///< As unitTime and unitBack,
    int64_t part;            ///< and the least unitPart of its samples.
    int64_t position;        ///< Of its first trunk micro-batch.
    uint32_t samples, first; ///< How many, and where they begin once all are known.
  };
  struct Ranked {
    int64_t first, second;
    uint32_t group;
    bool operator<(const Ranked &other) const {
      if (first != other.first)
        return first < other.first;
      return second != other.second ? second < other.second : group < other.group;
    }
  };

  void prepareSection(const Problem &problem, uint32_t section);
  void findShelves(const Problem &problem);
  void chooseTrunk(const Problem &problem, const ProblemIndex &index);
  void prepareLimits(const Problem &problem, const ProblemIndex &index);
  void chooseCounts(const Problem &problem, const ProblemIndex &index, Recipe recipe);
  void chooseTimes(const Problem &problem, Recipe recipe);
  void classify(const Problem &problem, int64_t apart);
  uint64_t classOf(uint32_t sample) const { return signature[sample] & telling; }
  int64_t stationNs(const Problem &problem, uint32_t section) const;
  void sortTrunk(const Problem &problem, int64_t shelves);
  void cutTrunk(const Problem &problem);
  void alongSlope(const Problem &problem, Recipe recipe);
  void measureNeeds(const Problem &problem);
  int64_t unevenness(uint32_t group) const;
  int64_t jump(uint32_t from, uint32_t to) const;
  void put(uint32_t group, size_t at);
  void evenOut(const Problem &problem, Recipe recipe);
  void pullEnds(const Problem &problem, int64_t quarters);
  void flowTrunk(const Problem &problem, Recipe recipe);
  int64_t longestChain(const ProblemIndex &index);
  void taperTrunk(const Problem &problem, const ProblemIndex &index, Recipe recipe);
  template <typename PartAt>
  void cutTapered(const Problem &problem, const TrunkGroup &group, bool backwards, PartAt partAt);
  int64_t timeLimit(uint32_t section) const;
  int64_t belowNs(uint64_t needed) const;
  void dealTrunk(const Problem &problem, int64_t lag);
  void formTrunk(const Problem &problem, Groups &groups);
  void formAlong(const Problem &problem, uint32_t section, Recipe recipe, Groups &groups);
  void fillLast(const Problem &problem, uint32_t section, Groups &groups);
  void formFilled(const Problem &problem, uint32_t section, Groups &groups);
  void fillOne(const Problem &problem, uint32_t section, uint32_t sample, const TrunkGroup &at);
  void addUnit(const Problem &problem, uint32_t section, const TrunkGroup *trunkGroup, Groups &groups);
  bool joins(const Problem &problem, uint32_t section, std::span<const uint32_t> unit, int64_t limitNs,
             const Groups &groups);
  int64_t pieceLimit(const Problem &problem, uint32_t section) const;
  int64_t pieceCount(const Problem &problem, uint32_t section, int64_t limitNs) const;
  void cutUnit(const Problem &problem, uint32_t section, int64_t limitNs, Groups &groups);
  bool pools(const Problem &problem, uint32_t section, const TrunkGroup &group, int64_t workNs) const;
  void deal(const Problem &problem, uint32_t section, Groups &groups);
  void level(const Problem &problem, uint32_t section, Groups &groups);
  bool exchange(size_t first, Groups &groups, int64_t even);
  void delay(const Problem &problem, const ProblemIndex &index, int64_t halves, const Groups &groups);
  void shareOut(const Problem &problem, uint32_t section);
  void addLoad(const Problem &problem, uint32_t section, int64_t sign);
  int64_t timeOf(uint32_t replica, int64_t work) const;
  uint32_t leastLoaded(int64_t work) const;

  std::vector<Cost> total;                                ///< By section: all stages and kinds.
  std::vector<int64_t> constantNs;                        ///< By section: of `total`.
  std::vector<int64_t> aloneDims;                         ///< sample × dims
  std::vector<int64_t> aloneNs;                           ///< section × sample: of `total`; -1 where it takes no part.
  std::vector<int64_t> sectionNs, largestNs, activeCount; ///< By section: the sum, the largest, the number.
  std::vector<uint32_t> firstStage;                       ///< By section: into
  std::vector<int64_t> stageParts;         ///< what each stage has of the largest sample's work, of 2^32.
  std::vector<int64_t> lengthKey;          ///< section × sample: what padding depends on.
  std::vector<uint8_t> pads;               ///< By section.
  std::vector<uint64_t> signature;         ///< By sample: the sections that it needs.
  uint64_t telling = 0;                    ///< Those of them that tell classes apart.
  std::vector<int64_t> beforeNs, aroundNs; ///< By sample: work upstream of the trunk, and outside of it.

  uint32_t trunk = 0;
  uint64_t belowTrunk = 0; ///< Sections whose gradients the trunk waits for, a bit each.
  std::vector<uint32_t> sorted,
      order; ///< Samples of the trunk, alike ones side by side; the second as the recipe shelves them.
  std::vector<uint32_t> others; ///< Samples that the trunk does not see.
  std::vector<uint8_t> shelved; ///< By section: pads by a length that is not the trunk's.
  std::vector<int64_t> spread;  ///< By section: how far apart trunk micro-batches of one of its may lie on a replica.
  std::vector<int64_t> pieces;  ///< By section: into how many of its micro-batches a replica one of the trunk may fall.
  Section trunkMost; ///< The trunk's capacities, and no more than the others can take of one micro-batch; nothing else.

  std::vector<int64_t> counts, freeCounts; ///< By section: micro-batches aimed at, times 256; and were nothing scarce.
  std::vector<int64_t> inFlight; ///< By section: micro-batches on their way below a replica's first stage, times 256.
  std::vector<int64_t> groupNs;  ///< By section: how long a micro-batch may take, all stages and kinds together.
  std::vector<TrunkGroup> trunkGroups, tapered;
  std::vector<uint32_t> flow; ///< trunkGroups in order.
  std::vector<Ranked> ranked;
  std::vector<Bucket> buckets;
  std::vector<int64_t> needs;              ///< trunk group × section: its samples' work there.
  std::vector<int64_t> progress, weights;  ///< By section: work so far; its load as a part of the fullest's, of 256.
  int64_t lead = 0, smooth = 4, blunt = 1; ///< The recipe's.
  bool levels = false;                     ///< Likewise.
  std::vector<int64_t> dealt;              ///< Work of the section's micro-batches, while it is levelled.
  std::vector<uint8_t> leads;              ///< By section: trains, and lies before the trunk.
  std::vector<int64_t> loads, reach, starts, held, chain;
  int64_t even = 1;           ///< A trunk replica's work.
  std::vector<int64_t> onWay; ///< By group: the time of all forward tasks before its own, and then with them.
  std::vector<int64_t>
      deviceNs; ///< By device: what sections that are dealt out have on it, and the others if evenly dealt.
  std::vector<int64_t>
      shares; ///< By replica of the section that is being dealt: what its devices have time for; all alike: empty.
  std::vector<uint32_t> unit;          ///< Samples of one trunk micro-batch.
  bool fills = false;                  ///< The recipe's `full` is 1.
  std::vector<Bin> bins;               ///< In the order in which they were begun; the last ones may take more,
  std::vector<uint32_t> open;          ///< these.
  std::vector<int64_t> binDims;        ///< bin × dims
  std::vector<uint32_t> binOf, binned; ///< By sample; samples by bin.
  bool closed = true;                  ///< Whether the section's last micro-batch takes no further trunk micro-batch.
  int64_t unitTime = 0, unitBack = 0, unitPart = wholePart; ///< As in TrunkGroup.
};

} // namespace maestro::wavefront

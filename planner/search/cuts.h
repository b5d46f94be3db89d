// Work of sections, whichever way they are cut, and the cuts that are looked at.
#pragma once

#include "planner/search/search_problem.h"
#include "wavefront/batching_bound.h"

#include <limits>
#include <map>
#include <span>
#include <utility>

namespace maestro::planner {

/// Work that no schedule avoids, in seconds of one device in the mean step, and what one sample takes at least. Costs
/// are polynomials with coefficients of 0 or more: a term with a summed dim costs at least its samples' sum, another
/// one at least its largest value once and the least in each further micro-batch; and all together what they cost in
/// the best of all ways to form micro-batches, where samples are padded to the longest (wavefront/batching_bound.h). Of
/// mixed devices the fastest kind counts.
class WorkTable {
public:
  explicit WorkTable(const SearchProblem &problem);

  /// Atoms [first, last) of a section.
  double work(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
              uint32_t last) const;
  /// Of these, what the section's most frequent class has in each place: `first` to `last` does with the same samples
  /// so many times the same.
  double alike(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
               uint32_t last) const;
  /// One sample alone, the one that takes least: its forward and backward tasks; only the forward ones where backward
  /// may be split, since weight gradients may come last.
  double oneSample(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
                   uint32_t last) const;
  /// A whole section with what pins leave and is cheapest.
  double least(uint32_t section) const { return leastWork[section]; }
  /// Samples of the mean step that take part in a section.
  double samples(uint32_t section) const { return active[section]; }
  /// Micro-batches of the mean step, at least.
  double microBatches(uint32_t section, uint32_t microBatch) const;
  /// Whether all tasks of a section end before the step's gradients are known.
  bool isBeforeGradients(uint32_t section) const { return beforeGradients[section]; }

private:
  struct Sums { // Of atoms before each position, as they follow each other; and of each by itself.
    std::vector<double> chained, alone;
    double between(uint32_t first, uint32_t last) const { return chained[last] - chained[first + 1] + alone[first]; }
    double behind(uint32_t first, uint32_t last) const {
      return chained[last] - chained[first];
    } ///< The atom before `first`, in one stage.
  };
  using Mixed = std::map<RecomputeChoice,
                         std::vector<Sums>>; ///< By micro-batch, with a lighter recompute evenly among the atoms.
  static double between(const std::vector<std::vector<Sums>> &sums, const Mixed &mixed,
                        const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first, uint32_t last);
  static Sums mix(const std::vector<std::vector<Sums>> &sums, const RecomputeChoice &recompute, uint32_t microBatch);
  Sums sum(uint32_t section, Recompute recompute, uint32_t microBatch, bool oneSampleOnly) const;
  double seconds(uint32_t section, const cost_models::StageCosts &costs, uint32_t microBatch, bool oneSampleOnly) const;
  double paddedSeconds(const cost_models::AtomicSection &chain, uint32_t microBatch,
                       std::span<const wavefront::Cost *const> costs) const;
  double fewest(const cost_models::AtomicSection &chain, const cost_models::MicroBatchCapacity &capacity,
                size_t step) const;
  void findBeforeGradients();
  struct Product {
    struct Step {
      size_t samples = 0;
      double sum = 0, largest = 0, least = std::numeric_limits<double>::infinity();
    };
    std::vector<Step> steps;
    double least = std::numeric_limits<double>::infinity(); ///< Of all samples.
    bool sums = false;                                      ///< A summed dim is among the factors.
  };
  const Product &productOf(const cost_models::AtomicSection &chain, const std::vector<uint32_t> &dims) const;
  const std::vector<cost_models::SampleSizes> &rowsOf(const cost_models::AtomicSection &chain) const;
  std::vector<double> lengthsOf(const cost_models::AtomicSection &chain, uint32_t dim, size_t step) const;
  static double fewestPadded(const Product::Step &rows, std::vector<double> lengths, int64_t samples, int64_t tokens);

  const SearchProblem &problem;
  mutable std::map<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>, Product>
      products; ///< By active dims and factors.
  mutable std::map<std::vector<uint32_t>, std::vector<cost_models::SampleSizes>>
      rows; ///< By active dims: of each step, the samples that take part, as they are alone.
  mutable wavefront::BatchingBound batching;
  std::vector<std::vector<std::vector<double>>> groups; ///< section, micro-batch, step: micro-batches, at least.
  std::vector<std::vector<std::vector<Sums>>> works, samplesAlone; ///< section, recompute, micro-batch
  std::vector<Mixed> mixedWorks, mixedSamplesAlone;                ///< By section: of choices(), those that are evenly.
  std::vector<double> leastWork, active;
  std::vector<uint8_t> beforeGradients;
  std::vector<uint32_t>
      frequent; ///< By section: an atom of its most frequent class, behind another one; 0: there is none.
};

/// One way to cut a section, and what its stages are then.
struct CutFacts {
  SectionCut cut;
  std::vector<cost_models::StageModel> stages;
  std::vector<std::vector<double>> work; ///< By micro-batch and stage: WorkTable.work.
  /// By micro-batch and stage: a slot of each ring that ends there, for what comes forward and for gradients.
  std::vector<std::vector<uint64_t>> rings, gradientRings;
  std::vector<uint32_t>
      slots; ///< By stage: places, as cost_models/in_flight.h has them where no other section sends gradients.
};

/// Bytes of a stage on its device with its slots and `beyond` more, for what waits in sections that send it gradients.
uint64_t stageBytes(const SearchProblem &problem, uint32_t section, const CutFacts &facts, uint32_t microBatch,
                    size_t stage, uint64_t beyond);

/// Layers with the next lighter recompute come in eighths of all, and where there are many layouts to look at in every
/// second of these.
inline constexpr uint32_t kLighterParts = 8, kCoarseParts = 2;
/// How many of these parts a choice has in a section, the next whole number.
uint32_t lighterParts(const cost_models::AtomicSection &section, const RecomputeChoice &choice);
/// So many of these parts of a section with a kind of recompute: evenly among all layers where others send it
/// gradients, since all of its stages wait for these, else the last ones. Nothing where that is no choice of its own.
std::optional<RecomputeChoice> choiceOf(const AtomicModel &model, uint32_t section, Recompute most, uint32_t parts);

/// The one cut that is looked at of a section in so many stages with this recompute, of which the last `split` have a
/// split backward: even with micro-batches of the middle size, or as pinned.
SectionCut cutOf(const SearchProblem &problem, const WorkTable &work, uint32_t section,
                 const RecomputeChoice &recompute, uint32_t stages, uint32_t split);

/// The cuts that are looked at: for each number of stages the one whose largest stage is least, and of those the one
/// whose first stages are smallest, since they hold most micro-batches; with each recompute that there is to choose,
/// and parts of the layers with the next lighter one.
class CutTable {
public:
  /// Of stages from 1 to `mostStages`; with each split of the backward, or only those that are pinned; with every so
  /// many-th number of parts of the layers that have the next lighter recompute (kLighterParts: with none).
  CutTable(const SearchProblem &problem, const WorkTable &work, uint32_t mostStages, bool withSplits,
           uint32_t everyPart = kCoarseParts);
  const std::vector<CutFacts> &of(uint32_t section) const { return cuts[section]; }
  /// Of a cut that is not there, of the same one without a split backward.
  const CutFacts &find(uint32_t section, const SectionCut &cut) const;

private:
  static std::vector<uint32_t> splitsOf(const SearchProblem &problem, uint32_t section, uint32_t stages,
                                        bool withSplits);
  void add(const SearchProblem &problem, const WorkTable &work, uint32_t section, const SectionCut &cut);
  static void addSlots(const AtomicModel &model, uint32_t section, CutFacts &facts);
  static void addRings(const AtomicModel &model, uint32_t section, CutFacts &facts);
  std::vector<std::vector<CutFacts>> cuts;
};

/// First atoms of the stages but the first; `stages` is at most the number of atoms.
std::vector<uint32_t> evenCut(const WorkTable &work, uint32_t section, uint32_t atoms, const RecomputeChoice &recompute,
                              uint32_t microBatch, uint32_t stages);

} // namespace maestro::planner

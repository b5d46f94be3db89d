// The cuts that the search looks at, and what their stages do and hold.
#pragma once

#include "planner/search/critical_path.h"
#include "planner/search/work_table.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace maestro::planner {

/// Stages of one section, at most.
inline constexpr uint32_t kMaxStages = 64;
/// Layers with the next lighter recompute come in eighths of a section's layers.
inline constexpr uint32_t kRecomputeParts = 8;

/// So many of these parts of a section with the recompute lighter than `most`: evenly among all layers where others
/// send it gradients, since all of its stages wait for these; else the last ones. Nothing where that is no choice of
/// its own.
std::optional<RecomputeChoice> recomputeChoice(const AtomicModel &model, uint32_t section, Recompute most,
                                               uint32_t parts, uint32_t lossChunks = 1);
/// What pins leave, lightest first: losses in chunks come before anything is computed again, since they take hardly any
/// time. `everyPart`: kRecomputeParts leaves the kinds alone.
std::vector<RecomputeChoice> recomputeChoices(const SearchProblem &problem, uint32_t section, uint32_t everyPart = 1);

/// First atoms of the stages but the first: of all cuts whose largest stage is least, the one whose first stages are
/// smallest, since they hold most micro-batches. `stages` is at most the number of atoms.
std::vector<uint32_t> evenCut(const WorkTable &work, uint32_t section, uint32_t atoms, const RecomputeChoice &recompute,
                              uint32_t microBatch, uint32_t stages);

/// One way to cut a section, without a split backward.
struct CutFacts {
  SectionCut cut;
  std::vector<cost_models::StageModel> stages;
  std::vector<uint32_t>
      slots; ///< By stage: as cost_models/in_flight.h has them where no other section sends gradients.
  /// With one size of micro-batches.
  struct Size {
    std::vector<double> work; ///< By stage: WorkTable.work.
    /// By stage: a slot of each ring that ends there, for what comes forward and for gradients.
    std::vector<uint64_t> rings, gradientRings;
    double microBatches = 1; ///< Of the mean step, at least.
    double longest = 0;      ///< Work of the busiest stage.
    double fill = 0;         ///< Until that stage is busy, and after it.
    double criticalPath = 0; ///< Of the longest sample, where the section trains.
    uint64_t bytes = 0;      ///< Of the fullest stage with what usually waits in other sections,
    uint64_t leastBytes = 0; ///< and with as little as any layout has.
  };
  std::vector<Size> at; ///< By micro-batch size.
};

/// Keeps what it was asked. One thread at a time.
class Cuts {
public:
  /// The problem must outlive it.
  explicit Cuts(const SearchProblem &problem);

  const WorkTable &work() const { return works; }
  const CriticalPaths &criticalPaths() const { return paths; }
  /// The even cut into so many stages, with micro-batches of the middle size or as pinned. Stays where it is.
  const CutFacts &of(uint32_t section, const RecomputeChoice &recompute, uint32_t stages) const;
  /// The same cut, of which the last `split` stages have a split backward.
  SectionCut cut(uint32_t section, const RecomputeChoice &recompute, uint32_t stages, uint32_t split) const;
  /// Other sections that send gradients to this one.
  const std::set<uint32_t> &gradientsFrom(uint32_t section) const { return senders[section]; }
  /// How many stages pins leave to look at.
  std::vector<uint32_t> stageCounts(uint32_t section) const;

private:
  void addSlots(uint32_t section, CutFacts &facts) const;
  void addRings(uint32_t section, CutFacts &facts) const;
  void addSize(uint32_t section, uint32_t microBatch, CutFacts &facts) const;

  const SearchProblem &problem;
  WorkTable works;
  CriticalPaths paths;
  std::vector<std::set<uint32_t>> senders;
  mutable std::map<std::tuple<uint32_t, RecomputeChoice, uint32_t>, std::unique_ptr<CutFacts>> known;
};

/// Bytes of a stage on its device with its own slots and `beyond` more, for what waits in other sections.
uint64_t stageBytes(const SearchProblem &problem, const CutFacts &facts, uint32_t microBatch, size_t stage,
                    uint64_t beyond);

} // namespace maestro::planner

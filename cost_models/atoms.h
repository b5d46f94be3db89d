// A compound workload before it is cut into stages: sections as chains of atoms (layers), and what any cut makes of
// them.
//
//   AtomicModel + a cut for each section ─▶ CompoundModel    (what layouts, schedules and memory are made of)
//
// What a stage costs and holds is added up from its atoms: of neighbours of one class the first counts alone and each
// further one what a pair has more than one; a stage's workspace is its largest atom's.
#pragma once

#include "cost_models/atom_costs.h"
#include "cost_models/compound.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace maestro::cost_models {

struct AtomicSection {
  std::string name;
  bool trains = false;
  std::vector<uint32_t> activeDims;           ///< A sample takes part iff all are above 0 for it.
  std::vector<MicroBatchCapacity> capacities; ///< By AtomicModel.microBatches.
  std::vector<uint32_t> classOf;              ///< By atom: an index into AtomClasses.
  std::set<Variant> variants;                 ///< To choose from; Variant{} alone: no choice.
  double presence = 1;                        ///< Of all samples, those that take part.
  std::vector<uint32_t> unpadded = {};   ///< The samples of a micro-batch have the same value in each of these dims.
  bool addsUp = true;                    ///< Its gradients are known to be sums over samples: it may have replicas.
  std::vector<uint32_t> lossChunks = {}; ///< Chunks to choose from beside one, ascending.
  /// With anything computed again: that takes more time than chunks do.
  uint32_t mostLossChunks() const { return lossChunks.empty() ? 1 : lossChunks.back(); }
  bool has(const RecomputeChoice &choice, bool splits = false) const {
    auto hasKind = [&](Recompute kind) { return variants.count({kind, splits, choice.lossChunks}) > 0; };
    return hasKind(choice.most) &&
           (choice.lighter == 0 || (choice.lighter < classOf.size() && hasKind(lighterThan(choice.most))));
  }
};

/// A tensor that passes from an atom to later ones, of its section or another.
struct AtomTensor {
  uint32_t section = 0, atom = 0;
  std::vector<std::pair<uint32_t, uint32_t>> consumers;  ///< (section, atom)
  bool gradient = false;                                 ///< Its gradient comes back.
  std::vector<BytesTerm> bytes;                          ///< Over the sender's micro-batch.
  std::vector<uint64_t> slotBytes;                       ///< Of a ring's slot where it comes from, by micro-batch,
  std::map<uint32_t, std::vector<uint64_t>> slotBytesOf; ///< and in other sections; where there is none, as there.
  const std::vector<uint64_t> &slotBytesIn(uint32_t other) const {
    auto found = slotBytesOf.find(other);
    return found == slotBytesOf.end() ? slotBytes : found->second;
  }
};

/// A parameter that several atoms of one section read: a stage holds it once.
struct TiedParameter {
  uint32_t section = 0;
  std::vector<uint32_t> atoms; ///< Ascending.
  ParameterBytes parameters;
};

struct AtomicModel {
  std::vector<wavefront::Dim> dims;
  std::vector<int64_t> microBatches;   ///< Sizes to choose from, in samples of the greatest length, ascending.
  std::vector<AtomicSection> sections; ///< Producers before consumers.
  std::vector<AtomTensor> tensors;
  std::vector<TiedParameter> tied;
  std::shared_ptr<AtomCosts> costs = std::make_shared<AtomCosts>(); ///< Copies share it.
  const AtomClasses &classesOf(uint32_t section, const Variant &variant) const { return costs->of(section, variant); }
  int64_t stepSamples = kAnySamples; ///< As CompoundModel's.
};

/// How one section is cut, and what its backward computes again.
struct SectionCut {
  std::vector<uint32_t> firstAtoms; ///< Of each stage but the first.
  RecomputeChoice recompute = {};
  /// In the last so many stages weight gradients are tasks of their own, which nothing but the step's end waits for.
  /// More micro-batches wait in the stages before, which need their memory more.
  uint32_t splitStages = 0;
  bool splits(size_t stage) const { return stages() - stage <= splitStages; }
  size_t stages() const { return firstAtoms.size() + 1; }
  uint32_t stageOf(uint32_t atom) const {
    return static_cast<uint32_t>(std::upper_bound(firstAtoms.begin(), firstAtoms.end(), atom) - firstAtoms.begin());
  }
  /// The first atom of a stage; of the one behind the last, how many atoms there are.
  uint32_t firstAtom(size_t stage, size_t atoms) const {
    return stage == 0 ? 0 : stage < stages() ? firstAtoms[stage - 1] : static_cast<uint32_t>(atoms);
  }
  auto operator<=>(const SectionCut &) const = default;
};

/// Sizes that fit each other, indices in range; of costs those that are known.
Status check(const AtomicModel &model);
/// That a section's atoms have costs for all sizes of micro-batches.
Status check(const AtomicModel &model, uint32_t section, const AtomClasses &classes);
/// Of a checked model: ascending atoms within the chain, a recompute and a split backward that are to choose from.
Status check(const AtomicModel &model, const std::vector<SectionCut> &cuts);

/// Atoms [first, last) of a section as one stage.
StageModel composeStage(const AtomicModel &model, uint32_t section, const RecomputeChoice &recompute, uint32_t first,
                        uint32_t last, bool splits = false);
CompoundModel compose(const AtomicModel &model, const std::vector<SectionCut> &cuts);

} // namespace maestro::cost_models

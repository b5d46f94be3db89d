#include "planner/driver/atom_trials.h"

#include "ir/section/section.h"
#include "passes/attributes.h"
#include "planner/driver/atom_tables.h"
#include "planner/driver/emitted_model.h"
#include "planner/driver/pins.h"
#include "planner/driver/programs.h"
#include "planner/emit/executable_lowering.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <memory>
#include <set>

namespace maestro::planner {
namespace {

using cost_models::AtomClasses;
using cost_models::AtomicModel;
using cost_models::CompoundModel;
using cost_models::StageModel;
using cost_models::Variant;

/// Only parameters that the trial's programs read; without those that get no gradient there.
GraphSummary summaryOf(mlir::ModuleOp programs, const GraphSummary &graph) {
  std::set<std::string> read, withGradient;
  for (auto op : programs.getOps<section::SectionOp>())
    for (std::string &name : parametersOf(op.getBody()))
      read.insert(std::move(name));
  programs.walk([&](mlir::func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto name = function.getResultAttrOfType<mlir::StringAttr>(i, attributes::kGradient))
        withGradient.insert(name.getValue().str());
  });
  GraphSummary summary = graph;
  std::erase_if(summary.parameters, [&](const GraphParameter &parameter) { return !read.count(parameter.fullName); });
  for (GraphParameter &parameter : summary.parameters)
    parameter.trainable = parameter.trainable && withGradient.count(parameter.fullName);
  return summary;
}

/// Two neighbours of a class of which there is no pair: what both hold, and what passes between them.
StageModel doubled(const StageModel &alone, const cost_models::AtomTensor *between) {
  StageModel pair = alone;
  pair.parameters = alone.parameters * 2;
  auto twice = [](wavefront::Cost &cost) {
    for (wavefront::CostTerm &term : cost.terms)
      term.picoseconds *= 2;
  };
  for (size_t m = 0; m < pair.at.size(); ++m) {
    twice(pair.at[m].forward);
    twice(pair.at[m].backward);
    twice(pair.at[m].weightGradient);
    for (cost_models::TaskCosts &kind : pair.at[m].otherKinds) {
      twice(kind.forward);
      twice(kind.backward);
      twice(kind.weightGradient);
    }
    pair.at[m].slotBytes = 2 * pair.at[m].slotBytes + (between ? between->slotBytes[m] : 0);
  }
  return pair;
}

/// What the second of two neighbours of a class reads of the first.
const cost_models::AtomTensor *betweenNeighbours(const AtomicModel &model, uint32_t section, uint32_t ofClass) {
  const std::vector<uint32_t> &classOf = model.sections[section].classOf;
  for (const cost_models::AtomTensor &tensor : model.tensors)
    for (auto [consumer, atom] : tensor.consumers)
      if (tensor.section == section && consumer == section && atom == tensor.atom + 1 && tensor.gradient &&
          classOf[atom] == ofClass && classOf[tensor.atom] == ofClass)
        return &tensor;
  return nullptr;
}

/// Whether every gradient is a sum over samples, as the rules of the operators say.
bool addsUp(mlir::ModuleOp programs, const std::string &section) {
  bool all = true;
  for (auto op : programs.getOps<section::SectionOp>())
    if (op.getSectionName() == section)
      op.getBody().walk([&](mlir::func::FuncOp function) {
        for (unsigned i = 0; i < function.getNumResults(); ++i)
          if (auto state = function.getResultAttrOfType<mlir::StringAttr>(i, attributes::kOverData))
            all = all && state.getValue() == "partial";
      });
  return all;
}

/// Unless the user says no.
bool maySplit(const PartitionOptions &partition, const std::string &section) {
  for (const std::string &name : {section, std::string("*")})
    if (auto own = partition.splitBackward.find(name); own != partition.splitBackward.end())
      return own->second > 0;
  return true;
}

/// What the user says of a section, or of all.
std::optional<uint32_t> pinnedChunks(const PartitionOptions &partition, const std::string &section) {
  for (const std::string &name : {section, std::string("*")})
    if (auto own = partition.lossChunks.find(name); own != partition.lossChunks.end())
      return static_cast<uint32_t>(own->second);
  return std::nullopt;
}

/// Emissions of shortened chains, one for each variant that is asked for.
class Trials {
public:
  Trials(const AtomGraph &graph, const EmitInput &base, const PartitionOptions &partition,
         const std::vector<int64_t> &microBatches, MakePrograms makePrograms)
      : graph(graph), base(base), partition(partition), microBatches(microBatches),
        makePrograms(std::move(makePrograms)) {}

  /// The model, with the costs of the usual variant alone.
  Result<AtomicModel> usual() {
    std::vector<size_t> all;
    for (size_t s = 0; s < graph.sections.size(); ++s)
      all.push_back(s);
    MAESTRO_ASSIGN(Trial trial, run(Variant{}, all));
    model = atomTables(graph, trial.model);
    model.tied = tiedParameters(graph, *trial.programs, trial.summary);
    for (size_t s : all) {
      cost_models::AtomicSection &section = model.sections[s];
      section.addsUp = addsUp(*trial.programs, section.name);
      section.variants.insert(Variant{});
      if (section.trains)
        section.lossChunks = lossChunksOf(*trial.programs, section.name);
      std::set<uint32_t> chunks(section.lossChunks.begin(), section.lossChunks.end());
      if (!chunks.empty())
        chunks.insert(pinnedChunks(partition, section.name).value_or(1));
      chunks.insert(1);
      for (Recompute recompute : section.trains ? std::span(kRecomputes) : std::span<const Recompute>())
        for (uint32_t own : chunks) {
          section.variants.insert({recompute, false, own});
          if (maySplit(partition, section.name))
            section.variants.insert({recompute, true, own});
        }
      model.costs->put(static_cast<uint32_t>(s), Variant{}, classesOf(s, trial.model));
    }
    return model;
  }

  /// Of all sections that have the variant.
  Result<std::map<uint32_t, AtomClasses>> measure(const Variant &variant) {
    std::vector<size_t> concerned;
    for (size_t s = 0; s < model.sections.size(); ++s)
      if (model.sections[s].variants.count(variant))
        concerned.push_back(s);
    MAESTRO_ASSIGN(Trial trial, run(variant, concerned));
    std::map<uint32_t, AtomClasses> costs;
    for (size_t s : concerned) {
      auto section = static_cast<uint32_t>(s);
      costs[section] = classesOf(s, trial.model);
      MAESTRO_TRY(cost_models::check(model, section, costs[section]));
    }
    return costs;
  }

private:
  struct Trial {
    mlir::OwningOpRef<mlir::ModuleOp> programs;
    GraphSummary summary;
    CompoundModel model;
  };

  Result<Trial> run(const Variant &variant, const std::vector<size_t> &sections) {
    PartitionOptions options = partition;
    options.forTrial = true;
    options.recompute.clear();
    options.splitBackward.clear();
    options.lossChunks.clear();
    for (size_t s : sections) {
      options.recompute[graph.sections[s].name] = variant.recompute;
      options.splitBackward[graph.sections[s].name] = variant.splitBackward ? kAllStages : 0;
      options.lossChunks[graph.sections[s].name] = variant.lossChunks;
    }
    Trial trial;
    MAESTRO_ASSIGN(trial.programs, makePrograms(options));
    trial.summary = summaryOf(*trial.programs, *base.graph);
    MAESTRO_ASSIGN(trial.model, emit(trial));
    return trial;
  }

  /// The programs, for each size of micro-batches.
  Result<CompoundModel> emit(const Trial &trial) const {
    EmitInput input = base;
    input.sections = *trial.programs;
    input.graph = &trial.summary;
    input.leastSlots = 2; // So that what a micro-batch in flight holds is told from what a station needs once.
    for (const SectionChain &chain : graph.sections)
      input.layouts.at(chain.name).stages = static_cast<int64_t>(chain.trialStages().size());
    return trialModel(std::move(input), microBatches);
  }

  /// The classes of a section as this trial has them.
  AtomClasses classesOf(size_t s, const CompoundModel &trial) const {
    const SectionChain &chain = graph.sections[s];
    AtomClasses classes(*std::max_element(chain.classOf.begin(), chain.classOf.end()) + 1);
    std::vector<std::vector<unsigned>> stages = chain.trialStages();
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      cost_models::AtomClass &own = classes[chain.classOf[stages[stage].front()]];
      StageModel &measured = stages[stage].size() == 2 ? own.pair : own.alone;
      if (measured.at.empty())
        measured = trial.sections[s].stages[stage];
    }
    auto section = static_cast<uint32_t>(s);
    for (uint32_t c = 0; c < classes.size(); ++c)
      if (classes[c].pair.at.empty())
        classes[c].pair =
            doubled(classes[c].alone, model.sections[s].trains ? betweenNeighbours(model, section, c) : nullptr);
    return classes;
  }

  const AtomGraph &graph;
  EmitInput base;
  PartitionOptions partition;
  std::vector<int64_t> microBatches;
  MakePrograms makePrograms;
  AtomicModel model; ///< As usual() made it.
};

} // namespace

size_t trialOperators(const AtomGraph &graph) {
  size_t count = 0;
  for (const SectionChain &chain : graph.sections)
    for (const std::vector<unsigned> &stage : chain.trialStages())
      for (unsigned atom : stage)
        count += chain.atoms[atom].size();
  return count;
}

namespace {

/// How late a variant is measured: what makes a layout fit comes before what makes it a little faster. Nothing where
/// the search never asks for it: what computes again has its losses in as many chunks as there may be.
std::optional<int> turnOf(const cost_models::AtomicSection &section, const Variant &variant) {
  bool again = variant.recompute != Recompute::None;
  if (again && variant.lossChunks != section.mostLossChunks())
    return std::nullopt;
  int kept = variant.recompute == Recompute::Full ? 0 : again ? 2 : variant.lossChunks > 1 ? 3 : 1;
  return kept + (variant.splitBackward ? 4 : 0);
}

/// Measures variants until there is no more time; the rest is no choice then. Returns how many they are.
size_t measureInTime(AtomicModel &model, const std::function<bool()> &isOver) {
  std::map<Variant, int> turns;
  for (const cost_models::AtomicSection &section : model.sections)
    for (const Variant &variant : section.variants)
      if (std::optional<int> turn = turnOf(section, variant); turn && variant != Variant{})
        turns[variant] = std::min(*turn, turns.try_emplace(variant, *turn).first->second);
  std::vector<std::pair<int, Variant>> order;
  for (const auto &[variant, turn] : turns)
    order.emplace_back(turn, variant);
  std::sort(order.begin(), order.end());
  std::set<Variant> known{Variant{}};
  for (const auto &[turn, variant] : order) {
    if (isOver())
      break;
    for (uint32_t s = 0; s < model.sections.size(); ++s)
      if (model.sections[s].variants.count(variant))
        model.costs->of(s, variant);
    known.insert(variant);
  }
  for (cost_models::AtomicSection &section : model.sections) {
    std::erase_if(section.variants, [&](const Variant &variant) { return !known.count(variant); });
    std::erase_if(section.lossChunks, [&](uint32_t chunks) {
      return std::none_of(section.variants.begin(), section.variants.end(),
                          [&](const Variant &variant) { return variant.lossChunks == chunks; });
    });
  }
  return order.size() + 1 - known.size();
}

} // namespace

Result<Atoms> collectAtoms(const AtomGraph &graph, const EmitInput &base, const PartitionOptions &partition,
                           const std::vector<int64_t> &microBatches, MakePrograms makePrograms,
                           const std::function<bool()> &isOver) {
  auto trials = std::make_shared<Trials>(graph, base, partition, microBatches, std::move(makePrograms));
  Atoms atoms;
  MAESTRO_ASSIGN(atoms.model, trials->usual());
  atoms.model.costs = std::make_shared<cost_models::AtomCosts>(
      [trials](const Variant &variant) { return trials->measure(variant); }, atoms.model.costs->known());
  MAESTRO_TRY(cost_models::check(atoms.model));
  // What is pinned must be there, and is measured as it is asked for.
  bool isPinned = !partition.recompute.empty() || !partition.splitBackward.empty() || !partition.lossChunks.empty();
  if (isOver && !isPinned)
    atoms.left = measureInTime(atoms.model, isOver);
  MAESTRO_TRY(atoms.model.costs->status());
  return atoms;
}

} // namespace maestro::planner

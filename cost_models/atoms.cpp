#include "cost_models/atoms.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace maestro::cost_models {
namespace {

Status wrongAtoms(std::string what) { return Status::invalidInput("atomic model: " + what); }

/// cost + sign · other, term by term.
void add(wavefront::Cost &cost, const wavefront::Cost &other, int64_t sign) {
  for (const wavefront::CostTerm &term : other.terms) {
    auto same =
        std::find_if(cost.terms.begin(), cost.terms.end(), [&](const auto &own) { return own.dims == term.dims; });
    if (same == cost.terms.end())
      cost.terms.push_back({sign * term.picoseconds, term.dims});
    else
      same->picoseconds += sign * term.picoseconds;
  }
}

void dropNothing(wavefront::Cost &cost) {
  std::erase_if(cost.terms, [](const wavefront::CostTerm &term) { return term.picoseconds <= 0; });
}

/// What is added up; differences of pairs and single atoms may be below zero on the way.
struct Sums {
  int64_t values = 0, gradients = 0, state = 0, updateFlops = 0;
  struct Size {
    std::vector<TaskCosts> kinds; ///< Machine.kinds
    int64_t slot = 0;
    uint64_t workspace = 0, host = 0;
  };
  std::vector<Size> at;

  void add(const StageModel &stage, int64_t sign) {
    add(stage.parameters, sign);
    at.resize(stage.at.size());
    for (size_t m = 0; m < at.size(); ++m) {
      at[m].kinds.resize(stage.at[m].otherKinds.size() + 1);
      cost_models::add(at[m].kinds[0].forward, stage.at[m].forward, sign);
      cost_models::add(at[m].kinds[0].backward, stage.at[m].backward, sign);
      cost_models::add(at[m].kinds[0].weightGradient, stage.at[m].weightGradient, sign);
      for (size_t kind = 1; kind < at[m].kinds.size(); ++kind) {
        cost_models::add(at[m].kinds[kind].forward, stage.at[m].otherKinds[kind - 1].forward, sign);
        cost_models::add(at[m].kinds[kind].backward, stage.at[m].otherKinds[kind - 1].backward, sign);
        cost_models::add(at[m].kinds[kind].weightGradient, stage.at[m].otherKinds[kind - 1].weightGradient, sign);
      }
      at[m].slot += sign * static_cast<int64_t>(stage.at[m].slotBytes);
      at[m].workspace = std::max(at[m].workspace, stage.at[m].workspaceBytes);
      at[m].host = std::max(at[m].host, stage.at[m].hostBytes);
    }
  }
  void add(const ParameterBytes &parameters, int64_t sign) {
    values += sign * static_cast<int64_t>(parameters.values);
    gradients += sign * static_cast<int64_t>(parameters.gradients);
    state += sign * static_cast<int64_t>(parameters.state);
    updateFlops += sign * static_cast<int64_t>(parameters.updateFlops);
  }
  void addTensor(const AtomTensor &tensor) {
    for (size_t m = 0; m < at.size(); ++m)
      at[m].slot += static_cast<int64_t>(tensor.slotBytes[m]);
  }
  StageModel finish() {
    auto positive = [](int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(value, 0)); };
    StageModel stage{{positive(values), positive(gradients), positive(state), positive(updateFlops)}, {}};
    for (Size &size : at) {
      for (TaskCosts &kind : size.kinds) {
        dropNothing(kind.forward);
        dropNothing(kind.backward);
        dropNothing(kind.weightGradient);
      }
      stage.at.push_back({std::move(size.kinds[0].forward),
                          std::move(size.kinds[0].backward),
                          positive(size.slot),
                          size.workspace,
                          size.host,
                          {size.kinds.begin() + 1, size.kinds.end()},
                          std::move(size.kinds[0].weightGradient)});
    }
    return stage;
  }
};

Status checkCosts(const AtomicModel &model) {
  for (uint32_t s = 0; s < model.sections.size(); ++s)
    if (model.sections[s].classOf.empty() || !model.costs->known().count({s, Variant{}}))
      return wrongAtoms("section '" + model.sections[s].name + "' has no atoms, or no costs of them");
  for (const auto &[key, classes] : model.costs->known()) {
    if (key.first >= model.sections.size())
      return wrongAtoms(fmt::format("has costs of section {} of {}", key.first, model.sections.size()));
    MAESTRO_TRY(check(model, key.first, classes));
  }
  return Status();
}

Status checkTensor(const AtomicModel &model, const AtomTensor &tensor) {
  auto isThere = [&](uint32_t section, uint32_t atom) {
    return section < model.sections.size() && atom < model.sections[section].classOf.size();
  };
  if (!isThere(tensor.section, tensor.atom) || tensor.slotBytes.size() != model.microBatches.size())
    return wrongAtoms("a tensor's producer is not there, or it has not the sizes of micro-batches");
  for (auto [section, atom] : tensor.consumers)
    if (!isThere(section, atom) || std::pair(section, atom) <= std::pair(tensor.section, tensor.atom))
      return wrongAtoms(fmt::format("a tensor leads from atom {} of section {} to atom {} of {}", tensor.atom,
                                    tensor.section, atom, section));
  return Status();
}

} // namespace

Status check(const AtomicModel &model) {
  size_t sizes = model.microBatches.size();
  if (model.dims.empty() || model.sections.empty() || sizes == 0)
    return wrongAtoms("has no dims, no sections or no sizes of micro-batches");
  if (model.microBatches.front() < 1 || !std::is_sorted(model.microBatches.begin(), model.microBatches.end()))
    return wrongAtoms("sizes of micro-batches do not ascend from 1");
  for (const AtomicSection &section : model.sections) {
    MAESTRO_TRY(check(section.capacities, model.dims, model.microBatches));
    if (!section.has(Recompute::None))
      return wrongAtoms("section '" + section.name + "' has no usual variant");
  }
  MAESTRO_TRY(checkCosts(model));
  for (const AtomTensor &tensor : model.tensors)
    MAESTRO_TRY(checkTensor(model, tensor));
  for (const TiedParameter &tied : model.tied)
    if (tied.section >= model.sections.size() || tied.atoms.empty() ||
        tied.atoms.back() >= model.sections[tied.section].classOf.size())
      return wrongAtoms("a tied parameter's atoms are not there");
  return Status();
}

Status check(const AtomicModel &model, uint32_t section, const AtomClasses &classes) {
  const AtomicSection &chain = model.sections[section];
  for (uint32_t own : chain.classOf)
    if (own >= classes.size())
      return wrongAtoms(fmt::format("section '{}' has an atom of class {} of {}", chain.name, own, classes.size()));
  for (const AtomClass &own : classes)
    if (own.alone.at.size() != model.microBatches.size() || own.pair.at.size() != model.microBatches.size())
      return wrongAtoms(fmt::format("section '{}' has atoms without costs for all {} sizes of micro-batches",
                                    chain.name, model.microBatches.size()));
  return Status();
}

Status check(const AtomicModel &model, const std::vector<SectionCut> &cuts) {
  if (cuts.size() != model.sections.size())
    return wrongAtoms(fmt::format("{} cuts for {} sections", cuts.size(), model.sections.size()));
  for (size_t s = 0; s < cuts.size(); ++s) {
    const AtomicSection &section = model.sections[s];
    uint32_t before = 0;
    for (uint32_t first : cuts[s].firstAtoms) {
      if (first <= before || first >= section.classOf.size())
        return wrongAtoms(
            fmt::format("section '{}' is cut at atom {} of {}", section.name, first, section.classOf.size()));
      before = first;
    }
    if (!section.has(cuts[s].recompute, cuts[s].splitStages > 0))
      return wrongAtoms(fmt::format("section '{}' has not the choice of recompute '{}'{}", section.name,
                                    textOf(cuts[s].recompute),
                                    cuts[s].splitStages > 0 ? " with a split backward" : ""));
  }
  return Status();
}

StageModel composeStage(const AtomicModel &model, uint32_t section, const RecomputeChoice &recompute, uint32_t first,
                        uint32_t last, bool splits) {
  const AtomicSection &chain = model.sections[section];
  auto atoms = static_cast<uint32_t>(chain.classOf.size());
  Sums sums;
  for (uint32_t begin = first, end; begin < last; begin = end) {
    Recompute kind = recompute.of(begin, atoms);
    for (end = begin + 1; end < last && chain.classOf[end] == chain.classOf[begin] && recompute.of(end, atoms) == kind;)
      ++end;
    const AtomClass &own = model.classesOf(section, {kind, splits, recompute.lossChunks})[chain.classOf[begin]];
    bool follows =
        begin > first && chain.classOf[begin] == chain.classOf[begin - 1]; // One of its class, with another recompute.
    int64_t further = end - begin - (follows ? 0 : 1);
    sums.add(own.alone, (follows ? 0 : 1) - further);
    if (further > 0)
      sums.add(own.pair, further);
  }
  for (const TiedParameter &tied : model.tied)
    if (tied.section == section) {
      auto inside = std::count_if(tied.atoms.begin(), tied.atoms.end(),
                                  [&](uint32_t atom) { return atom >= first && atom < last; });
      for (; inside > 1; --inside)
        sums.add(tied.parameters, -1);
    }
  // What arrived in a ring is kept by the stage itself where no ring ends.
  for (const AtomTensor &tensor : model.tensors) {
    if (tensor.section != section || !tensor.gradient || tensor.atom < first || tensor.atom >= last)
      continue;
    bool kept = std::any_of(tensor.consumers.begin(), tensor.consumers.end(), [&](const auto &consumer) {
      return consumer.first == section && consumer.second < last &&
             (chain.classOf[consumer.second] != chain.classOf[tensor.atom] ||
              recompute.of(consumer.second, atoms) != recompute.of(tensor.atom, atoms));
    });
    if (kept)
      sums.addTensor(tensor);
  }
  return sums.finish();
}

CompoundModel compose(const AtomicModel &model, const std::vector<SectionCut> &cuts) {
  CompoundModel result;
  result.dims = model.dims;
  result.microBatches = model.microBatches;
  result.stepSamples = model.stepSamples;
  for (uint32_t s = 0; s < model.sections.size(); ++s) {
    const AtomicSection &chain = model.sections[s];
    SectionModel &section = result.sections.emplace_back();
    section.name = chain.name;
    section.trains = chain.trains;
    section.activeDims = chain.activeDims;
    section.unpadded = chain.unpadded;
    section.presence = chain.presence;
    section.capacities = chain.capacities;
    section.splitsBackward = cuts[s].splitStages > 0;
    size_t atoms = chain.classOf.size();
    for (size_t stage = 0; stage < cuts[s].stages(); ++stage)
      section.stages.push_back(composeStage(model, s, cuts[s].recompute, cuts[s].firstAtom(stage, atoms),
                                            cuts[s].firstAtom(stage + 1, atoms), cuts[s].splits(stage)));
  }
  for (const AtomTensor &tensor : model.tensors) {
    std::pair<uint32_t, uint32_t> producer{tensor.section, cuts[tensor.section].stageOf(tensor.atom)};
    std::set<std::pair<uint32_t, uint32_t>> consumers;
    for (auto [section, atom] : tensor.consumers)
      consumers.insert({section, cuts[section].stageOf(atom)});
    consumers.erase(producer);
    for (auto [section, stage] : consumers) {
      bool gradient = tensor.gradient && model.sections[section].trains;
      result.edges.push_back({producer.first, producer.second, section, stage, gradient, model.sections[section].trains,
                              tensor.bytes, tensor.slotBytesIn(section), tensor.slotBytes});
    }
  }
  return result;
}

} // namespace maestro::cost_models

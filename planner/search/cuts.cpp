#include "planner/search/cuts.h"

#include "cost_models/in_flight.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace maestro::planner {
namespace {

/// Whether another section that trains sends this one gradients.
bool getsGradients(const AtomicModel &model, uint32_t section) {
  return std::any_of(model.tensors.begin(), model.tensors.end(), [&](const cost_models::AtomTensor &tensor) {
    return tensor.section == section && tensor.gradient &&
           std::any_of(tensor.consumers.begin(), tensor.consumers.end(), [&](const auto &consumer) {
             return consumer.first != section && model.sections[consumer.first].trains;
           });
  });
}

} // namespace

std::optional<RecomputeChoice> recomputeChoice(const AtomicModel &model, uint32_t section, Recompute most,
                                               uint32_t parts, uint32_t lossChunks) {
  const cost_models::AtomicSection &chain = model.sections[section];
  auto atoms = static_cast<uint32_t>(chain.classOf.size());
  RecomputeChoice choice{most, atoms * parts / kRecomputeParts, false, lossChunks};
  choice.evenly = choice.lighter > 0 && getsGradients(model, section);
  bool isNew = parts == 0 || (most != Recompute::None && choice.lighter > atoms * (parts - 1) / kRecomputeParts);
  return isNew && chain.has(choice) ? std::optional(choice) : std::nullopt;
}

std::vector<RecomputeChoice> recomputeChoices(const SearchProblem &problem, uint32_t section, uint32_t everyPart) {
  const SearchPins &pins = problem.pins[section];
  const cost_models::AtomicSection &chain = problem.model.sections[section];
  std::vector<uint32_t> one{pins.lossChunks.value_or(chain.mostLossChunks())}, each{pins.lossChunks.value_or(1)};
  if (!pins.lossChunks)
    each.insert(each.end(), chain.lossChunks.begin(), chain.lossChunks.end());
  std::vector<RecomputeChoice> list;
  if (RecomputeChoice choice = pins.recompute.value_or(RecomputeChoice{}); pins.recompute) {
    for (uint32_t own : each)
      list.push_back({choice.most, choice.lighter, choice.evenly, own});
    std::erase_if(list, [&](const RecomputeChoice &own) { return !chain.has(own); });
    return list;
  }
  for (Recompute most : kRecomputes)
    for (uint32_t own : most == Recompute::None ? each : one)
      for (uint32_t parts = kRecomputeParts; parts > 0;)
        if (auto choice = recomputeChoice(problem.model, section, most, parts -= everyPart, own))
          list.push_back(*choice);
  return list;
}

std::vector<uint32_t> evenCut(const WorkTable &work, uint32_t section, uint32_t atoms, const RecomputeChoice &recompute,
                              uint32_t microBatch, uint32_t stages) {
  auto between = [&](uint32_t first, uint32_t last) { return work.work(section, recompute, microBatch, first, last); };
  // From the last atom on, as much as fits; an atom at least, and an atom left for each stage before.
  auto cut = [&](double most, std::vector<uint32_t> &firsts) {
    firsts.clear();
    uint32_t end = atoms;
    for (uint32_t left = stages; left > 1; --left) {
      uint32_t first = end - 1;
      while (first >= left && between(first - 1, end) <= most)
        --first;
      firsts.insert(firsts.begin(), first);
      end = first;
    }
    return between(0, end) <= most;
  };
  double low = 0, high = between(0, atoms);
  std::vector<uint32_t> firsts;
  for (uint32_t atom = 0; atom < atoms; ++atom)
    low = std::max(low, between(atom, atom + 1));
  for (int halving = 0; halving < 40 && high - low >= 1e-6 * high && !cut(low, firsts); ++halving) {
    double middle = (low + high) / 2;
    (cut(middle, firsts) ? high : low) = middle;
  }
  if (!cut(low, firsts))
    cut(high, firsts);
  return firsts;
}

uint64_t stageBytes(const SearchProblem &problem, const CutFacts &facts, uint32_t microBatch, size_t stage,
                    uint64_t beyond) {
  const cost_models::StageModel &own = facts.stages[stage];
  const CutFacts::Size &size = facts.at[microBatch];
  auto most = static_cast<uint64_t>(std::min<int64_t>(cost_models::kMostSlots, problem.model.stepSamples));
  uint64_t slots = std::min<uint64_t>(most, facts.slots[stage] + beyond), waiting = cost_models::kWaitingForStage;
  return cost_models::stageBytes(own, microBatch, slots) + size.rings[stage] * (slots + waiting) +
         size.gradientRings[stage] * (1 + waiting) + (own.parameters.gradients > 0 ? problem.machine.stagingBytes : 0);
}

Cuts::Cuts(const SearchProblem &problem)
    : problem(problem), works(problem), paths(problem), senders(problem.model.sections.size()) {
  for (const cost_models::AtomTensor &tensor : problem.model.tensors)
    for (auto [consumer, atom] : tensor.consumers)
      if (tensor.gradient && consumer != tensor.section)
        senders[tensor.section].insert(consumer);
}

std::vector<uint32_t> Cuts::stageCounts(uint32_t section) const {
  if (problem.pins[section].stages)
    return {*problem.pins[section].stages};
  auto atoms = static_cast<uint32_t>(problem.model.sections[section].classOf.size());
  std::vector<uint32_t> counts(std::min({atoms, problem.machine.devices, kMaxStages}));
  std::iota(counts.begin(), counts.end(), 1u);
  return counts;
}

SectionCut Cuts::cut(uint32_t section, const RecomputeChoice &recompute, uint32_t stages, uint32_t split) const {
  SectionCut cut = of(section, recompute, stages).cut;
  cut.splitStages = std::min(split, stages);
  return cut;
}

const CutFacts &Cuts::of(uint32_t section, const RecomputeChoice &recompute, uint32_t stages) const {
  auto [found, isNew] = known.try_emplace({section, recompute, stages});
  if (!isNew)
    return *found->second;
  found->second = std::make_unique<CutFacts>();
  CutFacts &facts = *found->second;
  const AtomicModel &model = problem.model;
  auto middle = static_cast<uint32_t>(model.microBatches.size() / 2);
  auto atoms = static_cast<uint32_t>(model.sections[section].classOf.size());
  facts.cut = {evenCut(works, section, atoms, recompute, problem.pins[section].microBatch.value_or(middle), stages),
               recompute, 0};
  for (uint32_t i = 0; i < stages; ++i)
    facts.stages.push_back(cost_models::composeStage(model, section, recompute, facts.cut.firstAtom(i, atoms),
                                                     facts.cut.firstAtom(i + 1, atoms)));
  facts.at.resize(model.microBatches.size());
  addSlots(section, facts);
  addRings(section, facts);
  for (uint32_t m = 0; m < facts.at.size(); ++m)
    addSize(section, m, facts);
  return facts;
}

void Cuts::addSlots(uint32_t section, CutFacts &facts) const {
  std::vector<std::set<size_t>> readers(facts.stages.size()); // That send gradients back.
  for (const cost_models::AtomTensor &tensor : problem.model.tensors)
    for (auto [consumer, atom] : tensor.consumers)
      if (tensor.gradient && tensor.section == section && consumer == section &&
          facts.cut.stageOf(atom) > facts.cut.stageOf(tensor.atom))
        readers[facts.cut.stageOf(tensor.atom)].insert(facts.cut.stageOf(atom));
  facts.slots.assign(facts.stages.size(), 1);
  for (size_t stage = facts.stages.size(); stage-- > 0;)
    for (size_t reader : readers[stage])
      facts.slots[stage] =
          std::max(facts.slots[stage], std::min(cost_models::kMostSlots, facts.slots[reader] + cost_models::kOwnSlots));
}

void Cuts::addRings(uint32_t section, CutFacts &facts) const {
  for (CutFacts::Size &size : facts.at)
    size.rings = size.gradientRings = std::vector<uint64_t>(facts.stages.size(), 0);
  auto stageOf = [&](uint32_t atom) { return facts.cut.stageOf(atom); };
  for (const cost_models::AtomTensor &tensor : problem.model.tensors) {
    std::set<size_t> ends;
    bool leaves = false;
    for (auto [consumer, atom] : tensor.consumers) {
      bool arrives = consumer == section && (tensor.section != section || stageOf(tensor.atom) != stageOf(atom));
      if (arrives)
        ends.insert(stageOf(atom));
      leaves |= tensor.section == section && (consumer != section || arrives);
    }
    for (size_t m = 0; m < facts.at.size(); ++m) {
      for (size_t stage : ends)
        facts.at[m].rings[stage] += tensor.slotBytesIn(section)[m];
      if (leaves && tensor.gradient)
        facts.at[m].gradientRings[stageOf(tensor.atom)] += tensor.slotBytes[m];
    }
  }
}

void Cuts::addSize(uint32_t section, uint32_t microBatch, CutFacts &facts) const {
  CutFacts::Size &size = facts.at[microBatch];
  auto atoms = static_cast<uint32_t>(problem.model.sections[section].classOf.size());
  for (size_t i = 0; i < facts.stages.size(); ++i)
    size.work.push_back(works.work(section, facts.cut.recompute, microBatch, facts.cut.firstAtom(i, atoms),
                                   facts.cut.firstAtom(i + 1, atoms)));
  size.microBatches = std::max(1.0, works.microBatches(section, microBatch));
  size.longest = *std::max_element(size.work.begin(), size.work.end());
  bool waits = !senders[section].empty(); // For gradients: others wait for its first micro-batch, it for its last ones.
  double others = std::accumulate(size.work.begin(), size.work.end(), 0.0) - size.longest;
  size.fill = (others + (waits ? size.longest : 0)) / size.microBatches;
  if (problem.model.sections[section].trains)
    size.criticalPath = paths.longest(paths.of(section, facts.cut.recompute, microBatch));
  // What waits in another section is taken to be of the same micro-batches and replicas; at least it is in one of this
  // section's.
  uint64_t least = waits ? cost_models::kOwnSlots : 0, usual = waits ? least + cost_models::kWaitingForSection / 2 : 0;
  for (size_t stage = 0; stage < facts.stages.size(); ++stage) {
    size.bytes = std::max(size.bytes, stageBytes(problem, facts, microBatch, stage, usual));
    size.leastBytes = std::max(size.leastBytes, stageBytes(problem, facts, microBatch, stage, least));
  }
}

} // namespace maestro::planner

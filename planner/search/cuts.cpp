#include "planner/search/cuts.h"

#include "cost_models/in_flight.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

namespace maestro::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Of steps with more samples the best way to form micro-batches is not looked for, which takes a good part of a
/// millisecond for each kind of layers.
constexpr size_t kMostPaddedSamples = 1024;

std::vector<uint32_t> stageCounts(const SearchPins &pins, uint32_t atoms, uint32_t mostStages) {
  if (pins.stages)
    return {*pins.stages};
  std::vector<uint32_t> counts(std::min(atoms, mostStages));
  std::iota(counts.begin(), counts.end(), 1u);
  return counts;
}

/// What there is to choose from that pins allow: each kind, and between two of them parts of the layers.
std::vector<RecomputeChoice> choices(const AtomicModel &model, uint32_t section, const SearchPins &pins,
                                     uint32_t everyPart = 1) {
  if (pins.recompute)
    return {*pins.recompute};
  std::vector<RecomputeChoice> list;
  for (Recompute recompute : kRecomputes)
    for (uint32_t parts = kLighterParts; parts > 0;)
      if (std::optional<RecomputeChoice> choice = choiceOf(model, section, recompute, parts -= everyPart))
        list.push_back(*choice);
  return list;
}

/// What a second atom of a class adds to a task; nothing where a term would be less than none.
std::optional<wavefront::Cost> difference(const wavefront::Cost &pair, const wavefront::Cost &alone) {
  wavefront::Cost more = pair;
  for (const wavefront::CostTerm &term : alone.terms) {
    auto same = std::find_if(more.terms.begin(), more.terms.end(),
                             [&](const wavefront::CostTerm &own) { return own.dims == term.dims; });
    if (same == more.terms.end() || same->picoseconds < term.picoseconds)
      return std::nullopt;
    same->picoseconds -= term.picoseconds;
  }
  return more;
}

/// An atom of the most frequent class behind another one of it; 0: there is none.
uint32_t behindItsLike(const std::vector<uint32_t> &classes) {
  uint32_t best = 0;
  int64_t most = 0;
  for (uint32_t atom = 1; atom < classes.size(); ++atom)
    if (int64_t count = std::count(classes.begin(), classes.end(), classes[atom]);
        classes[atom] == classes[atom - 1] && count > most)
      best = atom, most = count;
  return best;
}

} // namespace

WorkTable::WorkTable(const SearchProblem &problem) : problem(problem) {
  const AtomicModel &model = problem.model;
  for (uint32_t s = 0; s < model.sections.size(); ++s) {
    const cost_models::AtomicSection &chain = model.sections[s];
    const SearchPins &pins = problem.pins[s];
    wavefront::Section section;
    section.activeDims = chain.activeDims;
    double samples = 0;
    for (const cost_models::SampleSizes &step : problem.steps)
      for (size_t row = 0; row + model.dims.size() <= step.size(); row += model.dims.size())
        samples += wavefront::takesPart(section, step.data() + row);
    active.push_back(samples / static_cast<double>(problem.steps.size()));
    auto &counts = groups.emplace_back(model.microBatches.size());
    for (size_t m = 0; m < counts.size(); ++m)
      for (size_t step = 0; step < problem.steps.size(); ++step)
        counts[m].push_back(fewest(chain, chain.capacities[m], step));
    double least = kNever;
    auto &own = works.emplace_back(chain.classes.size()), &alone = samplesAlone.emplace_back(chain.classes.size());
    for (Recompute recompute : kRecomputes)
      for (uint32_t m = 0; chain.has(recompute) && m < model.microBatches.size(); ++m) {
        own[static_cast<size_t>(recompute)].push_back(sum(s, recompute, m, false));
        alone[static_cast<size_t>(recompute)].push_back(sum(s, recompute, m, true));
      }
    mixedWorks.emplace_back();
    mixedSamplesAlone.emplace_back();
    for (const RecomputeChoice &recompute : choices(model, s, pins))
      for (uint32_t m = 0; recompute.evenly && m < model.microBatches.size(); ++m) {
        mixedWorks.back()[recompute].push_back(mix(own, recompute, m));
        mixedSamplesAlone.back()[recompute].push_back(mix(alone, recompute, m));
      }
    for (const RecomputeChoice &recompute : choices(model, s, pins))
      for (uint32_t m = 0; m < model.microBatches.size(); ++m)
        if (pins.microBatch.value_or(m) == m)
          least = std::min(least, work(s, recompute, m, 0, static_cast<uint32_t>(chain.classOf.size())));
    leastWork.push_back(least);
    frequent.push_back(behindItsLike(chain.classOf));
  }
  findBeforeGradients();
}

/// Each atom as it is with its own recompute.
WorkTable::Sums WorkTable::mix(const std::vector<std::vector<Sums>> &sums, const RecomputeChoice &recompute,
                               uint32_t microBatch) {
  auto atoms = static_cast<uint32_t>(sums[static_cast<size_t>(recompute.most)][microBatch].alone.size());
  Sums result{{0}, {}};
  for (uint32_t atom = 0; atom < atoms; ++atom) {
    const Sums &own = sums[static_cast<size_t>(recompute.of(atom, atoms))][microBatch];
    result.chained.push_back(result.chained.back() + own.behind(atom, atom + 1));
    result.alone.push_back(own.alone[atom]);
  }
  return result;
}

/// In one stage.
double WorkTable::between(const std::vector<std::vector<Sums>> &sums, const Mixed &mixed,
                          const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first, uint32_t last) {
  if (recompute.evenly)
    return mixed.at(recompute)[microBatch].between(first, last);
  auto atoms = static_cast<uint32_t>(sums[static_cast<size_t>(recompute.most)][microBatch].alone.size());
  uint32_t lighter = std::clamp(atoms - recompute.lighter, first, last);
  auto of = [&](Recompute kind) -> const Sums & { return sums[static_cast<size_t>(kind)][microBatch]; };
  if (lighter == last)
    return of(recompute.most).between(first, last);
  if (lighter == first)
    return of(lighterThan(recompute.most)).between(first, last);
  return of(recompute.most).between(first, lighter) + of(lighterThan(recompute.most)).behind(lighter, last);
}

double WorkTable::work(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
                       uint32_t last) const {
  return between(works[section], mixedWorks[section], recompute, microBatch, first, last);
}

/// Behind one of its class an atom costs least, with the lighter recompute where there are two.
double WorkTable::alike(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
                        uint32_t last) const {
  uint32_t atom = frequent[section];
  if (atom == 0)
    return 0;
  const std::vector<uint32_t> &classes = problem.model.sections[section].classOf;
  Recompute least = recompute.lighter > 0 ? lighterThan(recompute.most) : recompute.most;
  const std::vector<double> &chained = works[section][static_cast<size_t>(least)][microBatch].chained;
  return static_cast<double>(std::count(classes.begin() + first, classes.begin() + last, classes[atom])) *
         (chained[atom + 1] - chained[atom]);
}

double WorkTable::oneSample(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
                            uint32_t last) const {
  return first >= last ? 0
                       : between(samplesAlone[section], mixedSamplesAlone[section], recompute, microBatch, first, last);
}

double WorkTable::microBatches(uint32_t section, uint32_t microBatch) const {
  const std::vector<double> &counts = groups[section][microBatch];
  return std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
}

/// Micro-batches of one row a sample that padded tokens and samples allow, at least. Ordered by their longest sample,
/// the first g of any micro-batches hold no more samples than the first g of these: what is left over for the next one
/// is no shorter there, and the longer a micro-batch's longest sample, the fewer it holds.
double WorkTable::fewestPadded(const Product::Step &rows, std::vector<double> lengths, int64_t samples,
                               int64_t tokens) {
  if (rows.samples != lengths.size() || rows.largest > 1 || rows.sum < static_cast<double>(rows.samples))
    return 0;
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  double count = 0;
  for (size_t first = 0; first < lengths.size(); ++count)
    first += static_cast<size_t>(
        std::clamp(std::floor(static_cast<double>(tokens) / lengths[first]), 1.0, static_cast<double>(samples)));
  return count;
}

/// By samples, and by padded tokens: no row is padded to less than its own length.
double WorkTable::fewest(const cost_models::AtomicSection &chain, const cost_models::MicroBatchCapacity &capacity,
                         size_t step) const {
  const Product::Step &all = productOf(chain, {}).steps[step];
  double count = std::ceil(static_cast<double>(all.samples) / static_cast<double>(capacity.samples));
  for (const wavefront::Area &area : capacity.areas)
    count = std::max(
        {count,
         std::ceil(productOf(chain, {area.rows, area.padded}).steps[step].sum / static_cast<double>(area.capacity)),
         fewestPadded(productOf(chain, {area.rows}).steps[step], lengthsOf(chain, area.padded, step), capacity.samples,
                      area.capacity)});
  return count;
}

WorkTable::Sums WorkTable::sum(uint32_t section, Recompute recompute, uint32_t microBatch, bool oneSampleOnly) const {
  const cost_models::AtomicSection &chain = problem.model.sections[section];
  std::vector<std::pair<double, double>> ofClass; // Alone, and behind one of its class.
  for (const cost_models::AtomClass &own : chain.classesOf(recompute)) {
    double alone = seconds(section, own.alone.at[microBatch], microBatch, oneSampleOnly);
    double further = seconds(section, own.pair.at[microBatch], microBatch, oneSampleOnly) - alone;
    const cost_models::StageCosts &one = own.alone.at[microBatch], &two = own.pair.at[microBatch];
    if (!oneSampleOnly && one.otherKinds.empty()) {
      const wavefront::Cost *const tasks[] = {&one.forward, &one.backward};
      alone = std::max(alone, paddedSeconds(chain, microBatch, std::span(tasks).first(chain.trains ? 2 : 1)));
      std::optional<wavefront::Cost> forward = difference(two.forward, one.forward),
                                     backward = difference(two.backward, one.backward);
      if (forward && backward) {
        const wavefront::Cost *const more[] = {&*forward, &*backward};
        further = std::max(further, paddedSeconds(chain, microBatch, std::span(more).first(chain.trains ? 2 : 1)));
      }
    }
    ofClass.push_back({alone, std::clamp(further, 0.0, alone)});
  }
  Sums sums{{0}, {}};
  for (size_t atom = 0; atom < chain.classOf.size(); ++atom) {
    const auto &[alone, further] = ofClass[chain.classOf[atom]];
    bool follows = atom > 0 && chain.classOf[atom] == chain.classOf[atom - 1];
    sums.alone.push_back(alone);
    sums.chained.push_back(sums.chained.back() + (follows ? further : alone));
  }
  return sums;
}

/// What a product of dims is over the samples of a section: in all steps together, and in each.
const WorkTable::Product &WorkTable::productOf(const cost_models::AtomicSection &chain,
                                               const std::vector<uint32_t> &dims) const {
  auto [found, isNew] = products.try_emplace({chain.activeDims, dims});
  if (!isNew)
    return found->second;
  const AtomicModel &model = problem.model;
  wavefront::Section active;
  active.activeDims = chain.activeDims;
  Product &product = found->second;
  for (uint32_t dim : dims)
    product.sums |= model.dims[dim].sum;
  for (const cost_models::SampleSizes &step : problem.steps) {
    Product::Step &own = product.steps.emplace_back();
    for (size_t row = 0; row + model.dims.size() <= step.size(); row += model.dims.size()) {
      if (!wavefront::takesPart(active, step.data() + row))
        continue;
      double value = 1;
      for (uint32_t dim : dims)
        value *= static_cast<double>(wavefront::alone(model.dims[dim], step[row + dim]));
      ++own.samples;
      own.sum += value;
      own.largest = std::max(own.largest, value);
      own.least = std::min(own.least, value);
    }
    if (own.samples > 0)
      product.least = std::min(product.least, own.least);
  }
  return product;
}

const std::vector<cost_models::SampleSizes> &WorkTable::rowsOf(const cost_models::AtomicSection &chain) const {
  auto [found, isNew] = rows.try_emplace(chain.activeDims);
  if (!isNew)
    return found->second;
  const std::vector<wavefront::Dim> &dims = problem.model.dims;
  wavefront::Section active;
  active.activeDims = chain.activeDims;
  for (const cost_models::SampleSizes &step : problem.steps) {
    cost_models::SampleSizes &own = found->second.emplace_back();
    for (size_t row = 0; row + dims.size() <= step.size(); row += dims.size())
      for (size_t d = 0; wavefront::takesPart(active, step.data() + row) && d < dims.size(); ++d)
        own.push_back(wavefront::alone(dims[d], step[row + d]));
  }
  return found->second;
}

/// Of the mean step; 0 where that would take long to find.
double WorkTable::paddedSeconds(const cost_models::AtomicSection &chain, uint32_t microBatch,
                                std::span<const wavefront::Cost *const> costs) const {
  const std::vector<wavefront::Dim> &dims = problem.model.dims;
  const cost_models::MicroBatchCapacity &capacity = chain.capacities[microBatch];
  wavefront::Section section;
  section.unpadded = chain.unpadded;
  section.maxSamples = capacity.samples;
  section.capacity = capacity.dims;
  section.areas = capacity.areas;
  double total = 0;
  for (const cost_models::SampleSizes &own : rowsOf(chain)) {
    std::vector<uint8_t> all(own.size() / dims.size(), 1);
    if (all.size() <= kMostPaddedSamples)
      total += static_cast<double>(batching.ps(dims, section, own, all, costs)) * 1e-12;
  }
  return total / static_cast<double>(problem.steps.size());
}

/// Of the samples of a section in a step, padded to the dim's multiple.
std::vector<double> WorkTable::lengthsOf(const cost_models::AtomicSection &chain, uint32_t dim, size_t step) const {
  const AtomicModel &model = problem.model;
  wavefront::Section active;
  active.activeDims = chain.activeDims;
  std::vector<double> lengths;
  const cost_models::SampleSizes &sizes = problem.steps[step];
  for (size_t row = 0; row + model.dims.size() <= sizes.size(); row += model.dims.size())
    if (wavefront::takesPart(active, sizes.data() + row))
      lengths.push_back(static_cast<double>(wavefront::alone(model.dims[dim], sizes[row + dim])));
  return lengths;
}

double WorkTable::seconds(uint32_t section, const cost_models::StageCosts &costs, uint32_t microBatch,
                          bool oneSampleOnly) const {
  const cost_models::AtomicSection &chain = problem.model.sections[section];
  auto ofTask = [&](const wavefront::Cost &cost) {
    double total = 0;
    for (const wavefront::CostTerm &term : cost.terms) {
      const Product &product = productOf(chain, term.dims);
      double factor = static_cast<double>(term.picoseconds) * 1e-12;
      if (oneSampleOnly) {
        total += product.least == kNever ? 0 : factor * product.least;
        continue;
      }
      for (size_t i = 0; i < product.steps.size(); ++i) {
        const Product::Step &step = product.steps[i];
        if (step.samples > 0)
          total += factor *
                   (product.sums ? step.sum : step.largest + (groups[section][microBatch][i] - 1) * step.least) /
                   static_cast<double>(product.steps.size());
      }
    }
    return total;
  };
  bool backward = chain.trains && !(oneSampleOnly && mayGainBySplitting(problem, section, 2));
  double least = ofTask(costs.forward) + (backward ? ofTask(costs.backward) : 0);
  for (const cost_models::TaskCosts &kind : costs.otherKinds)
    least = std::min(least, ofTask(kind.forward) + (backward ? ofTask(kind.backward) : 0));
  return least;
}

void WorkTable::findBeforeGradients() {
  const AtomicModel &model = problem.model;
  beforeGradients.assign(model.sections.size(), 0);
  for (size_t s = model.sections.size(); s-- > 0;) {
    const std::vector<uint32_t> &own = model.sections[s].activeDims;
    beforeGradients[s] = model.sections[s].trains;
    for (const cost_models::AtomTensor &tensor : model.tensors)
      for (auto [consumer, atom] : tensor.consumers) { // A sample that is here must be there, too.
        if (tensor.section != s || consumer == s || !beforeGradients[consumer])
          continue;
        const std::vector<uint32_t> &other = model.sections[consumer].activeDims;
        beforeGradients[s] |= std::all_of(other.begin(), other.end(), [&](uint32_t dim) {
          return std::find(own.begin(), own.end(), dim) != own.end();
        });
      }
  }
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
  for (int halving = 0; halving < 40 && !cut(low, firsts); ++halving) {
    double middle = (low + high) / 2;
    (cut(middle, firsts) ? high : low) = middle;
    if (high - low < 1e-6 * high)
      break;
  }
  if (!cut(low, firsts))
    cut(high, firsts);
  return firsts;
}

uint64_t stageBytes(const SearchProblem &problem, uint32_t section, const CutFacts &facts, uint32_t microBatch,
                    size_t stage, uint64_t beyond) {
  const cost_models::StageModel &own = facts.stages[stage];
  const cost_models::StageCosts &costs = own.at[microBatch];
  uint64_t most = static_cast<uint64_t>(std::min<int64_t>(cost_models::kMostSlots, problem.model.stepSamples));
  uint64_t slots = std::min<uint64_t>(most, facts.slots[stage] + beyond), waiting = cost_models::kWaitingForStage;
  return own.residentBytes + costs.slotBytes * slots + costs.workspaceBytes + costs.hostBytes +
         facts.rings[microBatch][stage] * (slots + waiting) + facts.gradientRings[microBatch][stage] * (1 + waiting) +
         (own.gradientBytes > 0 ? problem.machine.stagingBytes : 0);
}

uint32_t lighterParts(const cost_models::AtomicSection &section, const RecomputeChoice &choice) {
  auto atoms = static_cast<uint32_t>(section.classOf.size());
  return (choice.lighter * kLighterParts + atoms - 1) / atoms;
}

std::optional<RecomputeChoice> choiceOf(const AtomicModel &model, uint32_t section, Recompute most, uint32_t parts) {
  const cost_models::AtomicSection &chain = model.sections[section];
  auto atoms = static_cast<uint32_t>(chain.classOf.size());
  RecomputeChoice choice{most, atoms * parts / kLighterParts};
  choice.evenly = choice.lighter > 0 &&
                  std::any_of(model.tensors.begin(), model.tensors.end(), [&](const cost_models::AtomTensor &tensor) {
                    return tensor.section == section && tensor.gradient &&
                           std::any_of(tensor.consumers.begin(), tensor.consumers.end(), [&](const auto &consumer) {
                             return consumer.first != section && model.sections[consumer.first].trains;
                           });
                  });
  bool isNew = parts == 0 || (most != Recompute::None && choice.lighter > atoms * (parts - 1) / kLighterParts);
  return isNew && chain.has(choice) ? std::optional(choice) : std::nullopt;
}

SectionCut cutOf(const SearchProblem &problem, const WorkTable &work, uint32_t section,
                 const RecomputeChoice &recompute, uint32_t stages, uint32_t split) {
  uint32_t microBatch =
      problem.pins[section].microBatch.value_or(static_cast<uint32_t>(problem.model.microBatches.size() / 2));
  auto atoms = static_cast<uint32_t>(problem.model.sections[section].classOf.size());
  return {evenCut(work, section, atoms, recompute, microBatch, stages), recompute, split};
}

CutTable::CutTable(const SearchProblem &problem, const WorkTable &work, uint32_t mostStages, bool withSplits,
                   uint32_t everyPart) {
  const AtomicModel &model = problem.model;
  for (uint32_t s = 0; s < model.sections.size(); ++s) {
    const SearchPins &pins = problem.pins[s];
    cuts.emplace_back();
    auto atoms = static_cast<uint32_t>(model.sections[s].classOf.size());
    for (uint32_t count : stageCounts(pins, atoms, mostStages))
      for (const RecomputeChoice &recompute : choices(model, s, pins, everyPart))
        for (uint32_t split : splitsOf(problem, s, count, withSplits))
          add(problem, work, s, cutOf(problem, work, s, recompute, count, split));
  }
}

/// In none or all of the stages, or as pinned.
std::vector<uint32_t> CutTable::splitsOf(const SearchProblem &problem, uint32_t section, uint32_t stages,
                                         bool withSplits) {
  if (problem.pins[section].splitStages)
    return {problem.model.sections[section].trains ? std::min(*problem.pins[section].splitStages, stages) : 0};
  if (withSplits && mayGainBySplitting(problem, section, stages))
    return {0, stages};
  return {0};
}

void CutTable::add(const SearchProblem &problem, const WorkTable &work, uint32_t section, const SectionCut &cut) {
  const AtomicModel &model = problem.model;
  CutFacts &facts = cuts[section].emplace_back();
  facts.cut = cut;
  size_t atoms = model.sections[section].classOf.size();
  for (uint32_t m = 0; m < model.microBatches.size(); ++m) {
    std::vector<double> &stages = facts.work.emplace_back();
    for (size_t i = 0; i < cut.stages(); ++i)
      stages.push_back(work.work(section, cut.recompute, m, cut.firstAtom(i, atoms), cut.firstAtom(i + 1, atoms)));
  }
  for (size_t i = 0; i < cut.stages(); ++i)
    facts.stages.push_back(cost_models::composeStage(model, section, cut.recompute, cut.firstAtom(i, atoms),
                                                     cut.firstAtom(i + 1, atoms), cut.splits(i)));
  addSlots(model, section, facts);
  addRings(model, section, facts);
}

void CutTable::addSlots(const AtomicModel &model, uint32_t section, CutFacts &facts) {
  auto stageOf = [&](uint32_t atom) { return facts.cut.stageOf(atom); };
  std::vector<std::set<size_t>> readers(facts.stages.size()); // That send gradients back.
  for (const cost_models::AtomTensor &tensor : model.tensors)
    for (auto [consumer, atom] : tensor.consumers)
      if (tensor.gradient && tensor.section == section && consumer == section && stageOf(atom) > stageOf(tensor.atom))
        readers[stageOf(tensor.atom)].insert(stageOf(atom));
  facts.slots.assign(facts.stages.size(), 1);
  for (size_t stage = facts.stages.size(); stage-- > 0;)
    for (size_t reader : readers[stage])
      facts.slots[stage] =
          std::max(facts.slots[stage], std::min(cost_models::kMostSlots, facts.slots[reader] + cost_models::kOwnSlots));
}

void CutTable::addRings(const AtomicModel &model, uint32_t section, CutFacts &facts) {
  size_t sizes = model.microBatches.size();
  facts.rings.assign(sizes, std::vector<uint64_t>(facts.stages.size(), 0));
  facts.gradientRings = facts.rings;
  auto stageOf = [&](uint32_t atom) { return facts.cut.stageOf(atom); };
  for (const cost_models::AtomTensor &tensor : model.tensors) {
    std::set<size_t> ends;
    bool leaves = false;
    for (auto [consumer, atom] : tensor.consumers) {
      bool arrives = consumer == section && (tensor.section != section || stageOf(tensor.atom) != stageOf(atom));
      if (arrives)
        ends.insert(stageOf(atom));
      leaves |= tensor.section == section && (consumer != section || arrives);
    }
    for (size_t m = 0; m < sizes; ++m) {
      for (size_t stage : ends)
        facts.rings[m][stage] += tensor.slotBytesIn(section)[m];
      if (leaves && tensor.gradient)
        facts.gradientRings[m][stageOf(tensor.atom)] += tensor.slotBytes[m];
    }
  }
}

const CutFacts &CutTable::find(uint32_t section, const SectionCut &cut) const {
  auto isSame = [&](const CutFacts &facts) { return facts.cut == cut; };
  if (auto found = std::find_if(cuts[section].begin(), cuts[section].end(), isSame);
      found != cuts[section].end() || cut.splitStages == 0)
    return *found;
  SectionCut whole = cut;
  whole.splitStages = 0;
  return find(section, whole);
}

} // namespace maestro::planner

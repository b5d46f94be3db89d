#include "planner/search/schedule_bound.h"

#include "wavefront/lower_bound.h"

#include <algorithm>
#include <functional>
#include <set>

namespace maestro::planner {
namespace {

int64_t coefficient(const wavefront::Cost &cost, const std::vector<uint32_t> &dims) {
  int64_t sum = 0;
  for (const wavefront::CostTerm &term : cost.terms)
    sum += term.dims == dims ? term.picoseconds : 0;
  return sum;
}

/// Two parts of a backward task that are nowhere more than the two that it is split in, and together nowhere more than
/// the whole one: term by term, of what both ways cost at most so much in the first part as when it is split.
void relax(const wavefront::Cost &whole, wavefront::Cost &first, wavefront::Cost &second) {
  std::set<std::vector<uint32_t>> products;
  for (const wavefront::Cost *cost : {&first, &second})
    for (const wavefront::CostTerm &term : cost->terms)
      products.insert(term.dims);
  wavefront::Cost least, rest;
  for (const std::vector<uint32_t> &dims : products) {
    int64_t own = coefficient(first, dims), both = std::min(coefficient(whole, dims), own + coefficient(second, dims));
    own = std::min(own, both);
    if (own > 0)
      least.terms.push_back({own, dims});
    if (both > own)
      rest.terms.push_back({both - own, dims});
  }
  first = std::move(least);
  second = std::move(rest);
}

/// Whether one is nowhere more than the other.
bool isNoMore(const wavefront::Cost &a, const wavefront::Cost &b) {
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const wavefront::CostTerm &term) {
    return coefficient(a, term.dims) <= coefficient(b, term.dims);
  });
}

/// Whether whatever fits in a micro-batch of `b` does in one of `a`.
bool holds(const cost_models::MicroBatchCapacity &a, const cost_models::MicroBatchCapacity &b) {
  auto isWithin = [&](const wavefront::Area &area) {
    return std::any_of(b.areas.begin(), b.areas.end(), [&](const wavefront::Area &other) {
      return other.rows == area.rows && other.padded == area.padded && other.capacity <= area.capacity;
    });
  };
  return a.samples >= b.samples &&
         std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(), std::greater_equal<>()) &&
         std::all_of(a.areas.begin(), a.areas.end(), isWithin);
}

} // namespace

bool ScheduleBound::isNoWorse(const PlacedCut &a, const PlacedCut &b) {
  const std::vector<cost_models::MicroBatchCapacity> &capacities = problem.model.sections[a.section].capacities;
  const Stages &own = stagesOf(a), &other = stagesOf(b);
  return maySplit(a) == maySplit(b) && holds(capacities[a.microBatch], capacities[b.microBatch]) &&
         std::equal(own.begin(), own.end(), other.begin(), other.end(),
                    [](const wavefront::Stage &x, const wavefront::Stage &y) {
                      return isNoMore(x.forward, y.forward) && isNoMore(x.backward, y.backward) &&
                             isNoMore(x.weightGradient, y.weightGradient);
                    });
}

bool ScheduleBound::maySplit(const PlacedCut &section) const {
  const SectionCut &cut = cuts.of(section.section)[section.cut].cut;
  return mayGainBySplitting(problem, section.section, cut.stages()) &&
         problem.model.sections[section.section].has(cut.recompute, true);
}

/// A stage whose backward is whole does all of it at once; where it may be split, both ways are slower than one that
/// does the part that is waited for, and the rest whenever it likes, neither longer than in any of the two.
const ScheduleBound::Stages &ScheduleBound::stagesOf(const PlacedCut &section) {
  auto [found, isNew] = stages.try_emplace({section.section, section.cut, section.microBatch});
  if (!isNew)
    return found->second;
  const CutFacts &facts = cuts.of(section.section)[section.cut];
  const cost_models::AtomicSection &chain = problem.model.sections[section.section];
  size_t atoms = chain.classOf.size();
  const cost_models::MicroBatchCapacity &capacity = chain.capacities[section.microBatch];
  constexpr uint32_t kAnyDevice[] = {0};
  for (size_t i = 0; i < facts.stages.size(); ++i) {
    auto costsOf = [&](bool splits) {
      cost_models::StageModel stage =
          cost_models::composeStage(problem.model, section.section, facts.cut.recompute, facts.cut.firstAtom(i, atoms),
                                    facts.cut.firstAtom(i + 1, atoms), splits);
      return cost_models::taskCosts(capacity, stage.at[section.microBatch], kAnyDevice, problem.machine);
    };
    cost_models::TaskCosts costs = costsOf(false);
    wavefront::Stage &own = found->second.emplace_back();
    own.forward = std::move(costs.forward);
    own.backward = std::move(costs.backward);
    if (!maySplit(section))
      continue;
    cost_models::TaskCosts split = costsOf(true);
    relax(own.backward, split.backward, split.weightGradient);
    own.backward = std::move(split.backward);
    own.weightGradient = std::move(split.weightGradient);
  }
  return found->second;
}

/// What passes between these sections' stages, at no cost.
void ScheduleBound::addEdges(const std::vector<PlacedCut> &sections, wavefront::Problem &schedule) const {
  std::map<uint32_t, uint32_t> index;
  for (uint32_t i = 0; i < sections.size(); ++i)
    index[sections[i].section] = i;
  auto placeOf = [&](uint32_t section, uint32_t atom) {
    const PlacedCut &own = sections[index.at(section)];
    return std::pair(index.at(section), cuts.of(section)[own.cut].cut.stageOf(atom));
  };
  for (const cost_models::AtomTensor &tensor : problem.model.tensors) {
    if (!index.count(tensor.section))
      continue;
    auto producer = placeOf(tensor.section, tensor.atom);
    std::set<std::pair<uint32_t, uint32_t>> consumers;
    for (auto [section, atom] : tensor.consumers)
      if (index.count(section))
        consumers.insert(placeOf(section, atom));
    consumers.erase(producer);
    for (auto [section, stage] : consumers) {
      wavefront::Edge edge;
      edge.producer = producer.first;
      edge.producerStage = producer.second;
      edge.consumer = section;
      edge.consumerStage = stage;
      edge.gradient = tensor.gradient;
      edge.heldUntilBackward = true;
      schedule.edges.push_back(std::move(edge));
    }
  }
}

double ScheduleBound::seconds(const std::vector<PlacedCut> &sections) {
  wavefront::Problem schedule;
  schedule.dims = problem.model.dims;
  schedule.devices = problem.machine.devices;
  for (const PlacedCut &placed : sections) {
    const cost_models::AtomicSection &chain = problem.model.sections[placed.section];
    const cost_models::MicroBatchCapacity &capacity = chain.capacities[placed.microBatch];
    wavefront::Section &own = schedule.sections.emplace_back();
    own.name = chain.name;
    own.trains = true;
    own.splitsBackward = maySplit(placed);
    own.activeDims = chain.activeDims;
    own.unpadded = chain.unpadded;
    own.maxSamples = capacity.samples;
    own.capacity = capacity.dims;
    own.areas = capacity.areas;
    own.stages = stagesOf(placed);
    own.devices = placed.devices;
  }
  addEdges(sections, schedule);
  wavefront::ProblemIndex index;
  index.build(schedule);
  wavefront::LowerBound bound;
  double total = 0;
  for (const cost_models::SampleSizes &sizes : problem.steps) {
    schedule.sizes = sizes;
    total += static_cast<double>(bound.compute(schedule, index)) * 1e-9;
  }
  return total / static_cast<double>(problem.steps.size());
}

} // namespace maestro::planner

#include "planner/search/work_table.h"

#include "planner/search/cuts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

namespace maestro::planner {
namespace {

/// What a second atom of a class adds to a task; nothing where a term would be negative.
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

} // namespace

WorkTable::WorkTable(const SearchProblem &problem) : problem(problem), statistics(problem.model, problem.steps) {
  const AtomicModel &model = problem.model;
  for (uint32_t s = 0; s < model.sections.size(); ++s) {
    const cost_models::AtomicSection &section = model.sections[s];
    auto &counts = fewest.emplace_back(model.microBatches.size());
    for (size_t m = 0; m < counts.size(); ++m)
      for (size_t step = 0; step < problem.steps.size(); ++step)
        counts[m].push_back(statistics.fewestMicroBatches(section, section.capacities[m], step));
    double least = std::numeric_limits<double>::infinity();
    for (const RecomputeChoice &recompute : recomputeChoices(problem, s))
      for (uint32_t m = 0; m < model.microBatches.size(); ++m)
        if (problem.pins[s].microBatch.value_or(m) == m)
          least = std::min(least, work(s, recompute, m, 0, static_cast<uint32_t>(section.classOf.size())));
    leastWork.push_back(least);
  }
}

double WorkTable::work(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
                       uint32_t last) const {
  return sums(Of::Step, section, recompute, microBatch).between(first, last);
}

double WorkTable::oneSample(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
                            uint32_t last) const {
  return sums(Of::OneSample, section, recompute, microBatch).between(first, last);
}

double WorkTable::microBatches(uint32_t section, uint32_t microBatch) const {
  const std::vector<double> &counts = fewest[section][microBatch];
  return std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
}

/// Each atom costs what it costs with its own recompute.
const WorkTable::Sums &WorkTable::sums(Of of, uint32_t section, const RecomputeChoice &recompute,
                                       uint32_t microBatch) const {
  auto [found, isNew] = known.try_emplace({of, section, recompute, microBatch});
  if (!isNew)
    return found->second;
  if (recompute.lighter == 0)
    return found->second = sumOfKind(of, section, recompute.most, microBatch);
  const Sums &most = sums(of, section, recompute.most, microBatch);
  const Sums &light = sums(of, section, lighterThan(recompute.most), microBatch);
  auto atoms = static_cast<uint32_t>(most.alone.size());
  Sums &mixed = found->second;
  for (uint32_t atom = 0; atom < atoms; ++atom) {
    const Sums &own = recompute.of(atom, atoms) == recompute.most ? most : light;
    mixed.chained.push_back(mixed.chained.back() + own.chained[atom + 1] - own.chained[atom]);
    mixed.alone.push_back(own.alone[atom]);
  }
  return mixed;
}

WorkTable::Sums WorkTable::sumOfKind(Of of, uint32_t section, Recompute recompute, uint32_t microBatch) const {
  const cost_models::AtomicSection &chain = problem.model.sections[section];
  std::vector<std::pair<double, double>> ofClass;
  for (const cost_models::AtomClass &own : problem.model.classesOf(section, {recompute}))
    ofClass.push_back(atomSeconds(of, section, own, microBatch));
  Sums sums;
  for (size_t atom = 0; atom < chain.classOf.size(); ++atom) {
    const auto &[alone, behind] = ofClass[chain.classOf[atom]];
    bool follows = atom > 0 && chain.classOf[atom] == chain.classOf[atom - 1];
    sums.alone.push_back(alone);
    sums.chained.push_back(sums.chained.back() + (follows ? behind : alone));
  }
  return sums;
}

/// Of an atom at the head of a stage, and behind one of its class.
std::pair<double, double> WorkTable::atomSeconds(Of of, uint32_t section, const cost_models::AtomClass &atoms,
                                                 uint32_t microBatch) const {
  const cost_models::AtomicSection &chain = problem.model.sections[section];
  const cost_models::StageCosts &one = atoms.alone.at[microBatch], &two = atoms.pair.at[microBatch];
  double alone = seconds(of, section, one, microBatch), behind = seconds(of, section, two, microBatch) - alone;
  if (of == Of::Step && one.otherKinds.empty()) {
    size_t tasks = chain.trains ? 2 : 1;
    auto batched = [&](const wavefront::Cost &forward, const wavefront::Cost &backward) {
      const wavefront::Cost *const costs[] = {&forward, &backward};
      return statistics.batchedSeconds(chain, chain.capacities[microBatch], std::span(costs).first(tasks));
    };
    alone = std::max(alone, batched(one.forward, one.backward));
    std::optional<wavefront::Cost> forward = difference(two.forward, one.forward),
                                   backward = difference(two.backward, one.backward);
    if (forward && backward)
      behind = std::max(behind, batched(*forward, *backward));
  }
  return {alone, std::clamp(behind, 0.0, alone)};
}

double WorkTable::seconds(Of of, uint32_t section, const cost_models::StageCosts &costs, uint32_t microBatch) const {
  bool withBackward =
      problem.model.sections[section].trains && !(of == Of::OneSample && mayGainBySplitting(problem, section));
  auto ofTasks = [&](const wavefront::Cost &forward, const wavefront::Cost &backward) {
    return taskSeconds(of, section, forward, microBatch) +
           (withBackward ? taskSeconds(of, section, backward, microBatch) : 0);
  };
  double least = ofTasks(costs.forward, costs.backward);
  for (const cost_models::TaskCosts &kind : costs.otherKinds)
    least = std::min(least, ofTasks(kind.forward, kind.backward));
  return least;
}

double WorkTable::taskSeconds(Of of, uint32_t section, const wavefront::Cost &cost, uint32_t microBatch) const {
  double total = 0;
  for (const wavefront::CostTerm &term : cost.terms) {
    const SampleStatistics::Product &product = statistics.product(problem.model.sections[section], term.dims);
    double factor = static_cast<double>(term.picoseconds) * 1e-12, value = 0;
    for (size_t i = 0; of == Of::Step && i < product.steps.size(); ++i) {
      const SampleStatistics::StepProduct &step = product.steps[i];
      if (step.samples > 0)
        value += (product.isSum ? step.sum : step.largest + (fewest[section][microBatch][i] - 1) * step.least) /
                 static_cast<double>(product.steps.size());
    }
    if (of == Of::OneSample && product.least < std::numeric_limits<double>::infinity())
      value = product.least;
    total += factor * value;
  }
  return total;
}

} // namespace maestro::planner

#include "planner/search/work_table.h"

#include "planner/search/cuts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace maestro::planner {

WorkTable::WorkTable(const SearchProblem &problem) : problem(problem) {
  const AtomicModel &model = problem.model;
  for (uint32_t s = 0; s < model.sections.size(); ++s) {
    const cost_models::AtomicSection &section = model.sections[s];
    auto &counts = fewest.emplace_back(model.microBatches.size());
    for (size_t m = 0; m < counts.size(); ++m)
      for (size_t step = 0; step < problem.steps.size(); ++step)
        counts[m].push_back(fewestMicroBatches(s, section.capacities[m], step));
    double least = std::numeric_limits<double>::infinity();
    for (const RecomputeChoice &recompute : recomputeChoices(problem, s))
      for (uint32_t m = 0; m < model.microBatches.size(); ++m)
        if (problem.pins[s].microBatch.value_or(m) == m)
          least = std::min(least, work(s, recompute, m, 0, static_cast<uint32_t>(section.classOf.size())));
    leastWork.push_back(least);
  }
}

const std::vector<WorkTable::Product> &WorkTable::products(uint32_t section, const std::vector<uint32_t> &dims) const {
  auto [found, isNew] = knownProducts.try_emplace({section, dims});
  if (!isNew)
    return found->second;
  const AtomicModel &model = problem.model;
  wavefront::Section active;
  active.activeDims = model.sections[section].activeDims;
  for (const cost_models::SampleSizes &sizes : problem.steps) {
    Product &own = found->second.emplace_back();
    for (size_t row = 0; row + model.dims.size() <= sizes.size(); row += model.dims.size()) {
      if (!wavefront::takesPart(active, sizes.data() + row))
        continue;
      double value = 1;
      for (uint32_t dim : dims)
        value *= static_cast<double>(wavefront::alone(model.dims[dim], sizes[row + dim]));
      ++own.samples;
      own.sum += value;
      own.largest = std::max(own.largest, value);
      own.least = std::min(own.least, value);
    }
  }
  return found->second;
}

double WorkTable::samples(uint32_t section) const {
  double count = 0;
  for (const Product &step : products(section, {}))
    count += static_cast<double>(step.samples);
  return count / static_cast<double>(problem.steps.size());
}

double WorkTable::fewestMicroBatches(uint32_t section, const cost_models::MicroBatchCapacity &capacity,
                                     size_t step) const {
  double count =
      std::ceil(static_cast<double>(products(section, {})[step].samples) / static_cast<double>(capacity.samples));
  for (const wavefront::Area &area : capacity.areas)
    count = std::max(
        count, std::ceil(products(section, {area.rows, area.padded})[step].sum / static_cast<double>(area.capacity)));
  return count;
}

double WorkTable::work(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
                       uint32_t last) const {
  return sums(section, recompute, microBatch).between(first, last);
}

double WorkTable::microBatches(uint32_t section, uint32_t microBatch) const {
  const std::vector<double> &counts = fewest[section][microBatch];
  return std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
}

/// Each atom costs what it costs with its own recompute.
const WorkTable::Sums &WorkTable::sums(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch) const {
  auto [found, isNew] = known.try_emplace({section, recompute, microBatch});
  if (!isNew)
    return found->second;
  if (recompute.lighter == 0)
    return found->second = sumOfKind(section, {recompute.most, false, recompute.lossChunks}, microBatch);
  auto ofKind = [&](Recompute kind) -> const Sums & {
    return sums(section, {kind, 0, false, recompute.lossChunks}, microBatch);
  };
  const Sums &most = ofKind(recompute.most);
  const Sums &light = ofKind(lighterThan(recompute.most));
  auto atoms = static_cast<uint32_t>(most.alone.size());
  Sums &mixed = found->second;
  for (uint32_t atom = 0; atom < atoms; ++atom) {
    const Sums &own = recompute.of(atom, atoms) == recompute.most ? most : light;
    mixed.chained.push_back(mixed.chained.back() + own.chained[atom + 1] - own.chained[atom]);
    mixed.alone.push_back(own.alone[atom]);
  }
  return mixed;
}

WorkTable::Sums WorkTable::sumOfKind(uint32_t section, const cost_models::Variant &variant, uint32_t microBatch) const {
  const cost_models::AtomicSection &chain = problem.model.sections[section];
  std::vector<std::pair<double, double>> ofClass; // At the head of a stage, and behind one of its class.
  for (const cost_models::AtomClass &own : problem.model.classesOf(section, variant)) {
    double alone = seconds(section, own.alone.at[microBatch], microBatch);
    double behind = seconds(section, own.pair.at[microBatch], microBatch) - alone;
    ofClass.push_back({alone, std::clamp(behind, 0.0, alone)});
  }
  Sums sums;
  for (size_t atom = 0; atom < chain.classOf.size(); ++atom) {
    const auto &[alone, behind] = ofClass[chain.classOf[atom]];
    bool follows = atom > 0 && chain.classOf[atom] == chain.classOf[atom - 1];
    sums.alone.push_back(alone);
    sums.chained.push_back(sums.chained.back() + (follows ? behind : alone));
  }
  return sums;
}

double WorkTable::seconds(uint32_t section, const cost_models::StageCosts &costs, uint32_t microBatch) const {
  bool trains = problem.model.sections[section].trains;
  auto ofTasks = [&](const wavefront::Cost &forward, const wavefront::Cost &backward) {
    return taskSeconds(section, forward, microBatch) + (trains ? taskSeconds(section, backward, microBatch) : 0);
  };
  double least = ofTasks(costs.forward, costs.backward);
  for (const cost_models::TaskCosts &kind : costs.otherKinds)
    least = std::min(least, ofTasks(kind.forward, kind.backward));
  return least;
}

double WorkTable::taskSeconds(uint32_t section, const wavefront::Cost &cost, uint32_t microBatch) const {
  double total = 0;
  for (const wavefront::CostTerm &term : cost.terms) {
    bool isSum = std::ranges::any_of(term.dims, [&](uint32_t dim) { return problem.model.dims[dim].sum; });
    const std::vector<Product> &steps = products(section, term.dims);
    double value = 0;
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps[i].samples > 0)
        value += isSum ? steps[i].sum : steps[i].largest + (fewest[section][microBatch][i] - 1) * steps[i].least;
    total += static_cast<double>(term.picoseconds) * 1e-12 * value / static_cast<double>(steps.size());
  }
  return total;
}

} // namespace maestro::planner

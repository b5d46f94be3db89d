#include "planner/search/critical_path.h"

#include <algorithm>
#include <set>

namespace maestro::planner {
namespace {

double seconds(const wavefront::Cost &cost, const std::vector<int64_t> &row) {
  double total = 0;
  for (const wavefront::CostTerm &term : cost.terms) {
    double value = static_cast<double>(term.picoseconds) * 1e-12;
    for (uint32_t dim : term.dims)
      value *= static_cast<double>(row[dim]);
    total += value;
  }
  return total;
}

/// On the kind of device that takes least.
double seconds(const cost_models::StageCosts &costs, const std::vector<int64_t> &row) {
  double least = seconds(costs.forward, row) + seconds(costs.backward, row);
  for (const cost_models::TaskCosts &kind : costs.otherKinds)
    least = std::min(least, seconds(kind.forward, row) + seconds(kind.backward, row));
  return least;
}

} // namespace

CriticalPaths::CriticalPaths(const SearchProblem &problem)
    : problem(problem), producers(problem.model.sections.size()) {
  const AtomicModel &model = problem.model;
  for (const cost_models::SampleSizes &step : problem.steps) {
    std::set<std::vector<int64_t>> different;
    for (size_t row = 0; row + model.dims.size() <= step.size(); row += model.dims.size()) {
      std::vector<int64_t> sizes;
      for (size_t d = 0; d < model.dims.size(); ++d)
        sizes.push_back(wavefront::alone(model.dims[d], step[row + d]));
      different.insert(std::move(sizes));
    }
    firstRows.push_back(rows.size());
    rows.insert(rows.end(), different.begin(), different.end());
  }
  firstRows.push_back(rows.size());
  for (const cost_models::AtomTensor &tensor : model.tensors)
    for (auto [consumer, atom] : tensor.consumers)
      if (tensor.gradient && consumer != tensor.section && model.sections[tensor.section].trains &&
          model.sections[consumer].trains)
        producers[consumer].push_back(tensor.section);
}

const CriticalPaths::Times &CriticalPaths::of(uint32_t section, const RecomputeChoice &recompute,
                                              uint32_t microBatch) const {
  auto [found, isNew] = known.try_emplace({section, recompute, microBatch});
  if (isNew)
    found->second = measure(section, recompute, microBatch);
  return found->second;
}

/// An atom behind one of its class costs what a pair has more than one, or what one costs where a stage begins with it.
CriticalPaths::Times CriticalPaths::measure(uint32_t section, const RecomputeChoice &recompute,
                                            uint32_t microBatch) const {
  const cost_models::AtomicSection &chain = problem.model.sections[section];
  // Weight gradients need not lie on a sample's way. Where backward may stay whole, its way is longer.
  bool splits = mayGainBySplitting(problem, section) && chain.has(recompute, true);
  std::map<std::pair<Recompute, uint32_t>, std::pair<double, double>>
      counts; // By class: atoms alone, and behind one of theirs.
  for (uint32_t atom = 0; atom < chain.classOf.size(); ++atom) {
    auto &[alone, behind] =
        counts[{recompute.of(atom, static_cast<uint32_t>(chain.classOf.size())), chain.classOf[atom]}];
    ++(atom > 0 && chain.classOf[atom - 1] == chain.classOf[atom] ? behind : alone);
  }
  wavefront::Section rules;
  rules.activeDims = chain.activeDims;
  Times times;
  for (const std::vector<int64_t> &row : rows) {
    double total = 0;
    if (wavefront::takesPart(rules, row.data()))
      for (const auto &[key, count] : counts) {
        const cost_models::AtomClass &own =
            problem.model.classesOf(section, {key.first, splits, recompute.lossChunks})[key.second];
        double one = seconds(own.alone.at[microBatch], row);
        total += count.first * one + count.second * std::clamp(seconds(own.pair.at[microBatch], row) - one, 0.0, one);
      }
    times.push_back(total);
  }
  return times;
}

template <typename Seconds> double CriticalPaths::meanOfLongest(Seconds seconds) const {
  double sum = 0;
  for (size_t step = 0; step + 1 < firstRows.size(); ++step) {
    double most = 0;
    for (size_t row = firstRows[step]; row < firstRows[step + 1]; ++row)
      most = std::max(most, seconds(row));
    sum += most;
  }
  return sum / static_cast<double>(firstRows.size() - 1);
}

double CriticalPaths::longest(const Times &times) const {
  return meanOfLongest([&](size_t row) { return times[row]; });
}

double CriticalPaths::longest(const std::vector<const Times *> &bySection) const {
  std::vector<double> upTo(bySection.size());
  return meanOfLongest([&](size_t row) {
    double most = 0;
    for (size_t s = 0; s < bySection.size(); ++s) { // Producers come before consumers.
      upTo[s] = 0;
      double own = bySection[s] ? (*bySection[s])[row] : 0;
      for (uint32_t producer : producers[s])
        upTo[s] = own > 0 ? std::max(upTo[s], upTo[producer]) : 0;
      upTo[s] += own;
      most = std::max(most, upTo[s]);
    }
    return most;
  });
}

} // namespace maestro::planner

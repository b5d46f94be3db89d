#include "planner/explain/phrases.h"

#include "planner/explain/alternatives.h"
#include "planner/search/pinned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace maestro::planner {

using cost_models::Simulation;

double gib(uint64_t bytes) { return static_cast<double>(bytes) / 0x1p30; }
std::string lacking(uint64_t bytes) { return fmt::format("its fullest device lacks {:.3f} GiB of memory", gib(bytes)); }
double mostOf(const std::vector<double> &values) { return *std::max_element(values.begin(), values.end()); }
size_t busiestOf(const Simulation &simulation) {
  const std::vector<double> &busy = simulation.deviceBusySeconds;
  return static_cast<size_t>(std::max_element(busy.begin(), busy.end()) - busy.begin());
}

std::string difference(const Simulation &chosen, const Simulation &other) {
  double step = other.stepSeconds - chosen.stepSeconds;
  if (std::abs(step) < kSame * chosen.stepSeconds)
    return "as long";
  double work = mostOf(other.deviceBusySeconds) - mostOf(chosen.deviceBusySeconds), wait = step - work;
  const char *longer = step > 0 ? "longer" : "shorter";
  if (std::abs(work) >= std::abs(wait))
    return fmt::format("the busiest device, {}, works {} {}", busiestOf(other), duration(std::abs(work)), longer);
  return fmt::format("the busiest device, {}, waits {} {}", busiestOf(other), duration(std::abs(wait)), longer);
}

Candidate candidateOf(const SearchProblem &problem, const ComparedLayout &row, const Simulation &chosen) {
  std::string name = row.name + (row.isWithoutPins ? " without pins" : "");
  Candidate candidate{Candidate::Kind::Layout, std::move(name), "none", 0, 0, row.inFileOrder, row.what};
  if (row.possible) {
    candidate.choice = row.what;
    candidate.stepSeconds = row.simulation.stepSeconds;
    candidate.reason = difference(chosen, row.simulation);
  } else if (uint64_t missing = missingBytes(row.isWithoutPins ? withoutPins(problem) : problem, row.name)) {
    candidate.missingBytes = missing;
    candidate.reason = lacking(missing);
  }
  return candidate;
}

std::string phraseOfCost(double cost) {
  return cost > 1 + kSame ? fmt::format("the pins cost {:.2f} x", cost) : "the pins cost nothing";
}

std::string duration(double seconds) {
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", seconds * 1e3);
}

} // namespace maestro::planner

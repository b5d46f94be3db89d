// How explanations say what layouts differ in. Internal to explain.
#pragma once

#include "planner/explain/explain.h"

#include <string>
#include <vector>

namespace maestro::planner {

/// Differences below this share of a step are none.
inline constexpr double kSame = 0.005;

double gib(uint64_t bytes);
/// "its fullest device lacks 1.234 GiB of memory"
std::string lacking(uint64_t bytes);
/// The largest of some values.
double mostOf(const std::vector<double> &values);
/// The device that works longest.
size_t busiestOf(const cost_models::Simulation &simulation);
/// What makes the step of one layout longer or shorter than another's: work of the device that has most, or waiting.
std::string difference(const cost_models::Simulation &chosen, const cost_models::Simulation &other);

} // namespace maestro::planner

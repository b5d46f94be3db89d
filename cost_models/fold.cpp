#include "cost_models/fold.h"

#include <algorithm>
#include <numeric>

namespace maestro::cost_models {
namespace {

constexpr uint32_t kNoPart = UINT32_MAX;

/// Whether the parts use devices of their own, each in the same way as the first.
bool fallsApart(const wavefront::Problem &problem, uint32_t parts) {
  std::vector<uint32_t> partOf(problem.devices, kNoPart), twin(problem.devices, kNoPart);
  for (const wavefront::Section &section : problem.sections) {
    size_t share = section.devices.size() / parts;
    for (size_t replica = 0; replica < section.devices.size(); ++replica)
      for (size_t stage = 0; stage < section.stages.size(); ++stage) {
        uint32_t device = section.devices[replica][stage], first = section.devices[replica % share][stage];
        auto part = static_cast<uint32_t>(replica / share);
        if (partOf[device] == kNoPart) {
          partOf[device] = part;
          twin[device] = first;
        } else if (partOf[device] != part || twin[device] != first) {
          return false;
        }
      }
  }
  std::vector<std::pair<uint32_t, uint32_t>> pairs; // One device of a part for each of the first part's.
  for (uint32_t device = 0; device < problem.devices; ++device)
    if (partOf[device] != kNoPart)
      pairs.push_back({partOf[device], twin[device]});
  std::sort(pairs.begin(), pairs.end());
  return std::adjacent_find(pairs.begin(), pairs.end()) == pairs.end();
}

/// What a sample takes alone, in all sections.
double secondsOf(const wavefront::Problem &problem, const int64_t *sizes) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < problem.dims.size(); ++d)
    dims.push_back(wavefront::alone(problem.dims[d], sizes[d]));
  double total = 0;
  for (const wavefront::Section &section : problem.sections)
    if (wavefront::takesPart(section, sizes))
      for (const wavefront::Stage &stage : section.stages)
        total += static_cast<double>(wavefront::evaluate(stage.forward, dims.data())) +
                 (section.trains ? static_cast<double>(wavefront::evaluate(stage.backward, dims.data())) : 0);
  return total;
}

/// One of each `parts` samples, by what they take, from the longest on; in the order in which they are.
std::vector<size_t> everyOther(const wavefront::Problem &problem, uint32_t parts) {
  size_t width = problem.dims.size(), count = std::max<size_t>(1, problem.sampleCount() / parts);
  std::vector<std::pair<double, size_t>> samples;
  for (size_t i = 0; i < problem.sampleCount(); ++i)
    samples.push_back({-secondsOf(problem, problem.sizes.data() + i * width), i});
  std::sort(samples.begin(), samples.end());
  std::vector<size_t> chosen;
  for (size_t i = 0; i < count; ++i)
    chosen.push_back(samples[i * parts].second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

} // namespace

uint32_t equalParts(const wavefront::Problem &problem, uint32_t most) {
  size_t divisor = 0;
  for (const wavefront::Section &section : problem.sections)
    divisor = std::gcd(divisor, section.devices.size());
  for (auto parts = static_cast<uint32_t>(std::min<size_t>(divisor, most)); parts > 1; --parts)
    if (divisor % parts == 0 && fallsApart(problem, parts))
      return parts;
  return 1;
}

wavefront::Problem firstPart(const wavefront::Problem &problem, uint32_t parts) {
  if (parts == 1)
    return problem;
  wavefront::Problem part = problem;
  std::vector<uint32_t> number(problem.devices, kNoPart);
  part.devices = 0;
  for (wavefront::Section &section : part.sections) {
    section.devices.resize(section.devices.size() / parts);
    for (std::vector<uint32_t> &replica : section.devices)
      for (uint32_t &device : replica) {
        if (number[device] == kNoPart)
          number[device] = part.devices++;
        device = number[device];
      }
  }
  part.sizes.clear();
  if (problem.sizes.empty())
    return part;
  for (size_t sample : everyOther(problem, parts)) {
    auto sizes = problem.sizes.begin() + static_cast<ptrdiff_t>(sample * problem.dims.size());
    part.sizes.insert(part.sizes.end(), sizes, sizes + static_cast<ptrdiff_t>(problem.dims.size()));
  }
  return part;
}

} // namespace maestro::cost_models

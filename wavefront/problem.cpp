#include "wavefront/problem.h"

#include <algorithm>
#include <array>
#include <limits>

namespace maestro::wavefront {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr size_t kMaxSamples = size_t{1} << 20, kMaxStages = 4096, kMaxReplicas = size_t{1} << 16;
constexpr size_t kMaxDims = 256, kMaxSections = 4096, kMaxDevices = size_t{1} << 20;
constexpr uint64_t kMaxTasks = uint64_t{1} << 31;

std::string number(int64_t value) { return std::to_string(value); }
std::string number(size_t value) { return std::to_string(value); }

Status fault(const std::string &where, const std::string &what) { return Status::invalidInput(where + ": " + what); }

// Where a fault is, is a function here, spelt only when there is one: the check runs in every step and allocates
// nothing.
template <typename Where> Status checkCost(const Problem &problem, const Cost &cost, const Where &where) {
  for (const CostTerm &term : cost.terms) {
    if (term.picoseconds < 0)
      return fault(where(), "a cost of " + number(term.picoseconds) + " ps; costs are 0 or more");
    for (uint32_t dim : term.dims)
      if (dim >= problem.dims.size())
        return fault(where(), "a cost over dim " + number(size_t{dim}) + " of " + number(problem.dims.size()));
  }
  return Status();
}

Status checkDims(const Problem &problem) {
  if (problem.dims.empty())
    return problem.sizes.empty() ? Status() : fault("sizes", "given without dims");
  if (problem.dims.size() > kMaxDims)
    return fault("problem", number(problem.dims.size()) + " dims; at most " + number(kMaxDims));
  for (const Dim &dim : problem.dims)
    if (dim.multipleOf < 1 || dim.multipleOf > kMaxSize)
      return fault("dim " + dim.name,
                   "a multiple of " + number(dim.multipleOf) + "; allowed are 1 to " + number(kMaxSize));
  if (problem.sizes.size() % problem.dims.size() != 0)
    return fault("sizes",
                 number(problem.sizes.size()) + " values are no multiple of " + number(problem.dims.size()) + " dims");
  if (problem.sampleCount() > kMaxSamples)
    return fault("sizes", number(problem.sampleCount()) + " samples; at most " + number(kMaxSamples) +
                              ": lower train.global_batch");
  for (size_t i = 0; i < problem.sizes.size(); ++i)
    if (problem.sizes[i] < 0 || problem.sizes[i] > kMaxSize)
      return fault("sample " + number(i / problem.dims.size()), problem.dims[i % problem.dims.size()].name + " = " +
                                                                    number(problem.sizes[i]) + " is not in 0 to " +
                                                                    number(kMaxSize));
  return Status();
}

template <typename Where> Status checkStages(const Problem &problem, const Section &section, const Where &where) {
  if (section.stages.empty() || section.stages.size() > kMaxStages)
    return fault(where(), number(section.stages.size()) + " stages; allowed are 1 to " + number(kMaxStages));
  for (size_t s = 0; s < section.stages.size(); ++s) {
    const Stage &stage = section.stages[s];
    auto here = [&] { return where() + ", stage " + number(s); };
    if (stage.slots < 1)
      return fault(here(), "no slot for a micro-batch in flight; at least 1 is needed");
    for (const Cost *cost : {&stage.forward, &stage.backward, &stage.weightGradient, &stage.update})
      MAESTRO_TRY(checkCost(problem, *cost, here));
    for (const CostTerm &term : stage.update.terms)
      if (!term.dims.empty())
        return fault(here(),
                     "the update's cost depends on " + problem.dims[term.dims[0]].name + "; it may only be constant");
  }
  return Status();
}

template <typename Where> Status checkDevices(const Problem &problem, const Section &section, const Where &where) {
  if (section.devices.empty() || section.devices.size() > kMaxReplicas)
    return fault(where(), number(section.devices.size()) + " replicas; allowed are 1 to " + number(kMaxReplicas));
  for (size_t r = 0; r < section.devices.size(); ++r) {
    if (section.devices[r].size() != section.stages.size())
      return fault(where() + ", replica " + number(r),
                   number(section.devices[r].size()) + " devices for " + number(section.stages.size()) + " stages");
    for (uint32_t device : section.devices[r])
      if (device >= problem.devices)
        return fault(where() + ", replica " + number(r),
                     "device " + number(size_t{device}) + " of " + number(size_t{problem.devices}));
  }
  return Status();
}

template <typename Where> Status checkAreas(const Problem &problem, const Section &section, const Where &where) {
  for (const Area &area : section.areas) {
    for (uint32_t dim : {area.rows, area.padded})
      if (dim >= problem.dims.size())
        return fault(where(), "an area over dim " + number(size_t{dim}) + " of " + number(problem.dims.size()));
    if (!problem.dims[area.rows].sum || problem.dims[area.padded].sum)
      return fault(where(), "an area of " + problem.dims[area.rows].name + " and " + problem.dims[area.padded].name +
                                "; the first must be a sum, the second a maximum");
  }
  return Status();
}

/// Each active sample must fit a micro-batch of its own.
template <typename Where> Status checkSamples(const Problem &problem, const Section &section, const Where &where) {
  size_t dims = problem.dims.size();
  for (size_t sample = 0; sample < problem.sampleCount(); ++sample) {
    const int64_t *sizes = problem.sizes.data() + sample * dims;
    if (!takesPart(section, sizes))
      continue;
    for (size_t d = 0; d < dims; ++d)
      if (alone(problem.dims[d], sizes[d]) > section.capacity[d])
        return fault("sample " + number(sample) + " of the batch",
                     problem.dims[d].name + " = " + number(alone(problem.dims[d], sizes[d])) +
                         " exceeds the capacity " + number(section.capacity[d]) + " of a micro-batch of " + where() +
                         "; raise dims." + problem.dims[d].name + ".max and plan again");
    for (const Area &area : section.areas) {
      const Dim &rows = problem.dims[area.rows], &padded = problem.dims[area.padded];
      int64_t height = alone(rows, sizes[area.rows]), length = alone(padded, sizes[area.padded]);
      if (height != 0 && length > area.capacity / height)
        return fault("sample " + number(sample) + " of the batch",
                     rows.name + " = " + number(height) + " times " + padded.name + " = " + number(length) +
                         " exceeds the capacity " + number(area.capacity) + " of a micro-batch of " + where() +
                         "; raise dims." + rows.name + ".max or dims." + padded.name + ".max and plan again");
    }
  }
  return Status();
}

/// What a section does in an unpadded dim has a size only where its samples agree.
template <typename Where>
Status checkUnpadded(const Problem &problem, const Section &section, const Cost &cost, const Where &where) {
  for (const CostTerm &term : cost.terms)
    for (uint32_t dim : term.dims)
      if (problem.dims[dim].unpadded && !isUnpadded(section, dim))
        return fault(where(), "a cost in " + problem.dims[dim].name +
                                  ", which is unpadded, and micro-batches of samples that differ in it");
  return Status();
}

Status checkSection(const Problem &problem, const Section &section) {
  auto where = [&] { return "section " + section.name; };
  if (section.maxSamples < 1)
    return fault(where(), "a micro-batch must hold at least 1 sample, not " + number(section.maxSamples));
  if (section.splitsBackward && !section.trains)
    return fault(where(), "splits a backward that it does not have");
  if (section.capacity.size() != problem.dims.size())
    return fault(where(), number(section.capacity.size()) + " capacities for " + number(problem.dims.size()) + " dims");
  for (uint32_t dim : section.activeDims)
    if (dim >= problem.dims.size())
      return fault(where(), "depends on dim " + number(size_t{dim}) + " of " + number(problem.dims.size()));
  for (uint32_t dim : section.unpadded)
    if (dim >= problem.dims.size() || !problem.dims[dim].unpadded || problem.dims[dim].sum ||
        problem.dims[dim].multipleOf != 1)
      return fault(where(), "holds samples of equal dim " + number(size_t{dim}) + ", which is no unpadded maximum of " +
                                number(problem.dims.size()));
  MAESTRO_TRY(checkAreas(problem, section, where));
  MAESTRO_TRY(checkStages(problem, section, where));
  for (const Stage &stage : section.stages)
    for (const Cost *cost : {&stage.forward, &stage.backward, &stage.weightGradient})
      MAESTRO_TRY(checkUnpadded(problem, section, *cost, where));
  MAESTRO_TRY(checkDevices(problem, section, where));
  return checkSamples(problem, section, where);
}

Status checkEdge(const Problem &problem, const Edge &edge, size_t index) {
  auto nameless = [&] { return "edge " + number(index); };
  if (edge.producer >= problem.sections.size() || edge.consumer >= problem.sections.size())
    return fault(nameless(), "joins sections " + number(size_t{edge.producer}) + " and " +
                                 number(size_t{edge.consumer}) + " of " + number(problem.sections.size()));
  const Section &producer = problem.sections[edge.producer], &consumer = problem.sections[edge.consumer];
  auto where = [&] { return nameless() + " from " + producer.name + " to " + consumer.name; };
  if (edge.producerStage >= producer.stages.size() || edge.consumerStage >= consumer.stages.size())
    return fault(where(), "joins stages " + number(size_t{edge.producerStage}) + " and " +
                              number(size_t{edge.consumerStage}) + " of " + number(producer.stages.size()) + " and " +
                              number(consumer.stages.size()));
  if (edge.producer > edge.consumer || (edge.producer == edge.consumer && edge.producerStage >= edge.consumerStage))
    return fault(where(), "leads backwards; producers stand before consumers");
  if (edge.depth < 1 || edge.gradientDepth < 1)
    return fault(where(), "a ring without slots; at least 1 is needed");
  if (edge.gradient && !(producer.trains && consumer.trains))
    return fault(where(),
                 "carries gradients, and " + (producer.trains ? consumer : producer).name + " has no backward");
  MAESTRO_TRY(checkCost(problem, edge.transfer, where));
  MAESTRO_TRY(checkCost(problem, edge.gradientTransfer, where));
  MAESTRO_TRY(checkUnpadded(problem, producer, edge.transfer, where));
  return checkUnpadded(problem, consumer, edge.gradientTransfer, where);
}

Status checkHints(const Problem &problem) {
  for (const Choice &hint : problem.hints)
    for (const ChoicePart &part : choiceParts())
      if (int64_t value = part.get(hint); value < part.min || value > part.max)
        return fault("hint", std::string(part.name) + " " + number(value) + " is not in [" + number(part.min) + ", " +
                                 number(part.max) + "]");
  return Status();
}

int64_t product(int64_t left, int64_t right) { return right != 0 && left > kMaxNs / right ? kMaxNs : left * right; }

/// All tasks and transfers one after the other, each as long as the largest micro-batch makes it, must stay within an
/// int64_t, so that no sum of times anywhere can overflow.
Status checkMagnitude(const Problem &problem) {
  int64_t samples = static_cast<int64_t>(problem.sampleCount());
  uint64_t tasks = 0;
  int64_t total = 0;
  std::array<int64_t, kMaxDims> all{};
  size_t dims = problem.dims.size();
  for (int64_t sample = 0; sample < samples; ++sample)
    for (size_t d = 0; d < dims; ++d)
      all[d] = combineLargest(problem.dims[d], all[d], problem.sizes[static_cast<size_t>(sample) * dims + d]);
  auto add = [&](const Cost &cost) { total = std::min(kMaxNs, total + product(evaluate(cost, all.data()), samples)); };
  auto holdDims = [&](const Section &section) {
    for (size_t d = 0; d < dims; ++d)
      all[d] = std::min(all[d], section.capacity[d]);
  };
  std::array<int64_t, kMaxDims> whole = all;
  for (const Section &section : problem.sections) {
    all = whole;
    holdDims(section);
    for (const Stage &stage : section.stages) {
      for (const Cost *cost : {&stage.forward, &stage.backward, &stage.weightGradient, &stage.update})
        add(*cost);
      tasks += static_cast<uint64_t>(samples) * 3;
    }
    if (total >= kMaxNs)
      return fault("section " + section.name,
                   "a step's tasks could take more than " + number(kMaxNs) + " ns; the costs or sizes are wrong");
  }
  for (size_t e = 0; e < problem.edges.size(); ++e) {
    const Edge &edge = problem.edges[e];
    all = whole;
    holdDims(problem.sections[edge.producer]);
    add(edge.transfer);
    all = whole;
    holdDims(problem.sections[edge.consumer]);
    add(edge.gradientTransfer);
    if (total >= kMaxNs)
      return fault("edge " + number(e),
                   "a step's transfers could take more than " + number(kMaxNs) + " ns; the costs or sizes are wrong");
  }
  if (tasks > kMaxTasks)
    return fault("problem",
                 number(static_cast<size_t>(tasks)) + " tasks; at most " + number(static_cast<size_t>(kMaxTasks)));
  return Status();
}

} // namespace

Status check(const Problem &problem) {
  if (problem.sections.size() > kMaxSections || problem.devices > kMaxDevices)
    return fault("problem", number(problem.sections.size()) + " sections on " + number(size_t{problem.devices}) +
                                " devices; at most " + number(kMaxSections) + " and " + number(kMaxDevices));
  MAESTRO_TRY(checkDims(problem));
  for (const Section &section : problem.sections)
    MAESTRO_TRY(checkSection(problem, section));
  for (size_t e = 0; e < problem.edges.size(); ++e)
    MAESTRO_TRY(checkEdge(problem, problem.edges[e], e));
  MAESTRO_TRY(checkHints(problem));
  return checkMagnitude(problem);
}

} // namespace maestro::wavefront

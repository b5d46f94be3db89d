#include "planner/driver/finer_sizes.h"

#include "planner/emit/micro_batch_limits.h"

#include <algorithm>

namespace maestro::planner {
namespace {

using cost_models::AtomicModel;
using cost_models::AtomicSection;
using cost_models::MicroBatchCapacity;

/// As a plan with so many samples would have it (emit/micro_batch_limits.h).
MicroBatchCapacity capacityOf(const AtomicModel &model, const AtomicSection &section, const GraphSummary &graph,
                              int64_t globalBatch, int64_t samples) {
  SectionLayout layout;
  layout.microBatch = model.microBatches.front();
  layout.mostSamples = samples;
  std::vector<std::string> activeDims;
  for (uint32_t dim : section.activeDims)
    activeDims.push_back(model.dims[dim].name);
  MicroBatchLimits limits = limitsOf(graph, layout, activeDims, globalBatch);
  MicroBatchCapacity capacity = section.capacities.front();
  capacity.samples = std::min(capacity.samples, limits.samples);
  for (size_t d = 0; d < model.dims.size(); ++d)
    if (auto bound = limits.bounds.find(model.dims[d].name); bound != limits.bounds.end())
      capacity.dims[d] = std::min(capacity.dims[d], bound->second);
  if (limits.capacity.areas.empty())
    capacity.areas.clear();
  return capacity;
}

template <typename T> void repeatFirst(std::vector<T> &values, size_t times) {
  if (!values.empty())
    values.insert(values.begin(), times, T(values.front()));
}

void repeatFirst(AtomicModel &model, size_t times) {
  repeatFirst(model.microBatches, times);
  model.costs = model.costs->changed([times](cost_models::AtomClass &own) {
    repeatFirst(own.alone.at, times);
    repeatFirst(own.pair.at, times);
  });
  for (cost_models::AtomTensor &tensor : model.tensors) {
    repeatFirst(tensor.slotBytes, times);
    for (auto &[section, bytes] : tensor.slotBytesOf)
      repeatFirst(bytes, times);
  }
}

} // namespace

std::vector<int64_t> addFinerSizes(AtomicModel &model, const GraphSummary &graph, int64_t globalBatch) {
  int64_t most = 0;
  for (const AtomicSection &section : model.sections)
    most = std::max(most, section.capacities.front().samples);
  std::vector<int64_t> sizes;
  for (int64_t samples = model.microBatches.front(); samples < most; samples *= 2)
    sizes.push_back(samples);
  for (AtomicSection &section : model.sections) {
    std::vector<MicroBatchCapacity> finer;
    for (int64_t samples : sizes)
      finer.push_back(capacityOf(model, section, graph, globalBatch, samples));
    section.capacities.insert(section.capacities.begin(), finer.begin(), finer.end());
  }
  repeatFirst(model, sizes.size());
  sizes.resize(model.microBatches.size(), 0);
  return sizes;
}

} // namespace maestro::planner

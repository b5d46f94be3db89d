#include "planner/search/sample_statistics.h"

#include <algorithm>
#include <cmath>

namespace maestro::planner {

/// Visits a pointer to each sample's sizes.
template <typename Visit>
void SampleStatistics::forEachSample(const cost_models::AtomicSection &section, size_t step, Visit visit) const {
  wavefront::Section active;
  active.activeDims = section.activeDims;
  const cost_models::SampleSizes &sizes = steps[step];
  for (size_t row = 0; row + model.dims.size() <= sizes.size(); row += model.dims.size())
    if (wavefront::takesPart(active, sizes.data() + row))
      visit(sizes.data() + row);
}

const SampleStatistics::Product &SampleStatistics::product(const cost_models::AtomicSection &section,
                                                           const std::vector<uint32_t> &dims) const {
  auto [found, isNew] = products.try_emplace({section.activeDims, dims});
  Product &product = found->second;
  if (!isNew)
    return product;
  for (uint32_t dim : dims)
    product.isSum |= model.dims[dim].sum;
  for (size_t step = 0; step < steps.size(); ++step) {
    StepProduct &own = product.steps.emplace_back();
    forEachSample(section, step, [&](const int64_t *sizes) {
      double value = 1;
      for (uint32_t dim : dims)
        value *= static_cast<double>(wavefront::alone(model.dims[dim], sizes[dim]));
      ++own.samples;
      own.sum += value;
      own.largest = std::max(own.largest, value);
      own.least = std::min(own.least, value);
    });
  }
  return product;
}

double SampleStatistics::samples(const cost_models::AtomicSection &section) const {
  double count = 0;
  for (const StepProduct &step : product(section, {}).steps)
    count += static_cast<double>(step.samples);
  return count / static_cast<double>(steps.size());
}

double SampleStatistics::fewestMicroBatches(const cost_models::AtomicSection &section,
                                            const cost_models::MicroBatchCapacity &capacity, size_t step) const {
  double count =
      std::ceil(static_cast<double>(product(section, {}).steps[step].samples) / static_cast<double>(capacity.samples));
  for (const wavefront::Area &area : capacity.areas) {
    double tokens = product(section, {area.rows, area.padded}).steps[step].sum;
    count = std::max(count, std::ceil(tokens / static_cast<double>(area.capacity)));
  }
  return count;
}

} // namespace maestro::planner

#include "planner/search/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>

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

/// Micro-batches of one row a sample. Ordered by their longest sample, the first g of any micro-batches hold no more
/// samples than the first g of these: what is left over for the next one is no shorter there, and the longer a
/// micro-batch's longest sample, the fewer it holds.
double SampleStatistics::fewestPadded(const cost_models::AtomicSection &section, const wavefront::Area &area,
                                      int64_t samples, size_t step) const {
  const StepProduct &rowCounts = product(section, {area.rows}).steps[step];
  if (rowCounts.largest > 1 || rowCounts.sum < static_cast<double>(rowCounts.samples))
    return 0;
  std::vector<double> lengths;
  forEachSample(section, step, [&](const int64_t *sizes) {
    lengths.push_back(static_cast<double>(wavefront::alone(model.dims[area.padded], sizes[area.padded])));
  });
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  double count = 0, most = static_cast<double>(samples), tokens = static_cast<double>(area.capacity);
  for (size_t first = 0; first < lengths.size(); ++count)
    first += static_cast<size_t>(std::clamp(std::floor(tokens / lengths[first]), 1.0, most));
  return count;
}

double SampleStatistics::fewestMicroBatches(const cost_models::AtomicSection &section,
                                            const cost_models::MicroBatchCapacity &capacity, size_t step) const {
  double count =
      std::ceil(static_cast<double>(product(section, {}).steps[step].samples) / static_cast<double>(capacity.samples));
  for (const wavefront::Area &area : capacity.areas) {
    double tokens = product(section, {area.rows, area.padded}).steps[step].sum;
    count = std::max({count, std::ceil(tokens / static_cast<double>(area.capacity)),
                      fewestPadded(section, area, capacity.samples, step)});
  }
  return count;
}

} // namespace maestro::planner

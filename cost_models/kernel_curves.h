// Measured times of kernels by size, interpolated between the sizes.
//
//   products   rate over a grid of m × n × k, linear in the logarithms of sizes and rate; the grid's edge outside it
//   others     time over work (bytes; floating point operations for attention), linear in the logarithms; outside in proportion
#pragma once

#include "base/status.h"
#include "cost_models/units.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::cost_models {

struct ProductSample {
  double m = 0, n = 0, k = 0;
  Seconds time;
};

struct WorkSample {
  double work = 0; ///< Above 0.
  Seconds time;    ///< Above 0.
};

/// Of one device with a number of threads.
class KernelCurves {
public:
  /// InvalidInput unless the samples are all points of a grid, each once, with times above 0.
  Status addProducts(const std::string &name, std::vector<ProductSample> samples);
  /// InvalidInput for no samples, equal work, or values not above 0.
  Status addCurve(const std::string &name, std::vector<WorkSample> samples);
  bool isEmpty() const { return products.empty() && curves.empty(); }

  /// "matmul f32": of m × k by k × n; nothing where no such grid was measured.
  std::optional<Seconds> productTime(std::string_view name, double m, double n, double k) const;
  /// "add": of so much work; nothing where no such curve was measured.
  std::optional<Seconds> timeOf(std::string_view name, double work) const;

  struct Grid {
    std::vector<double> m, n, k;       ///< Ascending.
    std::vector<double> logRates;      ///< m × n × k, of flops a second.
  };
  const std::map<std::string, Grid, std::less<>> &grids() const { return products; }
  const std::map<std::string, std::vector<WorkSample>, std::less<>> &workCurves() const { return curves; }

private:
  std::map<std::string, Grid, std::less<>> products;
  std::map<std::string, std::vector<WorkSample>, std::less<>> curves; ///< Ascending work.
};

/// Which curve stands for a kernel: its own, or that of the measured kernel that is most like it.
std::string_view curveOf(std::string_view kernel);
/// Whether its curve is over floating point operations.
bool isByFlops(std::string_view curve);

} // namespace maestro::cost_models

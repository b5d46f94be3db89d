// Measured times of kernels by size, interpolated between the sizes.
//
//   grids      2 m n k ÷ time over a grid of m × n × k, linear in the logarithms of sizes and rate; the grid's edge outside it:
//              products (m × k by k × n; convolutions as products of their patches with their filters), attention (m queries of
//              all heads, n keys, depth k), rows (m of width n, k 1)
//   shapes     of a grid's kernel, at sizes beside the grid: how much longer than the grid says, fading within an octave. Rates jump where
//              rows are a power of two apart, between 96 and 128 as between 256 and 512
//   curves     time over bytes, linear in the logarithms; outside in proportion
#pragma once

#include "base/status.h"
#include "cost_models/units.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::cost_models {

struct GridSample {
  double m = 0, n = 0, k = 0;
  Seconds time;
};

struct CurveSample {
  double bytes = 0; ///< Above 0.
  Seconds time;    ///< Above 0.
};

/// Of one device with a number of threads.
class KernelCurves {
public:
  /// InvalidInput unless the samples are all points of a grid, each once, with times above 0.
  Status addGrid(const std::string &name, std::vector<GridSample> samples);
  /// InvalidInput without a grid of this name, or for values not above 0.
  Status addShapes(const std::string &name, std::vector<GridSample> samples);
  /// InvalidInput for no samples, equal sizes, or values not above 0.
  Status addCurve(const std::string &name, std::vector<CurveSample> samples);
  bool isEmpty() const { return grids.empty() && curves.empty(); }

  /// "matmul f32": at m, n, k, by grid and shapes; nothing where no such grid was measured.
  std::optional<Seconds> gridTime(std::string_view name, double m, double n, double k) const;
  /// "add": of so many bytes; nothing where no such curve was measured.
  std::optional<Seconds> curveTime(std::string_view name, double bytes) const;

  struct Grid {
    std::vector<double> m, n, k;       ///< Ascending.
    std::vector<double> logRates;      ///< m × n × k, of 2 m n k ÷ seconds.
    std::vector<GridSample> shapes;    ///< Measured beside the grid,
    std::vector<double> logExcess;     ///< and for each the logarithm of its time over the grid's.
    double logRate(double m, double n, double k) const; ///< Of the grid alone.
    double excess(double m, double n, double k) const;  ///< By the shapes that are near.
  };
  const std::map<std::string, Grid, std::less<>> &allGrids() const { return grids; }
  const std::map<std::string, std::vector<CurveSample>, std::less<>> &allCurves() const { return curves; }

private:
  std::map<std::string, Grid, std::less<>> grids;
  std::map<std::string, std::vector<CurveSample>, std::less<>> curves; ///< Ascending bytes.
};

/// Which grid or curve stands for a kernel: its own, or that of the measured kernel that is most like it.
std::string_view curveOf(std::string_view kernel, bool bf16);
/// What stands for a curve in profiles that lack it; nothing: empty.
std::string_view standInOf(std::string_view curve);
/// Whether maestro-profile measures it over a grid.
bool isGrid(std::string_view curve);

} // namespace maestro::cost_models

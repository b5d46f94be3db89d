// Measured times of kernels by size, interpolated between the sizes.
//
//   grids      2 m n k ÷ time over a grid of m × n × k, linear in the logarithms of sizes and rate; the grid's edge
//   outside it:
//              products (m × k by k × n; convolutions as products of their patches with their filters), attention (m
//              queries of all heads, n keys, depth k), rows (m of width n, k 1)
//   curves     time over bytes, linear in the logarithms; outside in proportion
//   calls      of any kernel, as plans' own programs make them: how much longer than grids and curves say, fading with
//   the distance. Rates
//              jump where rows are a power of two apart, between 96 and 128 as between 256 and 512; operands come from
//              where the calls before left them; and most kernels have no grid or curve of their own
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
  Seconds time;     ///< Above 0.
};

/// Sizes as KernelWork has them.
struct CallSample {
  double m = 1, n = 1, k = 1, bytes = 0; ///< Each above 0.
  Seconds time;                          ///< Above 0; of one of its products, where it makes several.
};

/// Of one device with a number of threads.
class KernelCurves {
public:
  /// InvalidInput unless the samples are all points of a grid, each once, with times above 0.
  Status addGrid(const std::string &name, std::vector<GridSample> samples);
  /// InvalidInput for no samples, equal sizes, or values not above 0.
  Status addCurve(const std::string &name, std::vector<CurveSample> samples);
  /// Of a kernel (callsOf()). InvalidInput where no grid or curve stands for it yet, or for values not above 0.
  Status addCalls(const std::string &name, std::vector<CallSample> samples);
  bool isEmpty() const { return grids.empty() && curves.empty(); }

  /// Of one call of so much work: by the first grid or curve of those that stand for the kernel, and by calls of its
  /// kind that are near. Nothing where none was measured.
  std::optional<Seconds> time(std::string_view kernel, bool bf16, const CallSample &work) const;

  /// "matmul f32": at m, n, k; nothing where no such grid was measured.
  std::optional<Seconds> gridTime(std::string_view name, double m, double n, double k) const;
  /// "add": of so many bytes; nothing where no such curve was measured.
  std::optional<Seconds> curveTime(std::string_view name, double bytes) const;

  struct Grid {
    std::vector<double> m, n, k;  ///< Ascending.
    std::vector<double> logRates; ///< m × n × k, of 2 m n k ÷ seconds.
    double logRate(double m, double n, double k) const;
  };
  struct Calls {
    std::vector<CallSample> samples;
    std::vector<double> logExcess; ///< For each, the logarithm of its time over what grids and curves say.
    double excess(const CallSample &work) const; ///< By those that are near.
  };
  const std::map<std::string, Grid, std::less<>> &allGrids() const { return grids; }
  const std::map<std::string, std::vector<CurveSample>, std::less<>> &allCurves() const { return curves; }
  const std::map<std::string, Calls, std::less<>> &allCalls() const { return calls; }

private:
  std::optional<Seconds> standInTime(std::string_view curve, const CallSample &work) const;

  std::map<std::string, Grid, std::less<>> grids;
  std::map<std::string, std::vector<CurveSample>, std::less<>> curves; ///< Ascending bytes.
  std::map<std::string, Calls, std::less<>> calls;
};

/// "mul", "matmul bf16": what calls of a kernel are called.
std::string callsOf(std::string_view kernel, bool bf16);

/// Which grid or curve stands for a kernel: its own, or that of the measured kernel that is most like it.
std::string_view curveOf(std::string_view kernel, bool bf16);
/// What stands for a curve in profiles that lack it; nothing: empty.
std::string_view standInOf(std::string_view curve);
/// Whether maestro-profile measures it over a grid.
bool isGrid(std::string_view curve);

} // namespace maestro::cost_models

#include "planner/search/divisible_work.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace maestro::planner {
namespace {

/// So much of all work is all of it.
constexpr double kNearly = 1 - 1e-6;

template <typename Visit> void forEachFixed(const ReplicatedWork &own, Visit visit) {
  for (const std::vector<uint32_t> &replica : own.devices)
    for (size_t stage = 0; stage < own.fixed.size(); ++stage)
      visit(replica[stage], own.fixed[stage]);
}

/// Largest part of all work that can be done: maximize it, where no device does more than it has time for, and no
/// section's samples, and no stage's rest, have a smaller part in all replicas together. A dictionary: basic variables,
/// one a row, in terms of the others.
class Program {
public:
  Program(SharedWork work, uint32_t devices, double seconds, bool withFixed)
      : seconds(seconds), columns(1), rows(devices), limits(devices, 1.0) {
    for (const ReplicatedWork *section : work) {
      const ReplicatedWork &own = *section;
      if (withFixed)
        forEachFixed(own, [&](uint32_t device, double time) { limits[device] -= time / seconds; });
      addParts(own, [&](size_t replica, auto visit) {
        for (size_t stage = 0; stage < own.alike.size(); ++stage)
          visit(own.devices[replica][stage], own.alike[stage]);
      });
      for (size_t stage = 0; stage < own.rest.size(); ++stage)
        addParts(own, [&](size_t replica, auto visit) { visit(own.devices[replica][stage], own.rest[stage]); });
    }
    gain.assign(columns, 0.0);
    gain[0] = 1;
    for (std::vector<double> &row : rows)
      row.resize(columns, 0.0);
    variables.resize(columns + rows.size());
    std::iota(variables.begin(), variables.end(), size_t{0});
  }

  /// With more fixed work than it has time for.
  std::optional<uint32_t> overloaded(uint32_t devices) const {
    auto least = std::min_element(limits.begin(), limits.begin() + devices);
    return least != limits.begin() + devices && *least < 0
               ? std::optional(static_cast<uint32_t>(least - limits.begin()))
               : std::nullopt;
  }

  bool isAll() {
    for (size_t pivots = 0; done < kNearly; ++pivots) {
      size_t entering = static_cast<size_t>(std::max_element(gain.begin(), gain.end()) - gain.begin());
      if (gain[entering] <= kLeast)
        return false;
      if (pivots > 8 * (rows.size() + columns)) // It circles, where many rows are at their limits; not seen.
        return true;
      size_t leaving = rows.size();
      double least = std::numeric_limits<double>::infinity();
      for (size_t row = 0; row < rows.size(); ++row)
        if (double slope = rows[row][entering]; slope > kLeast && limits[row] / slope < least)
          least = limits[row] / slope, leaving = row;
      if (leaving == rows.size())
        return true;
      pivot(entering, leaving);
    }
    return true;
  }

  /// Of a device's seconds, once no part can grow: by how much all would, were there one more.
  std::vector<double> prices(uint32_t devices) const {
    std::vector<double> found(devices, 0.0);
    for (size_t column = 0; column < columns; ++column)
      if (size_t variable = variables[column]; variable >= columns && variable < columns + devices)
        found[variable - columns] = std::max(0.0, -gain[column]);
    return found;
  }

private:
  static constexpr double kLeast = 1e-11;

  /// A column for each replica's part, and a row that says that all together are no less than the part of all work.
  template <typename ForEachStage> void addParts(const ReplicatedWork &own, ForEachStage forEachStage) {
    double most = 0;
    for (size_t replica = 0; replica < own.devices.size(); ++replica)
      forEachStage(replica, [&](uint32_t, double time) { most = std::max(most, time); });
    if (most <= 1e-6 * seconds)
      return;
    std::vector<double> together(columns + own.devices.size(), 0.0);
    together[0] = 1;
    for (size_t replica = 0; replica < own.devices.size(); ++replica, ++columns) {
      forEachStage(replica, [&](uint32_t device, double time) {
        rows[device].resize(columns + 1, 0.0);
        rows[device][columns] += time / seconds;
      });
      together[columns] = -1;
    }
    rows.push_back(std::move(together));
    limits.push_back(1e-9 * static_cast<double>(rows.size())); // Not 0, so that each pivot gains something.
  }

  void pivot(size_t entering, size_t leaving) {
    std::vector<double> &own = rows[leaving];
    std::swap(variables[entering], variables[columns + leaving]);
    double scale = 1 / own[entering];
    own[entering] = 1;
    for (double &value : own)
      value *= scale;
    limits[leaving] *= scale;
    auto eliminate = [&](std::vector<double> &row, double &limit) {
      double factor = std::exchange(row[entering], 0.0);
      if (factor == 0)
        return;
      for (size_t column = 0; column < columns; ++column)
        row[column] -= factor * own[column];
      limit -= factor * limits[leaving];
    };
    for (size_t row = 0; row < rows.size(); ++row)
      if (row != leaving)
        eliminate(rows[row], limits[row]);
    double left = -done;
    eliminate(gain, left);
    done = -left;
  }

  double seconds;
  size_t columns;                        ///< The part of all work first.
  std::vector<std::vector<double>> rows; ///< Devices first.
  std::vector<double> limits, gain;      ///< By row; by column.
  std::vector<size_t> variables;         ///< Of columns, then of rows: parts first, then what each row has left.
  double done = 0;                       ///< The part of all work.
};

} // namespace

Division divide(SharedWork work, uint32_t devices, double seconds, bool withFixed) {
  Program program(work, devices, seconds, withFixed);
  if (std::optional<uint32_t> device = program.overloaded(devices)) {
    std::vector<double> prices(devices, 0.0);
    prices[*device] = 1;
    return {false, std::move(prices)};
  }
  if (program.isAll())
    return {};
  return {false, program.prices(devices)};
}

bool isTooDear(SharedWork work, uint32_t devices, double seconds, const std::vector<double> &prices, bool withFixed) {
  double all = 0;
  auto priceOf = [&](uint32_t device) { return device < prices.size() ? prices[device] : 0; };
  for (const ReplicatedWork *own : work) {
    double cheapest = std::numeric_limits<double>::infinity();
    for (const std::vector<uint32_t> &replica : own->devices) {
      double alike = 0;
      for (size_t stage = 0; stage < replica.size(); ++stage)
        alike += priceOf(replica[stage]) * own->alike[stage];
      cheapest = std::min(cheapest, alike);
    }
    all += cheapest;
    if (withFixed)
      forEachFixed(*own, [&](uint32_t device, double time) { all += priceOf(device) * time; });
    for (size_t stage = 0; stage < own->rest.size(); ++stage) {
      double rest = std::numeric_limits<double>::infinity();
      for (const std::vector<uint32_t> &replica : own->devices)
        rest = std::min(rest, priceOf(replica[stage]));
      all += rest * own->rest[stage];
    }
  }
  return all * kNearly >
         seconds *
             std::accumulate(prices.begin(), prices.begin() + std::min<int64_t>(devices, std::ssize(prices)), 0.0);
}

} // namespace maestro::planner

// Which source each sample of a mixture is from: a function of the weights and the sample's number alone.
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace maestro::data {

/// Weights become shares of kCycle, and every kCycle samples the turns repeat, so that how often a source was read
/// follows from the number of samples alone.
class Turns {
public:
  static constexpr uint64_t kCycle = 4096;

  /// InvalidInput where a source's weight is so small that it would never be read.
  static Result<Turns> create(std::span<const double> weights);

  struct Turn {
    size_t source = 0;
    uint64_t count = 0; ///< How often it had its turn before.
  };
  Turn of(uint64_t sample) const;

private:
  Turns() = default;
  std::vector<Turn> turns;
  std::vector<uint64_t> shares;
};

} // namespace maestro::data

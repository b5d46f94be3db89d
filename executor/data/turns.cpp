#include "executor/data/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace maestro::data {

Result<Turns> Turns::create(std::span<const double> weights) {
  Turns made;
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> due(weights.size(), 0);
  made.shares.resize(weights.size(), 0);
  for (uint64_t turn = 0; turn < kCycle; ++turn) { // Whoever lacks most.
    for (size_t i = 0; i < weights.size(); ++i)
      due[i] += weights[i] / sum;
    auto next = static_cast<size_t>(std::max_element(due.begin(), due.end()) - due.begin());
    due[next] -= 1;
    made.turns.push_back({next, made.shares[next]++});
  }
  for (size_t i = 0; i < weights.size(); ++i)
    if (made.shares[i] == 0)
      return Status::invalidInput(fmt::format(
          "source {} of --data has less than 1/{} of all weights; give it more, or leave it out", i, kCycle));
  return made;
}

Turns::Turn Turns::of(uint64_t sample) const {
  Turn turn = turns[sample % kCycle];
  turn.count += sample / kCycle * shares[turn.source];
  return turn;
}

} // namespace maestro::data

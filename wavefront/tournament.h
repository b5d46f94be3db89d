// Whose time comes first, of players whose times change one at a time: a tournament, replayed from the changed one up.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace maestro::wavefront {

/// As deep for every player, so that no branch depends on the times. Keeps its memory.
class Tournament {
public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  /// All players' times are `never`.
  void reset(uint32_t players) {
    for (leaves = 1; leaves < players; leaves *= 2) {
    }
    times.assign(leaves, kNever);
    winners.resize(2 * leaves);
    for (uint32_t i = 0; i < leaves; ++i)
      winners[leaves + i] = i;
    for (uint32_t i = leaves; i-- > 1;)
      winners[i] = winners[2 * i];
  }

  void set(uint32_t player, int64_t time) {
    times[player] = time;
    for (uint32_t node = leaves + player; node > 1; node /= 2) {
      uint32_t other = winners[node ^ 1];
      int64_t others = times[other];
      player = others < time ? other : player;
      time = others < time ? others : time;
      winners[node / 2] = player;
    }
  }

  int64_t at(uint32_t player) const { return times[player]; }
  uint32_t first() const { return winners[1]; }
  int64_t firstTime() const { return times[winners[1]]; }

private:
  uint32_t leaves = 1;
  std::vector<int64_t> times;    ///< By player.
  std::vector<uint32_t> winners; ///< By node, the root at 1, a node's two at twice its number.
};

} // namespace maestro::wavefront

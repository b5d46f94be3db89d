// How a sum of gradients is cut: the stages that it takes, its turns, and what a member stages. The planner counts with
// it and the executor cuts by it (executor/world/reduction.h).
//
// n members stand in a box of `degrees`, the first of which runs fastest: two stages of 2 and 3 are
//
//            second 0   1   2             member = first + 2 · second
//   first 0         0   2   4             stage 0 adds up within columns, stage 1 within rows
//         1         1   3   5
//
// A turn is n pieces. Stage s divides what stage s − 1 left to a member among the `degrees[s]` members that differ from
// it in the s-th number alone, until each member has the sum of one piece; then the sums go back the same way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

namespace maestro::plan {

/// Of degrees that are all 2 or more, or none of a sum of one.
class SumStages {
public:
  explicit SumStages(std::span<const uint32_t> degrees) : degrees(degrees) {}

  uint32_t count() const { return static_cast<uint32_t>(degrees.size()); }
  uint32_t degree(uint32_t stage) const { return degrees[stage]; }
  uint32_t members() const { return stride(count()); }
  /// How far apart the members of a group of this stage are.
  uint32_t stride(uint32_t stage) const {
    return std::accumulate(degrees.begin(), degrees.begin() + stage, uint32_t{1}, std::multiplies<>());
  }
  /// A member's place in its group of this stage, and who has another place in it.
  uint32_t number(uint32_t member, uint32_t stage) const { return member / stride(stage) % degree(stage); }
  uint32_t peer(uint32_t member, uint32_t stage, uint32_t number) const {
    return member + (number - this->number(member, stage)) * stride(stage); // Modulo 2³², like all of it.
  }
  /// How many of a turn's pieces a member is left with behind this stage; all of them before the first one.
  uint32_t width(uint32_t stagesDone) const { return members() / stride(stagesDone); }
  /// The first of these pieces.
  uint32_t firstPiece(uint32_t member, uint32_t stagesDone) const {
    uint32_t first = 0;
    for (uint32_t stage = 0; stage < stagesDone; ++stage)
      first += number(member, stage) * width(stage + 1);
    return first;
  }

private:
  std::span<const uint32_t> degrees;
};

/// What a sum stages at most, where the plan does not say: a part of a processor's last cache.
inline constexpr uint64_t kSumStagingBytes = uint64_t{8} << 20;
/// The least that a plan may say: a turn has to be worth its waits.
inline constexpr uint64_t kLeastSumStagingBytes = uint64_t{64} << 10;

/// Turns of a sum over so many floats.
struct SumTurns {
  uint64_t pieceElements = 0; ///< Whole cache lines, so that owners do not share them.
  uint64_t turns = 0;
  /// Turns that are under way at once: as many as each has phases, from the first scattered to the last gathered.
  uint64_t slots = 1;

  /// Of one member: the others' contributions to what it adds up, in all stages and slots.
  uint64_t stagingBytes(uint64_t members) const {
    return turns ? slots * (members - 1) * pieceElements * sizeof(float) : 0;
  }
};

inline SumTurns sumTurns(uint64_t elements, SumStages stages, uint64_t mostStagingBytes) {
  constexpr uint64_t kLine = 16; // Floats.
  SumTurns cut;
  uint64_t members = stages.members();
  if (members < 2 || elements == 0)
    return cut;
  uint64_t whole = ((elements + members - 1) / members + kLine - 1) / kLine * kLine;
  uint64_t lineBytes = (members - 1) * kLine * sizeof(float);
  if (whole / kLine <= mostStagingBytes / lineBytes) {
    cut.pieceElements = whole;
  } else {
    cut.slots = 2 * stages.count();
    cut.pieceElements = std::clamp(mostStagingBytes / cut.slots / lineBytes * kLine, kLine, whole);
  }
  cut.turns = (elements + members * cut.pieceElements - 1) / (members * cut.pieceElements);
  return cut;
}

} // namespace maestro::plan

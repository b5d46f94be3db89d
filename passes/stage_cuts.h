// Where a chain of operators is cut into pipeline stages. Pure: numbers in, positions out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maestro {

/// A section's operators in order, as what cutting between them means: position i lies before operator i.
struct CutCosts {
  std::vector<double> work;     ///< Of the operators before each position; one more than there are operators.
  std::vector<double> crossing; ///< Bytes that pass a position.
  std::vector<bool> possible;   ///< Whether what passes can cross.
};

/// Positions where little crosses: between layers, not within one. What crosses least is asked of places in the
/// section's midst (`edge` of the work lies on either side), since at its ends next to nothing does: ids before the
/// embedding, losses behind the head. Of these `slack` times as much is little; more where that leaves fewer than
/// `least` places. What then still has most of the work is asked for its own midst.
std::vector<unsigned> cheapPlaces(const CutCosts &costs, double edge, double slack, size_t least);

/// Positions at which each of `stages` stages ends: exact (dynamic program), the least (largest stage's work, then
/// bytes that cross) over cheap places. Fewer than `stages` where there are not enough places.
std::vector<unsigned> bestCuts(const CutCosts &costs, int64_t stages);

} // namespace maestro

// Seeded scheduling problems: arbitrary ones that look for faults, and training mixes that measure quality.
#pragma once

#include "wavefront/problem.h"

namespace maestro::wavefront {

/// A small generator of its own, so that a seed means the same problem on every platform.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 2 + 1) { next(); }
  uint64_t next() {
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform, both ends included.
  int64_t in(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return in(1, 100) <= percent; }

private:
  uint64_t state;
};

/// Anything that check() accepts: random graphs, ratios of replicas, shared devices, skipped sections, slots and
/// depths down to 1, costs of 0. Small.
Problem arbitraryProblem(uint64_t seed);

enum class Family : uint8_t { Language, Distillation, Vision, Multimodal, Generation, Ensemble };
inline constexpr Family families[] = {Family::Language,   Family::Distillation, Family::Vision,
                                      Family::Multimodal, Family::Generation,   Family::Ensemble};
const char *name(Family family);

/// One training step as our planner would pose it: up to 8 sections, 64 stations and 1,024 samples, on devices of 100
/// TFLOP/s. Devices go to sections by their work, more or less well; images, lengths and modalities are skewed; about a
/// quarter of the problems colocate sections. Micro-batches in flight and rings are cost_models/in_flight.h's, or up to
/// two more.
Problem trainingProblem(Family family, uint64_t seed);
/// The same as a plan has it: with the hints that its planner found with other steps of such samples, and, where that
/// gains something, more micro-batches in flight, for which memory is taken to be left.
Problem plannedProblem(Family family, uint64_t seed, uint64_t fixedParts = 0); ///< As Scheduler has them.
Problem plannedProblem(uint64_t seed);                                         ///< All families in turn.
/// The same with two free slots in each ring between stages, as tight as pipelines run at all.
Problem withTightRings(Problem problem);
/// The same with micro-batches bounded by padded tokens, rows times length: as many as before hold at average lengths,
/// and so up to eight times as many samples where they are short.
Problem withPaddedTokens(Problem problem);
/// The skewed multimodal mix on so many devices, each section on its share; on fewer devices than sections all share.
Problem multimodalMix(uint32_t devices, uint64_t seed);
/// All families in turn.
Problem trainingProblem(uint64_t seed);

} // namespace maestro::wavefront

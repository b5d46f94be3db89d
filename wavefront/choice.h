// How a step's micro-batches are formed and ordered: what the scheduler chooses among in each step, and what a plan may
// say to begin with (Problem.hints).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace maestro::wavefront {

/// Whose turn it is when several tasks of a device could start. Weight gradients come last, but first where they hold
/// up gradients.
enum class Rule : uint8_t {
  LongestTail,   ///< The longest way to the step's end.
  BackwardFirst, ///< And of forward tasks the one nearest to the loss: keeps work upstream for later.
  ShortestFirst, ///< For small sections beside large ones on the same devices: their micro-batches travel first.
  ZeroBubble,    ///< Each station's kinds in a fixed turn, also where that means to wait.
};

/// The defaults suit most steps; README.md has what each part brings.
struct Choice {
  /// Micro-batches at which each section aims: many fill and drain pipelines soon, few save constants.
  int64_t microBatchesPerReplica = 8;
  /// Slots and rings must hold what is in flight so many times over; where they cannot, micro-batches are larger.
  int64_t headroom = 4;
  /// Each class of samples is cut into so many bands of like length, all of them spread over the whole step.
  int64_t lengthBands = 2;
  /// Micro-batches that need other sections least go to the step's ends: so many quarters of what fills the others.
  int64_t lightEnds = 4;
  /// Samples are told apart by whether they need each of so many sections, the fullest ones: fewer classes pad less,
  /// more of them even out what sections have to do.
  int64_t sampleClasses = 16;
  Rule rule = Rule::LongestTail;

  bool operator==(const Choice &) const = default;
};

/// Hints that a plan may give: a step tries them first, and each costs a trial.
inline constexpr size_t kMaxHints = 8;

/// A part of a choice as a number, for texts, files and draws; what is outside [min, max] is no choice.
struct ChoicePart {
  const char *name;
  int64_t min, max;
  std::span<const int64_t> values; ///< Those worth trying; of microBatchesPerReplica, eighths of the theory's.
  int64_t (*get)(const Choice &choice);
  void (*set)(Choice &choice, int64_t value);
};
std::span<const ChoicePart> choiceParts();

/// What of a problem decides where the search starts and what it draws.
struct Traits {
  bool isColocated = false;     ///< Some device runs several stations.
  bool splitsAlike = false;     ///< Samples are all alike, and some section splits its backward.
  int64_t theoryPerReplica = 1; ///< MicroBatchSizes::theoryPerReplica().
  int64_t maxPerReplica = 1;    ///< More micro-batches than samples change nothing.
  uint64_t fixedParts = 0;      ///< A bit for each part that keeps its default: how the bench tells what it brings.
};

/// Choices to begin with, the best first.
size_t startCount(const Traits &traits);
Choice start(const Traits &traits, size_t index);
/// The choice with fixed parts as they usually are, and no more micro-batches than there can be.
Choice within(const Traits &traits, Choice choice);
/// The choice with `parts` (a bit each) drawn anew. A counter always draws the same.
Choice redrawn(const Traits &traits, Choice choice, uint64_t parts, uint64_t counter);
/// The choice with one part, sometimes two or three, drawn anew.
Choice changed(const Traits &traits, const Choice &choice, uint64_t counter);
/// A number that follows from a counter alone (splitmix64: Steele, Lea and Flood, OOPSLA 2014).
uint64_t randomAt(uint64_t counter);

} // namespace maestro::wavefront

// How a step's micro-batches are formed and ordered, and whose turn it is on a device: what the scheduler chooses among
// in each step, and what a plan may say to begin with (Problem.hints).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace maestro::wavefront {

/// Whose turn it is when several tasks of a device could start. Weight gradients come last, but first
/// where they hold up gradients.
enum class Rule : uint8_t {
  LongestTail,   ///< The longest way to the step's end.
  BackwardFirst, ///< And of forward tasks the one nearest to the loss: keeps work upstream for later.
  ForwardFirst,  ///< As far as places in flight go: whatever lies below is fed early.
  Alternate,     ///< After a station's forward task its backward, and the other way round.
  Thrifty,       ///< The same, with no more forward tasks ahead of their backward than 1F1B has, whatever the places.
  ShortestFirst, ///< For small sections beside large ones on the same devices: their micro-batches travel, the large
                 ///< ones' wait.
  UpstreamFirst, ///< Backward first, and of forward tasks the one furthest from the loss.
  ZeroBubble,    ///< Each station's kinds in a fixed turn (turn()), also where that means to wait.
};

struct Recipe {
  int64_t pace = 8;   ///< Micro-batches a replica at which each section aims, and
  int64_t slack = 2;  ///< how many times over places in flight and rings must suffice for them.
  int64_t bands = 2;  ///< Classes of samples are cut in so many by length, each spread over the whole flow;
  bool slope = false; ///< or all lie on one mountain of lengths, for pipelines that stall when micro-batches differ.
  bool pools = false; ///< Sections that pad sort what several trunk micro-batches have for them.
  int64_t ends = 4;   ///< Light micro-batches at the step's ends: so many quarters of what fills all other sections.
  bool alike =
      false;       ///< Micro-batches no shorter than a section's longest sample, so that all take about the same time.
  int64_t run = 1; ///< So many micro-batches of one class and band in a row.
  int64_t lead =
      0; ///< By how many sixteenths more of its work a trained section before the trunk is served than the trunk.
  int64_t shelves =
      0; ///< Classes are cut in so many by the length that another section pads by, each sorted by the trunk's.
  int64_t taper =
      2; ///< How steeply micro-batches shrink towards the step's ends, so that pipelines fill and drain soon; 0: not.
  int64_t fall = 4; ///< By how many quarters of that at its end: backward tasks take longer than forward ones, and so
                    ///< does their way.
  int64_t lag = 0;  ///< By how many halves of their time there, trunk micro-batches that wait for sections below come
                    ///< later on the way back.
  int64_t peak =
      8; ///< Where lengths stop to grow and begin to fall: after so many sixteenths of a class, or of all on the slope,
  int64_t waves = 1; ///< and how many times they do so.
  int64_t ways = 0;  ///< Not 0: mountains are of ways through all sections, with so many times the others' work, not of
                     ///< the trunk's lengths.
  int64_t smooth = 4; ///< How dear neighbours of different lengths are in bands, beside sections that progress
                      ///< unevenly, in quarters.
  int64_t full = 0; ///< 1: other sections fill their micro-batches across the trunk's: fewer constants, more places in
                    ///< use; 2: up to what they may hold, whatever the pace, each sample where it leaves least room.
  int64_t least = 16; ///< How many times its constants a micro-batch should take at least.
  int64_t frozen = 1; ///< How many times the pace sections aim at that do not train.
  int64_t wait =
      0; ///< By how many halves of their time on the way there micro-batches come later in sections behind others.
  int64_t blunt = 1;  ///< How many times as large as the trunk's the other sections' micro-batches may be at the step's
                      ///< ends, as parts of their usual sizes.
  bool level = false; ///< Other sections' replicas exchange micro-batches that flow near each other until all have as
                      ///< much to do.
  int64_t apart = 16; ///< Samples that differ in whether they need one of so many sections, the fullest, are of
                      ///< different classes: fewer classes pad less, more of them even out what sections have to do.

  bool operator==(const Recipe &) const = default;
};

struct Choice {
  Recipe recipe;
  Rule rule = Rule::LongestTail;

  bool operator==(const Choice &) const = default;
};

/// So many are worth a step's time.
inline constexpr size_t kMostHints = 8;

/// A part of a choice as a number, for texts and files; what is outside [least, most] is no choice.
struct ChoicePart {
  const char *name;
  int64_t least, most;
  int64_t (*get)(const Choice &choice);
  void (*set)(Choice &choice, int64_t value);
};

#define MAESTRO_RECIPE_PART(part, least, most)                                                                         \
  ChoicePart {                                                                                                         \
#part, least, most, [](const Choice &choice) { return static_cast<int64_t>(choice.recipe.part); },                 \
             [](Choice &choice, int64_t value) { choice.recipe.part = static_cast<decltype(choice.recipe.part)>(value); }   \
  }

inline constexpr std::array choiceParts = {
    MAESTRO_RECIPE_PART(pace, 1, 1 << 24),
    MAESTRO_RECIPE_PART(slack, 1, 64),
    MAESTRO_RECIPE_PART(bands, 1, 64),
    MAESTRO_RECIPE_PART(slope, 0, 1),
    MAESTRO_RECIPE_PART(pools, 0, 1),
    MAESTRO_RECIPE_PART(ends, 0, 4),
    MAESTRO_RECIPE_PART(alike, 0, 1),
    MAESTRO_RECIPE_PART(run, 1, 64),
    MAESTRO_RECIPE_PART(lead, 0, 16),
    MAESTRO_RECIPE_PART(shelves, 0, 64),
    MAESTRO_RECIPE_PART(taper, 0, 16),
    MAESTRO_RECIPE_PART(lag, 0, 16),
    MAESTRO_RECIPE_PART(peak, 0, 15),
    MAESTRO_RECIPE_PART(waves, 1, 16),
    MAESTRO_RECIPE_PART(least, 1, 64),
    MAESTRO_RECIPE_PART(frozen, 1, 16),
    MAESTRO_RECIPE_PART(wait, 0, 16),
    MAESTRO_RECIPE_PART(apart, 0, 16),
    MAESTRO_RECIPE_PART(fall, 0, 16),
    MAESTRO_RECIPE_PART(ways, 0, 64),
    MAESTRO_RECIPE_PART(full, 0, 2),
    MAESTRO_RECIPE_PART(smooth, 0, 4096),
    MAESTRO_RECIPE_PART(blunt, 1, 256),
    MAESTRO_RECIPE_PART(level, 0, 1),
    ChoicePart{"rule", 0, static_cast<int64_t>(Rule::ZeroBubble),
               [](const Choice &choice) { return static_cast<int64_t>(choice.rule); },
               [](Choice &choice, int64_t value) { choice.rule = static_cast<Rule>(value); }},
};
#undef MAESTRO_RECIPE_PART

} // namespace maestro::wavefront

// Random changes of a schedule's micro-batches, replicas and orders: for problems so small that no choice of how to
// form all of them at once hits the best one.
#pragma once

#include "wavefront/choice.h"
#include "wavefront/groups.h"

namespace maestro::wavefront {

/// Keeps its memory.
class SmallChanges {
public:
  /// Starts from a schedule that was found with the rule.
  void begin(const Problem &problem, const Schedule &schedule, Rule rule);
  /// Forms the groups anew with some changes, always the same ones for a counter; false where they are not allowed.
  bool form(const Problem &problem, const ProblemIndex &index, uint64_t counter, Groups &groups);
  /// What form() made is where the next changes start.
  void keep() { current = made; }

  std::vector<int64_t> forwardKey, backwardKey; ///< By group, as formed.
  Rule rule() const { return made.rule; }

private:
  struct Draft {
    uint32_t section, replica, samples; ///< How many samples.
    int64_t forwardKey, backwardKey;
  };
  struct Version {
    std::vector<Draft> drafts;
    std::vector<uint32_t> draftOf; ///< section × sample
    Rule rule = Rule::LongestTail;
  };

  uint32_t draw(size_t count);
  uint32_t otherDraft(uint32_t draft);
  void move(uint32_t entry, uint32_t draft);
  void change(const Problem &problem);

  Version current, made;
  std::vector<uint32_t> entries; ///< Into draftOf: those that are there.
  Lists members;                 ///< By draft: into entries.
  size_t sampleCount = 0;
  uint64_t counter = 0;
};

} // namespace maestro::wavefront

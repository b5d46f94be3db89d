// Small random changes of a schedule's micro-batches, replicas and orders, for what recipes do not think of. Seeded by
// a constant: the same schedule always gets the same changes.
#pragma once

#include "wavefront/groups.h"
#include "wavefront/list_schedule.h"

namespace maestro::wavefront {

class Polisher {
public:
  /// Starts from a schedule that was written by the list scheduler.
  void load(const Problem &problem, const Schedule &schedule);
  /// Makes one change and forms `groups` anew; false where the change is not allowed (and undone).
  bool change(const Problem &problem, const ProblemIndex &index, Groups &groups);
  void undo();
  void restart(Rule from) {
    state = 0x9e3779b97f4a7c15u;
    bestRule = from;
    bestForced.clear();
  }

  std::vector<int64_t> forwardKey, backwardKey; ///< By group, as formed.
  Rule rule = Rule::LongestTail;
  std::vector<ListScheduler::Forced> forced; ///< Of the groups as formed.
  /// What load() takes over beside the schedule, for the best one so far.
  void keep();

private:
  struct Draft {
    uint32_t section, replica;
    int64_t forwardKey, backwardKey;
    uint32_t samples; ///< How many.
  };

  uint64_t next(uint64_t bound);
  bool mutate(const Problem &problem);
  bool exchange(const Problem &problem, uint32_t sample, uint32_t other);
  bool sharesDevice(const Problem &problem, const ListScheduler::Forced &order) const;
  bool force(const Problem &problem);
  uint32_t otherGroup(uint32_t draft);
  void moveSample(uint32_t section, uint32_t sample, uint32_t draft);
  bool form(const Problem &problem, const ProblemIndex &index, Groups &groups);

  std::vector<Draft> drafts, savedDrafts;
  std::vector<uint32_t> draftOf, savedDraftOf; ///< section × sample
  std::vector<uint32_t> places;                ///< Into draftOf, those in use.
  Lists members;                               ///< By draft: into draftOf.
  Rule savedRule = Rule::LongestTail, bestRule = Rule::LongestTail;
  std::vector<ListScheduler::Forced> draftForced, savedForced, bestForced; ///< By draft; by group of the best.
  std::vector<uint32_t> groupOfDraft;
  std::vector<ListScheduler::Forced>
      reversed; ///< Neighbours on a device, the other way round: also where it then waits on purpose.
  size_t sampleCount = 0;
  uint64_t state = 1;
};

} // namespace maestro::wavefront

// What Verifier looks at, private to verify.cpp (micro-batches and tasks by themselves) and verify_order.cpp (what
// waits for what).
#pragma once

#include "wavefront/schedule.h"

#include <array>
#include <string>
#include <vector>

namespace maestro::wavefront {

/// KeyedLists of numbers by key, one after the other.
struct KeyedLists {
  std::vector<uint32_t> first, items; ///< first[k] to first[k + 1] are those of k.

  /// `visit(add)` calls add(key, item) for each item, alike both times.
  template <typename Visit> void fill(size_t keys, Visit visit) {
    first.assign(keys + 2, 0);
    visit([&](size_t key, uint32_t) { ++first[key + 2]; });
    for (size_t i = 2; i < first.size(); ++i)
      first[i] += first[i - 1];
    items.resize(first.back());
    visit([&](size_t key, uint32_t item) { items[first[key + 1]++] = item; });
  }
  std::span<const uint32_t> of(size_t key) const { return {items.data() + first[key], items.data() + first[key + 1]}; }
};

struct Verifier::State {
  static constexpr uint32_t kAbsent = UINT32_MAX;

  Status run(const Problem &ofStep, const Schedule &toVerify);

  std::string name(uint32_t group) const {
    const MicroBatch &batch = schedule->microBatches[group];
    return "micro-batch " + std::to_string(group) + " of " + problem->sections[batch.section].name;
  }
  std::string name(const Task &task) const {
    static const char *kinds[] = {"forward", "backward", "weight gradient"};
    return std::string(kinds[static_cast<int>(task.kind)]) + " of " + name(task.microBatch) + ", stage " +
           std::to_string(task.stage);
  }
  static Status broken(std::string what) { return Status::internal("schedule: " + std::move(what)); }

  uint32_t kinds(const Section &section) const { return section.splitsBackward ? 3 : section.trains ? 2 : 1; }
  uint32_t &taskOf(uint32_t group, uint32_t stage, TaskKind kind) {
    return taskIndex[(firstOfGroup[group] + stage) * 3 + static_cast<uint32_t>(kind)];
  }
  uint32_t &groupOf(uint32_t section, uint32_t sample) { return groups[section * problem->sampleCount() + sample]; }
  size_t stationOf(const MicroBatch &batch, uint32_t stage) const {
    return firstStation[batch.section] + batch.replica * problem->sections[batch.section].stages.size() + stage;
  }

  Status checkShape();
  Status checkMicroBatches();
  Status checkCoverage();
  void index();
  Status checkTask(uint32_t number, uint32_t device);
  Status checkTasks();
  Status checkDevices();
  Status checkSlots();
  void collectOrders();
  Status checkPrecedences();
  Status checkNoCycle();
  Status checkTotals();
  template <typename Visit> void forEachBefore(const Task &task, Visit visit);
  template <typename Partner> void forEachPartner(uint32_t group, uint32_t section, Partner partner);
  /// The micro-batch that has the slot of a ring before `group` does, at a station with so many; kAbsent: nobody.
  uint32_t slotBefore(int backward, uint32_t group, uint32_t stage, uint32_t depth) const;

  const Problem *problem = nullptr;
  const Schedule *schedule = nullptr;
  std::vector<uint32_t> groups;                  ///< By section and sample.
  std::vector<uint32_t> firstOfGroup, taskIndex; ///< By group; by group, stage and kind: into schedule.tasks.
  std::vector<size_t> firstStation, firstStage;  ///< By section; of replicas' stages and of stages.
  size_t stations = 0;
  std::vector<uint32_t> inFlight, firstOrder, filled; ///< By station.
  std::array<std::vector<uint32_t>, 2> orders;   ///< Forward and backward: groups, station by station in their order,
  std::array<std::vector<uint32_t>, 2> position; ///< and where each is in it, by group and stage.
  KeyedLists edgesFrom, edgesTo;                 ///< By stage of a section: into problem.edges.
  KeyedLists after;                              ///< checkNoCycle(): by task.
  std::vector<uint32_t> waiting, ready;
  bool mayCircle = false; ///< A task begins when one that it waits for does.
};

} // namespace maestro::wavefront

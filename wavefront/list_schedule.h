// Event-driven list scheduling: from micro-batches and each station's forward and backward order to times.
#pragma once

#include "wavefront/choice.h"
#include "wavefront/sequences.h"
#include "wavefront/tournament.h"

namespace maestro::wavefront {

/// Once every station's forward and backward orders are fixed, rules 3 to 5 of README.md are precedences between tasks:
/// position k takes the slot that position k - depth leaves, and the k-th forward task waits for the (k - slots)-th
/// end of a last backward task. A device that works always finishes, so the schedule is stuck only if these
/// precedences have a cycle, and then no schedule with these orders exists at all: run() says so.
class ListScheduler {
public:
  static constexpr int64_t stuck = -1, tooLong = -2;

  /// The makespan; `stuck`; or `tooLong` as soon as it cannot be below `limit`.
  int64_t run(const Problem &problem, const ProblemIndex &index, const Groups &groups, const Sequences &sequences,
              const std::vector<int64_t> &tails, Rule rule, int64_t limit);

  struct Started {
    uint32_t group;
    uint16_t stage;
    TaskKind kind;
    uint32_t device;
    int64_t startNs;
  };
  std::vector<Started> log; ///< Of the last run, by start.

private:
  /// All that is asked of a task while it waits, side by side.
  struct Task {
    int64_t readyNs, ns, tailNs;
    uint32_t pending; ///< Predecessors that have not ended.
    uint32_t device;
  };
  struct Station {
    uint32_t section, stage, stageId;
    uint32_t slots, inFlight;
    uint32_t first, end;                            ///< Into the orders' items, and
    uint32_t nextForward, nextBackward, nextWeight; ///< the next of each kind:
    uint32_t forward, backward, weight;             ///< its task, or none.
    uint32_t ahead;                                 ///< Forward tasks ahead of their backward that 1F1B would have.
    uint32_t maxDue; ///< Weight gradients that may wait; with more, rings for gradients are full.
    uint32_t lag;    ///< Weight gradients that wait under Rule::ZeroBubble.
    bool trains, splits;
  };
  struct Running {
    uint32_t station, group;
    TaskKind kind;
    bool busy;
  };
  struct Turn {
    int rank = -1;     ///< A class, and
    int64_t value = 0; ///< within it a value; the highest goes first.
    uint32_t station = 0;
    TaskKind kind = TaskKind::Forward;
  };

  bool reset();
  void listStations();
  void listTasks();
  void countPending();
  uint32_t taskOf(const Station &station, const Lists &order, uint32_t next, TaskKind kind) const;
  void arrive(uint32_t task, int64_t ns);
  void lookAt(uint32_t device) { dirty[device / 64] |= uint64_t{1} << (device % 64); }
  void release(const EdgeFacts &edge, const Station &station, uint32_t group);
  void releaseGradient(const EdgeFacts &edge, const Station &station, uint32_t group);
  void end(uint32_t device);
  void endForward(const Station &station, uint32_t group);
  void endBackward(const Station &station, uint32_t group);
  void endLast(Station &station, uint32_t group);
  bool turn(const Station &station, TaskKind kind) const;
  Turn priority(TaskKind kind, const Task &task, uint32_t station) const;
  void choose(uint32_t device);
  void start(uint32_t device, uint32_t station, TaskKind kind);
  void startAll();

  const Problem *problem = nullptr;
  const ProblemIndex *index = nullptr;
  const Groups *groups = nullptr;
  const Sequences *sequences = nullptr;
  const std::vector<int64_t> *tails = nullptr;
  Rule rule = Rule::LongestTail;
  int64_t nowNs = 0;
  std::vector<Task> tasks; ///< As Groups numbers them.
  std::vector<Station> stations;
  std::vector<Running> running; ///< By device.
  std::vector<int64_t> leftNs;  ///< By device: the work that it has not started.
  int64_t limitNs = 0;
  bool hopeless = false;       ///< Some device, or some path, cannot end below the limit.
  Tournament next;             ///< By device: when its task ends or, idle, when something may start.
  std::vector<uint64_t> dirty; ///< A bit for each device: whether to look at it now.
};

} // namespace maestro::wavefront

// Event-driven list scheduling: from micro-batches and each station's forward and backward order to times.
#pragma once

#include "executor/wavefront/sequences.h"

#include <utility>

namespace maestro::wavefront {

/// Whose turn it is when several tasks of a device could start. Weight gradients come last, but first
/// where they hold up gradients.
enum class Rule : uint8_t {
  LongestTail,   ///< The longest way to the step's end.
  BackwardFirst, ///< And of forward tasks the one nearest to the loss: keeps work upstream for later.
  ForwardFirst,  ///< As far as places in flight go: whatever lies below is fed early.
  Alternate,     ///< After a station's forward task its backward, and the other way round.
  Thrifty,       ///< The same, with no more forward tasks ahead of their backward than 1F1B has, whatever the places.
  ShortestFirst, ///< For small sections beside large ones on the same devices: their micro-batches travel, the large ones' wait.
  UpstreamFirst, ///< Backward first, and of forward tasks the one furthest from the loss.
  ZeroBubble,    ///< Each station's kinds in a fixed turn (turn()), also where that means to wait.
};

/// Once every station's forward and backward orders are fixed, rules 3 to 5 of README.md are precedences between tasks:
/// position k takes the slot that position k - depth leaves, and the k-th forward task waits for the (k - slots)-th
/// end of a last backward task. A device that works always finishes, so the schedule is stuck only if these
/// precedences have a cycle, and then no schedule with these orders exists at all: run() says so.
class ListScheduler {
public:
  static constexpr int64_t stuck = -1, tooLong = -2;

  /// One task more that another one waits for.
  struct Forced {
    uint32_t before, after; ///< Groups, with
    uint16_t beforeStage, afterStage;
    TaskKind beforeKind, afterKind;
  };
  std::vector<Forced> forced; ///< Of the next runs; for orders that no rule finds, such as a device that waits on purpose.

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
  /// In the last run, when the last thing that the task waited for, places and its device apart, was there.
  int64_t readyAt(uint32_t task) const { return readyNs[task]; }
  size_t tasks(const Problem &problem, const Groups &groups) const;

private:
  struct Station {
    uint32_t section, stage, replica;
    uint32_t slots;
    uint32_t nextForward, nextBackward, nextWeight, endForward, end; ///< Into the orders' items.
    uint32_t inFlight;
    uint32_t ahead;   ///< Forward tasks ahead of their backward that 1F1B would have.
    bool trains, splits;
    TaskKind last;    ///< Forward or backward.
    uint32_t mostDue; ///< Weight gradients that may wait; with more, rings for gradients are full.
    uint32_t lag;     ///< Weight gradients that wait under Rule::ZeroBubble.
  };
  struct Event {
    int64_t ns;
    uint32_t what; ///< Ends by device, then wake-ups by device.
    bool operator<(const Event &other) const { return ns != other.ns ? ns > other.ns : what > other.what; }
  };
  struct Running {
    uint32_t station, group;
    TaskKind kind;
    bool busy;
  };

  void reset();
  void countPending();
  void wake(uint32_t device, int64_t ns);
  void arrive(uint32_t group, uint32_t section, uint32_t stage, TaskKind kind, int64_t ns);
  void release(uint32_t edge, uint32_t group, int64_t ns);
  void releaseGradient(uint32_t edge, uint32_t group, int64_t ns);
  void end(uint32_t device);
  void endForward(const Station &station, uint32_t group);
  void endBackward(const Station &station, uint32_t group);
  void endLast(Station &station, uint32_t group);
  bool turn(const Station &station, TaskKind kind) const;
  std::pair<int, int64_t> priority(TaskKind kind, int64_t tailNs, int64_t ns, uint32_t station) const;
  void start(uint32_t device);

  const Problem *problem = nullptr;
  const ProblemIndex *index = nullptr;
  const Groups *groups = nullptr;
  const Sequences *sequences = nullptr;
  const std::vector<int64_t> *tails = nullptr;
  Rule rule = Rule::LongestTail;
  int64_t nowNs = 0;
  std::vector<uint32_t> pending; ///< By task: predecessors that have not ended.
  std::vector<int64_t> readyNs;  ///< By task.
  std::vector<Station> stations;
  std::vector<Running> running; ///< By device.
  std::vector<int64_t> freeNs, leftNs; ///< By device: when it is free, and the work that it has not started.
  int64_t limitNs = 0;
  bool hopeless = false; ///< Some device, or some path, cannot end below the limit.
  std::vector<Event> events;    ///< A heap, the earliest on top.
  std::vector<uint32_t> dirty;  ///< Devices to look at, and
  std::vector<uint8_t> isDirty; ///< whether a device is among them.
};

} // namespace maestro::wavefront

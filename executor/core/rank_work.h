// What one rank does in one step, made from the schedule that all ranks compute: its tasks, and for each what must have
// arrived, what it sends to whom, and what it gives back.
//
//   Schedule (micro-batches, devices' tasks) + edges' shapes ─▶ sequences of rings, boxes of samples' rows
//
// The unit of an edge between sections is one sample's rows, unpadded. A producer's micro-batch is cut into one message
// per micro-batch of the consumer that shares a sample with it; the message's boxes lie at their final place. Between
// stages of a section a micro-batch passes as it is, padding included: a mask's −∞ may be there, which the next stage's
// softmax reads. Pure, reusable memory: a step no larger than before allocates nothing.
#pragma once

#include "executor/core/topology.h"
#include "executor/device/box.h"
#include "plan/dims.h"
#include "wavefront/schedule.h"

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::executor {

struct Receive {
  uint32_t ring = 0; ///< Topology.rings
  uint64_t sequence = 0;
  uint32_t posts = 0;
  bool last = false; ///< This task is the last to read the slot.
};

/// One message: boxes from the sent buffer to the receiver's slot.
struct Send {
  uint32_t ring = 0;
  uint32_t sender = 0; ///< RingFacts.senders
  uint64_t sequence = 0;
  uint32_t microBatch = 0; ///< The receiver's.
  uint64_t rows = 0, bytes = 0;
  uint32_t firstBox = 0, boxes = 0;
};

struct RankTask {
  uint32_t station = 0; ///< Topology.stations
  uint32_t microBatch = 0;
  wavefront::TaskKind kind = wavefront::TaskKind::Forward;
  uint32_t firstReceive = 0, receives = 0;
  uint32_t firstSend = 0, sends = 0;
};

/// Then both ends have the same micro-batches.
bool isBetweenStages(const plan::fb::Edge &edge);

class RankWork {
public:
  RankWork(const plan::Plan &plan, const Topology &topology, uint32_t rank);

  /// For the step's schedule; continues every ring's count of sequences. InvalidInput names the edge whose shape does
  /// not hold its samples' rows, which only a plan that was made to mislead has.
  Status build(const wavefront::Problem &problem, const wavefront::Schedule &schedule, bool evaluates);

  std::span<const RankTask> tasks() const { return taskList; }
  std::span<const Receive> receivesOf(const RankTask &task) const {
    return {receiveList.data() + task.firstReceive, task.receives};
  }
  std::span<const Send> sendsOf(const RankTask &task) const { return {sendList.data() + task.firstSend, task.sends}; }
  std::span<const Box> boxesOf(const Send &send) const { return {boxList.data() + send.firstBox, send.boxes}; }

private:
  /// The shape of what crosses an edge, evaluated for one sample or for a micro-batch.
  struct EdgeShape {
    plan::DimSubset dims;
    uint32_t rowsDim; ///< The one that sums over samples.
  };

  void numberSequences();
  void findGroups();
  void placeRows(uint32_t edge);
  Status addTask(const wavefront::Task &task);
  void addReceives(const RankTask &task);
  Status addWhole(uint32_t edge, Send &send);
  Status addSends(const RankTask &task, uint32_t edge, bool gradient);
  uint32_t countPartners(uint32_t microBatch, uint32_t otherSection);
  Result<Box> boxOf(uint32_t edge, uint32_t sample, bool gradient);
  std::span<const int64_t> shapeOf(uint32_t edge, uint32_t sample);
  std::span<const int64_t> sizesOf(uint32_t sample) const;
  std::span<const int64_t> dimsOf(uint32_t microBatch) const;
  uint32_t stationOf(const wavefront::MicroBatch &group, uint32_t stage) const;
  uint64_t &sequenceOf(bool gradient, uint32_t microBatch, uint32_t stage);

  const plan::Plan &plan;
  const Topology &topology;
  uint32_t rank;
  uint32_t mostStages = 1;

  const wavefront::Problem *problem = nullptr;
  const wavefront::Schedule *schedule = nullptr;
  bool evaluates = false;

  std::vector<RankTask> taskList;
  std::vector<Receive> receiveList;
  std::vector<Send> sendList;
  std::vector<Box> boxList;
  std::vector<uint64_t> forwardCount, backwardCount;       ///< By station: sequences of earlier steps.
  std::vector<uint64_t> forwardSequence, backwardSequence; ///< micro-batch × stage
  std::vector<uint32_t> groupOf;                           ///< section × sample
  std::vector<int64_t> producerRow, consumerRow;           ///< edge × sample: where its rows begin.
  std::vector<EdgeShape> edgeShapes;                       ///< By Plan.edges.
  std::vector<int64_t> fromSizes, toSizes;                 ///< Of the sender's and the receiver's micro-batch.
  std::vector<uint32_t> partners, stamp;
  uint32_t stampValue = 0;
};

} // namespace maestro::executor

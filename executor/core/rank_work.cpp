#include "executor/core/rank_work.h"

#include "base/dtype.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {

namespace fb = plan::fb;
using plan::kNone;
using wavefront::TaskKind;

namespace {

/// The dim that grows with the symbols that sum over samples; the verifier promises one.
uint32_t rowsDim(const plan::Plan &plan, plan::DimSubset &dims) {
  std::vector<int64_t> ones(plan->symbols()->size(), 1), twos = ones;
  for (uint32_t s = 0; s < twos.size(); ++s)
    if (plan->symbols()->Get(s)->combine() == fb::Combine::Sum)
      twos[s] = 2;
  auto first = dims.evaluate(ones);
  std::vector<int64_t> small(first.begin(), first.end());
  auto large = dims.evaluate(twos);
  for (uint32_t d = 0; d < small.size(); ++d)
    if (small[d] != large[d])
      return d;
  return 0;
}

} // namespace

bool isBetweenStages(const fb::Edge &edge) { return edge.producer() == edge.consumer(); }

RankWork::RankWork(const plan::Plan &plan, const Topology &topology, uint32_t rank)
    : plan(plan), topology(topology), rank(rank), forwardCount(topology.stations.size(), 0),
      backwardCount(topology.stations.size(), 0) {
  for (const fb::Section *section : *plan->sections())
    mostStages = std::max(mostStages, section->layout()->stages());
  for (const fb::Edge *edge : *plan->edges()) {
    plan::DimSubset dims(*plan, {edge->shape()->data(), edge->shape()->size()});
    uint32_t rows = rowsDim(plan, dims);
    edgeShapes.push_back({std::move(dims), rows});
  }
}

std::span<const int64_t> RankWork::sizesOf(uint32_t sample) const {
  return {problem->sizes.data() + sample * problem->dims.size(), problem->dims.size()};
}

std::span<const int64_t> RankWork::dimsOf(uint32_t microBatch) const {
  return {schedule->dims.data() + schedule->microBatches[microBatch].firstDim, problem->dims.size()};
}

std::span<const int64_t> RankWork::shapeOf(uint32_t edge, uint32_t sample) {
  return edgeShapes[edge].dims.evaluate(sizesOf(sample));
}

uint32_t RankWork::stationOf(const wavefront::MicroBatch &group, uint32_t stage) const {
  return topology.stationAt(group.section, stage, group.replica);
}

uint64_t &RankWork::sequenceOf(bool gradient, uint32_t microBatch, uint32_t stage) {
  return (gradient ? backwardSequence : forwardSequence)[microBatch * mostStages + stage];
}

Status RankWork::build(const wavefront::Problem &stepProblem, const wavefront::Schedule &stepSchedule,
                       bool stepEvaluates) {
  problem = &stepProblem;
  schedule = &stepSchedule;
  evaluates = stepEvaluates;
  taskList.clear();
  receiveList.clear();
  sendList.clear();
  boxList.clear();
  numberSequences();
  findGroups();
  producerRow.resize(plan->edges()->size() * problem->sampleCount());
  consumerRow.resize(producerRow.size());
  for (uint32_t edge = 0; edge < plan->edges()->size(); ++edge)
    placeRows(edge);
  for (const wavefront::Task &task : schedule->tasksOf(topology.deviceOf[rank]))
    MAESTRO_TRY(addTask(task));
  return Status();
}

/// Micro-batches take slots in the order of their forward tasks at the ring's station; gradients in that of backward
/// tasks.
void RankWork::numberSequences() {
  forwardSequence.assign(schedule->microBatches.size() * mostStages, 0);
  backwardSequence.assign(forwardSequence.size(), 0);
  for (const wavefront::Task &task : schedule->tasks) {
    const wavefront::MicroBatch &group = schedule->microBatches[task.microBatch];
    uint32_t station = stationOf(group, task.stage);
    if (task.kind == TaskKind::Forward)
      sequenceOf(false, task.microBatch, task.stage) = forwardCount[station]++;
    else if (task.kind == TaskKind::Backward)
      sequenceOf(true, task.microBatch, task.stage) = backwardCount[station]++;
  }
}

void RankWork::findGroups() {
  size_t samples = problem->sampleCount();
  groupOf.assign(problem->sections.size() * samples, kNone);
  for (uint32_t m = 0; m < schedule->microBatches.size(); ++m)
    for (uint32_t sample : schedule->samplesOf(schedule->microBatches[m]))
      groupOf[schedule->microBatches[m].section * samples + sample] = m;
  stamp.assign(schedule->microBatches.size(), 0);
  stampValue = 0;
}

/// Rows of a micro-batch's samples lie one after the other.
void RankWork::placeRows(uint32_t edgeIndex) {
  const fb::Edge &edge = *plan->edges()->Get(edgeIndex);
  size_t samples = problem->sampleCount();
  for (uint32_t m = 0; m < schedule->microBatches.size(); ++m) {
    const wavefront::MicroBatch &group = schedule->microBatches[m];
    for (bool producer : {true, false}) {
      if (group.section != (producer ? edge.producer() : edge.consumer()))
        continue;
      int64_t at = 0;
      for (uint32_t sample : schedule->samplesOf(group)) {
        (producer ? producerRow : consumerRow)[edgeIndex * samples + sample] = at;
        int64_t rows = shapeOf(edgeIndex, sample)[edgeShapes[edgeIndex].rowsDim];
        (void)__builtin_add_overflow(at, rows, &at); // boxOf() refuses what does not fit.
      }
    }
  }
}

Status RankWork::addTask(const wavefront::Task &source) {
  const wavefront::MicroBatch &group = schedule->microBatches[source.microBatch];
  RankTask task;
  task.station = stationOf(group, source.stage);
  while (topology.stations[task.station].rank != rank) // This rank's part of it.
    ++task.station;
  task.microBatch = source.microBatch;
  task.kind = source.kind;
  task.firstReceive = static_cast<uint32_t>(receiveList.size());
  addReceives(task);
  task.receives = static_cast<uint32_t>(receiveList.size()) - task.firstReceive;
  task.firstSend = static_cast<uint32_t>(sendList.size());
  bool forward = source.kind == TaskKind::Forward;
  bool sends = source.kind != TaskKind::WeightGradient && topology.stations[task.station].isLead();
  for (uint32_t e = 0; e < plan->edges()->size() && sends; ++e) {
    const fb::Edge &edge = *plan->edges()->Get(e);
    bool produces = edge.producer() == group.section && edge.producer_stage() == source.stage;
    bool consumes = edge.consumer() == group.section && edge.consumer_stage() == source.stage;
    if (forward && produces)
      MAESTRO_TRY(addSends(task, e, false));
    if (!forward && consumes && edge.carries_gradient())
      MAESTRO_TRY(addSends(task, e, true));
  }
  task.sends = static_cast<uint32_t>(sendList.size()) - task.firstSend;
  taskList.push_back(task);
  return Status();
}

/// How many micro-batches of another section share a sample with this one: as many messages pass.
uint32_t RankWork::countPartners(uint32_t microBatch, uint32_t otherSection) {
  partners.clear();
  ++stampValue;
  size_t samples = problem->sampleCount();
  for (uint32_t sample : schedule->samplesOf(schedule->microBatches[microBatch])) {
    uint32_t other = groupOf[otherSection * samples + sample];
    if (other == kNone || stamp[other] == stampValue)
      continue;
    stamp[other] = stampValue;
    partners.push_back(other);
  }
  return static_cast<uint32_t>(partners.size());
}

void RankWork::addReceives(const RankTask &task) {
  const StationFacts &station = topology.stations[task.station];
  bool forward = task.kind == TaskKind::Forward;
  bool splits = problem->sections[station.section].splitsBackward;
  bool lastBackward = task.kind == (splits ? TaskKind::WeightGradient : TaskKind::Backward);
  for (uint32_t r = 0; r < topology.rings.size(); ++r) {
    const RingFacts &ring = topology.rings[r];
    if (ring.receiver != task.station)
      continue;
    const fb::Edge &edge = *plan->edges()->Get(ring.edge);
    bool held = edge.held_until_backward() && !evaluates;
    bool reads = ring.gradient ? !forward : forward || held;
    if (!reads)
      continue;
    Receive receive;
    receive.ring = r;
    receive.sequence = sequenceOf(ring.gradient, task.microBatch, station.stage);
    receive.posts =
        isBetweenStages(edge) ? 1 : countPartners(task.microBatch, ring.gradient ? edge.consumer() : edge.producer());
    receive.last = lastBackward || (!ring.gradient && !held);
    receiveList.push_back(receive);
  }
}

Status RankWork::addSends(const RankTask &task, uint32_t edgeIndex, bool gradient) {
  const fb::Edge &edge = *plan->edges()->Get(edgeIndex);
  const wavefront::MicroBatch &group = schedule->microBatches[task.microBatch];
  size_t samples = problem->sampleCount();
  uint32_t otherSection = gradient ? edge.producer() : edge.consumer();
  uint32_t otherStage = gradient ? edge.producer_stage() : edge.consumer_stage();
  plan::DimSubset &dims = edgeShapes[edgeIndex].dims;
  auto keep = [](std::vector<int64_t> &sizes, std::span<const int64_t> values) {
    sizes.assign(values.begin(), values.end());
  };
  keep(fromSizes, dims.evaluate(dimsOf(task.microBatch)));
  countPartners(task.microBatch, otherSection);
  for (uint32_t other : partners) {
    keep(toSizes, dims.evaluate(dimsOf(other)));
    Send send;
    send.sequence = sequenceOf(gradient, other, otherStage);
    send.microBatch = other;
    send.firstBox = static_cast<uint32_t>(boxList.size());
    if (isBetweenStages(edge))
      MAESTRO_TRY(addWhole(edgeIndex, send));
    for (uint32_t sample : schedule->samplesOf(group)) {
      if (isBetweenStages(edge) || groupOf[otherSection * samples + sample] != other)
        continue;
      MAESTRO_ASSIGN(Box box, boxOf(edgeIndex, sample, gradient));
      uint64_t bytes = box.elementBytes;
      for (uint32_t d = 0; d < box.rank; ++d)
        bytes *= box.extents[d];
      if (bytes == 0)
        continue;
      boxList.push_back(box);
      send.rows += static_cast<uint64_t>(shapeOf(edgeIndex, sample)[edgeShapes[edgeIndex].rowsDim]);
      send.bytes += bytes;
    }
    send.boxes = static_cast<uint32_t>(boxList.size()) - send.firstBox;
    uint32_t lead = stationOf(schedule->microBatches[other], otherStage);
    for (uint32_t receiver = lead; receiver < lead + topology.stations[lead].members;
         ++receiver) { // The same to each part.
      send.ring = topology.ringAt(edgeIndex, gradient, receiver);
      const std::vector<uint32_t> &senders = topology.rings[send.ring].senders;
      send.sender = static_cast<uint32_t>(std::find(senders.begin(), senders.end(), task.station) - senders.begin());
      sendList.push_back(send);
    }
  }
  return Status();
}

/// The micro-batch as it is, padding included: what a mask wrote there is read on the other side.
Status RankWork::addWhole(uint32_t edgeIndex, Send &send) {
  uint64_t bytes = byteSize(static_cast<DType>(plan->edges()->Get(edgeIndex)->dtype()));
  for (int64_t size : fromSizes)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      return Status::invalidInput(fmt::format("edges[{}]: a micro-batch is too large; the plan is damaged", edgeIndex));
  if (bytes > 0)
    boxList.push_back(Box::contiguous(0, 0, bytes));
  send.rows = static_cast<uint64_t>(fromSizes[edgeShapes[edgeIndex].rowsDim]);
  send.bytes = bytes;
  return Status();
}

/// One sample's rows, from their place in the sender's micro-batch to their place in the receiver's. Inner dims that
/// are whole on both sides are one run of bytes.
Result<Box> RankWork::boxOf(uint32_t edgeIndex, uint32_t sample, bool gradient) {
  const fb::Edge &edge = *plan->edges()->Get(edgeIndex);
  size_t samples = problem->sampleCount();
  std::span<const int64_t> shape = shapeOf(edgeIndex, sample);
  int64_t producerAt = producerRow[edgeIndex * samples + sample],
          consumerAt = consumerRow[edgeIndex * samples + sample];
  int64_t fromRow = gradient ? consumerAt : producerAt, toRow = gradient ? producerAt : consumerAt;
  Box box;
  auto element = static_cast<int64_t>(byteSize(static_cast<DType>(edge.dtype())));
  auto fromStride = static_cast<uint64_t>(element), toStride = fromStride; // May wrap: bind() refuses such sizes.
  bool merging = true;
  std::array<uint64_t, Box::kMaxRank> extents{};
  std::array<int64_t, Box::kMaxRank> fromStrides{}, toStrides{};
  uint32_t rank = 0;
  box.elementBytes = static_cast<uint64_t>(element);
  for (auto d = static_cast<uint32_t>(shape.size()); d-- > 0;) {
    int64_t extent = shape[d], fromAt = 0, toAt = 0;
    if (d == edgeShapes[edgeIndex].rowsDim)
      fromAt = fromRow, toAt = toRow;
    auto holds = [extent](int64_t size, int64_t at) {
      return extent >= 0 && at >= 0 && size >= at && extent <= size - at;
    };
    if (!holds(fromSizes[d], fromAt) || !holds(toSizes[d], toAt))
      return Status::invalidInput(
          fmt::format("edges[{}].shape[{}]: a sample's {} rows from row {} and {} do not lie within its "
                      "micro-batches' {} and {}; the plan is damaged",
                      edgeIndex, d, extent, fromAt, toAt, fromSizes[d], toSizes[d]));
    box.source += static_cast<uint64_t>(fromAt) * fromStride;
    box.destination += static_cast<uint64_t>(toAt) * toStride;
    if (merging) {
      box.elementBytes *= static_cast<uint64_t>(extent); // The outermost merged dim may be partial.
      merging = extent == fromSizes[d] && extent == toSizes[d];
    } else if (rank < Box::kMaxRank) {
      extents[rank] = static_cast<uint64_t>(extent);
      fromStrides[rank] = static_cast<int64_t>(fromStride);
      toStrides[rank] = static_cast<int64_t>(toStride);
      ++rank;
    }
    fromStride *= static_cast<uint64_t>(fromSizes[d]);
    toStride *= static_cast<uint64_t>(toSizes[d]);
  }
  box.rank = rank;
  for (uint32_t d = 0; d < rank; ++d) { // From the outermost.
    box.extents[d] = extents[rank - 1 - d];
    box.sourceStrides[d] = fromStrides[rank - 1 - d];
    box.destinationStrides[d] = toStrides[rank - 1 - d];
  }
  return box;
}

} // namespace maestro::executor

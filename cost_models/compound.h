// A compound workload as costs: sections cut into stages, the edges between them, and what a layout makes of them.
// Plain data, free of MLIR: the planner fills it in from trial emissions, tests from a few numbers.
//
//   CompoundModel + CompoundLayout + Machine ─▶ wavefront::Problem    (what the executor's scheduler schedules)
//                                            └▶ bytes of each device
#pragma once

#include "cost_models/in_flight.h"
#include "cost_models/machine.h"
#include "wavefront/problem.h"

#include <cstdint>
#include <string>
#include <vector>

namespace maestro::cost_models {

struct TaskCosts {
  wavefront::Cost forward, backward;   ///< Of one micro-batch.
  wavefront::Cost weightGradient = {}; ///< Of sections that split their backward; not part of `backward` then.
};

/// What a stage does and holds with micro-batches of one size.
struct StageCosts {
  wavefront::Cost forward, backward; ///< Of one micro-batch, on Machine.kinds[0].
  uint64_t slotBytes = 0;            ///< Of one micro-batch in flight.
  uint64_t workspaceBytes = 0;
  uint64_t hostBytes = 0;                 ///< Beside the device's regions.
  std::vector<TaskCosts> otherKinds = {}; ///< On Machine.kinds[1] …; empty: as on kinds[0].
  wavefront::Cost weightGradient = {};    ///< As TaskCosts has it.
};

/// What parameters hold on a device, whatever the micro-batch, in the parts that a sharded optimizer would divide.
struct ParameterBytes {
  uint64_t values = 0;
  uint64_t gradients = 0;   ///< What replicas add up.
  uint64_t state = 0;       ///< The optimizer's.
  uint64_t updateFlops = 0; ///< Of products in an update (Muon's).
  uint64_t resident() const { return values + gradients + state; }
  /// What the norm (gradients read) and the optimizer (values, gradients and its state read and written) move in a
  /// step.
  uint64_t moved() const { return 5 * gradients + 2 * state; }
  ParameterBytes operator*(uint64_t times) const {
    return {values * times, gradients * times, state * times, updateFlops * times};
  }
  bool operator==(const ParameterBytes &) const = default;
};

struct StageModel {
  ParameterBytes parameters;
  std::vector<StageCosts> at; ///< By CompoundModel.microBatches.
};

/// How much one micro-batch of a section may hold.
struct MicroBatchCapacity {
  int64_t samples = 1;
  std::vector<int64_t> dims;          ///< In each of CompoundModel.dims,
  std::vector<wavefront::Area> areas; ///< and in padded tokens: with them, more short samples than long ones.
};

/// Whether the same micro-batches fit.
bool isSame(const MicroBatchCapacity &a, const MicroBatchCapacity &b);

struct SectionModel {
  std::string name;
  bool trains = false;
  std::vector<uint32_t> activeDims;           ///< A sample takes part iff all are above 0 for it.
  std::vector<MicroBatchCapacity> capacities; ///< By CompoundModel.microBatches.
  std::vector<StageModel> stages;
  bool splitsBackward = false;    ///< Weight gradients are tasks of their own.
  double presence = 1;            ///< Of all samples, those that take part.
  std::vector<uint32_t> unpadded; ///< The samples of a micro-batch have the same value in each of these dims.
};

/// bytes · Π of the dims listed.
struct BytesTerm {
  double bytes = 0;
  std::vector<uint32_t> dims; ///< CompoundModel.dims
};

struct EdgeModel {
  uint32_t producer = 0, producerStage = 0;
  uint32_t consumer = 0, consumerStage = 0;
  bool gradient = false, heldUntilBackward = false;
  std::vector<BytesTerm> bytes;            ///< Of the tensor, a polynomial over the sender's micro-batch.
  std::vector<uint64_t> slotBytes;         ///< Of the consumer's ring, by its micro-batch,
  std::vector<uint64_t> gradientSlotBytes; ///< of the producer's ring for gradients, by its own.
};

struct CompoundModel {
  std::vector<wavefront::Dim> dims;
  std::vector<int64_t> microBatches;  ///< Sizes to choose from, in samples of the greatest length.
  std::vector<SectionModel> sections; ///< Producers before consumers.
  std::vector<EdgeModel> edges;
  int64_t stepSamples = kAnySamples; ///< No more are in flight.
};

/// How one section runs.
struct SectionChoice {
  uint32_t microBatch = 0;                    ///< CompoundModel.microBatches
  std::vector<std::vector<uint32_t>> devices; ///< replica × stage
  uint32_t moreInFlight = 0;                  ///< Micro-batches, beside the usual ones (StageFlow.more).
  auto operator<=>(const SectionChoice &) const = default;
};
using CompoundLayout = std::vector<SectionChoice>; ///< By CompoundModel.sections.

/// A capacity for each size, each of the dims that there are.
Status check(const std::vector<MicroBatchCapacity> &capacities, const std::vector<wavefront::Dim> &dims,
             const std::vector<int64_t> &microBatches);
/// Sizes that fit each other, indices in range.
Status check(const CompoundModel &model);
/// Of a checked model: a choice for each section, its micro-batch and devices there, a device a stage.
Status check(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout);

/// Norm and optimizer at these devices, bound by the slowest one's memory.
Seconds updateSeconds(const StageModel &stage, std::span<const uint32_t> devices, const Machine &machine);
/// The end of a step: gradients summed over replicas at these devices, one of each, then norm and optimizer.
Seconds stepEndSeconds(const StageModel &stage, std::span<const uint32_t> devices, const Machine &machine);
/// Bytes that a stage holds on a device with micro-batches of one size and so many slots, but for its rings.
uint64_t stageBytes(const StageModel &stage, uint32_t microBatch, uint64_t slots);
/// What a step takes besides (DeviceRates::step), where stages in turn bring their devices: each device has it once.
class StepOverheads {
public:
  /// Of those of the devices that no stage brought before, the longest.
  Seconds add(std::span<const uint32_t> devices, const Machine &machine);

private:
  std::vector<uint8_t> seen; ///< By device.
};
/// A stage's tasks at these devices: those of the slowest kind among them, with full micro-batches.
TaskCosts taskCosts(const MicroBatchCapacity &capacity, const StageCosts &costs, std::span<const uint32_t> devices,
                    const Machine &machine);
/// The time of an edge's tensor, as the scheduler takes it.
wavefront::Cost transferTime(const std::vector<BytesTerm> &bytes, const CommunicationCost &cost);

/// The scheduling problem of a step, without its samples. Reduction and update are the stages' updates. What passes
/// over an edge takes as long as between the two devices furthest apart that may use it.
wavefront::Problem makeProblem(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout);

/// Bytes that each device holds.
std::vector<uint64_t> deviceBytes(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout);

} // namespace maestro::cost_models

// A compound workload as costs: sections cut into stages, the edges between them, and what a layout makes of them. Plain
// data, free of MLIR: the planner fills it in from trial emissions, tests from a few numbers.
//
//   CompoundModel + CompoundLayout + Machine ─▶ wavefront::Problem    (what the executor's scheduler schedules)
//                                            └▶ bytes of each device
#pragma once

#include "executor/wavefront/problem.h"

#include <cstdint>
#include <string>
#include <vector>

namespace maestro::cost_models {

/// What a stage does and holds with micro-batches of one size.
struct StageCosts {
  wavefront::Cost forward, backward; ///< Of one micro-batch.
  uint64_t slotBytes = 0;            ///< Of one micro-batch in flight.
  uint64_t workspaceBytes = 0;
  uint64_t hostBytes = 0;            ///< Beside the device's regions.
};

struct StageModel {
  uint64_t residentBytes = 0; ///< Parameters, gradients, optimizer state, whatever the micro-batch.
  uint64_t gradientBytes = 0; ///< What replicas add up.
  uint64_t updateBytes = 0;   ///< What norm and optimizer read and write in a step.
  std::vector<StageCosts> at; ///< By CompoundModel.microBatches.
};

struct SectionModel {
  std::string name;
  bool trains = false;
  std::vector<uint32_t> activeDims; ///< A sample takes part iff all are above 0 for it.
  std::vector<StageModel> stages;
};

struct EdgeModel {
  uint32_t producer = 0, producerStage = 0;
  uint32_t consumer = 0, consumerStage = 0;
  bool gradient = false, heldUntilBackward = false;
  wavefront::Cost transfer;
  std::vector<uint64_t> slotBytes;         ///< Of the consumer's ring, by its micro-batch,
  std::vector<uint64_t> gradientSlotBytes; ///< of the producer's ring for gradients, by its own.
};

struct CompoundModel {
  std::vector<wavefront::Dim> dims;
  std::vector<int64_t> microBatches;              ///< Sizes to choose from, in samples, ascending.
  std::vector<std::vector<int64_t>> capacities;   ///< By microBatches, in each dim.
  std::vector<SectionModel> sections;             ///< Producers before consumers.
  std::vector<EdgeModel> edges;
};

/// How one section runs.
struct SectionChoice {
  uint32_t microBatch = 0;                    ///< CompoundModel.microBatches
  std::vector<std::vector<uint32_t>> devices; ///< replica × stage
  auto operator<=>(const SectionChoice &) const = default;
};
using CompoundLayout = std::vector<SectionChoice>; ///< By CompoundModel.sections.

/// Equal devices of one machine.
struct Machine {
  uint32_t devices = 1;
  uint64_t deviceBytes = UINT64_MAX;
  double memoryBytesPerSecond = 8e9; ///< Of a device: updates and the reduction of gradients run at it.
  uint64_t processBytes = 0;         ///< Of every stage's hostBytes: the stations of a device share it.
  uint64_t stagingBytes = 0;         ///< On each device of a stage whose gradients are added up over replicas.
};

/// Sizes that fit each other, indices in range.
Status check(const CompoundModel &model);
/// Of a checked model: a choice for each section, its micro-batch and devices there, a device a stage.
Status check(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout);

/// Seconds in which a stage's gradients are added up over replicas: each stages its own (read, written), adds its share of
/// all (read, a share written), and fetches the sum (read, written).
double reductionSeconds(uint64_t gradientBytes, size_t replicas, const Machine &machine);
/// What the norm (gradients read) and the optimizer (values, gradients and its state read and written) move in a step.
uint64_t updateBytes(uint64_t gradientBytes, uint64_t optimizerStateBytes);
/// Norm and optimizer, bound by memory.
double updateSeconds(const StageModel &stage, const Machine &machine);

/// The scheduling problem of a step, without its samples. Reduction and update are the stages' updates.
wavefront::Problem makeProblem(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout);

/// Bytes that each device holds.
std::vector<uint64_t> deviceBytes(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout);

} // namespace maestro::cost_models

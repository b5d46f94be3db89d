// The answer: micro-batches, and each device's tasks in order.
#pragma once

#include "wavefront/problem.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace maestro::wavefront {

/// Samples of one section that run together, through all its stages of one replica.
struct MicroBatch {
  uint32_t section = 0, replica = 0;
  uint32_t firstSample = 0, samples = 0; ///< Schedule.samples[firstSample, firstSample + samples)
  uint32_t firstDim = 0;                 ///< Schedule.dims[firstDim, firstDim + Problem.dims.size())
};

enum class TaskKind : uint8_t { Forward, Backward, WeightGradient };

struct Task {
  uint32_t microBatch = 0; ///< Schedule.microBatches
  uint16_t stage = 0;
  TaskKind kind = TaskKind::Forward;
  int64_t startNs = 0, endNs = 0; ///< As planned, from the step's start.
};

/// Reusable: a scheduler that fills it again allocates nothing once it has grown.
struct Schedule {
  std::vector<uint32_t> samples;        ///< Positions in the batch, micro-batch by micro-batch.
  std::vector<int64_t> dims;            ///< Combined dims, micro-batch by micro-batch.
  std::vector<MicroBatch> microBatches; ///< Section by section.
  std::vector<Task> tasks;              ///< Device by device, in order.
  std::vector<uint32_t> deviceTasks;    ///< devices + 1 offsets into tasks.
  int64_t makespanNs = 0;
  int64_t lowerBoundNs = 0; ///< No schedule of this problem is shorter (lower_bound.h).

  std::span<const Task> tasksOf(uint32_t device) const {
    return {tasks.data() + deviceTasks[device], tasks.data() + deviceTasks[device + 1]};
  }
  std::span<const uint32_t> samplesOf(const MicroBatch &group) const {
    return {samples.data() + group.firstSample, group.samples};
  }
};

/// Over everything that ranks must agree on: micro-batches and orders, not times.
uint64_t hash(const Schedule &schedule);

/// Holds schedules against every rule of README.md. Keeps its memory between steps: verifying schedules no larger than
/// before allocates nothing. Time is linear in tasks, and in the samples that each passes on or gets. One thread at a
/// time.
class Verifier {
public:
  Verifier();
  ~Verifier();
  /// Requires check(problem). Internal names the first rule that is broken, and its place.
  Status run(const Problem &problem, const Schedule &schedule);

  struct State;

private:
  std::unique_ptr<State> state;
};

/// The same, once.
Status verify(const Problem &problem, const Schedule &schedule);

} // namespace maestro::wavefront

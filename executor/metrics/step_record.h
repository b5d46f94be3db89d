// What is known about one finished step; metrics.jsonl and the progress line are made of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maestro::metrics {

struct LossValue {
  std::string name; ///< Unique within a run: cross_entropy, kl_divergence, kl_divergence_2 …
  double value = 0; ///< Unweighted.
};

/// A device works in tasks, in the reduction of gradients, and in norm and update; otherwise it is idle.
struct DeviceTimes {
  double busySeconds = 0;
  double idleSeconds = 0;
};

/// What came over an edge, forward and back, at all its consumers together.
struct EdgeBytes {
  std::string name;
  uint64_t bytes = 0, gradientBytes = 0;
};

/// What a process has written over the network, and how long something was under way.
struct NetworkUse {
  uint32_t process = 0;
  uint64_t bytes = 0;
  double busySeconds = 0;
};

/// One that takes longer than the others do for the same planned time.
struct SlowDevice {
  uint32_t rank = 0;
  double times = 1; ///< As long.
};

struct SectionTimes {
  std::string name;
  double busySeconds = 0; ///< In its own tasks, over all its stations.
  double idleSeconds = 0; ///< Of its devices, each once: idle, whatever section they might have worked for.
  uint64_t microbatches = 0;
};

struct SampleName {
  std::string key, shard; ///< No shard: synthetic.
};

/// The losses over the validation data after a step.
struct ValidationRecord {
  double loss = 0; ///< Weighted sum.
  std::vector<LossValue> losses;
  uint64_t samples = 0, tokens = 0;
  double seconds = 0; ///< No part of the step's.
};

/// Reused from step to step, so that names are allocated once.
struct StepRecord {
  uint64_t step = 0; ///< From 1.
  double loss = 0;   ///< Weighted sum.
  std::vector<LossValue> losses;
  double gradNorm = 0;
  double lr = 0;
  uint64_t samples = 0;
  uint64_t tokens = 0;
  uint64_t tokensSeen = 0; ///< Of the whole run, up to this step.
  double unixSeconds = 0;  ///< When it ended.
  uint64_t dataBytes = 0; ///< Of samples' values: what all processes have read for their steps since the record before.
  double stepSeconds = 0;
  uint64_t peakBytes = 0;
  double predictedStepSeconds = 0; ///< Of this step's samples, by itself: tasks, reduction of gradients, update.
  double scheduleSeconds = 0;      ///< Processor time in which micro-batches were formed and tasks ordered.
  std::vector<SectionTimes> sections;
  std::vector<DeviceTimes> devices;     ///< By rank.
  std::vector<EdgeBytes> edges = {};    ///< By Plan.edges.
  std::vector<NetworkUse> network = {}; ///< Of processes that have one.
  std::vector<SlowDevice> slowDevices = {};
  bool applied = true;                             ///< Loss and gradient norm are finite.
  std::vector<SampleName> badSamples = {};         ///< Where it was not: those to look at.
  std::optional<ValidationRecord> validation = {}; ///< Where one followed.
};

} // namespace maestro::metrics

// A station: one stage of one replica of a section, on its rank's device. Holds the executable's memory and queues its
// programs for micro-batches; decides nothing.
#pragma once

#include "base/status.h"
#include "executor/core/executable.h"
#include "executor/core/topology.h"
#include "executor/data/batcher.h"
#include "executor/data/sample.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace maestro::executor {

/// What a task of a micro-batch runs on.
struct MicroBatchData {
  uint32_t number = 0; ///< Within the step.
  std::span<const data::Sample *const> samples;
  std::span<const int64_t> dims; ///< By Plan.symbols.
  uint64_t step = 0;
};

class Station {
public:
  /// The plan, device and batcher must outlive it. `shared`: regions that other ranks see, too.
  static Result<std::unique_ptr<Station>> create(const plan::Plan &plan, const Topology &topology, uint32_t station,
                                                 Device &device, const data::Batcher &batcher, uint64_t growth,
                                                 const SharedRegions &shared, const TensorGroup &group);

  ExecutableInstance &instance() { return *executable; }
  const plan::fb::Program *program(plan::fb::ProgramKind kind) const { return executable->program(kind); }

  /// Copies of parameters in other element types, made from the values that were loaded.
  Status prepareParameters();

  /// Queues what the programs read of the micro-batch, then the program; `slot` of those in flight.
  Status launchCount(const MicroBatchData &data, uint64_t seed);
  Status launchForward(const MicroBatchData &data, uint64_t seed, uint32_t slot, bool evaluates);
  Status launchBackward(const MicroBatchData &data, uint32_t slot);
  Status launchWeightGradient(const MicroBatchData &data, uint32_t slot);
  /// Programs that run once a step.
  Status launchOnce(plan::fb::ProgramKind kind);

  /// Queues reading a micro-batch's loss sums or counts into `values`, by Plan.losses; there after the next wait.
  void readLosses(plan::fb::BindingKind kind, uint32_t slot, std::span<float> values);
  /// Queues writing weight ÷ count of each loss.
  void writeScales(std::span<const float> scales);
  /// Queues what an update leaves of the gradients, without the update.
  void zeroGradients();
  void writeHyperParameters(std::span<const std::array<float, 8>> byGroup);
  /// By BindingKind::NormSquares' index; false where the station has none of it.
  bool readNormSquares(uint32_t index, double &value);

private:
  Station(const data::Batcher &batcher, Device &device) : batcher(batcher), device(device) {}
  struct Staging;
  void reserveStaging();
  Status load(const MicroBatchData &data, uint64_t seed, uint32_t slot,
              std::span<const plan::fb::Program *const> programs, Staging &set);
  Status loadField(uint32_t field, const MicroBatchData &data, uint32_t slot, Staging &set);
  Status launch(plan::fb::ProgramKind kind, const MicroBatchData &data, uint32_t slot);

  const data::Batcher &batcher;
  Device &device;
  std::unique_ptr<ExecutableInstance> executable;

  /// Host copies of what a micro-batch's task reads; two sets, so that one is filled while the device still reads the
  /// other.
  struct Staging {
    std::vector<std::vector<std::byte>> fields; ///< By Plan.fields.
    std::vector<int64_t> sampleIds;
    std::array<int64_t, 2> randomState{};
    Point busyUntil;
  };
  std::array<Staging, 2> staging;
  std::array<Staging, 16> counting; ///< Of Counts, which are short: waiting for one would take longer than they do.
  size_t nextStaging = 0, nextCounting = 0;
  std::vector<bool> loaded; ///< Scratch of load(), by Plan.fields.
};

/// The symbol that counts samples rather than a field's rows (the length of dropout's sample ids); kNone when there is
/// none.
uint32_t findSampleSymbol(const plan::Plan &plan);

} // namespace maestro::executor

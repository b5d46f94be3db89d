// What an executable keeps of its parameters from step to step (values, gradients, optimizer state), and the programs
// that work on these alone: Norm, Update, Prepare.
//
// No MLIR.
#pragma once

#include "plan/parameter_groups.h"
#include "planner/emit/executable_writer.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace maestro::planner {

/// The optimizer's per-parameter needs, in plan order.
struct ParameterSlot {
  bool present = true; ///< This executable holds it.
  bool owned = true;   ///< Of several executables that hold it, the one that counts it in the norm.
  std::string name;    ///< "component/state.dict.name"
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< Of what a device holds: a part, where it is split.
  bool trainable = false;
  double weightDecay = 0;
  uint32_t group = 0;              ///< As plan::optimizerOf() counts them.
  uint32_t splitDim = plan::kNone; ///< Split over the section's tensor-parallel devices.
};

class ParameterStorages {
public:
  /// All but `bindings` must outlive it; bindings are appended as storages are made.
  ParameterStorages(std::span<const ParameterSlot> parameters, const plan::fb::TrainingT &training,
                    plan::PlanBuilder &tables, StorageTable &storages, std::vector<PendingBinding> &bindings)
      : parameters(parameters), training(training), tables(tables), storages(storages), bindings(bindings) {}

  /// Gives every parameter that is present its places.
  void layOut();

  /// Storages; kNone for what is not held.
  uint32_t value(uint32_t parameter) const { return values[parameter]; }
  uint32_t gradient(uint32_t parameter) const { return gradients[parameter]; }
  bool anyGradient() const;

  /// The lasting bf16 copy of the parameter whose value is that storage: made by Prepare when the value was loaded and
  /// by the optimizer whenever it changes, so that no micro-batch converts it. kNone when no parameter lies there.
  uint32_t lowPrecisionCopy(uint32_t valueStorage);
  bool anyLowPrecision() const { return !lowPrecision.empty(); }

  std::vector<PendingCall> normCalls();
  std::vector<PendingCall> updateCalls();
  std::vector<PendingCall> prepareCalls();

private:
  /// Who counts a gradient in the norm: the section's first device, each device its part, or another executable.
  enum class Counted : uint8_t { Whole, InParts, Elsewhere };
  Counted counted(uint32_t parameter) const;
  void layOutTrained(uint32_t parameter);
  PendingCall normCall(uint32_t index, uint64_t begin, uint64_t end);
  void add(std::vector<uint32_t> &list, uint32_t parameter, plan::fb::BindingKind kind, plan::fb::RegionKind region,
           DType dtype, std::span<const int64_t> shape);
  void addState(std::vector<uint32_t> &list, uint32_t parameter, plan::fb::BindingKind kind);
  std::vector<uint32_t> shapeOf(uint32_t parameter);
  std::optional<View> momentOf(uint32_t parameter, plan::fb::BindingKind kind);
  PendingCall updateCall(uint32_t parameter, const View &hyper);
  PendingCall averageCall(uint32_t parameter, const View &hyper);
  plan::GroupOptimizer optimizerOf(uint32_t parameter) const {
    return plan::optimizerOf(training, parameters[parameter].group);
  }

  std::span<const ParameterSlot> parameters;
  const plan::fb::TrainingT &training;
  plan::PlanBuilder &tables;
  StorageTable &storages;
  std::vector<PendingBinding> &bindings;

  std::vector<uint32_t> values, gradients, moment1, moment2, averages; ///< By parameter.
  std::map<uint32_t, uint32_t> lowPrecision; ///< Parameter to its bf16 copy, for those that are read so.
  uint64_t wholeEnd = 0, partsEnd = 0;       ///< In the gradients' region: of what is counted whole, and in parts.
};

} // namespace maestro::planner

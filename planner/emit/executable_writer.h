// Calls on storages -> programs, buffers and bindings of an executable: one buffer for each distinct view.
//
// To be used once every storage has its place (StorageTable::pack). No MLIR.
#pragma once

#include "base/dtype.h"
#include "plan/builder.h"
#include "planner/emit/storages.h"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

/// A typed view of a storage.
struct View {
  uint32_t storage = plan::kNone;
  std::vector<uint32_t> shape; ///< Plan.exprs
  DType dtype = DType::F32;
  auto operator<=>(const View &) const = default;
};

struct PendingCall {
  std::string kernel;
  std::vector<std::optional<View>> inputs, outputs;
  std::vector<plan::fb::AttributeT> attributes;
  std::string scope;
  uint64_t flops = 0; ///< Of an update; what graphs contain has its cost in them.
};

/// What the executor writes or reads at a view.
struct PendingBinding {
  plan::fb::BindingKind kind;
  uint32_t index;
  View view;
  uint32_t splitDim = plan::kNone; ///< Of a parameter that is split.
};

class ExecutableWriter {
public:
  ExecutableWriter(const StorageTable &storages, plan::PlanBuilder &tables, plan::fb::ExecutableT &executable)
      : storages(storages), tables(tables), executable(executable) {}

  /// Buffers on that storage are constants of the plan.
  void setConstant(uint32_t storage, const std::vector<uint8_t> &bytes) { constants[storage] = bytes; }

  /// `fields` may name one several times. The caller fills in what the program costs.
  plan::fb::ProgramT &addProgram(plan::fb::ProgramKind kind, const std::vector<PendingCall> &calls,
                                 std::vector<uint32_t> fields);
  void bind(const PendingBinding &binding);

private:
  uint32_t buffer(const View &view);

  const StorageTable &storages;
  plan::PlanBuilder &tables;
  plan::fb::ExecutableT &executable;
  std::map<uint32_t, std::vector<uint8_t>> constants;
  std::map<View, uint32_t> bufferIndex;
};

} // namespace maestro::planner

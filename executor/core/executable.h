// An executable of the plan on a device: its regions in device memory, its buffers' addresses, and
// its programs prepared for the shapes that have been seen.
//
// Cost: create() and the first bind() of a shape may allocate and take milliseconds; bind() of a seen
// shape and launch() allocate nothing.
#pragma once

#include "base/status.h"
#include "executor/device/device.h"
#include "executor/world/exchange.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace maestro::executor {

using plan::kNone;

inline constexpr size_t kProgramKinds = static_cast<size_t>(plan::fb::ProgramKind::MAX) + 1;

/// A collective between calls of a program, prepared for fixed shapes.
struct PreparedCollective {
  plan::fb::CallKind kind;
  OperandRef input, output;
  uint64_t runs = 1, runBytes = 0; ///< Of one rank's part.
};

/// Calls up to a collective, and that; then the next.
struct ProgramStep {
  std::unique_ptr<PreparedProgram> calls;
  std::unique_ptr<PreparedCollective> collective; ///< Null after the last.
};
using ProgramSteps = std::vector<ProgramStep>;

/// A micro-batch's shapes: all expressions of the plan evaluated, and the programs prepared for them.
struct BoundShapes {
  std::vector<int64_t> symbols;                     ///< By Plan.symbols.
  std::vector<int64_t> dims;                        ///< By Plan.exprs.
  std::array<ProgramSteps, kProgramKinds> programs; ///< Empty: not prepared yet.
  size_t calls = 0;                                 ///< Of the prepared programs.
  uint64_t lastUse = 0;
};

/// A region in memory that several ranks share.
struct SharedRegion {
  Address base;
  uint64_t stride = 0; ///< Bytes between copies.
};
using SharedRegions = std::map<uint32_t, SharedRegion>; ///< By region.

/// Which of a station's ranks this is, and how it meets the others inside programs.
struct TensorGroup {
  uint32_t index = 0, count = 1;
  Exchange::Member *exchange = nullptr; ///< Null where it is alone.
};

/// The least growth (see ExecutableInstance) under which micro-batches of these symbol values fit in all executables.
/// InvalidInput: it would be out of all proportion.
Result<uint64_t> growthFor(const plan::Plan &plan, std::span<const int64_t> symbols);

class ExecutableInstance {
public:
  /// Allocates the regions that are not in `shared`. `growth` ≥ 1 multiplies slot and workspace memory, offsets
  /// included, so that micro-batches up to `growth` times the planned size fit (the one-piece evaluation of
  /// --self-check). The plan and the device must outlive the instance.
  static Result<std::unique_ptr<ExecutableInstance>> create(const plan::Plan &plan, uint32_t executable, Device &device,
                                                            uint64_t growth = 1, const SharedRegions &shared = {},
                                                            const TensorGroup &group = {});

  const TensorGroup &tensorGroup() const { return group; }
  const plan::fb::Executable &table() const { return *executable; }
  bool hasProgram(plan::fb::ProgramKind kind) const;
  const plan::fb::Program *program(plan::fb::ProgramKind kind) const;

  /// The buffer bound to (kind, index), or kNone.
  uint32_t boundBuffer(plan::fb::BindingKind kind, uint32_t index) const;
  /// Where a buffer starts; `slot` matters for Slot buffers only. Of a channel: in the copy that is selected.
  Address address(uint32_t buffer, uint32_t slot) const;
  /// Which slot of an edge's ring the next launches read.
  void selectCopy(uint32_t region, uint32_t copy) { selected[region] = copy; }
  /// Bytes of a buffer under `shapes`, and in any micro-batch at most.
  uint64_t bytes(uint32_t buffer, const BoundShapes &shapes) const;
  uint64_t mostBytes(uint32_t buffer) const;

  /// Shapes for these symbol values (by Plan.symbols). InvalidInput when a buffer would outgrow
  /// what was planned. The reference stays valid until the next bind() of other values.
  Result<BoundShapes *> bind(std::span<const int64_t> symbols);
  /// Shapes at the executable's bounds, for programs that run once per step.
  Result<BoundShapes *> bindBounds();

  /// Queues a program; prepares it for these shapes when it is the first time.
  Status launch(plan::fb::ProgramKind kind, BoundShapes &shapes, uint32_t slot, int32_t task);

  uint32_t slots() const { return slotCount; }

private:
  ExecutableInstance(const plan::Plan &plan, const plan::fb::Executable &table, Device &device, uint64_t growth,
                     const TensorGroup &group)
      : plan(plan), executable(&table), device(device), growth(growth), group(group) {}

  Status allocateRegions(const SharedRegions &shared);
  Address base(uint32_t region, uint32_t slot) const;
  Status writeConstants();
  Status dropOldShapes();
  bool grows(uint32_t region) const;
  Result<ProgramSteps> prepare(const plan::fb::Program &program, const BoundShapes &shapes);
  Result<std::unique_ptr<PreparedCollective>> prepareCollective(const plan::fb::Call &call,
                                                                const BoundShapes &shapes) const;
  /// Into `result`, which keeps its memory.
  void describeCall(const plan::fb::Call &call, const BoundShapes &shapes, CallDescription &result) const;
  Status checkOverwritten(const CallDescription &call) const;
  void launchCollective(const PreparedCollective &collective);

  const plan::Plan &plan;
  const plan::fb::Executable *executable;
  Device &device;
  uint64_t growth;
  TensorGroup group;
  uint32_t slotCount = 1;
  std::map<uint64_t, uint32_t> bound; ///< Buffers by kind and index of their binding.
  std::vector<Address> regionBlocks;
  std::vector<uint64_t> regionStride; ///< Bytes between copies.
  std::vector<uint32_t> selected;     ///< By region: the copy that is used.
  mutable std::vector<Address> bases; ///< Of the launch under way.
  std::vector<int64_t> boundSymbols;  ///< Symbol values of a full micro-batch of the longest samples.
  std::vector<std::unique_ptr<BoundShapes>> shapesSeen;
  size_t preparedCalls = 0; ///< Of all shapes.
  uint64_t useCounter = 0;
  std::vector<CallDescription> descriptions; ///< Of the program that is being prepared.
};

} // namespace maestro::executor

// A plan's operations by the tables that they are, and what their references mean. The verifier is made of it, and so
// is emission (planner/read_ir).
#pragma once

#include "ir/plan/plan_dialect.h"

#include "llvm/ADT/StringMap.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace maestro::plan_ir {

/// The table of symbolic integers (Plan.exprs): what plan.dim operations say, with operands as places.
class ExprTable {
public:
  struct Node {
    ExprOp op;
    int64_t a = 0, b = 0; ///< As in plan/plan.fbs.
  };

  explicit ExprTable(const llvm::StringMap<uint32_t> &symbols) : symbols(symbols) {}

  /// Appends the node that `expr` computes from nodes of the table; fails where one of its operands is none.
  llvm::LogicalResult add(ExprAttr expr);
  /// The place of the first node that computes this; nothing when there is none.
  std::optional<uint32_t> find(ExprAttr expr) const;

  const std::vector<Node> &all() const { return nodes; }

private:
  using Key = std::array<int64_t, 3>;
  std::optional<Node> nodeOf(ExprAttr expr) const;

  const llvm::StringMap<uint32_t> &symbols;
  std::vector<Node> nodes;
  std::map<Key, uint32_t> places; ///< Of the first of equal nodes.
};

/// `picoseconds*symbol*symbol`
struct CostTerm {
  int64_t picoseconds = 0;
  llvm::SmallVector<llvm::StringRef, 2> symbols;
};
/// Nothing where the expression is no such product.
std::optional<CostTerm> costTermOf(ExprAttr expr);

struct ProgramTable {
  ProgramOp op;
  std::vector<CallOp> calls;
};

struct ExecutableTable {
  ExecutableOp op;
  std::vector<BoundOp> bounds;
  std::vector<AreaOp> areas;
  std::vector<RegionOp> regions;
  std::vector<BufferOp> buffers;
  std::vector<BindingOp> bindings;
  std::vector<ProgramTable> programs;
};

class PlanTables {
public:
  /// Sorts the operations of the module that `plan` is the first of; fails, with a message at the operation, where one
  /// has no place there or a name or number is not its own.
  static llvm::FailureOr<std::unique_ptr<PlanTables>> read(PlanOp plan);

  PlanOp plan;
  MachineOp machine;
  TrainingOp training;
  PredictionOp prediction; ///< May be null.
  std::vector<LinkOp> links;
  std::vector<DeviceKindOp> deviceKinds;
  std::vector<SymbolOp> symbols;
  std::vector<DimOp> dims;
  std::vector<FieldOp> fields;
  std::vector<FileOp> files;
  std::vector<ComponentOp> components;
  std::vector<ParameterOp> parameters;
  std::vector<LossOp> losses;
  std::vector<SectionOp> sections;
  std::vector<EdgeOp> edges;
  std::vector<RankOp> ranks;
  std::vector<StationOp> stations;
  std::vector<GradientSumOp> gradientSums;
  std::vector<StepSamplesOp> stepSamples;
  std::vector<DecisionOp> decisions;
  std::vector<CandidateOp> candidates;
  std::vector<LimitOp> limits;
  std::vector<QuantityOp> quantities;
  std::vector<ExecutableTable> executables;

  // Places by name.
  llvm::StringMap<uint32_t> symbolNames, fieldNames, componentNames, sectionNames, edgeNames;
  ExprTable exprs{symbolNames};

private:
  PlanTables() = default;
  llvm::LogicalResult add(mlir::Operation &op);
  llvm::LogicalResult addExecutable(mlir::ModuleOp module);
};

} // namespace maestro::plan_ir

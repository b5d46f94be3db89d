// Lowering one section's functions: where values lie, and the calls that compute them. Internal to planner/emit;
// executable_lowering.h is what others include.
//
//   executable_lowering.cpp  the order of things: programs, their timelines, what is written in the end
//   lower_arguments.cpp      what a function is given: parameters, fields, what arrives over edges, saved values
//   lower_results.cpp        what a function gives: losses, what leaves over edges
//   lower_operations.cpp     an operator is a kernel call on storages
//   gradient_sinks.cpp       how a parameter's gradient reaches its memory
#pragma once

#include "ir/nn/nn.h"
#include "planner/emit/cost_polynomial.h"
#include "planner/emit/executable_lowering.h"
#include "planner/emit/executable_writer.h"
#include "planner/emit/micro_batch_limits.h"
#include "planner/emit/operator_costs.h"
#include "planner/emit/parameter_storages.h"
#include "planner/emit/storages.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace maestro::planner {

class Lowering {
public:
  Lowering(const LoweringInput &input, plan::PlanBuilder &tables, plan::fb::ExecutableT &executable)
      : input(input), tables(tables), executable(executable),
        parameters(input.parameters, *input.training, tables, storages, bindings) {}

  Result<LoweringReport> run();

private:
  struct Program {
    plan::fb::ProgramKind kind;
    mlir::func::FuncOp function; ///< May be null.
    std::vector<PendingCall> calls;
    std::vector<uint32_t> fields;
  };
  using Calls = std::vector<PendingCall>;

  // Programs. Time counts the operators of a timeline's functions, one after the other.
  Program &start(plan::fb::ProgramKind kind, mlir::func::FuncOp function);
  Status lowerAlone(plan::fb::ProgramKind kind, mlir::func::FuncOp function, uint32_t timeline);
  Status lowerTraining();
  Status lowerFunction(mlir::func::FuncOp function, uint32_t timeline, uint32_t time, Calls &calls);
  void computeLastUses(mlir::func::FuncOp function, bool keepsSaved, uint32_t time);
  void noteSaved(mlir::func::FuncOp function);
  void addParameterPrograms();
  void write();
  CostPolynomial computeCost(const Program &program, OperatorCosts &costs, const cost_models::DeviceModel &device,
                             ProgramCost &report);
  void addCollectives(CostPolynomial &cost, mlir::func::FuncOp function, ProgramCost &report);
  void setCost(plan::fb::ProgramT &table, const Program &program);

  // What a function is given.
  Status bindArguments(mlir::func::FuncOp function, std::vector<uint32_t> &fields);
  Status bindArgument(mlir::func::FuncOp function, mlir::BlockArgument argument, std::vector<uint32_t> &fields);
  uint32_t ringStorage(const std::string &edge, bool gradient, const View &view, uint64_t bytes);

  // What a function gives.
  struct LossResult {
    mlir::Value value;
    plan::fb::BindingKind kind;
    uint32_t loss;
  };
  std::vector<LossResult> lossResults(mlir::func::FuncOp function) const;
  Status pinResults(mlir::func::FuncOp function);
  Status pinEdges(mlir::func::FuncOp function);
  bool isSaved(mlir::func::FuncOp function, mlir::Value source) const;
  void copyResults(mlir::func::FuncOp function, Calls &calls);

  // Operators.
  Status lowerOperation(mlir::Operation &op, uint32_t timeline, uint32_t time, Calls &calls);
  Status placeResult(mlir::Operation &op, unsigned result, uint32_t timeline, uint32_t time);
  bool mayOverwrite(mlir::Operation &op, unsigned operand, unsigned result, uint64_t bytes, uint32_t time);
  std::vector<plan::fb::AttributeT> attributesOf(mlir::Operation &op);
  Result<uint32_t> constantStorage(nn::ConstantOp op);
  uint32_t lowPrecisionCopy(nn::CastOp op);

  // Gradients.
  Status sinkGradients(mlir::func::FuncOp function);
  void sinkGradient(mlir::Value value, uint32_t parameter, std::vector<uint32_t> shape);
  void addSinks(mlir::Value value, Calls &calls);
  Status checkSinks(mlir::func::FuncOp function) const;
  void addZeroGradients(Calls &backward);

  // Values and types.
  mlir::Value root(mlir::Value value) const;
  View view(mlir::Value value);
  std::vector<uint32_t> shapeExprs(nn::TensorType type);
  Result<uint64_t> mostBytes(nn::TensorType type);

  const LoweringInput &input;
  plan::PlanBuilder &tables;
  plan::fb::ExecutableT &executable;
  LoweringReport report;
  std::vector<Program> programs;
  std::vector<OperatorCosts> operatorCosts; ///< By kind of device.

  StorageTable storages;
  std::vector<PendingBinding> bindings;
  ParameterStorages parameters;
  std::map<uint32_t, uint32_t> fieldStorage; ///< Plan.fields to storage.
  std::map<std::string, uint32_t> specialStorage;
  std::map<uint32_t, uint32_t> scaleStorage;                                  ///< Plan.losses to storage.
  std::map<std::pair<plan::fb::BindingKind, uint32_t>, uint32_t> lossStorage; ///< (sum or count, loss)
  std::map<std::pair<uint32_t, bool>, uint32_t> ringStorages;                 ///< (edge, gradient), what arrives.
  std::map<std::pair<uint32_t, bool>, uint32_t> sentStorage;                  ///< (edge, gradient), what leaves.
  std::map<std::vector<uint8_t>, uint32_t> constants;

  llvm::DenseMap<mlir::Type, uint64_t> bytesOfType; ///< Of the largest micro-batches: layers repeat.
  llvm::DenseMap<mlir::Value, uint32_t> placed;     ///< Root value to storage.
  llvm::DenseMap<mlir::Value, uint32_t> lastUse;
  llvm::DenseSet<mlir::Operation *> withoutCall; ///< Lowered to no call, as their results are there already or made by
                                                 ///< others' calls: they cost nothing.
  llvm::DenseMap<mlir::Value, uint32_t> pinned;  ///< Roots whose kernel writes straight into a result's storage.
  std::vector<uint32_t> taskEnds;       ///< Where on the timeline of training a task ends and another may follow.
  std::map<int64_t, mlir::Value> saved; ///< nn.saved number to the value of the program that saves it.
  llvm::DenseMap<mlir::Value, mlir::Value> savedArgument; ///< A later program's argument to its root value.
  /// Gradients: the value's kernel adds into the gradient (accumulate), or an add_into follows. What is left here when
  /// a function was lowered would never be written.
  struct Sink {
    uint32_t parameter;
    std::vector<uint32_t> shape;
    bool direct;
  };
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Sink, 1>> sinks;
  llvm::DenseSet<uint32_t> writtenGradients; ///< By parameter.
};

/// The edge, and whether it is its gradient, that a result leaves over; nothing for other results.
std::optional<std::pair<std::string, bool>> sentOver(mlir::func::FuncOp function, unsigned result);

} // namespace maestro::planner

#include "planner/emit/executable_lowering.h"

#include "cost_models/collectives.h"
#include "passes/attributes.h"
#include "planner/emit/cost_polynomial.h"
#include "planner/emit/dim_table.h"
#include "planner/emit/lowering.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {

namespace fb = plan::fb;
using mlir::Operation;
using mlir::Value;

/// Bytes of a tensor in a micro-batch of these sizes.
static Result<uint64_t> bytesAt(const DimSizes &sizes, nn::TensorType type) {
  auto sizeOf = [&](std::string_view name) -> std::optional<int64_t> {
    auto found = sizes.find(std::string(name));
    return found == sizes.end() ? std::nullopt : std::optional(found->second);
  };
  uint64_t bytes = byteSize(*nn::dtypeOf(type.getElementType()));
  for (const DimExpr &dim : type.getShape()) {
    std::optional<int64_t> bound = dim.upperBound(sizeOf);
    if (!bound)
      return Status::invalidInput(fmt::format(
          "dim '{}' has no upper bound; give each of its symbols a max under dims in the workload", dim.str()));
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(std::max<int64_t>(*bound, 0)), &bytes))
      return Status::invalidInput(
          fmt::format("a tensor of shape {} is too large at the dims' bounds", nn::shapeText(type.getShape())));
  }
  return bytes;
}

/// In any micro-batch.
Result<uint64_t> Lowering::mostBytes(nn::TensorType type) {
  auto [found, isNew] = bytesOfType.try_emplace(type, 0);
  if (!isNew)
    return found->second;
  uint64_t most = 0;
  for (const DimSizes &sizes : input.limits->largest) {
    MAESTRO_ASSIGN(uint64_t bytes, bytesAt(sizes, type));
    most = std::max(most, bytes);
  }
  return found->second = most;
}

std::vector<uint32_t> Lowering::shapeExprs(nn::TensorType type) {
  std::vector<uint32_t> shape;
  for (const DimExpr &dim : type.getShape())
    shape.push_back(toPlan(tables, dim));
  return shape;
}

/// Reshapes are views: the value whose kernel wrote the bytes.
Value Lowering::root(Value value) const {
  while (true) {
    if (auto reshape = value.getDefiningOp<nn::ReshapeOp>()) {
      value = reshape.getX();
      continue;
    }
    auto linked = savedArgument.find(value);
    if (linked == savedArgument.end())
      return value;
    value = linked->second;
  }
}

View Lowering::view(Value value) {
  nn::TensorType type = nn::typeOf(value);
  return View{placed.lookup(root(value)), shapeExprs(type), *nn::dtypeOf(type.getElementType())};
}

void Lowering::computeLastUses(mlir::func::FuncOp function, bool keepsSaved, uint32_t time) {
  for (Operation &op : function.getBody().front()) {
    if (mlir::isa<mlir::func::ReturnOp>(op)) {
      for (mlir::OpOperand &operand : op.getOpOperands())
        if (keepsSaved || !function.getResultAttr(operand.getOperandNumber(), attributes::kSaved))
          lastUse[root(operand.get())] = time;
      continue;
    }
    if (!mlir::isa<nn::ReshapeOp>(op))
      for (Value operand : op.getOperands())
        lastUse[root(operand)] = time;
    ++time;
  }
}

void Lowering::noteSaved(mlir::func::FuncOp function) {
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands())
    if (auto index = function.getResultAttrOfType<mlir::IntegerAttr>(operand.getOperandNumber(), attributes::kSaved))
      saved[index.getInt()] = operand.get();
}

Status Lowering::lowerFunction(mlir::func::FuncOp function, uint32_t timeline, uint32_t time, Calls &calls) {
  for (Value argument : function.getArguments())
    addSinks(argument, calls);
  for (Operation &op : function.getBody().front()) {
    if (mlir::isa<mlir::func::ReturnOp>(op))
      break;
    MAESTRO_TRY(lowerOperation(op, timeline, time, calls));
    for (Value result : op.getResults())
      addSinks(result, calls);
    ++time;
  }
  copyResults(function, calls);
  return checkSinks(function);
}

Lowering::Program &Lowering::start(fb::ProgramKind kind, mlir::func::FuncOp function) {
  programs.push_back({kind, function, {}, {}});
  return programs.back();
}

/// A program that shares nothing with others but what the executor binds.
Status Lowering::lowerAlone(fb::ProgramKind kind, mlir::func::FuncOp function, uint32_t timeline) {
  Program &program = start(kind, function);
  MAESTRO_TRY(bindArguments(function, program.fields));
  MAESTRO_TRY(pinResults(function));
  computeLastUses(function, false, 0);
  return lowerFunction(function, timeline, 0, program.calls);
}

/// Forward, Backward and WeightGradient on one timeline: what one saves the others read.
Status Lowering::lowerTraining() {
  placed.clear();
  lastUse.clear();
  pinned.clear();
  struct Task {
    fb::ProgramKind kind;
    mlir::func::FuncOp function;
    uint32_t begin;
  };
  std::vector<Task> tasks;
  uint32_t time = 0;
  for (auto [kind, function] :
       {std::pair(fb::ProgramKind::Forward, input.forward), std::pair(fb::ProgramKind::Backward, input.backward),
        std::pair(fb::ProgramKind::WeightGradient, input.weightGradient)}) {
    if (!function)
      continue;
    if (!tasks.empty())
      taskEnds.push_back(time);
    tasks.push_back({kind, function, time});
    time += function.getBody().front().getOperations().size();
  }
  std::vector<Program *> own;
  for (const Task &task : tasks) {
    own.push_back(&start(task.kind, task.function));
    if (task.kind != fb::ProgramKind::Forward) // Before its arguments are what other programs saved.
      MAESTRO_TRY(pinResults(task.function));
    MAESTRO_TRY(bindArguments(task.function, own.back()->fields));
    if (task.kind == fb::ProgramKind::Forward)
      MAESTRO_TRY(pinResults(task.function));
    noteSaved(task.function);
  }
  for (const Task &task : tasks)
    computeLastUses(task.function, true, task.begin);
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind != fb::ProgramKind::Forward)
      MAESTRO_TRY(sinkGradients(tasks[i].function));
    MAESTRO_TRY(lowerFunction(tasks[i].function, kTraining, tasks[i].begin, own[i]->calls));
  }
  for (Program *program : own)
    if (program->kind == fb::ProgramKind::Backward)
      addZeroGradients(program->calls);
  return Status();
}

void Lowering::addParameterPrograms() {
  if (parameters.anyGradient()) {
    start(fb::ProgramKind::Norm, nullptr).calls = parameters.normCalls();
    start(fb::ProgramKind::Update, nullptr).calls = parameters.updateCalls();
  }
  if (parameters.anyLowPrecision())
    start(fb::ProgramKind::Prepare, nullptr).calls = parameters.prepareCalls();
}

/// Among the devices of one station; of the slowest one's links.
void Lowering::addCollectives(CostPolynomial &cost, mlir::func::FuncOp function, ProgramCost &report) {
  using cost_models::Collective;
  for (Operation &op : function.getBody().front()) {
    if (!mlir::isa<nn::AllReduceOp, nn::AllGatherOp>(op))
      continue;
    DimExpr bytes = nn::typeOf(op.getOperand(0)).getByteSize();
    cost_models::Bytes atBounds(valueAtBounds(bytes, input.limits->full()));
    Collective collective = mlir::isa<nn::AllReduceOp>(op) ? Collective::AllReduce : Collective::AllGather;
    cost_models::CommunicationCost slowest;
    for (size_t first = 0; first < input.devices.size(); first += input.tensor) {
      std::span<const uint32_t> group = std::span(input.devices).subspan(first, input.tensor);
      cost_models::CommunicationCost own = collectiveCost(collective, group, *input.machine);
      if (own.of(atBounds) > slowest.of(atBounds))
        slowest = own;
    }
    cost[{}] += slowest.latency.value * kPicoseconds;
    addTerms(cost, bytes, slowest.secondsPerByte * kPicoseconds, input.limits->full(), tables);
    report.collective = describe(slowest);
    report.collectiveSeconds += slowest.of(atBounds).value;
  }
}

/// Operators' own times, and each call's.
CostPolynomial Lowering::computeCost(const Program &program, OperatorCosts &costs,
                                     const cost_models::DeviceModel &device, ProgramCost &report) {
  CostPolynomial cost;
  mlir::func::FuncOp function = program.function;
  report.kind = program.kind;
  report.device = &device;
  bool isTask = program.kind != fb::ProgramKind::Count; // A Count is queued with others like it.
  report.callSeconds =
      device.rates.call.value * static_cast<double>(program.calls.size()) + (isTask ? device.rates.task.value : 0);
  report.seconds = report.callSeconds;
  for (Operation &op : function.getBody().front()) {
    if (withoutCall.contains(&op))
      continue;
    const OperatorCost &own = costs.of(op);
    if (own.kernel.empty())
      continue;
    for (const auto &[symbols, picoseconds] : own.terms)
      cost[symbols] += picoseconds;
    report.kernelSeconds[own.kernel] += own.seconds;
    report.seconds += own.seconds;
    report.measured |= own.provenance == cost_models::Provenance::Measured;
    report.scaled |= own.provenance == cost_models::Provenance::Scaled;
    report.builtIn |= own.provenance == cost_models::Provenance::BuiltIn;
  }
  cost[{}] += report.callSeconds * kPicoseconds;
  return cost;
}

/// Predicted time, on the slowest kind of the stations' devices.
void Lowering::setCost(fb::ProgramT &table, const Program &program) {
  DimExpr flops, bytes;
  mlir::func::FuncOp function = program.function;
  std::vector<const cost_models::DeviceModel *> kinds = kindsOf(*input.machine, input.devices);
  if (!function) {
    for (const PendingCall &call : program.calls)
      flops = flops + DimExpr(static_cast<int64_t>(call.flops));
    table.flops = toPlan(tables, flops);
    table.memory_bytes = toPlan(tables, bytes);
    table.cost =
        toTerms({{{}, kinds.front()->rates.call.value * kPicoseconds * static_cast<double>(program.calls.size())}});
    return;
  }
  std::map<const OperatorWork *, int64_t> counts; // Layers repeat.
  for (Operation &op : function.getBody().front())
    if (!withoutCall.contains(&op))
      ++counts[&input.works->of(op)];
  for (auto [work, count] : counts) {
    flops = flops + count * work->flops;
    bytes = bytes + count * work->bytes;
  }
  table.flops = toPlan(tables, flops);
  table.memory_bytes = toPlan(tables, bytes);
  CostPolynomial slowest;
  ProgramCost slowestReport;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (operatorCosts.size() <= kind)
      operatorCosts.emplace_back(*kinds[kind], *input.limits, *input.works, tables);
    ProgramCost own;
    CostPolynomial cost = computeCost(program, operatorCosts[kind], *kinds[kind], own);
    if (kind == 0 || own.seconds > slowestReport.seconds) {
      slowest = std::move(cost);
      slowestReport = std::move(own);
    }
  }
  addCollectives(slowest, function, slowestReport);
  slowestReport.seconds += slowestReport.collectiveSeconds;
  report.costs.push_back(std::move(slowestReport));
  table.cost = toTerms(slowest);
}

void Lowering::write() {
  ExecutableWriter writer(storages, tables, executable);
  for (const auto &[bytes, storage] : constants)
    writer.setConstant(storage, bytes);
  for (const Program &program : programs)
    setCost(writer.addProgram(program.kind, program.calls, program.fields), program);
  for (const PendingBinding &binding : bindings)
    writer.bind(binding);
  storages.addRegions(executable, input.slots);
}

Result<LoweringReport> Lowering::run() {
  programs.reserve(static_cast<size_t>(fb::ProgramKind::MAX) + 1); // References stay.
  parameters.layOut();
  if (input.count)
    MAESTRO_TRY(lowerAlone(fb::ProgramKind::Count, input.count, kCounting));
  MAESTRO_TRY(lowerAlone(fb::ProgramKind::Evaluate, input.evaluate ? input.evaluate : input.forward, kEvaluation));
  if (input.backward)
    MAESTRO_TRY(lowerTraining());
  addParameterPrograms();
  storages.pack(input.slots, taskEnds);
  report.arenaBytes = storages.packedBytes();
  report.liveBytesBound = storages.packedBytesBound();
  write();
  return report;
}

Result<LoweringReport> lowerExecutable(const LoweringInput &input, plan::PlanBuilder &tables,
                                       fb::ExecutableT &executable) {
  return Lowering(input, tables, executable).run();
}

std::map<std::string, SplitParameter> splitParametersOf(mlir::ModuleOp section) {
  std::map<std::string, SplitParameter> found;
  for (auto function : section.getOps<mlir::func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto dim = function.getArgAttrOfType<mlir::IntegerAttr>(i, attributes::kSplit)) {
        SplitParameter part{{}, static_cast<uint32_t>(dim.getInt())};
        for (const DimExpr &size : nn::typeOf(function.getArgument(i)).getShape())
          part.shape.push_back(size.asConstant().value_or(0)); // Parameters have constant dims (summarizeGraph()).
        found[function.getArgAttrOfType<mlir::StringAttr>(i, attributes::kParameter).getValue().str()] =
            std::move(part);
      }
  return found;
}

std::vector<std::string> parametersOf(mlir::ModuleOp section) {
  std::vector<std::string> names;
  for (auto function : section.getOps<mlir::func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto name = function.getArgAttrOfType<mlir::StringAttr>(i, attributes::kParameter))
        if (std::find(names.begin(), names.end(), name.getValue()) == names.end())
          names.push_back(name.getValue().str());
  return names;
}

} // namespace maestro::planner

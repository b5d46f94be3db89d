#include "ir/plan/tables.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace maestro::plan_ir {

//===----------------------------------------------------------------------===//
// Symbolic integers
//===----------------------------------------------------------------------===//

std::optional<ExprTable::Node> ExprTable::nodeOf(ExprAttr expr) const {
  switch (expr.getOp()) {
  case ExprOp::Constant:
    return Node{ExprOp::Constant, expr.getValue(), 0};
  case ExprOp::Symbol: {
    auto symbol = symbols.find(expr.getSymbol());
    return symbol == symbols.end() ? std::nullopt : std::optional(Node{ExprOp::Symbol, symbol->second, 0});
  }
  default:
    break;
  }
  std::optional<uint32_t> a = find(expr.left()), b = find(expr.right());
  return a && b ? std::optional(Node{expr.getOp(), *a, *b}) : std::nullopt;
}

std::optional<uint32_t> ExprTable::find(ExprAttr expr) const {
  if (expr.getOp() == ExprOp::Node) {
    auto number = static_cast<uint64_t>(expr.getValue());
    return number < nodes.size() ? std::optional(static_cast<uint32_t>(number)) : std::nullopt;
  }
  std::optional<Node> node = nodeOf(expr);
  auto place = node ? places.find({static_cast<int64_t>(node->op), node->a, node->b}) : places.end();
  return place == places.end() ? std::nullopt : std::optional(place->second);
}

LogicalResult ExprTable::add(ExprAttr expr) {
  std::optional<Node> node = expr.getOp() == ExprOp::Node ? std::nullopt : nodeOf(expr);
  if (!node)
    return failure();
  places.try_emplace({static_cast<int64_t>(node->op), node->a, node->b}, nodes.size());
  nodes.push_back(*node);
  return success();
}

std::optional<CostTerm> costTermOf(ExprAttr expr) {
  CostTerm term;
  for (; expr.getOp() == ExprOp::Mul; expr = expr.left()) {
    if (expr.right().getOp() != ExprOp::Symbol)
      return std::nullopt;
    term.symbols.push_back(expr.right().getSymbol().getValue());
  }
  std::reverse(term.symbols.begin(), term.symbols.end());
  term.picoseconds = expr.getValue();
  return expr.getOp() == ExprOp::Constant ? std::optional(std::move(term)) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Sorting a module's operations
//===----------------------------------------------------------------------===//

namespace {

/// The operation goes to the end of its table; its number must say so.
template <typename Op> LogicalResult append(std::vector<Op> &table, Op op) {
  if constexpr (requires { op.getNumber(); })
    if (op.getNumber() != table.size())
      return op.emitOpError() << "has number " << op.getNumber() << ", and is at place " << table.size();
  table.push_back(op);
  return success();
}

template <typename Op> LogicalResult appendNamed(std::vector<Op> &table, llvm::StringMap<uint32_t> &names, Op op) {
  if (!names.try_emplace(op.getName(), table.size()).second)
    return op.emitOpError() << "has the name of an earlier one, '" << op.getName() << "'";
  return append(table, op);
}

template <typename Op> LogicalResult setOnce(Op &place, Op op) {
  if (place)
    return op.emitOpError() << "is there twice";
  place = op;
  return success();
}

LogicalResult misplaced(Operation *op, StringRef where) { return op->emitOpError() << "has no place in " << where; }

template <typename First> First firstOf(ModuleOp module) {
  Block &body = *module.getBody();
  if (body.empty() || failed(body.front().getName().verifyInvariants(&body.front())))
    return First();
  return dyn_cast<First>(body.front());
}

/// Calls `add` for the operations behind the first, each once its attributes are known to be what they must.
LogicalResult eachBehindFirst(ModuleOp module, llvm::function_ref<LogicalResult(Operation &)> add) {
  for (Operation &op : llvm::drop_begin(module.getBody()->getOperations()))
    if (failed(op.getName().verifyInvariants(&op)) || failed(add(op)))
      return failure();
  return success();
}

LogicalResult readProgram(ModuleOp module, ExecutableTable &executable) {
  auto program = firstOf<ProgramOp>(module);
  if (!program)
    return module.emitOpError() << "begins with no plan.program";
  ProgramTable table{program, {}};
  auto add = [&](Operation &op) -> LogicalResult {
    auto call = dyn_cast<CallOp>(op);
    if (!call)
      return misplaced(&op, "a program");
    table.calls.push_back(call);
    return success();
  };
  if (failed(eachBehindFirst(module, add)))
    return failure();
  executable.programs.push_back(std::move(table));
  return success();
}

LogicalResult addToExecutable(Operation &op, ExecutableTable &table) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](BoundOp bound) { return append(table.bounds, bound); })
      .Case([&](AreaOp area) { return append(table.areas, area); })
      .Case([&](RegionOp region) { return append(table.regions, region); })
      .Case([&](BufferOp buffer) { return append(table.buffers, buffer); })
      .Case([&](BindingOp binding) { return append(table.bindings, binding); })
      .Case([&](ModuleOp program) { return readProgram(program, table); })
      .Default([](Operation *other) { return misplaced(other, "an executable"); });
}

} // namespace

LogicalResult PlanTables::addExecutable(ModuleOp module) {
  ExecutableTable table{firstOf<ExecutableOp>(module), {}, {}, {}, {}, {}, {}};
  if (!table.op)
    return module.emitOpError() << "begins with no plan.executable";
  if (table.op.getNumber() != executables.size())
    return table.op.emitOpError() << "has number " << table.op.getNumber() << ", and is at place "
                                  << executables.size();
  if (failed(eachBehindFirst(module, [&](Operation &op) { return addToExecutable(op, table); })))
    return failure();
  executables.push_back(std::move(table));
  return success();
}

LogicalResult PlanTables::add(Operation &op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](MachineOp op) { return setOnce(machine, op); })
      .Case([&](TrainingOp op) { return setOnce(training, op); })
      .Case([&](PredictionOp op) { return setOnce(prediction, op); })
      .Case([&](LinkOp op) { return append(links, op); })
      .Case([&](DeviceKindOp op) { return append(deviceKinds, op); })
      .Case([&](SymbolOp op) { return appendNamed(symbols, symbolNames, op); })
      .Case([&](DimOp op) {
        if (failed(exprs.add(op.getValue())))
          return LogicalResult(op.emitOpError()
                               << "computes " << op.getValue() << ", of which a part is no earlier node");
        return append(dims, op);
      })
      .Case([&](FieldOp op) { return appendNamed(fields, fieldNames, op); })
      .Case([&](FileOp op) { return append(files, op); })
      .Case([&](ComponentOp op) { return appendNamed(components, componentNames, op); })
      .Case([&](ParameterOp op) { return append(parameters, op); })
      .Case([&](LossOp op) { return append(losses, op); })
      .Case([&](SectionOp op) { return appendNamed(sections, sectionNames, op); })
      .Case([&](EdgeOp op) { return appendNamed(edges, edgeNames, op); })
      .Case([&](RankOp op) { return append(ranks, op); })
      .Case([&](StationOp op) { return append(stations, op); })
      .Case([&](GradientSumOp op) { return append(gradientSums, op); })
      .Case([&](StepSamplesOp op) { return append(stepSamples, op); })
      .Case([&](DecisionOp op) { return append(decisions, op); })
      .Case([&](CandidateOp op) { return append(candidates, op); })
      .Case([&](LimitOp op) { return append(limits, op); })
      .Case([&](QuantityOp op) { return append(quantities, op); })
      .Case([&](ModuleOp op) { return addExecutable(op); })
      .Default([](Operation *other) { return misplaced(other, "a plan"); });
}

FailureOr<std::unique_ptr<PlanTables>> PlanTables::read(PlanOp plan) {
  auto module = dyn_cast_or_null<ModuleOp>(plan->getParentOp());
  if (!module || &module.getBody()->front() != plan.getOperation())
    return plan.emitOpError() << "is not the first operation of a module";
  std::unique_ptr<PlanTables> tables(new PlanTables());
  tables->plan = plan;
  if (failed(eachBehindFirst(module, [&](Operation &op) { return tables->add(op); })))
    return failure();
  if (!tables->machine || !tables->training)
    return plan.emitOpError() << "lacks plan." << (tables->machine ? "training" : "machine");
  return tables;
}

} // namespace maestro::plan_ir

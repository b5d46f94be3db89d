// What the operations of a plan say about each other.
#include "ir/plan/tables.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace maestro::plan_ir {

LogicalResult CallOp::verify() {
  if (getNames().has_value() != getValues().has_value() || (getNames() && getNames()->size() != getValues()->size()))
    return emitOpError() << "has not one value for each attribute's name";
  if (getValues())
    for (Attribute value : getValuesAttr()) {
      auto list = dyn_cast<ArrayAttr>(value);
      bool exprs = list && llvm::all_of(list, llvm::IsaPred<ExprAttr>);
      if (!exprs && !isa<DenseI64ArrayAttr, DenseF64ArrayAttr, StringAttr>(value))
        return emitOpError() << "has the attribute " << value << ", which is no list of numbers or dims, and no text";
    }
  return success();
}

namespace {

constexpr uint64_t kAlignment = 64; // Of buffers, as in plan/plan.h.

/// Index fields are signed in C++ and −1 nowhere allowed: negative ones are beyond every table.
bool within(int64_t index, size_t count) { return static_cast<uint64_t>(index) < count; }

template <typename Op> LogicalResult missing(Op op, StringRef what, const Twine &which) {
  return op.emitOpError() << "refers to " << what << " " << which << ", which does not exist";
}

class Verifier {
public:
  explicit Verifier(PlanTables &plan) : plan(plan) {}

  LogicalResult run() {
    if (failed(each(plan.fields, &Verifier::field)) || failed(each(plan.parameters, &Verifier::parameter)) ||
        failed(each(plan.sections, &Verifier::section)) || failed(each(plan.edges, &Verifier::edge)) ||
        failed(each(plan.stations, &Verifier::station)) || failed(each(plan.gradientSums, &Verifier::gradientSum)))
      return failure();
    for (ExecutableTable &table : plan.executables)
      if (failed(executable(table)))
        return failure();
    return success();
  }

private:
  template <typename Op> LogicalResult each(const std::vector<Op> &ops, LogicalResult (Verifier::*check)(Op)) {
    for (Op op : ops)
      if (failed((this->*check)(op)))
        return failure();
    return success();
  }

  template <typename Op> LogicalResult resolves(Op op, ExprAttr expr) {
    if (plan.exprs.find(expr))
      return success();
    return op.emitOpError() << "refers to " << expr << ", which no plan.dim computes";
  }

  template <typename Op> LogicalResult resolve(Op op, ArrayAttr exprs) {
    for (Attribute expr : exprs)
      if (failed(resolves(op, cast<ExprAttr>(expr))))
        return failure();
    return success();
  }

  template <typename Op>
  LogicalResult named(Op op, StringRef what, StringRef name, const llvm::StringMap<uint32_t> &names) {
    return names.contains(name) ? success() : missing(op, what, "'" + name + "'");
  }

  template <typename Op>
  LogicalResult named(Op op, StringRef what, ArrayAttr list, const llvm::StringMap<uint32_t> &names) {
    for (Attribute name : list)
      if (failed(named(op, what, cast<StringAttr>(name).getValue(), names)))
        return failure();
    return success();
  }

  template <typename Op> LogicalResult costs(Op op) {
    if (!op.getCost())
      return success();
    for (Attribute term : op.getCostAttr()) {
      std::optional<CostTerm> cost = costTermOf(cast<ExprAttr>(term));
      if (!cost)
        return op.emitOpError() << "has the cost " << term << ", which is not picoseconds times symbols";
      for (StringRef symbol : cost->symbols)
        if (failed(named(op, "the symbol", symbol, plan.symbolNames)))
          return failure();
    }
    return success();
  }

  // ---- Tables of the plan --------------------------------------------------------------------------------------

  LogicalResult field(FieldOp op) {
    if (failed(resolve(op, op.getShape())))
      return failure();
    if (!op.getMarks())
      return success();
    if (!op.getMarkSymbols() || !op.getMarksPerRow() || op.getMarkSymbols()->size() != op.getMarks()->size() ||
        op.getMarksPerRow()->size() != op.getMarks()->size())
      return op.emitOpError() << "has " << op.getMarks()->size() << " marks and not as many symbols and times";
    return named(op, "the symbol", *op.getMarkSymbols(), plan.symbolNames);
  }

  LogicalResult parameter(ParameterOp op) {
    if (op.getSourceFile() && !within(*op.getSourceFile(), plan.files.size()))
      return missing(op, "file", Twine(static_cast<int64_t>(*op.getSourceFile())));
    return named(op, "the component", op.getComponent(), plan.componentNames);
  }

  LogicalResult section(SectionOp op) {
    if (failed(named(op, "the component", op.getComponents(), plan.componentNames)))
      return failure();
    return op.getActive() ? named(op, "the symbol", *op.getActive(), plan.symbolNames) : success();
  }

  template <typename Op> LogicalResult stage(Op op, StringRef section, int64_t stage) {
    if (failed(named(op, "the section", section, plan.sectionNames)))
      return failure();
    SectionOp found = plan.sections[plan.sectionNames.lookup(section)];
    if (within(stage, found.getStages()))
      return success();
    return op.emitOpError() << "refers to stage " << stage << " of '" << section << "', which has "
                            << found.getStages();
  }

  LogicalResult edge(EdgeOp op) {
    if (failed(stage(op, op.getProducer(), op.getProducerStage())) ||
        failed(stage(op, op.getConsumer(), op.getConsumerStage())) || failed(costs(op)))
      return failure();
    return resolve(op, op.getShape());
  }

  LogicalResult station(StationOp op) {
    if (!within(op.getExecutable(), plan.executables.size()))
      return missing(op, "executable", Twine(static_cast<int64_t>(op.getExecutable())));
    for (int64_t rank : op.getRanks())
      if (!within(rank, plan.ranks.size()))
        return missing(op, "rank", Twine(rank));
    return success();
  }

  LogicalResult gradientSum(GradientSumOp op) {
    for (int64_t parameter : op.getParameters())
      if (!within(parameter, plan.parameters.size()))
        return missing(op, "parameter", Twine(parameter));
    for (int64_t station : op.getStations())
      if (!within(station, plan.stations.size()))
        return missing(op, "station", Twine(station));
    return success();
  }

  // ---- Executables ---------------------------------------------------------------------------------------------

  LogicalResult executable(ExecutableTable &table) {
    if (failed(stage(table.op, table.op.getSection(), table.op.getStage())))
      return failure();
    for (BoundOp op : table.bounds)
      if (failed(named(op, "the symbol", op.getSymbol(), plan.symbolNames)))
        return failure();
    for (AreaOp op : table.areas)
      if (failed(named(op, "the symbol", op.getRows(), plan.symbolNames)) ||
          failed(named(op, "the symbol", op.getPadded(), plan.symbolNames)))
        return failure();
    for (RegionOp op : table.regions)
      if (failed(region(op)))
        return failure();
    for (BufferOp op : table.buffers)
      if (failed(buffer(op, table)))
        return failure();
    for (BindingOp op : table.bindings)
      if (failed(binding(op, table)))
        return failure();
    llvm::SmallDenseSet<ProgramKind> kinds;
    for (ProgramTable &entry : table.programs)
      if (failed(program(entry, table, kinds.insert(entry.op.getKind()).second)))
        return failure();
    return success();
  }

  LogicalResult region(RegionOp op) {
    if (!op.getEdge())
      return op.getKind() == RegionKind::Channel ? op.emitOpError("is the ring of no edge") : success();
    return named(op, "the edge", *op.getEdge(), plan.edgeNames);
  }

  LogicalResult buffer(BufferOp op, const ExecutableTable &table) {
    if (!within(op.getRegion(), table.regions.size()))
      return missing(op, "region", "r" + Twine(static_cast<int64_t>(op.getRegion())));
    RegionOp region = table.regions[op.getRegion()];
    if (op.getOffset() % kAlignment != 0)
      return op.emitOpError() << "begins at " << op.getOffset() << ", which is no multiple of " << kAlignment;
    if (op.getOffset() > region.getBytes() || op.getBytes() > region.getBytes() - op.getOffset())
      return op.emitOpError() << "has " << op.getBytes() << " bytes from " << op.getOffset() << " on, beyond the "
                              << region.getBytes() << " of r" << op.getRegion();
    if (op.getConstant() && op.getConstant()->size() != 2 * op.getBytes())
      return op.emitOpError() << "has a constant of " << op.getConstant()->size() << " digits for " << op.getBytes()
                              << " bytes";
    return resolve(op, op.getShape());
  }

  /// The name at the place that a binding's index is; none where the kind has no table, null where there is no such
  /// place.
  std::optional<StringRef> target(BindingOp op, bool &exists) {
    auto name = [&](auto &table) -> std::optional<StringRef> {
      exists = within(op.getIndex(), table.size());
      return exists ? std::optional<StringRef>(table[op.getIndex()].getName()) : std::nullopt;
    };
    switch (op.getKind()) {
    case BindingKind::Field:
      return name(plan.fields);
    case BindingKind::LossSum:
    case BindingKind::LossCount:
    case BindingKind::LossScale:
      return name(plan.losses);
    case BindingKind::Value:
    case BindingKind::Gradient:
    case BindingKind::Moment1:
    case BindingKind::Moment2:
      return name(plan.parameters);
    case BindingKind::EdgeInput:
    case BindingKind::EdgeOutput:
    case BindingKind::EdgeGradientInput:
    case BindingKind::EdgeGradientOutput:
      return name(plan.edges);
    default:
      return std::nullopt;
    }
  }

  LogicalResult binding(BindingOp op, const ExecutableTable &table) {
    if (!within(op.getBuffer(), table.buffers.size()))
      return missing(op, "buffer", "b" + Twine(static_cast<int64_t>(op.getBuffer())));
    bool exists = true;
    std::optional<StringRef> name = target(op, exists);
    if (!exists)
      return missing(op, stringifyBindingKind(op.getKind()), Twine(static_cast<int64_t>(op.getIndex())));
    if (name != op.getTarget())
      return op.emitOpError() << "binds " << stringifyBindingKind(op.getKind()) << " " << op.getIndex() << ", '"
                              << name.value_or("") << "', and says '" << op.getTarget().value_or("") << "'";
    return success();
  }

  // ---- Programs ------------------------------------------------------------------------------------------------

  LogicalResult program(ProgramTable &table, const ExecutableTable &executable, bool first) {
    ProgramOp op = table.op;
    if (!first)
      return op.emitOpError() << "is the executable's second " << stringifyProgramKind(op.getKind());
    if (failed(named(op, "the field", op.getFields(), plan.fieldNames)) || failed(resolves(op, op.getFlops())) ||
        failed(resolves(op, op.getMemoryBytes())) || failed(costs(op)))
      return failure();
    for (CallOp op : table.calls)
      if (failed(call(op, executable)))
        return failure();
    return success();
  }

  LogicalResult call(CallOp op, const ExecutableTable &executable) {
    SmallVector<Type> inputs, outputs;
    for (auto [buffers, types] : {std::pair(op.getInputs(), &inputs), std::pair(op.getOutputs(), &outputs)})
      for (int64_t buffer : buffers) {
        if (buffer != kNoBuffer && !within(buffer, executable.buffers.size()))
          return missing(op, "buffer", "b" + Twine(buffer));
        BufferOp found = buffer == kNoBuffer ? BufferOp() : executable.buffers[buffer];
        types->push_back(found ? found.getDtype() : NoneType::get(op.getContext()));
      }
    auto types = FunctionType::get(op.getContext(), inputs, outputs);
    if (op.getTypes() != types)
      return op.emitOpError() << "says that it takes and gives " << op.getTypes() << ", and its buffers are " << types;
    if (op.getValues())
      for (Attribute value : op.getValuesAttr())
        if (auto exprs = dyn_cast<ArrayAttr>(value); exprs && failed(resolve(op, exprs)))
          return failure();
    return success();
  }

  PlanTables &plan;
};

} // namespace

LogicalResult PlanOp::verify() {
  FailureOr<std::unique_ptr<PlanTables>> tables = PlanTables::read(*this);
  return failed(tables) ? failure() : Verifier(**tables).run();
}

} // namespace maestro::plan_ir

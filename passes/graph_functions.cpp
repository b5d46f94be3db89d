// See graph_functions.h.
#include "passes/graph_functions.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace maestro {

func::FuncOp findFunction(ModuleOp module, StringRef name) { return module.lookupSymbol<func::FuncOp>(name); }

StringRef argumentText(func::FuncOp function, unsigned index, StringRef attribute) {
  auto text = function.getArgAttrOfType<StringAttr>(index, attribute);
  return text ? text.getValue() : StringRef();
}

StringRef resultText(func::FuncOp function, unsigned index, StringRef attribute) {
  auto text = function.getResultAttrOfType<StringAttr>(index, attribute);
  return text ? text.getValue() : StringRef();
}

llvm::SmallVector<LossResult> lossResults(func::FuncOp function) {
  llvm::SmallVector<LossResult> losses;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    StringRef name = resultText(function, i, attributes::kLoss);
    if (name.empty())
      continue;
    LossResult loss{i, name.str(), resultText(function, i, attributes::kRole).str()};
    if (auto term = function.getResultAttrOfType<IntegerAttr>(i, attributes::kTerm))
      loss.term = term.getInt();
    if (auto weight = function.getResultAttrOfType<FloatAttr>(i, attributes::kWeight))
      loss.weight = weight.getValueAsDouble();
    if (auto floor = function.getResultAttrOfType<FloatAttr>(i, attributes::kFloor))
      loss.floor = floor.getValueAsDouble();
    losses.push_back(std::move(loss));
  }
  return losses;
}

DictionaryAttr lossAttributes(MLIRContext *context, const LossResult &loss) {
  Builder builder(context);
  NamedAttrList attributes;
  attributes.set(attributes::kLoss, builder.getStringAttr(loss.name));
  attributes.set(attributes::kRole, builder.getStringAttr(loss.role));
  if (loss.term != 0)
    attributes.set(attributes::kTerm, builder.getI64IntegerAttr(loss.term));
  if (loss.weight != 1.0)
    attributes.set(attributes::kWeight, builder.getF64FloatAttr(loss.weight));
  if (loss.floor != 0.0)
    attributes.set(attributes::kFloor, builder.getF64FloatAttr(loss.floor));
  return attributes.getDictionary(context);
}

void setResults(func::FuncOp function, llvm::ArrayRef<FunctionResult> results) {
  llvm::SmallVector<Value> values;
  llvm::SmallVector<Type> types;
  llvm::SmallVector<DictionaryAttr> attributes;
  for (const FunctionResult &result : results) {
    values.push_back(result.value);
    types.push_back(result.value.getType());
    attributes.push_back(result.attributes ? result.attributes : DictionaryAttr::get(function.getContext()));
  }
  function.getBody().front().getTerminator()->setOperands(values);
  function.setFunctionType(FunctionType::get(function.getContext(), function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
}

OperandRange returnedValues(func::FuncOp function) { return function.getBody().front().getTerminator()->getOperands(); }

llvm::DenseSet<Operation *> backwardSlice(ArrayRef<Value> values) {
  llvm::DenseSet<Operation *> found;
  llvm::SmallVector<Value> pending(values);
  while (!pending.empty())
    if (Operation *op = pending.pop_back_val().getDefiningOp(); op && found.insert(op).second)
      pending.append(op->operand_begin(), op->operand_end());
  return found;
}

void eraseDeadOperations(func::FuncOp function) {
  llvm::SmallVector<Operation *> operations;
  for (Operation &op : function.getBody().front().without_terminator())
    operations.push_back(&op);
  for (Operation *op : llvm::reverse(operations))
    if (op->use_empty())
      op->erase();
}

FailureOr<DimTable> DimTable::of(ModuleOp module) {
  DimTable table;
  Attribute declared = module->getAttr(attributes::kDims);
  if (auto outer = module->getParentOfType<ModuleOp>(); outer && !declared)
    declared = outer->getAttr(attributes::kDims);
  if (declared) {
    auto dictionary = llvm::dyn_cast<DictionaryAttr>(declared);
    if (!dictionary)
      return module.emitError("nn.dims must be a dictionary of symbols");
    for (NamedAttribute item : dictionary) {
      auto fields = llvm::dyn_cast<DictionaryAttr>(item.getValue());
      auto combine = fields ? fields.getAs<StringAttr>("combine") : nullptr;
      if (!combine || (combine.getValue() != "sum" && combine.getValue() != "max"))
        return module.emitError("nn.dims: '") << item.getName().getValue() << "' needs combine = \"sum\" or \"max\"";
      Entry entry{combine.getValue() == "sum", fields.contains("own"), std::nullopt};
      if (auto bound = fields.getAs<IntegerAttr>("max"))
        entry.bound = bound.getInt();
      table.entries[item.getName().str()] = entry;
    }
    return table;
  }
  if (func::FuncOp graph = findFunction(module, attributes::kGraphFunction))
    for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
      auto type = llvm::dyn_cast<nn::TensorType>(graph.getArgument(i).getType());
      if (argumentText(graph, i, attributes::kField).empty() || !type || type.getShape().empty())
        continue;
      for (const std::string &symbol : type.getShape().front().symbols())
        table.entries[symbol].sums = true;
    }
  return table;
}

bool DimTable::sums(StringRef symbol) const {
  auto found = entries.find(symbol);
  return found != entries.end() && found->second.sums;
}

std::string DimTable::own() const {
  std::string only;
  for (const auto &[symbol, entry] : entries) {
    if (entry.own)
      return symbol;
    if (entry.sums)
      only = only.empty() ? symbol : "several";
  }
  return only == "several" ? "" : only;
}

std::optional<int64_t> DimTable::bound(StringRef symbol) const {
  auto found = entries.find(symbol);
  return found == entries.end() ? std::nullopt : found->second.bound;
}

std::optional<std::string> DimTable::summedSymbol(const DimExpr &expr) const {
  for (const std::string &symbol : expr.symbols())
    if (sums(symbol))
      return symbol;
  return std::nullopt;
}

bool DimTable::isAdditive(const DimExpr &expr) const {
  for (const DimExpr::Term &term : expr.terms())
    if (term.atoms.size() != 1 || term.atoms[0].kind != DimExpr::AtomKind::Symbol || !sums(term.atoms[0].name))
      return false;
  return !expr.terms().empty();
}

Origin Origins::add(Operation *op) {
  Origin origin;
  for (Value operand : op->getOperands()) {
    Origin from = of(operand);
    origin.parameter |= from.parameter;
    origin.data |= from.data;
    origin.trains |= from.trains;
  }
  return known[op] = origin;
}

Origin Origins::of(Value value) const {
  auto argument = llvm::dyn_cast<BlockArgument>(value);
  if (!argument)
    return of(value.getDefiningOp());
  auto function = llvm::cast<func::FuncOp>(argument.getOwner()->getParentOp());
  bool parameter = !argumentText(function, argument.getArgNumber(), attributes::kParameter).empty();
  return {parameter, !parameter, function.getArgAttr(argument.getArgNumber(), attributes::kTrainable) != nullptr};
}

BlockArgument dependsOn(Value value, ArrayRef<StringRef> attributes) {
  llvm::SetVector<Value> pending;
  pending.insert(value);
  for (size_t next = 0; next < pending.size(); ++next) {
    if (Operation *op = pending[next].getDefiningOp()) {
      pending.insert(op->operand_begin(), op->operand_end());
      continue;
    }
    auto argument = llvm::cast<BlockArgument>(pending[next]);
    auto function = llvm::cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (llvm::any_of(attributes, [&](StringRef name) { return function.getArgAttr(argument.getArgNumber(), name); }))
      return argument;
  }
  return {};
}

std::optional<ParameterUse> dependsOnParameter(Value value, bool trainableOnly) {
  BlockArgument argument = dependsOn(value, {trainableOnly ? attributes::kTrainable : attributes::kParameter});
  if (!argument)
    return std::nullopt;
  auto function = llvm::cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return ParameterUse{argument, argumentText(function, argument.getArgNumber(), attributes::kParameter).str()};
}

namespace {
/// Names in a location, outermost last: an importer's node name, then its module scope.
void collectNames(Location location, llvm::SmallVectorImpl<std::string> &names) {
  if (auto named = llvm::dyn_cast<NameLoc>(location)) {
    names.push_back(named.getName().str());
    collectNames(named.getChildLoc(), names);
  } else if (auto fused = llvm::dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collectNames(part, names);
  }
}
} // namespace

std::string describe(Operation *op) {
  std::string text = op->getName().getStringRef().str();
  llvm::SmallVector<std::string> names;
  collectNames(op->getLoc(), names);
  if (names.empty())
    return text;
  text += " (" + names[0];
  if (names.size() > 1 && !names[1].empty())
    text += " in " + names[1];
  return text + ")";
}

} // namespace maestro

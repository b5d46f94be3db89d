#include "passes/graph_facts.h"

using namespace mlir;

namespace maestro {
GraphFacts::GraphFacts(func::FuncOp graph, const DimTable &dims) : graph(graph), dims(dims) {
  for (BlockArgument argument : graph.getArguments())
    if (StringRef name = parameterName(argument); !name.empty())
      if (std::string component = name.split('/').first.str(); !llvm::is_contained(names, component))
        names.push_back(component);
  if (names.empty())
    names.push_back("graph");
  for (Operation &op : operations())
    origins.add(&op);
}

unsigned GraphFacts::componentOf(StringRef parameter) const {
  return llvm::find(names, parameter.split('/').first.str()) - names.begin();
}

StringRef GraphFacts::parameterName(BlockArgument argument) {
  return argumentText(graph, argument.getArgNumber(), attributes::kParameter);
}

llvm::SmallVector<BlockArgument> GraphFacts::parametersOf(Operation *op) {
  llvm::SmallVector<BlockArgument> found;
  llvm::SmallVector<Value> pending(op->getOperands());
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (Operation *producer = value.getDefiningOp()) {
      if (Origin origin = originOf(producer); origin.parameter && !origin.data)
        pending.append(producer->operand_begin(), producer->operand_end());
    } else if (auto argument = cast<BlockArgument>(value); !parameterName(argument).empty()) {
      found.push_back(argument);
    }
  }
  return found;
}

llvm::SmallVector<StringRef> GraphFacts::parameterNamesOf(Operation *op) {
  llvm::SmallVector<StringRef> list;
  for (BlockArgument parameter : parametersOf(op))
    list.push_back(parameterName(parameter));
  return list;
}

std::string GraphFacts::rowsOf(Operation *op) const {
  for (bool results : {true, false})
    for (Value value : results ? ValueRange(op->getResults()) : ValueRange(op->getOperands()))
      for (const DimExpr &dim : nn::typeOf(value).getShape())
        if (auto symbol = dims.summedSymbol(dim))
          return *symbol;
  return "";
}

double GraphFacts::atBounds(const DimExpr &expr) const {
  auto value = expr.evaluate([&](std::string_view symbol) { return dims.bound(symbol).value_or(kAssumedBound); });
  return value ? static_cast<double>(*value) : 0.0;
}

double GraphFacts::flopsOf(Operation *op) const {
  auto cost = dyn_cast<nn::CostOpInterface>(op);
  return cost ? atBounds(cost.getFlops()) + atBounds(cost.getBytes()) : 0.0;
}

double GraphFacts::bytesOf(Value value) const { return atBounds(nn::typeOf(value).getByteSize()); }

double GraphFacts::parameterBytesOf(Operation *op) {
  double bytes = 0;
  for (BlockArgument parameter : parametersOf(op))
    bytes += bytesOf(parameter);
  return bytes;
}

OperatorWeights GraphFacts::weights() {
  return {[this](Operation *op) { return flopsOf(op); }, [this](Operation *op) { return parameterBytesOf(op); },
          [this](Value value) { return bytesOf(value); }};
}

} // namespace maestro

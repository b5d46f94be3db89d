// See tensor_blocks.h.
#include "passes/tensor_blocks.h"

#include <set>

using namespace mlir;

namespace maestro {
namespace {

class BlockFinder {
public:
  BlockFinder(func::FuncOp graph, int64_t count) : graph(graph), count(count) {}

  TensorBlocks find() {
    for (Operation &op : graph.getBody().front().without_terminator())
      visit(&op);
    for (BlockArgument argument : graph.getArguments())
      addArgument(argument);
    for (Value value : returnedValues(graph))
      forbidAll(value);
    std::set<unsigned> done;
    for (BlockArgument argument : graph.getArguments()) // In program order: parameters are arguments in order of use.
      for (unsigned dim = 0; dim < nn::typeOf(argument).getShape().size(); ++dim)
        if (unsigned leader = find(node(argument, dim)); done.insert(leader).second)
          consider(leader);
    return std::move(blocks);
  }

private:
  /// Dims that carry one factor.
  struct Class {
    bool forbidden = false; ///< Something carries it that no block may hold.
    bool summed = false;    ///< A product sums it.
    std::vector<std::pair<BlockArgument, unsigned>> parameters;
    std::optional<int64_t> size;
  };

  unsigned node(Value value, unsigned dim) {
    auto [found, isNew] = nodes.try_emplace({value, dim}, parents.size());
    if (isNew) {
      parents.push_back(parents.size());
      classes.emplace_back();
      classes.back().size = nn::typeOf(value).getShape()[dim].asConstant();
    }
    return found->second;
  }

  unsigned find(unsigned index) {
    while (parents[index] != index)
      index = parents[index] = parents[parents[index]];
    return index;
  }

  void join(unsigned a, unsigned b) {
    a = find(a), b = find(b);
    if (a == b)
      return;
    parents[b] = a;
    Class &to = classes[a], &from = classes[b];
    to.forbidden |= from.forbidden || to.size != from.size;
    to.summed |= from.summed;
    to.parameters.insert(to.parameters.end(), from.parameters.begin(), from.parameters.end());
  }

  Class &classOf(Value value, unsigned dim) { return classes[find(node(value, dim))]; }

  void forbidAll(Value value) {
    for (unsigned dim = 0; dim < nn::typeOf(value).getShape().size(); ++dim)
      classOf(value, dim).forbidden = true;
  }

  void addArgument(BlockArgument argument) {
    bool parameter = !argumentText(graph, argument.getArgNumber(), attributes::kParameter).empty();
    for (unsigned dim = 0; dim < nn::typeOf(argument).getShape().size(); ++dim)
      if (parameter)
        classOf(argument, dim).parameters.push_back({argument, dim});
      else
        classOf(argument, dim).forbidden = true;
  }

  static bool mayHold(Operation *op) {
    return op->hasTrait<nn::Elementwise>() || op->hasTrait<nn::Rearranges>() || isa<nn::MatmulOp, nn::FillOp>(op);
  }

  void visit(Operation *op) {
    auto shardable = dyn_cast<nn::ShardableOpInterface>(op);
    if (!shardable || !mayHold(op)) {
      for (Value value : op->getOperands())
        forbidAll(value);
      for (Value value : op->getResults())
        forbidAll(value);
      return;
    }
    nn::FactorRule rule = shardable.getFactorRule();
    auto product = dyn_cast<nn::MatmulOp>(op);
    std::vector<std::optional<unsigned>> first(rule.factors.size()); // A node that carries the factor.
    std::vector<bool> inResult(rule.factors.size(), false);
    for (bool results : {false, true})
      for (auto [i, tensor] : llvm::enumerate(results ? rule.resultDims : rule.operandDims)) {
        Value value = results ? Value(op->getResult(i)) : op->getOperand(i);
        for (auto [dim, factors] : llvm::enumerate(tensor)) {
          if (factors.empty()) // Of size 1: a broadcast.
            continue;
          unsigned own = node(value, dim);
          if (factors.size() > 1)
            classOf(value, dim).forbidden = true;
          for (unsigned factor : factors) {
            inResult[factor] = inResult[factor] || results;
            if (first[factor])
              join(*first[factor], own);
            first[factor] = own;
          }
        }
      }
    for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
      if (!first[factor])
        continue;
      Class &carried = classes[find(*first[factor])];
      bool inner = product && !inResult[factor]; // A bias is taken out of a product whose sum is split.
      carried.summed |= inner;
      carried.forbidden |= !inner && rule.factors[factor].kind != nn::FactorKind::Parallel;
    }
  }

  void consider(unsigned leader) {
    const Class &found = classes[leader];
    if (found.forbidden || !found.summed || !found.size || found.parameters.size() < 2)
      return;
    for (auto [argument, dim] : found.parameters)
      if (blocks.splitDims.count(name(argument)))
        return;
    if (*found.size % count != 0 || *found.size / count < 2) {
      blocks.indivisible.push_back(*found.size);
      return;
    }
    std::map<std::string, unsigned> dims;
    for (auto [argument, dim] : found.parameters)
      if (!dims.emplace(name(argument), dim).second) // A parameter that carries it twice.
        return;
    blocks.splitDims.insert(dims.begin(), dims.end());
    blocks.sizes.push_back(*found.size);
  }

  std::string name(BlockArgument argument) {
    return argumentText(graph, argument.getArgNumber(), attributes::kParameter).str();
  }

  func::FuncOp graph;
  int64_t count;
  TensorBlocks blocks;
  llvm::DenseMap<std::pair<Value, unsigned>, unsigned> nodes;
  std::vector<unsigned> parents;
  std::vector<Class> classes;
};

} // namespace

TensorBlocks findTensorBlocks(func::FuncOp graph, int64_t count) { return BlockFinder(graph, count).find(); }

} // namespace maestro

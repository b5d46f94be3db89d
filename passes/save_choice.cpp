// See save_choice.h.
#include "passes/save_choice.h"

#include "ir/nn/gradients.h"
#include "passes/graph_functions.h"

#include <limits>
#include <queue>
#include <vector>

using namespace mlir;

namespace maestro {
namespace {

constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

/// Maximum flow by Dinic's algorithm.
class FlowNetwork {
public:
  int addNode() {
    edges.emplace_back();
    return edges.size() - 1;
  }

  void addEdge(int from, int to, int64_t capacity) {
    edges[from].push_back({to, int(edges[to].size()), capacity});
    edges[to].push_back({from, int(edges[from].size()) - 1, 0});
  }

  void saturate(int source, int sink) {
    while (findLevels(source, sink)) {
      cursor.assign(edges.size(), 0);
      while (push(source, sink, kInfinite) > 0)
        ;
    }
  }

  /// After saturate(): the nodes from which the sink can still be reached.
  std::vector<bool> reaching(int sink) const {
    std::vector<bool> reached(edges.size());
    std::queue<int> pending;
    pending.push(sink);
    reached[sink] = true;
    while (!pending.empty()) {
      int node = pending.front();
      pending.pop();
      for (const Edge &back : edges[node])
        if (!reached[back.to] && edges[back.to][back.reverse].capacity > 0) {
          reached[back.to] = true;
          pending.push(back.to);
        }
    }
    return reached;
  }

private:
  struct Edge {
    int to;
    int reverse;
    int64_t capacity;
  };

  bool findLevels(int source, int sink) {
    level.assign(edges.size(), -1);
    level[source] = 0;
    std::queue<int> pending;
    pending.push(source);
    while (!pending.empty()) {
      int node = pending.front();
      pending.pop();
      for (const Edge &edge : edges[node])
        if (edge.capacity > 0 && level[edge.to] < 0) {
          level[edge.to] = level[node] + 1;
          pending.push(edge.to);
        }
    }
    return level[sink] >= 0;
  }

  /// One augmenting path, without recursion: graphs are thousands of operators deep.
  int64_t push(int source, int sink, int64_t limit) {
    std::vector<std::pair<int, int>> path; // node, index of the edge taken
    int node = source;
    while (node != sink) {
      int &next = cursor[node];
      while (next < int(edges[node].size()) &&
             (edges[node][next].capacity <= 0 || level[edges[node][next].to] != level[node] + 1))
        ++next;
      if (next < int(edges[node].size())) {
        path.push_back({node, next});
        node = edges[node][next].to;
      } else if (path.empty()) {
        return 0;
      } else {
        node = path.back().first;
        ++cursor[node];
        path.pop_back();
      }
    }
    for (auto [from, index] : path)
      limit = std::min(limit, edges[from][index].capacity);
    for (auto [from, index] : path) {
      Edge &edge = edges[from][index];
      edge.capacity -= limit;
      edges[edge.to][edge.reverse].capacity += limit;
    }
    return limit;
  }

  std::vector<std::vector<Edge>> edges;
  std::vector<int> level, cursor;
};

bool isFloatResult(Operation *op) {
  return llvm::any_of(op->getResults(),
                      [](Value result) { return isa<FloatType>(nn::typeOf(result).getElementType()); });
}

/// Operations' layers, and those of which a later layer reads a result.
struct Layers {
  llvm::DenseMap<Operation *, int64_t> of;
  llvm::DenseSet<Operation *> last;
};

/// What passes have added since layers were marked is of its operands' layer.
Layers layersOf(ArrayRef<Operation *> operations) {
  Layers found;
  auto &[layers, last] = found;
  for (Operation *op : operations) {
    auto mark = op->getAttrOfType<IntegerAttr>(attributes::kAtom);
    int64_t own = mark ? mark.getInt() : 0;
    for (Value operand : op->getOperands())
      if (auto of = layers.find(operand.getDefiningOp()); !mark && of != layers.end())
        own = std::max(own, of->second);
    layers[op] = own;
    for (Value operand : op->getOperands())
      if (auto of = layers.find(operand.getDefiningOp()); of != layers.end() && of->second < own)
        last.insert(of->first);
  }
  return found;
}

/// Which operations a backward task may run again.
class RecomputeRule {
public:
  RecomputeRule(llvm::function_ref<Recompute(int64_t)> policyOf, ArrayRef<Operation *> operations)
      : policyOf(policyOf), layers(layersOf(operations)) {}

  /// To be asked in the operations' order.
  bool allows(Operation *op) {
    Origin origin = origins.add(op);
    if (!origin.data) // Constants, positions, and what follows from parameters alone.
      return true;
    Recompute policy = policyOf(layers.of.lookup(op));
    if (policy == Recompute::Full)
      return !origin.parameter || !layers.last.contains(op);
    if (isa<nn::ReshapeOp, nn::BroadcastToOp, nn::CastOp>(op))
      return true;
    bool light = op->hasTrait<nn::Elementwise>() || op->hasTrait<nn::MovesData>();
    if (!isFloatResult(op)) // Masks: cheap to compute, often large to keep.
      return light || isa<nn::CumsumOp, nn::GatherOp, nn::GatherNDOp, nn::GatherElementsOp>(op);
    if (auto embedding = dyn_cast<nn::GatherOp>(op)) // As fast as reading its saved result.
      return bool(nn::argumentBehind(embedding.getData()));
    if (policy == Recompute::Selective)
      return light || isa<nn::LayerNormOp, nn::RmsNormOp, nn::SoftmaxOp, nn::LogSoftmaxOp, nn::DropoutOp>(op);
    return light && !origin.parameter; // Float masks out of data fields.
  }

private:
  llvm::function_ref<Recompute(int64_t)> policyOf;
  Layers layers;
  Origins origins;
};

} // namespace

llvm::SmallVector<Value> chooseSaved(const SaveProblem &problem, llvm::function_ref<Recompute(int64_t)> policyOf,
                                     llvm::function_ref<int64_t(Value)> bytesOf) {
  FlowNetwork network;
  int source = network.addNode(), sink = network.addNode();
  llvm::DenseMap<Value, int> nodes; // A value's entry; its exit is the next node.
  auto entry = [&](Value value) {
    auto [found, isNew] = nodes.try_emplace(value, 0);
    if (isNew) {
      found->second = network.addNode();
      network.addEdge(found->second, network.addNode(),
                      value.getDefiningOp() ? std::max<int64_t>(bytesOf(value), 1) : 0);
    }
    return nodes[value];
  };
  RecomputeRule rule(policyOf, problem.operations);
  for (Operation *op : problem.operations) {
    bool again = rule.allows(op);
    for (Value result : op->getResults()) {
      if (!again)
        network.addEdge(source, entry(result), kInfinite);
      else
        for (Value operand : op->getOperands())
          network.addEdge(entry(operand) + 1, entry(result), kInfinite);
    }
  }
  for (Value value : problem.needed)
    network.addEdge(entry(value) + 1, sink, kInfinite);
  network.saturate(source, sink);
  std::vector<bool> reaching = network.reaching(sink);
  llvm::SmallVector<Value> saved;
  for (Operation *op : problem.operations)
    for (Value result : op->getResults())
      if (auto found = nodes.find(result); found != nodes.end())
        if (reaching[found->second + 1] && !reaching[found->second])
          saved.push_back(result);
  return saved;
}

} // namespace maestro

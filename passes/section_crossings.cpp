#include "passes/section_crossings.h"

#include <limits>
#include <optional>

using namespace mlir;

namespace maestro {
namespace {

class Crossings {
public:
  Crossings(GraphFacts &facts, const DimTable &dims, bool moveTails, SectionLabels &labels)
      : facts(facts), dims(dims), moveTails(moveTails), labels(labels) {}

  void choose() {
    for (Operation &op : facts.operations()) {
      auto label = labels.part.find(&op);
      if (label == labels.part.end())
        continue;
      for (Value operand : op.getOperands())
        chooseCrossing(operand, label->second);
    }
  }

private:
  static bool movesData(Operation *op) { return op->hasTrait<nn::Rearranges>() || isa<nn::CastOp, nn::SliceOp>(op); }

  /// With the operator's other results that the consumer reads: values and indices cross together, or neither does.
  double crossingBytes(Value value, unsigned consumer) {
    double bytes = facts.bytesOf(value);
    if (Operation *op = value.getDefiningOp())
      for (Value other : op->getResults())
        if (other != value && llvm::any_of(other.getUsers(), [&](Operation *user) {
              auto label = labels.part.find(user);
              return label != labels.part.end() && label->second == consumer;
            }))
          bytes += facts.bytesOf(other);
    return bytes;
  }

  void chooseCrossing(Value value, unsigned consumer) {
    Operation *op = value.getDefiningOp();
    auto label = op ? labels.part.find(op) : labels.part.end();
    if (label == labels.part.end() || label->second == consumer)
      return;
    unsigned producer = label->second;
    bool sameSection = labels.parts[producer].section == labels.parts[consumer].section;
    llvm::SmallVector<Operation *> way, best;
    double fewest = std::numeric_limits<double>::infinity();
    bool found = false;
    for (Value at = value;;) {
      bool mayCross = canCross(at, dims) && (sameSection || !isMasked(at, dims));
      if (double bytes = crossingBytes(at, consumer); mayCross && bytes < fewest) {
        fewest = bytes;
        best = way;
        found = true;
      }
      Operation *behind = at.getDefiningOp();
      std::optional<Value> next = behind ? stepBack(behind, producer, consumer, sameSection, found) : std::nullopt;
      if (!next)
        break;
      way.push_back(behind);
      at = *next;
    }
    if (found)
      for (Operation *moved : best)
        labels.repeated.insert({moved, consumer});
  }

  /// The one operand of the producer's own that `op` is computed from, where the consumer may run `op` itself.
  std::optional<Value> stepBack(Operation *op, unsigned producer, unsigned consumer, bool sameSection, bool found) {
    auto label = labels.part.find(op);
    if (label == labels.part.end() || label->second != producer)
      return std::nullopt;
    if (!movesData(op)) {
      bool readsTrainable = labels.trains.contains(op);
      bool mayMove = moveTails || isMasked(op->getResult(0), dims);
      if (sameSection || readsTrainable || !mayMove || !onlyFor(op, consumer))
        return std::nullopt;
    } else if (found && !onlyFor(op, consumer)) {
      return std::nullopt;
    }
    std::optional<Value> only;
    for (Value operand : op->getOperands())
      if (Operation *before = operand.getDefiningOp(); before && labels.part.count(before)) {
        if (only && *only != operand)
          return std::nullopt;
        only = operand;
      }
    return only;
  }

  /// Whether every user of the operator's results is the consumer's, or will be computed there.
  bool onlyFor(Operation *op, unsigned consumer) {
    for (Operation *user : op->getUsers()) {
      if (isa<func::ReturnOp>(user))
        return false;
      auto label = labels.part.find(user);
      if (label == labels.part.end() || label->second == consumer)
        continue;
      // Or moves there, too: the user's own users are all the consumer's.
      if (!(movesData(user) || !labels.trains.contains(user)) || !onlyFor(user, consumer))
        return false;
    }
    return true;
  }

  GraphFacts &facts;
  const DimTable &dims;
  bool moveTails;
  SectionLabels &labels;
};

} // namespace

void chooseCrossings(GraphFacts &facts, const DimTable &dims, bool moveTails, SectionLabels &labels) {
  Crossings(facts, dims, moveTails, labels).choose();
}

} // namespace maestro

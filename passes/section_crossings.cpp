#include "passes/section_crossings.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <limits>
#include <optional>

using namespace mlir;

namespace maestro {
namespace {

/// By so many operators at most a value follows from others that cross.
constexpr size_t kMostFollowing = 16;

class Crossings {
public:
  Crossings(GraphFacts &facts, const DimTable &dims, bool moveTails, SectionLabels &labels)
      : facts(facts), dims(dims), moveTails(moveTails), labels(labels) {}

  void choose() {
    labels.reasons.clear();
    claims.clear();
    for (Operation &op : facts.operations()) {
      auto label = labels.part.find(&op);
      if (label == labels.part.end())
        continue;
      for (Value operand : op.getOperands())
        chooseCrossing(operand, label->second);
    }
    for (auto &[consumer, crossing] : crossingValues())
      shareSources(consumer, crossing);
    explainClaims(crossingValues());
  }

private:
  using Values = llvm::SmallSetVector<Value, 8>;

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
    if (!found || best.empty())
      return;
    for (Operation *moved : best)
      labels.repeated.insert({moved, consumer});
    Value crosses = best.back()->getOperand(0);
    for (Value operand : best.back()->getOperands())
      if (Operation *before = operand.getDefiningOp(); before && labels.part.count(before))
        crosses = operand;
    Value &behind = claims[{crosses, consumer}];
    if (!behind || facts.bytesOf(behind) < facts.bytesOf(value))
      behind = value;
  }

  /// Says what a choice saves, where it does: a value that the consumer reads anyway crosses once, and so what follows
  /// from it need not; one that crosses as well has saved nothing.
  void explainClaims(const llvm::MapVector<unsigned, Values> &crossing) {
    for (const auto &[key, behind] : claims) {
      auto [crosses, consumer] = key;
      auto all = crossing.find(consumer);
      if (all == crossing.end() || !all->second.contains(crosses) || all->second.contains(behind))
        continue;
      StringRef name = behind.getDefiningOp()->getName().getStringRef();
      std::string &reason = labels.reasons[{crosses, consumer}];
      reason += reason.empty() ? "" : "; ";
      reason += isReadBy(crosses, consumer)
                    ? llvm::formatv("{0}'s result need not cross, as it follows from this", name).str()
                    : llvm::formatv("of what means the same the fewest bytes: behind {0} it would be {1:f1} x as many",
                                    name, facts.bytesOf(behind) / facts.bytesOf(crosses))
                          .str();
    }
  }

  /// By an operator of the consumer's own.
  bool isReadBy(Value value, unsigned consumer) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto label = labels.part.find(user);
      return label != labels.part.end() && label->second == consumer;
    });
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
    } else if (found && !isExactWidening(op) && !onlyFor(op, consumer)) {
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

  /// A frozen producer's bf16 in f32: whoever reads it may widen it, whoever else does.
  bool isExactWidening(Operation *op) const {
    auto cast = dyn_cast<nn::CastOp>(op);
    return cast && !labels.trains.contains(op) && nn::typeOf(cast.getX()).getElementType().isBF16() &&
           nn::typeOf(op->getResult(0)).getElementType().isF32();
  }

  // ---- What follows from what crosses anyway ------------------------------------------------------------------------

  /// By consumer: what it reads of other parts, as `labels` say by now.
  llvm::MapVector<unsigned, Values> crossingValues() {
    llvm::MapVector<unsigned, Values> crossing;
    llvm::SetVector<std::pair<Operation *, unsigned>> live;
    auto reach = [&](Value value, std::optional<unsigned> reader) {
      Operation *op = value.getDefiningOp();
      auto label = op ? labels.part.find(op) : labels.part.end();
      if (label == labels.part.end()) // Of data or parameters alone: each part's own.
        return;
      bool isOwn = !reader || *reader == label->second;
      bool isRepeated = !isOwn && labels.repeated.contains({op, *reader});
      if (!isOwn && !isRepeated)
        crossing[*reader].insert(value);
      live.insert({op, isRepeated ? *reader : label->second});
    };
    for (Value result : facts.results())
      reach(result, std::nullopt);
    for (size_t i = 0; i < live.size(); ++i) {
      auto [op, part] = live[i];
      for (Value operand : op->getOperands())
        reach(operand, part);
    }
    return crossing;
  }

  /// What crosses instead of several values, or beside them, and which of them then follow from it.
  struct Source {
    Value value;
    Values implied;
    llvm::SetVector<Operation *> way;
    double savedBytes = 0;
  };

  /// As long as that saves bytes: of the values that cross and those before them, the one that saves most.
  void shareSources(unsigned consumer, Values crossing) {
    for (;;) {
      Source best;
      for (Value value : sourcesOf(consumer, crossing))
        if (Source source = tryout(value, consumer, crossing); source.savedBytes > best.savedBytes)
          best = std::move(source);
      if (!best.value)
        return;
      std::string names;
      for (Value value : best.implied) {
        crossing.remove(value);
        labels.reasons.erase({value, consumer});
        names += (names.empty() ? "" : ", ") + (value.getDefiningOp()->getName().getStringRef() + "'s result").str();
      }
      std::string reason = labels.reasons.lookup({best.value, consumer});
      reason += llvm::formatv("{0}{1} need not cross, as it follows from this", reason.empty() ? "" : "; ", names);
      crossing.insert(best.value);
      for (Operation *op : best.way)
        labels.repeated.insert({op, consumer});
      labels.reasons[{best.value, consumer}] = reason;
    }
  }

  /// What crosses, and what that follows from by cheap operators.
  Values sourcesOf(unsigned consumer, const Values &crossing) {
    Values sources(crossing.begin(), crossing.end());
    for (size_t i = 0; i < sources.size(); ++i)
      if (Operation *op = sources[i].getDefiningOp(); isCheap(op) && !isOfSection(op, consumer))
        for (Value operand : op->getOperands())
          if (Operation *before = operand.getDefiningOp();
              before && labels.part.count(before) && sources.size() < kMostFollowing * crossing.size())
            sources.insert(operand);
    return sources;
  }

  Source tryout(Value source, unsigned consumer, const Values &crossing) {
    Source result{source, {}, {}, 0};
    bool crossesAnyway = crossing.contains(source);
    if (!crossesAnyway && (isOfSection(source.getDefiningOp(), consumer) ||
                           labels.repeated.contains({source.getDefiningOp(), consumer}) || !canCross(source, dims) ||
                           isMasked(source, dims)))
      return result;
    double saved = crossesAnyway ? 0 : -facts.bytesOf(source);
    for (Value value : crossing) {
      llvm::SetVector<Operation *> way;
      bool isReached = false;
      if (value == source || !follows(value, source, consumer, way, isReached) || !isReached)
        continue;
      saved += facts.bytesOf(value);
      result.implied.insert(value);
      result.way.insert(way.begin(), way.end());
    }
    result.savedBytes = saved;
    return result;
  }

  bool isOfSection(Operation *op, unsigned part) const {
    auto label = labels.part.find(op);
    return label != labels.part.end() && labels.parts[label->second].section == labels.parts[part].section;
  }

  /// Whether the consumer can have `value` of `source`, what it has itself, and data; by which operators.
  bool follows(Value value, Value source, unsigned consumer, llvm::SetVector<Operation *> &way, bool &isReached) {
    if (value == source) {
      isReached = true;
      return true;
    }
    Operation *op = value.getDefiningOp();
    auto label = op ? labels.part.find(op) : labels.part.end();
    if (label == labels.part.end())
      return isOfOwnRows(value, consumer);
    if (way.contains(op))
      return true;
    if (isOfSection(op, consumer) || way.size() == kMostFollowing || !isCheap(op))
      return false;
    way.insert(op);
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) { return follows(operand, source, consumer, way, isReached); });
  }

  /// Of data alone, with the rows of samples that take part in the consumer.
  bool isOfOwnRows(Value value, unsigned consumer) const {
    if (dependsOnParameter(value, false))
      return false;
    return llvm::all_of(nn::typeOf(value).getShape(), [&](const DimExpr &dim) {
      auto rows = dims.summedSymbol(dim);
      return !rows || llvm::is_contained(labels.parts[consumer].activeDims, *rows);
    });
  }

  /// Copies and casts; where nothing trains also what is elementwise. Where a dim is padded, what crosses is padded
  /// anew, with zeros: then only what keeps them.
  bool isCheap(Operation *op) const {
    if (op->getNumResults() != 1)
      return false;
    if (movesData(op))
      return true;
    bool isPadded = llvm::any_of(nn::typeOf(op->getResult(0)).getShape(), [&](const DimExpr &dim) {
      auto symbols = dim.symbols();
      return llvm::any_of(symbols, [&](const auto &symbol) { return !dims.sums(symbol); });
    });
    bool isElementwise = op->hasTrait<nn::RoundsOnce>() && !isa<nn::RopeOp, nn::DropoutOp>(op);
    return !labels.trains.contains(op) && (isPadded ? isa<nn::MulOp, nn::NegOp>(op) : isElementwise);
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
  /// By what crosses, and to whom: the value that it crosses instead of.
  llvm::MapVector<std::pair<Value, unsigned>, Value> claims;
};

} // namespace

void chooseCrossings(GraphFacts &facts, const DimTable &dims, bool moveTails, SectionLabels &labels) {
  Crossings(facts, dims, moveTails, labels).choose();
}

} // namespace maestro

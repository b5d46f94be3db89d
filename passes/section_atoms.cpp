#include "passes/section_atoms.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace mlir;

namespace maestro {
namespace {

/// Of the least that crosses in a section's midst: what also counts as little.
constexpr double kSlack = 1.25, kEdge = 0.1;
/// An atom with less than this share of the mean one's work, and of its parameters, joins the next.
constexpr double kTinyShare = 0.1;
/// Layers of up to so many atoms repeat as one.
constexpr size_t kLongestPeriod = 16;
/// Of neighbours of one class, so many stay in a trial.
constexpr size_t kKept = 3;

/// Operators whose results their own section needs, not only a consumer that computes them again.
class Liveness {
public:
  Liveness(func::FuncOp graph, const SectionLabels &labels) : labels(labels) {
    for (Operation &op : llvm::reverse(graph.getBody().front().without_terminator()))
      if (labels.part.count(&op) && isNeeded(&op))
        live.insert(&op);
  }
  bool isLive(Operation *op) const { return live.contains(op); }

private:
  bool isNeeded(Operation *op) const {
    unsigned own = labels.part.lookup(op);
    for (Operation *user : op->getUsers()) {
      auto label = labels.part.find(user);
      if (label == labels.part.end()) // The return.
        return true;
      if (label->second == own ? live.contains(user)
                               : !labels.repeated.contains({op, label->second}) && live.contains(user))
        return true;
      for (unsigned part = own + 1; part < labels.parts.size(); ++part) // A copy of the user reads it over an edge.
        if (part != label->second && labels.repeated.contains({user, part}) && !labels.repeated.contains({op, part}))
          return true;
    }
    return false;
  }

  const SectionLabels &labels;
  llvm::DenseSet<Operation *> live;
};

/// An operator and what it works on, so that equal atoms have equal words. What comes from before the atom counts by
/// its type and the order of its first use; what follows from data alone by itself, since it is computed once for all.
class Signature {
public:
  Signature(const SectionLabels &labels, const llvm::DenseSet<Operation *> &ofData, ArrayRef<Operation *> atom)
      : labels(labels), ofData(ofData) {
    for (Operation *op : atom)
      add(op, labels.trains.contains(op));
  }
  std::vector<uintptr_t> words;

private:
  enum Kind : uintptr_t { Inside = 1, Before, Parameter, Data, Derived };

  template <typename T> static uintptr_t word(T opaque) {
    return reinterpret_cast<uintptr_t>(opaque.getAsOpaquePointer());
  }

  void add(Operation *op, bool trains) {
    words.push_back(word(op->getName()));
    words.push_back(word(op->getAttrDictionary()));
    words.push_back(trains);
    for (Value operand : op->getOperands())
      add(operand);
    for (Value result : op->getResults()) {
      words.push_back(word(result.getType()));
      number.try_emplace(result, number.size());
    }
  }

  void add(Value value) {
    words.push_back(word(value.getType()));
    if (auto known = number.find(value); known != number.end()) {
      words.insert(words.end(), {Inside, known->second});
      return;
    }
    Operation *op = value.getDefiningOp();
    if (op && labels.part.count(op)) {
      words.insert(words.end(), {Before, number.size()});
      number[value] = number.size();
    } else if (!op) {
      auto argument = cast<BlockArgument>(value);
      auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
      bool isParameter = function.getArgAttr(argument.getArgNumber(), attributes::kParameter) != nullptr;
      bool trainable = function.getArgAttr(argument.getArgNumber(), attributes::kTrainable) != nullptr;
      words.insert(words.end(), {isParameter ? Parameter : Data, isParameter ? trainable : argument.getArgNumber()});
    } else if (ofData.contains(op)) {
      words.insert(words.end(), {Data, reinterpret_cast<uintptr_t>(op)});
    } else { // Of parameters alone, a transposed weight: another of each layer.
      words.push_back(Derived);
      add(op, false);
    }
  }

  const SectionLabels &labels;
  const llvm::DenseSet<Operation *> &ofData;
  llvm::DenseMap<Value, uintptr_t> number;
};

/// Operators without a label that read data, or nothing.
llvm::DenseSet<Operation *> operatorsOfData(func::FuncOp graph, const SectionLabels &labels) {
  llvm::DenseSet<Operation *> found;
  for (Operation &op : graph.getBody().front().without_terminator())
    if (!labels.part.count(&op) && (op.getNumOperands() == 0 || llvm::any_of(op.getOperands(), [&](Value operand) {
                                      if (Operation *before = operand.getDefiningOp())
                                        return found.contains(before);
                                      return !graph.getArgAttr(cast<BlockArgument>(operand).getArgNumber(),
                                                               attributes::kParameter);
                                    })))
      found.insert(&op);
  return found;
}

/// Positions at which atoms end.
std::vector<unsigned> atomEnds(ArrayRef<Operation *> members, const DimTable &dims, const OperatorWeights &weights,
                               size_t least) {
  CutCosts costs = cutCosts(members, dims, weights);
  std::vector<unsigned> places = cheapPlaces(costs, kEdge, kSlack, std::max<size_t>(least, 2) - 1), ends;
  std::vector<double> parameters(members.size() + 1, 0);
  for (auto [index, op] : llvm::enumerate(members))
    parameters[index + 1] = parameters[index] + weights.parameterBytes(op);
  size_t atoms = places.size() + 1;
  auto isTiny = [&](unsigned begin, unsigned end) {
    double share = kTinyShare / static_cast<double>(atoms);
    return atoms > least && costs.work[end] - costs.work[begin] < share * costs.work.back() &&
           parameters[end] - parameters[begin] <= share * parameters.back();
  };
  unsigned begin = 0;
  for (unsigned place : places)
    if (!isTiny(begin, place))
      ends.push_back(begin = place);
  auto all = static_cast<unsigned>(members.size());
  if (!ends.empty() && isTiny(ends.back(), all))
    ends.pop_back();
  ends.push_back(all);
  return ends;
}

/// Atoms [first, last) as layers: the longest stretch that repeats with some period becomes one atom a period.
void groupLayers(ArrayRef<unsigned> classes, unsigned first, unsigned last, size_t least,
                 std::vector<std::pair<unsigned, unsigned>> &layers) {
  unsigned bestBegin = 0, bestPeriod = 0, bestLength = 0;
  for (unsigned period = 1; period <= kLongestPeriod && 2 * period <= last - first; ++period)
    for (unsigned begin = first, end; begin + period < last; begin = end + 1) {
      for (end = begin; end + period < last && classes[end] == classes[end + period];)
        ++end;
      unsigned length = end == begin ? 0 : (end - begin + period) / period * period;
      if (length >= 2 * period && length > bestLength && (classes.size() - length + length / period) >= least) {
        bestBegin = begin;
        bestPeriod = period;
        bestLength = length;
      }
    }
  if (bestLength == 0) {
    for (unsigned atom = first; atom < last; ++atom)
      layers.push_back({atom, atom + 1});
    return;
  }
  groupLayers(classes, first, bestBegin, least, layers);
  for (unsigned atom = bestBegin; atom < bestBegin + bestLength; atom += bestPeriod)
    layers.push_back({atom, atom + bestPeriod});
  groupLayers(classes, bestBegin + bestLength, last, least, layers);
}

/// Number of each distinct key in the order of first appearance.
template <typename Key> std::vector<unsigned> numbered(const std::vector<Key> &keys) {
  std::map<Key, unsigned> known;
  std::vector<unsigned> numbers;
  for (const Key &key : keys)
    numbers.push_back(known.try_emplace(key, known.size()).first->second);
  return numbers;
}

SectionChain chainOf(ArrayRef<Operation *> members, const SectionLabels &labels,
                     const llvm::DenseSet<Operation *> &ofData, const DimTable &dims, const OperatorWeights &weights,
                     size_t least) {
  std::vector<ArrayRef<Operation *>> pieces;
  std::vector<std::vector<uintptr_t>> signatures;
  unsigned begin = 0;
  for (unsigned end : atomEnds(members, dims, weights, least)) {
    pieces.push_back(members.slice(begin, end - begin));
    signatures.push_back(Signature(labels, ofData, pieces.back()).words);
    begin = end;
  }
  std::vector<unsigned> classes = numbered(signatures);
  std::vector<std::pair<unsigned, unsigned>> layers;
  groupLayers(classes, 0, static_cast<unsigned>(classes.size()), least, layers);
  SectionChain chain;
  std::vector<std::vector<unsigned>> keys;
  for (auto [first, last] : layers) {
    keys.emplace_back(classes.begin() + first, classes.begin() + last);
    std::vector<Operation *> &atom = chain.atoms.emplace_back();
    for (unsigned piece = first; piece < last; ++piece)
      atom.insert(atom.end(), pieces[piece].begin(), pieces[piece].end());
  }
  chain.classOf = numbered(keys);
  return chain;
}

/// Who reads what, atom by atom; through what a consumer computes for itself to what really crosses.
class TensorFinder {
public:
  TensorFinder(func::FuncOp graph, const SectionLabels &labels, AtomGraph &atoms)
      : graph(graph), labels(labels), atoms(atoms) {}

  void run() {
    for (unsigned section = 0; section < atoms.sections.size(); ++section)
      for (auto [atom, members] : llvm::enumerate(atoms.sections[section].atoms))
        for (Operation *op : members)
          placeOf[op] = {section, static_cast<unsigned>(atom)};
    for (unsigned section = 0; section < atoms.sections.size(); ++section)
      for (auto [atom, members] : llvm::enumerate(atoms.sections[section].atoms))
        for (Operation *op : members)
          readAll(op, {section, static_cast<unsigned>(atom)});
    for (auto &[value, readers] : readersOf) {
      Operation *op = value.getDefiningOp();
      atoms.tensors.push_back(
          {placeOf.lookup(op), {readers.begin(), readers.end()}, nn::typeOf(value), labels.trains.contains(op)});
    }
  }

private:
  void readAll(Operation *op, AtomPlace by) {
    for (Value operand : op->getOperands())
      read(operand, by);
  }

  void read(Value value, AtomPlace by) {
    Operation *op = value.getDefiningOp();
    if (!op || !labels.part.count(op))
      return;
    auto place = placeOf.find(op);
    if (labels.part.lookup(op) != by.first && labels.repeated.contains({op, by.first})) {
      if (seen.insert({op, by}).second)
        readAll(op, by);
    } else if (place != placeOf.end() && place->second != by) {
      readersOf[value].insert(by);
    }
  }

  func::FuncOp graph;
  const SectionLabels &labels;
  AtomGraph &atoms;
  llvm::DenseMap<Operation *, AtomPlace> placeOf;
  llvm::MapVector<Value, std::set<AtomPlace>> readersOf;
  std::set<std::pair<Operation *, AtomPlace>> seen;
};

} // namespace

CutCosts cutCosts(ArrayRef<Operation *> members, const DimTable &dims, const OperatorWeights &weights) {
  llvm::DenseMap<Operation *, unsigned> position;
  for (auto [index, op] : llvm::enumerate(members))
    position[op] = index;
  CutCosts costs{std::vector<double>(members.size() + 1, 0), std::vector<double>(members.size() + 2, 0), {}};
  std::vector<int> barred(members.size() + 2, 0); // Changes from one position to the next, summed up below.
  for (auto [index, op] : llvm::enumerate(members)) {
    costs.work[index + 1] = costs.work[index] + weights.work(op);
    for (Value result : op->getResults()) {
      unsigned last = index;
      for (Operation *user : result.getUsers())
        if (auto found = position.find(user); found != position.end())
          last = std::max(last, found->second);
      if (last == index)
        continue;
      double bytes = weights.bytes(result);
      costs.crossing[index + 1] += bytes;
      costs.crossing[last + 1] -= bytes;
      int bar = canCross(result, dims) ? 0 : 1;
      barred[index + 1] += bar;
      barred[last + 1] -= bar;
    }
  }
  std::partial_sum(costs.crossing.begin(), costs.crossing.end(), costs.crossing.begin());
  std::partial_sum(barred.begin(), barred.end(), barred.begin());
  costs.crossing.resize(members.size() + 1);
  for (size_t cut = 0; cut <= members.size(); ++cut)
    costs.possible.push_back(barred[cut] == 0);
  return costs;
}

std::vector<std::vector<unsigned>> SectionChain::trialStages() const {
  std::vector<std::vector<unsigned>> stages;
  for (unsigned first = 0, last; first < classOf.size(); first = last) {
    for (last = first + 1; last < classOf.size() && classOf[last] == classOf[first];)
      ++last;
    stages.push_back({first});
    if (last - first >= kKept)
      stages.push_back({first + 1, first + 2});
    else if (last - first == 2)
      stages.push_back({first + 1});
  }
  return stages;
}

AtomGraph findAtoms(func::FuncOp graph, const SectionLabels &labels, const DimTable &dims,
                    const OperatorWeights &weights, const std::function<size_t(const std::string &)> &least) {
  Liveness liveness(graph, labels);
  llvm::DenseSet<Operation *> ofData = operatorsOfData(graph, labels);
  std::vector<std::vector<Operation *>> members(labels.parts.size()), moved(labels.parts.size());
  for (Operation &op : graph.getBody().front().without_terminator())
    if (auto label = labels.part.find(&op); label != labels.part.end())
      (liveness.isLive(&op) ? members : moved)[label->second].push_back(&op);
  AtomGraph atoms;
  for (unsigned part = 0; part < labels.parts.size(); ++part) {
    const std::string &name = labels.parts[part].section;
    if (members[part].empty())
      std::swap(members[part], moved[part]);
    atoms.sections.push_back(chainOf(members[part], labels, ofData, dims, weights, least(name)));
    atoms.sections.back().name = name;
    atoms.sections.back().moved = std::move(moved[part]);
  }
  TensorFinder(graph, labels, atoms).run();
  return atoms;
}

void shorten(const SectionChain &chain, SectionLabels &labels) {
  std::vector<bool> kept(chain.atoms.size(), false);
  for (const std::vector<unsigned> &stage : chain.trialStages())
    for (unsigned atom : stage)
      kept[atom] = true;
  unsigned stays = 0;
  for (unsigned atom = 0; atom < chain.atoms.size(); ++atom) {
    stays = kept[atom] ? atom : stays;
    for (size_t i = 0; !kept[atom] && i < chain.atoms[atom].size(); ++i)
      chain.atoms[atom][i]->replaceAllUsesWith(chain.atoms[stays][i]);
  }
  for (unsigned atom = static_cast<unsigned>(chain.atoms.size()); atom-- > 0;)
    for (Operation *op : llvm::reverse(chain.atoms[atom])) {
      if (kept[atom])
        continue;
      labels.part.erase(op);
      op->erase();
    }
}

} // namespace maestro

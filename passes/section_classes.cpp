#include "passes/section_classes.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace mlir;

namespace maestro {
namespace {

/// A class with less than this share of all work joins its reader.
constexpr double kTrivialShare = 0.02;

struct ClassKey {
  unsigned component = 0;
  unsigned cut = 0; ///< How many of the user's cuts of the component lie before it.
  bool trains = false;
  std::string rows; ///< The summed symbol.
  auto operator<=>(const ClassKey &) const = default;
};

struct Class {
  ClassKey key;
  double flops = 0;
  unsigned lastPosition = 0;
  unsigned merged = 0; ///< Index of the class that it joined; itself otherwise.
  std::string scope;   ///< Common prefix of its parameters' module scopes.
  bool hasScope = false;
};

class Classifier {
public:
  Classifier(func::FuncOp graph, GraphFacts &facts, const PartitionOptions &options)
      : graph(graph), facts(facts), components(facts.components()), options(options) {}

  FailureOr<SectionLabels> run() {
    for (Operation &op : facts.operations())
      if (facts.originOf(&op).trains)
        labels.trains.insert(&op);
    if (failed(orderCuts()))
      return failure();
    classify();
    if (failed(checkCuts()))
      return failure();
    mergeTrivial();
    orderClasses();
    assignParts();
    return std::move(labels);
  }

private:
  unsigned classIndex(const ClassKey &key) {
    auto [found, isNew] = classOf.try_emplace(key, classes.size());
    if (isNew)
      classes.push_back({key, 0, 0, static_cast<unsigned>(classes.size()), "", false});
    return found->second;
  }

  static bool isInside(StringRef name, StringRef scope) {
    return name == scope || (name.starts_with(scope) && name[scope.size()] == '.');
  }

  /// The user's cuts by component, in the order in which their modules begin to compute.
  LogicalResult orderCuts() {
    std::set<std::string> open(options.cuts.begin(), options.cuts.end());
    for (Operation &op : facts.operations()) {
      if (open.empty() || !facts.originOf(&op).isModel())
        continue;
      llvm::SmallVector<StringRef> parameters = facts.parameterNamesOf(&op);
      for (StringRef name : parameters) {
        auto [component, rest] = name.split('/');
        std::string path = (component + "." + rest).str();
        for (const std::string &scope : options.cuts)
          if (isInside(path, scope) && open.erase(scope))
            cutScopes[facts.componentOf(name)].push_back(scope);
      }
    }
    if (open.empty())
      return success();
    return graph.emitError() << "there is nothing to cut at '" << *open.begin()
                             << "': no operator reads a parameter of it";
  }

  /// Behind how many of its component's cuts the operator lies: an operator of a cut's scope, and what follows from it.
  unsigned cutsBefore(Operation *op, unsigned component, ArrayRef<StringRef> parameters) {
    unsigned cut = 0;
    for (auto [number, scope] : llvm::enumerate(cutScopes[component]))
      for (StringRef name : parameters) {
        auto [own, rest] = name.split('/');
        if (isInside((own + "." + rest).str(), scope))
          cut = std::max<unsigned>(cut, number + 1);
      }
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && labels.part.count(producer))
        if (const ClassKey &key = classes[labels.part[producer]].key; key.component == component)
          cut = std::max(cut, key.cut);
    return cut;
  }

  /// Something lies before each cut.
  LogicalResult checkCuts() {
    for (const auto &[component, scopes] : cutScopes)
      for (auto [number, scope] : llvm::enumerate(scopes))
        if (llvm::none_of(classes, [&, number = number](const Class &own) {
              return own.key.component == component && own.key.cut == number;
            }))
          return graph.emitError() << "the cut at '" << scope << "' leaves nothing before it; cut at a later module";
    return success();
  }

  /// An operator that reads parameters is of their component; others follow their operands.
  void classify() {
    unsigned position = 0;
    for (Operation &op : facts.operations()) {
      ++position;
      if (!facts.originOf(&op).isModel())
        continue;
      llvm::SmallVector<StringRef> parameters = facts.parameterNamesOf(&op);
      unsigned component = 0;
      for (StringRef name : parameters)
        component = std::max<unsigned>(component, facts.componentOf(name));
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && facts.originOf(producer).isModel())
          component = std::max(component, classes[labels.part[producer]].key.component);
      std::string rows = facts.rowsOf(&op);
      for (Value operand : op.getOperands()) // What works on sums belongs to what was summed.
        if (Operation *producer = operand.getDefiningOp(); rows.empty() && producer && labels.part.count(producer))
          rows = classes[labels.part[producer]].key.rows;
      unsigned cut = cutsBefore(&op, component, parameters);
      unsigned index = classIndex({component, cut, facts.originOf(&op).trains, rows});
      labels.part[&op] = index;
      Class &own = classes[index];
      own.flops += facts.flopsOf(&op);
      own.lastPosition = position;
      for (StringRef name : parameters)
        noteScope(own, name.split('/').second);
    }
  }

  static void noteScope(Class &own, StringRef parameter) {
    std::string scope = parameter.rsplit('.').first.str();
    if (!own.hasScope) {
      own.scope = scope;
      own.hasScope = true;
      return;
    }
    while (!own.scope.empty() && !isInside(scope, own.scope))
      own.scope = own.scope.find('.') == std::string::npos ? "" : StringRef(own.scope).rsplit('.').first.str();
  }

  unsigned merged(unsigned index) const {
    while (classes[index].merged != index)
      index = classes[index].merged;
    return index;
  }

  /// The class that reads most of what `index` computes.
  std::optional<unsigned> readerOf(unsigned index) {
    std::map<unsigned, double> read;
    for (Operation &op : facts.operations()) {
      auto label = labels.part.find(&op);
      if (label == labels.part.end() || merged(label->second) != index)
        continue;
      for (Operation *user : op.getUsers())
        if (auto other = labels.part.find(user); other != labels.part.end() && merged(other->second) != index)
          read[merged(other->second)] += facts.bytesOf(op.getResult(0));
    }
    if (read.empty())
      return std::nullopt;
    return std::max_element(read.begin(), read.end(), [](auto &a, auto &b) { return a.second < b.second; })->first;
  }

  std::optional<unsigned> writerOf(unsigned index) {
    for (Operation &op : facts.operations()) {
      auto label = labels.part.find(&op);
      if (label == labels.part.end() || merged(label->second) != index)
        continue;
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (auto other = labels.part.find(producer); other != labels.part.end() && merged(other->second) != index)
            return merged(other->second);
    }
    return std::nullopt;
  }

  /// What the user names must stay: the largest class on each side of a cut, and of a component that is cut into
  /// stages.
  bool isPinned(unsigned index) const {
    const ClassKey &key = classes[index].key;
    if (!cutScopes.count(key.component) && !options.stages.count(components[key.component]))
      return false;
    return llvm::none_of(classes, [&](const Class &other) {
      return other.key.component == key.component && other.key.cut == key.cut && other.flops > classes[index].flops;
    });
  }

  /// Least work first, so that small classes join large ones and not each other.
  void mergeTrivial() {
    double total = 0;
    for (const Class &own : classes)
      total += own.flops;
    std::vector<unsigned> order(classes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](unsigned a, unsigned b) { return classes[a].flops < classes[b].flops; });
    for (unsigned index : order) {
      if (merged(index) != index || classes[index].flops >= kTrivialShare * total || isPinned(index))
        continue;
      std::optional<unsigned> into = readerOf(index);
      if (!into)
        into = writerOf(index);
      if (!into)
        continue;
      classes[index].merged = *into;
      classes[*into].flops += classes[index].flops;
      classes[*into].lastPosition = std::max(classes[*into].lastPosition, classes[index].lastPosition);
    }
  }

  // ---- parts --------------------------------------------------------------------------------------------------

  /// Components in order, within one the order in which their work ends, and cuts before all.
  void orderClasses() {
    for (unsigned index = 0; index < classes.size(); ++index)
      if (merged(index) == index)
        ordered.push_back(index);
    auto rank = [&](unsigned index) {
      const Class &own = classes[index];
      return std::tuple(own.key.component, own.key.cut, own.lastPosition);
    };
    std::stable_sort(ordered.begin(), ordered.end(), [&](unsigned a, unsigned b) { return rank(a) < rank(b); });
  }

  /// Operands never belong to a later part: an operator is of the latest part among its own class and its operands.
  void assignParts() {
    std::map<unsigned, unsigned> partOfClass;
    for (auto [part, index] : llvm::enumerate(ordered))
      partOfClass[index] = part;
    std::vector<std::set<std::string>> componentsOf(ordered.size()), rows(ordered.size());
    for (Operation &op : facts.operations()) {
      auto label = labels.part.find(&op);
      if (label == labels.part.end())
        continue;
      const ClassKey &key = classes[label->second].key;
      unsigned part = partOfClass[merged(label->second)];
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (auto found = labels.part.find(producer); found != labels.part.end())
            part = std::max(part, found->second);
      label->second = part;
      componentsOf[part].insert(components[key.component]);
      rows[part].insert(key.rows);
    }
    for (unsigned part = 0; part < ordered.size(); ++part) {
      SectionPart spec;
      spec.components.assign(componentsOf[part].begin(), componentsOf[part].end());
      if (rows[part].size() == 1 && !rows[part].begin()->empty())
        spec.activeDims.push_back(*rows[part].begin());
      labels.parts.push_back(std::move(spec));
    }
    namePart();
    dropEmptyParts();
  }

  /// After the component, or after the module at which the user cut it; of several parts the largest has this name, and
  /// the others are called after their scopes.
  void namePart() {
    std::map<std::pair<unsigned, unsigned>, unsigned> largest; // component, cut: part
    for (auto [part, index] : llvm::enumerate(ordered)) {
      const ClassKey &key = classes[index].key;
      auto [found, isNew] = largest.try_emplace({key.component, key.cut}, part);
      if (!isNew && classes[ordered[found->second]].flops < classes[index].flops)
        found->second = part;
    }
    std::set<std::string> taken;
    for (auto [part, index] : llvm::enumerate(ordered)) {
      const Class &own = classes[index];
      std::string name =
          own.key.cut > 0 ? cutScopes[own.key.component][own.key.cut - 1] : components[own.key.component];
      if (largest[{own.key.component, own.key.cut}] != part)
        name = components[own.key.component] + "." +
               (!own.scope.empty()     ? own.scope
                : own.key.rows.empty() ? std::string("part")
                                       : own.key.rows);
      std::string unique = name;
      for (unsigned number = 2; !taken.insert(unique).second; ++number)
        unique = name + "_" + std::to_string(number);
      labels.parts[part].name = labels.parts[part].section = unique;
    }
  }

  void dropEmptyParts() {
    std::vector<unsigned> index(labels.parts.size(), 0);
    std::vector<bool> used(labels.parts.size(), false);
    for (auto &entry : labels.part)
      used[entry.second] = true;
    std::vector<SectionPart> kept;
    for (unsigned part = 0; part < labels.parts.size(); ++part) {
      index[part] = kept.size();
      if (used[part])
        kept.push_back(std::move(labels.parts[part]));
    }
    labels.parts = std::move(kept);
    for (auto &entry : labels.part)
      entry.second = index[entry.second];
    if (labels.parts.empty()) { // Nothing but data: one section computes it.
      SectionPart only;
      only.name = only.section = components[0];
      only.components = {components[0]};
      labels.parts.push_back(only);
      for (Operation &op : facts.operations())
        labels.part[&op] = 0;
    }
  }

  func::FuncOp graph;
  GraphFacts &facts;
  ArrayRef<std::string> components;
  const PartitionOptions &options;
  std::map<unsigned, std::vector<std::string>> cutScopes; ///< By component.
  std::map<ClassKey, unsigned> classOf;
  std::vector<Class> classes;
  std::vector<unsigned> ordered;
  SectionLabels labels; ///< `part` holds classes until assignParts().
};

} // namespace

FailureOr<SectionLabels> classifySections(func::FuncOp graph, GraphFacts &facts, const PartitionOptions &options) {
  return Classifier(graph, facts, options).run();
}

} // namespace maestro

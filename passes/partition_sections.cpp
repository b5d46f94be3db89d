// --maestro-partition-sections: @graph becomes sections, each to get a layout of its own, and the edges between
// them.
//
//   func.func @graph(%x {nn.field}, %t {nn.parameter = "teacher/w"}, %s {nn.parameter = "student/w", nn.trainable}) {
//     %a = nn.matmul %x, %t
//     %b = nn.matmul %x, %s
//     %l = nn.kl_divergence %b, %a
//     …
//
// becomes
//
//   section.section @teacher {
//     func.func @graph(%x {nn.field}, %t …) -> (… {nn.edge = "teacher_to_student"})
//   section.section @student attributes {trains} {
//     func.func @graph(%x {nn.field}, %s …, %a {nn.edge = "teacher_to_student"}) -> (… {nn.loss …})
//   section.edge @teacher_to_student from @teacher to @student : …
//
// An operator's *class* is the component whose parameters it reads, whether a trainable parameter reaches it, and
// the rows that it works on (text, images, audio). Classes are ordered as data flows; an operator belongs to the
// latest class among its own and its operands'. A class of little work joins the one that reads it.
//
// What crosses is then chosen per value: of the values on the way back from it that mean the same, the one of
// fewest bytes, when the operators behind it can run on the consumer's side: views always, and a frozen
// producer's own (a teacher's head) when nothing else of the producer needs their results.
#include "passes/outline_sections.h"
#include "passes/passes.h"
#include "passes/section_atoms.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace mlir;

namespace maestro {
namespace {

/// A class with less than this share of its component's work joins its reader.
constexpr double kTrivialShare = 0.02;
/// An undeclared symbol's value when sizes are compared.
constexpr int64_t kAssumedBound = 256;

/// What an operator is computed from.
struct Origin {
  bool parameter = false, data = false, trains = false;
  bool isModel() const { return parameter && data; }
};

struct ClassKey {
  unsigned component = 0;
  unsigned cut = 0;     ///< How many of the user's cuts of the component lie before it.
  bool trains = false;
  std::string rows;     ///< The summed symbol.
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

class Partitioner {
public:
  Partitioner(ModuleOp module, const DimTable &dims, const PartitionOptions &options)
      : module(module), graph(findFunction(module, attributes::kGraphFunction)), dims(dims), options(options) {}

  LogicalResult run() {
    if (failed(findSections()))
      return failure();
    bool usesAtoms = options.forTrial || !options.firstAtoms.empty();
    if (failed(usesAtoms ? cutAtAtoms() : cutStages()))
      return failure();
    chooseCrossings();
    return outlineSections(module, labels, dims);
  }

  /// Only looks.
  FailureOr<AtomGraph> atoms() {
    if (failed(findSections()))
      return failure();
    return chains();
  }

private:
  LogicalResult findSections() {
    nameComponents();
    traceOrigins();
    if (failed(orderCuts()))
      return failure();
    classify();
    if (failed(checkCuts()))
      return failure();
    mergeTrivial();
    orderClasses();
    assignParts();
    return checkStages();
  }

  auto operations() { return graph.getBody().front().without_terminator(); }

  // ---- what is what -------------------------------------------------------------------------------------------

  static std::string componentOf(StringRef parameter) { return parameter.split('/').first.str(); }

  /// In the order in which the linker inlined them: producers first.
  void nameComponents() {
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      if (StringRef name = argumentText(graph, i, attributes::kParameter); !name.empty())
        if (std::string component = componentOf(name); !llvm::is_contained(components, component))
          components.push_back(component);
    if (components.empty())
      components.push_back("graph");
  }

  Origin originOf(Value value) {
    if (Operation *op = value.getDefiningOp())
      return origins.lookup(op);
    unsigned number = cast<BlockArgument>(value).getArgNumber();
    bool parameter = !argumentText(graph, number, attributes::kParameter).empty();
    return {parameter, !parameter, graph.getArgAttr(number, attributes::kTrainable) != nullptr};
  }

  void traceOrigins() {
    for (Operation &op : operations()) {
      Origin origin;
      for (Value operand : op.getOperands()) {
        Origin of = originOf(operand);
        origin.parameter |= of.parameter;
        origin.data |= of.data;
        origin.trains |= of.trains;
      }
      origins[&op] = origin;
      if (origin.trains)
        labels.trains.insert(&op);
    }
  }

  /// The parameters that an operator reads, also through what is computed from parameters alone.
  void parametersOf(Operation *op, llvm::SmallVectorImpl<std::string> &names) {
    llvm::SmallVector<Value> pending(op->getOperands());
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      if (Operation *producer = value.getDefiningOp()) {
        if (Origin origin = origins.lookup(producer); origin.parameter && !origin.data)
          pending.append(producer->operand_begin(), producer->operand_end());
      } else if (StringRef name = argumentText(graph, cast<BlockArgument>(value).getArgNumber(), attributes::kParameter);
                 !name.empty()) {
        names.push_back(name.str());
      }
    }
  }

  /// The summed symbol of the results, or of the operands where results have none (a sum over samples).
  std::string rowsOf(Operation *op) const {
    for (bool results : {true, false})
      for (Value value : results ? ValueRange(op->getResults()) : ValueRange(op->getOperands()))
        for (const DimExpr &dim : nn::typeOf(value).getShape())
          if (auto symbol = dims.summedSymbol(dim))
            return *symbol;
    return "";
  }

  double atBounds(const DimExpr &expr) const {
    auto value = expr.evaluate([&](std::string_view symbol) { return dims.bound(symbol).value_or(kAssumedBound); });
    return value ? static_cast<double>(*value) : 0.0;
  }

  double flopsOf(Operation *op) const {
    auto cost = dyn_cast<nn::CostOpInterface>(op);
    return cost ? atBounds(cost.getFlops()) + atBounds(cost.getBytes()) : 0.0;
  }

  double bytesOf(Value value) const { return atBounds(nn::typeOf(value).getByteSize()); }

  // ---- classes ------------------------------------------------------------------------------------------------

  unsigned classIndex(const ClassKey &key) {
    auto [found, isNew] = classOf.try_emplace(key, classes.size());
    if (isNew)
      classes.push_back({key, 0, 0, static_cast<unsigned>(classes.size()), "", false});
    return found->second;
  }

  static std::string scopeOf(Location location) {
    if (auto named = dyn_cast<NameLoc>(location)) {
      if (auto child = dyn_cast<NameLoc>(named.getChildLoc()))
        return child.getName().str();
      return "";
    }
    if (auto fused = dyn_cast<FusedLoc>(location))
      for (Location inner : fused.getLocations())
        if (std::string scope = scopeOf(inner); !scope.empty())
          return scope;
    return "";
  }

  static bool isInside(StringRef name, StringRef scope) {
    return name == scope || (name.starts_with(scope) && name[scope.size()] == '.');
  }

  /// The user's cuts by component, in the order in which their modules begin to compute.
  LogicalResult orderCuts() {
    std::set<std::string> open(options.cuts.begin(), options.cuts.end());
    for (Operation &op : operations()) {
      if (open.empty() || !origins.lookup(&op).isModel())
        continue;
      llvm::SmallVector<std::string> parameters;
      parametersOf(&op, parameters);
      for (const std::string &name : parameters) {
        auto [component, rest] = StringRef(name).split('/');
        std::string path = (component + "." + rest).str();
        for (const std::string &scope : options.cuts)
          if (isInside(path, scope) && open.erase(scope))
            cutScopes[llvm::find(components, component.str()) - components.begin()].push_back(scope);
      }
    }
    if (open.empty())
      return success();
    return graph.emitError() << "there is nothing to cut at '" << *open.begin() << "': no operator reads a parameter of it";
  }

  /// Behind how many of its component's cuts the operator lies: an operator of a cut's scope, and what follows from it.
  unsigned cutsBefore(Operation *op, unsigned component, ArrayRef<std::string> parameters) {
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
    for (Operation &op : operations()) {
      ++position;
      if (!origins.lookup(&op).isModel())
        continue;
      llvm::SmallVector<std::string> parameters;
      parametersOf(&op, parameters);
      unsigned component = 0;
      for (const std::string &name : parameters)
        component = std::max<unsigned>(component, llvm::find(components, componentOf(name)) - components.begin());
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && origins.lookup(producer).isModel())
          component = std::max(component, classes[labels.part[producer]].key.component);
      std::string rows = rowsOf(&op);
      for (Value operand : op.getOperands()) // What works on sums belongs to what was summed.
        if (Operation *producer = operand.getDefiningOp(); rows.empty() && producer && labels.part.count(producer))
          rows = classes[labels.part[producer]].key.rows;
      unsigned cut = cutsBefore(&op, component, parameters);
      unsigned index = classIndex({component, cut, origins.lookup(&op).trains, rows});
      labels.part[&op] = index;
      Class &own = classes[index];
      own.flops += flopsOf(&op);
      own.lastPosition = position;
      for (const std::string &name : parameters)
        noteScope(own, StringRef(name).split('/').second);
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
    for (Operation &op : operations()) {
      auto label = labels.part.find(&op);
      if (label == labels.part.end() || merged(label->second) != index)
        continue;
      for (Operation *user : op.getUsers())
        if (auto other = labels.part.find(user); other != labels.part.end() && merged(other->second) != index)
          read[merged(other->second)] += bytesOf(op.getResult(0));
    }
    if (read.empty())
      return std::nullopt;
    return std::max_element(read.begin(), read.end(), [](auto &a, auto &b) { return a.second < b.second; })->first;
  }

  std::optional<unsigned> writerOf(unsigned index) {
    for (Operation &op : operations()) {
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

  /// What the user names must stay: the largest class on each side of a cut, and of a component that is cut into stages.
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
    std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return classes[a].flops < classes[b].flops; });
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
    for (Operation &op : operations()) {
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
      std::string name = own.key.cut > 0 ? cutScopes[own.key.component][own.key.cut - 1] : components[own.key.component];
      if (largest[{own.key.component, own.key.cut}] != part)
        name = components[own.key.component] + "." +
               (!own.scope.empty() ? own.scope : own.key.rows.empty() ? std::string("part") : own.key.rows);
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
      for (Operation &op : operations())
        labels.part[&op] = 0;
    }
  }

  // ---- pipeline stages ----------------------------------------------------------------------------------------

  LogicalResult checkStages() {
    std::vector<std::string> names;
    for (SectionPart &part : labels.parts) {
      names.push_back(part.section);
      part.recompute = valueOf(options.recompute, part.section, Recompute::None);
      part.tensor = countOf(options.tensor, part.section);
    }
    for (const auto &[name, stages] : options.stages)
      if (name != "*" && !llvm::is_contained(names, name))
        return graph.emitError() << "there is no section '" << name << "' to cut into " << stages << " stages; sections: "
                                 << sectionNames();
    return success();
  }

  std::string sectionNames() const {
    std::string text;
    for (const SectionPart &part : labels.parts)
      text += (text.empty() ? "" : ", ") + part.section;
    return text;
  }

  /// A section's number, that of all ("*"), or 1.
  static int64_t countOf(const std::map<std::string, int64_t> &counts, const std::string &section) {
    return valueOf<int64_t>(counts, section, 1);
  }
  template <typename T> static T valueOf(const std::map<std::string, T> &values, const std::string &section, T otherwise) {
    auto own = values.find(section), all = values.find("*");
    return own != values.end() ? own->second : all != values.end() ? all->second : otherwise;
  }

  /// Sections along their depth where the stages' work is most even, and of nearly even cuts where the fewest bytes cross.
  LogicalResult cutStages() {
    if (llvm::any_of(labels.parts, [](const SectionPart &part) { return part.recompute == Recompute::Full; })) {
      markAtoms(chains());
      labels.repeated.clear();
    }
    for (unsigned part = 0; part < labels.parts.size(); ++part) {
      int64_t stages = countOf(options.stages, labels.parts[part].section);
      llvm::SmallVector<Operation *> members;
      for (Operation &op : operations())
        if (auto label = labels.part.find(&op); stages > 1 && label != labels.part.end() && label->second == part)
          members.push_back(&op);
      if (stages == 1)
        continue;
      std::vector<unsigned> ends = bestCuts(cutCosts(members, dims, weights()), stages);
      if (ends.size() != static_cast<size_t>(stages))
        return graph.emitError() << "section '" << labels.parts[part].section << "' cannot be cut into " << stages
                                 << " stages: it has only " << ends.size() << " places where a sample's rows can cross";
      std::vector<std::vector<Operation *>> operators(stages);
      unsigned stage = 0;
      for (auto [position, op] : llvm::enumerate(members)) {
        while (position >= ends[stage])
          ++stage;
        operators[stage].push_back(op);
      }
      splitPart(part, operators);
      part += static_cast<unsigned>(stages) - 1;
    }
    return success();
  }

  /// One part becomes several, a stage each.
  void splitPart(unsigned part, ArrayRef<std::vector<Operation *>> operators) {
    auto stages = static_cast<unsigned>(operators.size());
    for (auto &entry : labels.part)
      if (entry.second > part)
        entry.second += stages - 1;
    SectionPart whole = labels.parts[part];
    labels.parts.erase(labels.parts.begin() + part);
    for (unsigned stage = 0; stage < stages; ++stage) {
      SectionPart cut = whole;
      cut.name = whole.section + ".stage" + std::to_string(stage);
      cut.stage = stage;
      cut.stages = stages;
      labels.parts.insert(labels.parts.begin() + part + stage, cut);
      for (Operation *op : operators[stage])
        labels.part[op] = part + stage;
    }
  }

  /// What consumers compute for themselves is asked first, since stages are of what remains.
  AtomGraph chains() {
    chooseCrossings();
    return findAtoms(graph, labels, dims, weights(), [this](const std::string &section) {
      auto own = options.firstAtoms.find(section);
      return std::max<size_t>(countOf(options.stages, section), own == options.firstAtoms.end() ? 1 : own->second.size() + 1);
    });
  }

  /// Where a section computes everything again, its operators say which layer they are of.
  void markAtoms(const AtomGraph &atoms) {
    Builder builder(module.getContext());
    for (auto [part, chain] : llvm::zip_equal(labels.parts, atoms.sections))
      for (auto [number, atom] : llvm::enumerate(chain.atoms))
        for (Operation *op : atom)
          if (part.recompute == Recompute::Full)
            op->setAttr(attributes::kAtom, builder.getI64IntegerAttr(static_cast<int64_t>(number)));
  }

  /// Stages of whole atoms: as told, or a trial's.
  LogicalResult cutAtAtoms() {
    AtomGraph atoms = chains();
    labels.repeated.clear();
    markAtoms(atoms);
    for (unsigned section = static_cast<unsigned>(atoms.sections.size()); section-- > 0;) {
      SectionChain &chain = atoms.sections[section];
      std::vector<std::vector<unsigned>> stages = options.forTrial ? chain.trialStages() : toldStages(chain);
      if (stages.empty())
        return graph.emitError() << "section '" << chain.name << "' is to be cut at atoms that it does not have (" << chain.atoms.size()
                                 << ")";
      std::vector<std::vector<Operation *>> operators;
      for (const std::vector<unsigned> &stage : stages) {
        operators.emplace_back();
        for (unsigned atom : stage)
          operators.back().insert(operators.back().end(), chain.atoms[atom].begin(), chain.atoms[atom].end());
      }
      operators.back().insert(operators.back().end(), chain.moved.begin(), chain.moved.end());
      if (options.forTrial)
        shorten(chain, labels);
      if (operators.size() > 1)
        splitPart(section, operators);
    }
    return success();
  }

  /// Nothing where the atoms told do not ascend within the chain.
  std::vector<std::vector<unsigned>> toldStages(const SectionChain &chain) const {
    std::vector<unsigned> firsts{0};
    if (auto told = options.firstAtoms.find(chain.name); told != options.firstAtoms.end())
      firsts.insert(firsts.end(), told->second.begin(), told->second.end());
    firsts.push_back(static_cast<unsigned>(chain.atoms.size()));
    std::vector<std::vector<unsigned>> stages;
    for (size_t stage = 0; stage + 1 < firsts.size(); ++stage) {
      if (firsts[stage] >= firsts[stage + 1])
        return {};
      stages.emplace_back(firsts[stage + 1] - firsts[stage]);
      std::iota(stages.back().begin(), stages.back().end(), firsts[stage]);
    }
    return stages;
  }

  OperatorWeights weights() {
    return {[this](Operation *op) { return flopsOf(op); }, [this](Operation *op) { return parameterBytesOf(op); },
            [this](Value value) { return bytesOf(value); }};
  }

  double parameterBytesOf(Operation *op) {
    double bytes = 0;
    llvm::SmallVector<Value> pending(op->getOperands());
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      if (Operation *producer = value.getDefiningOp()) {
        if (Origin origin = origins.lookup(producer); origin.parameter && !origin.data)
          pending.append(producer->operand_begin(), producer->operand_end());
      } else if (originOf(value).parameter) {
        bytes += bytesOf(value);
      }
    }
    return bytes;
  }

  // ---- what crosses -------------------------------------------------------------------------------------------

  static bool isView(Operation *op) {
    return isa<nn::ReshapeOp, nn::BroadcastToOp>(op);
  }
  static bool movesData(Operation *op) {
    return isView(op) || isa<nn::TransposeOp, nn::CastOp, nn::SliceOp>(op);
  }

  /// Stages of one section keep to their cut: only views may move.
  void chooseCrossings() {
    for (Operation &op : operations()) {
      auto label = labels.part.find(&op);
      if (label == labels.part.end())
        continue;
      for (Value operand : op.getOperands())
        chooseCrossing(operand, label->second);
    }
  }

  /// With the operator's other results that the consumer reads: values and indices cross together, or neither does.
  double crossingBytes(Value value, unsigned consumer) {
    double bytes = bytesOf(value);
    if (Operation *op = value.getDefiningOp())
      for (Value other : op->getResults())
        if (other != value && llvm::any_of(other.getUsers(), [&](Operation *user) {
              auto label = labels.part.find(user);
              return label != labels.part.end() && label->second == consumer;
            }))
          bytes += bytesOf(other);
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
      if (double bytes = crossingBytes(at, consumer); canCross(at, dims) && bytes < fewest) {
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
      if (sameSection || readsTrainable || !options.moveTails || !onlyFor(op, consumer))
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

  ModuleOp module;
  func::FuncOp graph;
  const DimTable &dims;
  const PartitionOptions &options;
  std::vector<std::string> components;
  llvm::DenseMap<Operation *, Origin> origins;
  std::map<unsigned, std::vector<std::string>> cutScopes; ///< By component.
  std::map<ClassKey, unsigned> classOf;
  std::vector<Class> classes;
  std::vector<unsigned> ordered;
  SectionLabels labels; ///< `part` holds classes until assignParts().
};

struct PartitionSectionsPass : PassWrapper<PartitionSectionsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PartitionSectionsPass)
  PartitionSectionsPass() = default;
  PartitionSectionsPass(const PartitionSectionsPass &other) : PassWrapper(other) {
    cuts = llvm::ArrayRef<std::string>(other.cuts);
    stages = llvm::ArrayRef<std::string>(other.stages);
    tensor = llvm::ArrayRef<std::string>(other.tensor);
    recompute = llvm::ArrayRef<std::string>(other.recompute);
    firstAtoms = llvm::ArrayRef<std::string>(other.firstAtoms);
    forTrial = other.forTrial;
    moveTails = other.moveTails;
  }
  PartitionSectionsPass(const PartitionOptions &options) {
    cuts = llvm::ArrayRef<std::string>(options.cuts);
    stages = llvm::ArrayRef<std::string>(textOf(options.stages));
    tensor = llvm::ArrayRef<std::string>(textOf(options.tensor));
    recompute = llvm::ArrayRef<std::string>(textOf(options.recompute));
    firstAtoms = llvm::ArrayRef<std::string>(textOf(options.firstAtoms));
    forTrial = options.forTrial;
    moveTails = options.moveTails;
  }
  StringRef getArgument() const override { return "maestro-partition-sections"; }
  StringRef getDescription() const override { return "@graph becomes sections and the edges between them"; }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<section::SectionDialect>(); }

  void runOnOperation() override {
    PartitionOptions options;
    options.cuts.assign(cuts.begin(), cuts.end());
    options.moveTails = moveTails;
    options.forTrial = forTrial;
    if (failed(readCounts("stages", stages, options.stages)) || failed(readCounts("tensor", tensor, options.tensor)) ||
        failed(readRecompute(options.recompute)) || failed(readFirstAtoms(options.firstAtoms)))
      return signalPassFailure();
    FailureOr<DimTable> dims = DimTable::of(getOperation());
    if (!findFunction(getOperation(), attributes::kGraphFunction) || failed(dims) ||
        failed(Partitioner(getOperation(), *dims, options).run()))
      signalPassFailure();
  }

  static std::vector<std::string> textOf(const std::map<std::string, int64_t> &counts) {
    std::vector<std::string> list;
    for (const auto &[section, count] : counts)
      list.push_back(section + ":" + std::to_string(count));
    return list;
  }

  static std::vector<std::string> textOf(const std::map<std::string, std::vector<unsigned>> &atoms) {
    std::vector<std::string> list;
    for (const auto &[section, firsts] : atoms) {
      std::string text = section + ":";
      for (unsigned first : firsts)
        text += (text.back() == ':' ? "" : "+") + std::to_string(first);
      list.push_back(std::move(text));
    }
    return list;
  }

  static std::vector<std::string> textOf(const std::map<std::string, Recompute> &choices) {
    std::vector<std::string> list;
    for (const auto &[section, choice] : choices)
      list.push_back(section + ":" + std::string(nameOf(choice)));
    return list;
  }

  LogicalResult readRecompute(std::map<std::string, Recompute> &choices) {
    for (const std::string &text : recompute) {
      auto [section, name] = StringRef(text).rsplit(':');
      std::optional<Recompute> choice = recomputeFromName(name);
      if (!choice)
        return getOperation().emitError() << "recompute: '" << text << "' is not SECTION:none, SECTION:selective or SECTION:full";
      choices[section.str()] = *choice;
    }
    return success();
  }

  LogicalResult readFirstAtoms(std::map<std::string, std::vector<unsigned>> &atoms) {
    for (const std::string &text : firstAtoms) {
      auto [section, rest] = StringRef(text).rsplit(':');
      llvm::SmallVector<StringRef> numbers;
      rest.split(numbers, '+', -1, false);
      std::vector<unsigned> &firsts = atoms[section.str()];
      for (StringRef number : numbers)
        if (number.getAsInteger(10, firsts.emplace_back()))
          return getOperation().emitError() << "first-atoms: '" << text << "' is not SECTION:ATOM+ATOM+…";
    }
    return success();
  }

  LogicalResult readCounts(StringRef option, llvm::ArrayRef<std::string> list, std::map<std::string, int64_t> &counts) {
    for (const std::string &text : list) {
      auto [section, count] = StringRef(text).rsplit(':');
      int64_t number = 0;
      if (count.getAsInteger(10, number) || number < 1)
        return getOperation().emitError() << option << ": '" << text << "' is not SECTION:COUNT";
      counts[section.str()] = number;
    }
    return success();
  }

  ListOption<std::string> cuts{*this, "cuts", llvm::cl::desc("Module scopes before which a section is cut")};
  ListOption<std::string> stages{*this, "stages", llvm::cl::desc("SECTION:COUNT, pipeline stages")};
  ListOption<std::string> tensor{*this, "tensor", llvm::cl::desc("SECTION:COUNT, devices that share its MLP blocks")};
  ListOption<std::string> recompute{*this, "recompute", llvm::cl::desc("SECTION:selective|full, what its backward computes again")};
  ListOption<std::string> firstAtoms{*this, "first-atoms", llvm::cl::desc("SECTION:ATOM+ATOM, where stages but the first begin")};
  Option<bool> forTrial{*this, "for-trial", llvm::cl::init(false), llvm::cl::desc("Chains shortened, a stage an atom")};
  Option<bool> moveTails{*this, "move-tails", llvm::cl::init(true),
                         llvm::cl::desc("A frozen producer's last operators may move to the consumer")};
};

} // namespace

FailureOr<AtomGraph> findAtoms(ModuleOp module, const PartitionOptions &options) {
  FailureOr<DimTable> dims = DimTable::of(module);
  if (failed(dims))
    return failure();
  return Partitioner(module, *dims, options).atoms();
}

std::unique_ptr<Pass> createPartitionSectionsPass(const PartitionOptions &options) {
  return std::make_unique<PartitionSectionsPass>(options);
}

} // namespace maestro

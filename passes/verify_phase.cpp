// --maestro-verify-phase: what the IR promises after each phase, checked at its end, so that what
// follows may trust it. A failure after "import" is a graph's fault or the importer's; later ones
// are defects.
//
//   import         one @graph of nn operators; each argument is a parameter, a field or special;
//                  names are unique; trainable parameters are floats; each loss is a mean, or a
//                  sum with a count
//   raise          the same
//   loss           no means
//   partition      sections with a @graph each, and edges: producers before consumers, one result and
//                  one argument carry each edge, of its type
//   differentiate  each section's @step: one scale per loss sum, each gradient of its parameter's type
//   split          each section's @forward, and @count and @backward where there is a loss, or
//                  something to differentiate: what one returns as saved the other takes
//
// Passes by themselves may also run on a module with one @graph, as if it were a section.
#include "passes/graph_functions.h"
#include "passes/passes.h"

#include <set>

using namespace mlir;

namespace maestro {
namespace {

LogicalResult verifyOperators(func::FuncOp function) {
  for (Operation &op : function.getBody().front().without_terminator())
    if (op.getName().getDialectNamespace() != "nn")
      return op.emitError() << "only nn operators belong in @" << function.getName();
  return success();
}

LogicalResult verifyArguments(func::FuncOp function) {
  std::set<std::string> seen;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    unsigned kinds = 0;
    for (StringRef kind : {attributes::kParameter, attributes::kField, attributes::kSpecial, attributes::kEdge})
      if (StringRef name = argumentText(function, i, kind); !name.empty()) {
        ++kinds;
        if (!seen.insert((kind + "=" + name).str()).second)
          return function.emitError() << "two arguments of @" << function.getName() << " are " << kind << " '" << name
                                      << "'";
      }
    if (kinds != 1)
      return function.emitError() << "argument " << i << " of @" << function.getName() << " is " << kinds
                                  << " of parameter, field, special and edge; it must be one";
    auto type = dyn_cast<nn::TensorType>(function.getArgument(i).getType());
    if (!type)
      return function.emitError() << "argument " << i << " of @" << function.getName() << " is no nn tensor";
    if (function.getArgAttr(i, attributes::kTrainable) && !isa<FloatType>(type.getElementType()))
      return function.emitError() << "the parameter '" << argumentText(function, i, attributes::kParameter)
                                  << "' cannot train: its type is " << type;
  }
  return success();
}

LogicalResult verifyLosses(func::FuncOp function, bool meansAllowed) {
  std::map<std::pair<std::string, int64_t>, std::set<std::string>> roles;
  for (const LossResult &loss : lossResults(function)) {
    bool known = loss.role == "sum" || loss.role == "count" || (meansAllowed && loss.role == "mean");
    if (!known || !roles[{loss.name, loss.term}].insert(loss.role).second)
      return function.emitError() << "result " << loss.index << " of @" << function.getName() << ": the loss '"
                                  << loss.name << "' cannot have the role '" << loss.role << "' here";
    auto type = dyn_cast<nn::TensorType>(returnedValues(function)[loss.index].getType());
    if (loss.role != "mean" && (!type || !type.getShape().empty() || !type.getElementType().isF32()))
      return function.emitError() << "the " << loss.role << " of the loss '" << loss.name
                                  << "' must be a scalar of f32, not " << type;
  }
  for (const auto &[key, has] : roles)
    if (has.count("sum") != has.count("count"))
      return function.emitError() << "the loss '" << key.first << "' needs both a sum and a count";
  return success();
}

LogicalResult verifyGraph(ModuleOp table, bool meansAllowed) {
  func::FuncOp graph = findFunction(table, attributes::kGraphFunction);
  if (!graph)
    return table->emitError() << "there is no function @graph";
  if (!table->getParentOp() && lossResults(graph).empty())
    return graph.emitError() << "@graph returns no loss";
  return success(succeeded(verifyOperators(graph)) && succeeded(verifyArguments(graph)) &&
                 succeeded(verifyLosses(graph, meansAllowed)));
}

std::map<std::string, Type> parameterTypes(func::FuncOp function) {
  std::map<std::string, Type> types;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, attributes::kTrainable))
      types[argumentText(function, i, attributes::kParameter).str()] = function.getArgument(i).getType();
  return types;
}

/// A gradient has its parameter's type in @step, where the parameter may be split.
LogicalResult verifyGradients(func::FuncOp function, func::FuncOp step) {
  std::map<std::string, Type> types = parameterTypes(step);
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    std::string name = resultText(function, i, attributes::kGradient).str();
    if (name.empty())
      continue;
    auto found = types.find(name);
    if (found == types.end() || found->second != function.getResultTypes()[i])
      return function.emitError() << "result " << i << " of @" << function.getName()
                                  << " is no gradient of a trainable parameter '" << name << "'";
  }
  return success();
}

LogicalResult verifyStep(ModuleOp table) {
  func::FuncOp step = findFunction(table, attributes::kStepFunction);
  if (!step)
    return table->emitError() << "there is no function @step";
  return success(succeeded(verifyOperators(step)) && succeeded(verifyGradients(step, step)));
}

std::map<int64_t, Type> savedResults(func::FuncOp function) {
  std::map<int64_t, Type> saved;
  for (unsigned i = 0; function && i < function.getNumResults(); ++i)
    if (auto number = function.getResultAttrOfType<IntegerAttr>(i, attributes::kSaved))
      saved[number.getInt()] = function.getResultTypes()[i];
  return saved;
}

std::map<int64_t, Type> savedArguments(func::FuncOp function) {
  std::map<int64_t, Type> taken;
  for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
    if (auto number = function.getArgAttrOfType<IntegerAttr>(i, attributes::kSaved))
      taken[number.getInt()] = function.getArgument(i).getType();
  return taken;
}

LogicalResult verifyPrograms(ModuleOp table) {
  func::FuncOp forward = findFunction(table, attributes::kForwardFunction);
  func::FuncOp backward = findFunction(table, attributes::kBackwardFunction);
  func::FuncOp graph = findFunction(table, attributes::kGraphFunction);
  func::FuncOp step = findFunction(table, attributes::kStepFunction);
  if (!forward || (!lossResults(graph).empty() && !findFunction(table, attributes::kCountFunction)))
    return table->emitError() << "@forward must exist, and @count where there is a loss";
  func::FuncOp weightGradient = findFunction(table, attributes::kWeightGradientFunction);
  if (weightGradient && !backward)
    return table->emitError() << "there is a @weight_gradient, and no @backward";
  std::map<int64_t, Type> saved = savedResults(forward), taken = savedArguments(backward);
  if (saved != taken)
    return table->emitError() << "@forward saves " << saved.size() << " values, @backward takes " << taken.size()
                              << ", and they must be the same";
  std::map<int64_t, Type> savedLater = savedResults(backward), takenLater = savedArguments(weightGradient);
  saved.insert(savedLater.begin(), savedLater.end());
  for (const auto &[number, type] : takenLater)
    if (auto found = saved.find(number); found == saved.end() || found->second != type)
      return table->emitError() << "@weight_gradient takes value " << number
                                << ", which neither @forward nor @backward saves";
  for (const auto &[number, type] : savedLater)
    if (!takenLater.count(number))
      return table->emitError() << "@backward saves value " << number << ", which @weight_gradient does not take";
  for (func::FuncOp gradients : {backward, weightGradient})
    if (gradients && (failed(verifyOperators(gradients)) || failed(verifyGradients(gradients, step))))
      return failure();
  if (func::FuncOp evaluate = findFunction(table, attributes::kEvaluateFunction);
      evaluate && failed(verifyOperators(evaluate)))
    return failure();
  return verifyOperators(forward);
}

LogicalResult verifyTable(ModuleOp table, Phase phase) {
  if (failed(verifyGraph(table, /*meansAllowed=*/phase < Phase::Loss)))
    return failure();
  if (phase >= Phase::Differentiate && failed(verifyStep(table)))
    return failure();
  return phase >= Phase::Split ? verifyPrograms(table) : success();
}

/// How often @graph of the section carries the edge: as an argument, or as a result.
unsigned countCarriers(section::SectionOp section, StringRef edge, bool results, Type type) {
  func::FuncOp graph = findFunction(section.getBody(), attributes::kGraphFunction);
  unsigned count = 0;
  for (unsigned i = 0, end = results ? graph.getNumResults() : graph.getNumArguments(); i < end; ++i) {
    StringRef name = results ? resultText(graph, i, attributes::kEdge) : argumentText(graph, i, attributes::kEdge);
    Type given = results ? graph.getResultTypes()[i] : graph.getArgumentTypes()[i];
    count += name == edge && given == type;
  }
  return count;
}

LogicalResult verifyEdge(section::EdgeOp edge, ModuleOp module) {
  auto producer = section::findSection(module, edge.getProducer());
  auto consumer = section::findSection(module, edge.getConsumer());
  if (!producer || !consumer)
    return edge.emitOpError() << "there is no section @" << (producer ? edge.getConsumer() : edge.getProducer());
  if (!producer->isBeforeInBlock(consumer))
    return edge.emitOpError() << "@" << edge.getProducer() << " does not come before @" << edge.getConsumer();
  for (bool results : {true, false})
    if (countCarriers(results ? producer : consumer, edge.getName(), results, edge.getType()) != 1)
      return edge.emitOpError() << "one " << (results ? "result" : "argument") << " of @"
                                << (results ? producer : consumer).getName() << " of type " << edge.getType()
                                << " must carry it";
  return success();
}

LogicalResult verify(ModuleOp module, Phase phase) {
  auto sections = module.getOps<section::SectionOp>();
  if (sections.empty())
    return verifyTable(module, phase);
  for (section::SectionOp section : sections)
    if (!section.getBody())
      return section.emitOpError() << "has no module of its functions";
    else if (failed(verifyTable(section.getBody(), phase)))
      return failure();
  for (section::EdgeOp edge : module.getOps<section::EdgeOp>())
    if (failed(verifyEdge(edge, module)))
      return failure();
  return success();
}

struct VerifyPhasePass : PassWrapper<VerifyPhasePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyPhasePass)
  VerifyPhasePass() = default;
  VerifyPhasePass(const VerifyPhasePass &other) : PassWrapper(other) { phase = other.phase; }
  VerifyPhasePass(Phase verified) { phase = nameOf(verified).str(); }
  StringRef getArgument() const override { return "maestro-verify-phase"; }
  StringRef getDescription() const override { return "Checks what the IR promises after a phase"; }

  void runOnOperation() override {
    std::optional<Phase> after = phaseFromName(phase);
    if (!after) {
      getOperation().emitError() << "'" << phase << "' is no phase; there are " << phaseNames();
      return signalPassFailure();
    }
    if (failed(verify(getOperation(), *after)))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

  Option<std::string> phase{*this, "phase", llvm::cl::desc("The phase that has just ended"), llvm::cl::init("import")};
};

} // namespace

std::unique_ptr<Pass> createVerifyPhasePass(Phase phase) { return std::make_unique<VerifyPhasePass>(phase); }

} // namespace maestro

// --maestro-verify-phase: what the IR promises after each phase, checked at its end, so that what
// follows may trust it. A failure after "import" is a graph's fault or the importer's; later ones
// are defects.
//
//   import         one @graph of nn operators; each argument is a parameter, a field or special;
//                  names are unique; trainable parameters are floats; each loss is a mean, or a
//                  sum with a count
//   raise          the same
//   loss           no means
//   differentiate  @step: one scale per loss sum, each gradient of its parameter's type
//   split          @count, @forward and @backward: what one returns as saved the other takes
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
    for (StringRef kind : {attributes::kParameter, attributes::kField, attributes::kSpecial})
      if (StringRef name = argumentText(function, i, kind); !name.empty()) {
        ++kinds;
        if (!seen.insert((kind + "=" + name).str()).second)
          return function.emitError() << "two arguments of @" << function.getName() << " are "
                                      << kind << " '" << name << "'";
      }
    if (kinds != 1)
      return function.emitError() << "argument " << i << " of @" << function.getName() << " is "
                                  << kinds << " of parameter, field and special; it must be one";
    auto type = dyn_cast<nn::TensorType>(function.getArgument(i).getType());
    if (!type)
      return function.emitError() << "argument " << i << " of @" << function.getName()
                                  << " is no nn tensor";
    if (function.getArgAttr(i, attributes::kTrainable) && !isa<FloatType>(type.getElementType()))
      return function.emitError() << "the parameter '"
                                  << argumentText(function, i, attributes::kParameter)
                                  << "' cannot train: its type is " << type;
  }
  return success();
}

LogicalResult verifyLosses(func::FuncOp function, bool meansAllowed) {
  std::map<std::pair<std::string, int64_t>, std::set<std::string>> roles;
  for (const LossResult &loss : lossResults(function)) {
    bool known =
        loss.role == "sum" || loss.role == "count" || (meansAllowed && loss.role == "mean");
    if (!known || !roles[{loss.name, loss.term}].insert(loss.role).second)
      return function.emitError() << "result " << loss.index << " of @" << function.getName()
                                  << ": the loss '" << loss.name << "' cannot have the role '"
                                  << loss.role << "' here";
    auto type = dyn_cast<nn::TensorType>(returnedValues(function)[loss.index].getType());
    if (loss.role != "mean" &&
        (!type || !type.getShape().empty() || !type.getElementType().isF32()))
      return function.emitError() << "the " << loss.role << " of the loss '" << loss.name
                                  << "' must be a scalar of f32, not " << type;
  }
  for (const auto &[key, has] : roles)
    if (has.count("sum") != has.count("count"))
      return function.emitError() << "the loss '" << key.first << "' needs both a sum and a count";
  if (roles.empty())
    return function.emitError() << "@" << function.getName() << " returns no loss";
  return success();
}

LogicalResult verifyGraph(ModuleOp module, bool meansAllowed) {
  func::FuncOp graph = findFunction(module, attributes::kGraphFunction);
  if (!graph)
    return module.emitError() << "there is no function @graph";
  return success(succeeded(verifyOperators(graph)) && succeeded(verifyArguments(graph)) &&
                 succeeded(verifyLosses(graph, meansAllowed)));
}

std::map<std::string, Type> parameterTypes(func::FuncOp function) {
  std::map<std::string, Type> types;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, attributes::kTrainable))
      types[argumentText(function, i, attributes::kParameter).str()] =
          function.getArgument(i).getType();
  return types;
}

LogicalResult verifyGradients(func::FuncOp function, func::FuncOp graph) {
  std::map<std::string, Type> types = parameterTypes(graph);
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

LogicalResult verifyStep(ModuleOp module) {
  func::FuncOp step = findFunction(module, attributes::kStepFunction);
  if (!step)
    return module.emitError() << "there is no function @step";
  return success(
      succeeded(verifyOperators(step)) &&
      succeeded(verifyGradients(step, findFunction(module, attributes::kGraphFunction))));
}

LogicalResult verifyPrograms(ModuleOp module) {
  func::FuncOp forward = findFunction(module, attributes::kForwardFunction);
  func::FuncOp backward = findFunction(module, attributes::kBackwardFunction);
  func::FuncOp graph = findFunction(module, attributes::kGraphFunction);
  if (!forward || !backward || !findFunction(module, attributes::kCountFunction))
    return module.emitError() << "@count, @forward and @backward must all exist";
  std::map<int64_t, Type> returned, taken;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (auto number = forward.getResultAttrOfType<IntegerAttr>(i, attributes::kSaved))
      returned[number.getInt()] = forward.getResultTypes()[i];
  for (unsigned i = 0; i < backward.getNumArguments(); ++i)
    if (auto number = backward.getArgAttrOfType<IntegerAttr>(i, attributes::kSaved))
      taken[number.getInt()] = backward.getArgument(i).getType();
  if (returned != taken)
    return module.emitError() << "@forward saves " << returned.size() << " values, @backward takes "
                              << taken.size() << ", and they must be the same";
  return success(succeeded(verifyOperators(forward)) && succeeded(verifyOperators(backward)) &&
                 succeeded(verifyGradients(backward, graph)));
}

LogicalResult verify(ModuleOp module, Phase phase) {
  if (failed(verifyGraph(module, /*meansAllowed=*/phase < Phase::Loss)))
    return failure();
  if (phase >= Phase::Differentiate && failed(verifyStep(module)))
    return failure();
  return phase >= Phase::Split ? verifyPrograms(module) : success();
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

  Option<std::string> phase{*this, "phase", llvm::cl::desc("The phase that has just ended"),
                            llvm::cl::init("import")};
};

} // namespace

std::unique_ptr<Pass> createVerifyPhasePass(Phase phase) {
  return std::make_unique<VerifyPhasePass>(phase);
}

} // namespace maestro

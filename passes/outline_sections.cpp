// See outline_sections.h.
#include "passes/outline_sections.h"

#include "ir/nn/gradients.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;

namespace maestro {

bool canCross(Value value, const DimTable &dims) {
  unsigned rows = 0;
  for (const DimExpr &dim : nn::typeOf(value).getShape()) {
    if (!dims.summedSymbol(dim))
      continue;
    if (!dims.isAdditive(dim))
      return false;
    ++rows;
  }
  return rows == 1;
}

bool isMasked(Value value, const DimTable &dims) {
  auto paddedDims = [&](Value of) {
    std::multiset<std::string> padded;
    for (const DimExpr &dim : nn::typeOf(of).getShape())
      if (auto symbol = dim.asSymbol(); symbol && !dims.sums(*symbol))
        padded.insert(std::string(*symbol));
    return padded;
  };
  std::multiset<std::string> own = paddedDims(value);
  bool isSquare = llvm::any_of(own, [&](const std::string &symbol) { return own.count(symbol) > 1; });
  auto isOfDataAlone = [](Value operand) { return !dependsOnParameter(operand, false); };
  auto isMask = [&](Value operand) {
    return isOfDataAlone(operand) && !paddedDims(operand).empty();
  }; // A number is none.
  for (Operation *op = isSquare ? value.getDefiningOp() : nullptr; op;) {
    if (isa<nn::WhereOp, nn::AddOp>(op) && llvm::any_of(op->getOperands(), isMask))
      return true;
    if (!isa<nn::WhereOp, nn::AddOp, nn::SubOp, nn::MulOp, nn::DivOp, nn::CastOp, nn::ReshapeOp, nn::BroadcastToOp>(op))
      return false;
    auto before = llvm::find_if_not(op->getOperands(), isOfDataAlone);
    op = before == op->operand_end() ? nullptr : (*before).getDefiningOp();
  }
  return false;
}

namespace {

/// One section under construction.
struct Draft {
  section::SectionOp op;
  func::FuncOp graph; ///< In the section's module.
  IRMapping mapping;
  llvm::SmallVector<FunctionResult> results;
  bool trains = false;
};

class Outliner {
public:
  Outliner(ModuleOp module, const SectionLabels &labels, const DimTable &dims)
      : module(module), graph(findFunction(module, attributes::kGraphFunction)), labels(labels), dims(dims),
        builder(module.getContext()) {}

  LogicalResult run() {
    drafts.resize(labels.parts.size());
    for (unsigned part = 0; part < labels.parts.size(); ++part)
      open(part);
    for (Operation &op : graph.getBody().front().without_terminator())
      if (auto label = labels.part.find(&op); label != labels.part.end())
        if (failed(copyInto(&op, label->second)))
          return failure();
    if (failed(placeLosses()))
      return failure();
    for (unsigned part = labels.parts.size();
         part-- > 0;) // Producers behind consumers, which may read less than it seemed.
      close(part);
    graph.erase();
    return success();
  }

private:
  void open(unsigned part) {
    const SectionPart &spec = labels.parts[part];
    Draft &draft = drafts[part];
    setInsertionAfterLast<section::SectionOp>();
    llvm::SmallVector<StringRef> components(spec.components.begin(), spec.components.end());
    draft.op = section::SectionOp::create(
        builder, graph.getLoc(), builder.getStringAttr(spec.name), builder.getStrArrayAttr(components), UnitAttr(),
        StringAttr(), builder.getI64IntegerAttr(spec.stage), builder.getI64IntegerAttr(spec.stages), ArrayAttr());
    if (spec.stages > 1)
      draft.op.setOf(spec.section);
    llvm::SmallVector<StringRef> active(spec.activeDims.begin(), spec.activeDims.end());
    if (!active.empty())
      draft.op.setActiveDimsAttr(builder.getStrArrayAttr(active));
    builder.setInsertionPoint(graph);
    auto body = ModuleOp::create(builder, graph.getLoc(), StringRef(spec.name));
    if (spec.recompute.most != Recompute::None)
      body->setAttr(attributes::kRecompute, builder.getStringAttr(nameOf(spec.recompute.most)));
    if (spec.recompute.lighter > 0) {
      body->setAttr(attributes::kLighterLayers, builder.getI64IntegerAttr(spec.recompute.lighter));
      body->setAttr(attributes::kLayers, builder.getI64IntegerAttr(spec.layers));
    }
    if (spec.recompute.evenly)
      body->setAttr(attributes::kLighterEvenly, builder.getUnitAttr());
    if (spec.stages - spec.stage <= spec.splitStages)
      body->setAttr(attributes::kSplitBackward, builder.getUnitAttr());
    if (spec.lossChunks > 1)
      body->setAttr(attributes::kLossChunks, builder.getI64IntegerAttr(spec.lossChunks));
    if (spec.tensor > 1)
      body->setAttr(attributes::kTensor, builder.getI64IntegerAttr(spec.tensor));
    builder.setInsertionPointToStart(body.getBody());
    draft.graph =
        func::FuncOp::create(builder, graph.getLoc(), attributes::kGraphFunction, builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(draft.graph.addEntryBlock());
    func::ReturnOp::create(builder, graph.getLoc());
  }

  /// Declarations stand first: sections, then edges, then the modules.
  template <typename OpTy> void setInsertionAfterLast() {
    Operation *last = nullptr;
    for (Operation &op : *module.getBody())
      if (isa<section::SectionOp, OpTy>(op))
        last = &op;
    if (last)
      builder.setInsertionPointAfter(last);
    else
      builder.setInsertionPointToStart(module.getBody());
  }

  void close(unsigned part) {
    Draft &draft = drafts[part];
    setResults(draft.graph, draft.results);
    eraseDeadOperations(draft.graph);
    for (unsigned i = draft.graph.getNumArguments(); i-- > 0;) // What moved to a consumer takes its operands along.
      if (draft.graph.getArgument(i).use_empty()) {
        if (StringRef edge = argumentText(draft.graph, i, attributes::kEdge); !edge.empty())
          dropEdge(edge);
        (void)draft.graph.eraseArgument(i);
      }
    if (draft.trains)
      draft.op.setTrains(true);
  }

  /// Nobody reads what would arrive: its producer need not send it.
  void dropEdge(StringRef name) {
    for (auto edge : llvm::make_early_inc_range(module.getOps<section::EdgeOp>()))
      if (edge.getName() == name)
        edge.erase();
    for (Draft &draft : drafts)
      llvm::erase_if(draft.results, [&](const FunctionResult &result) {
        auto carried = result.attributes.getAs<StringAttr>(attributes::kEdge);
        return carried && carried.getValue() == name;
      });
  }

  LogicalResult copyInto(Operation *op, unsigned part) {
    for (Value operand : op->getOperands())
      if (failed(resolve(operand, part)))
        return failure();
    Draft &draft = drafts[part];
    builder.setInsertionPoint(draft.graph.getBody().front().getTerminator());
    builder.clone(*op, draft.mapping);
    return success();
  }

  /// Makes the value known in a section: as an argument, computed there, or arriving over an edge.
  LogicalResult resolve(Value value, unsigned part) {
    Draft &draft = drafts[part];
    if (draft.mapping.contains(value))
      return success();
    Operation *op = value.getDefiningOp();
    if (!op) {
      auto argument = cast<BlockArgument>(value);
      DictionaryAttr attributes = graph.getArgAttrDict(argument.getArgNumber());
      draft.mapping.map(value, addArgument(draft, value, attributes));
      draft.trains |= graph.getArgAttr(argument.getArgNumber(), attributes::kTrainable) != nullptr;
      return success();
    }
    auto label = labels.part.find(op);
    if (label == labels.part.end() || labels.repeated.contains({op, part}))
      return copyInto(op, part);
    return addEdge(value, label->second, part);
  }

  Value addArgument(Draft &draft, Value value, DictionaryAttr attributes) {
    unsigned index = draft.graph.getNumArguments();
    (void)draft.graph.insertArgument(index, value.getType(), attributes, value.getLoc());
    return draft.graph.getArgument(index);
  }

  LogicalResult addEdge(Value value, unsigned producer, unsigned consumer) {
    Operation *op = value.getDefiningOp();
    if (!canCross(value, dims))
      return op->emitError() << "the result of " << describe(op) << " of type " << value.getType()
                             << " would pass from section '" << labels.parts[producer].name << "' to '"
                             << labels.parts[consumer].name
                             << "', but its rows are not one dim of the samples' own; cut elsewhere";
    if (labels.parts[producer].section != labels.parts[consumer].section && isMasked(value, dims))
      return op->emitError() << "the result of " << describe(op) << " would pass from section '"
                             << labels.parts[producer].name << "' to '" << labels.parts[consumer].name
                             << "' behind its mask, and what is masked would be lost; "
                             << "freeze, or train, all of that attention";
    bool gradient = labels.trains.contains(op) && nn::isFloatTensor(value); // Indices and masks have none.
    std::string name = edgeName(producer, consumer);
    NamedAttrList attributes;
    attributes.set(attributes::kEdge, builder.getStringAttr(name));
    if (gradient)
      attributes.set(attributes::kCarriesGradient, builder.getUnitAttr());
    DictionaryAttr dictionary = attributes.getDictionary(builder.getContext());
    Draft &from = drafts[producer], &to = drafts[consumer];
    from.results.push_back({from.mapping.lookup(value), dictionary});
    to.mapping.map(value, addArgument(to, value, dictionary));
    to.trains |= gradient;
    setInsertionAfterLast<section::EdgeOp>();
    auto edge = section::EdgeOp::create(builder, value.getLoc(), builder.getStringAttr(name), from.op.getNameAttr(),
                                        to.op.getNameAttr(), gradient ? builder.getUnitAttr() : UnitAttr(),
                                        TypeAttr::get(value.getType()));
    edge->setAttr(kEdgeReason, builder.getStringAttr(reasonFor(value, producer, consumer)));
    return success();
  }

  /// "nn.rms_norm's result, as nn.matmul reads it; …"
  std::string reasonFor(Value value, unsigned producer, unsigned consumer) const {
    llvm::SmallSetVector<StringRef, 4> readers;
    for (Operation *user : value.getUsers())
      if (auto label = labels.part.find(user);
          (label != labels.part.end() && label->second == consumer) || labels.repeated.contains({user, consumer}))
        readers.insert(user->getName().getStringRef());
    constexpr size_t kShown = 2;
    std::string text = (value.getDefiningOp()->getName().getStringRef() + "'s result, as ").str();
    for (auto [i, reader] : llvm::enumerate(readers))
      if (i < kShown)
        text += (i == 0 ? "" : " and ") + reader.str();
    text += readers.size() > kShown ? " and others read it" : readers.size() > 1 ? " read it" : " reads it";
    if (labels.parts[producer].section == labels.parts[consumer].section)
      text += "; at a cut between layers";
    if (auto found = labels.reasons.find({value, consumer}); found != labels.reasons.end())
      text += "; " + found->second;
    return text;
  }

  std::string edgeName(unsigned producer, unsigned consumer) {
    std::string name = labels.parts[producer].name + "_to_" + labels.parts[consumer].name;
    unsigned number = ++edgeNames[name];
    return number == 1 ? name : name + "_" + std::to_string(number);
  }

  /// A loss's sum and count are results of the section that computes the sum.
  LogicalResult placeLosses() {
    llvm::SmallVector<LossResult> losses = lossResults(graph);
    std::map<std::pair<std::string, int64_t>, unsigned> home;
    for (const LossResult &loss : losses) {
      Operation *op = returnedValues(graph)[loss.index].getDefiningOp();
      if (auto label = op ? labels.part.find(op) : labels.part.end();
          loss.role != "count" && label != labels.part.end())
        home[{loss.name, loss.term}] = label->second;
    }
    for (const LossResult &loss : losses) {
      auto found = home.find({loss.name, loss.term});
      unsigned part = found == home.end() ? labels.parts.size() - 1 : found->second;
      Value value = returnedValues(graph)[loss.index];
      if (failed(resolve(value, part)))
        return failure();
      drafts[part].results.push_back({drafts[part].mapping.lookup(value), graph.getResultAttrDict(loss.index)});
    }
    return success();
  }

  ModuleOp module;
  func::FuncOp graph;
  const SectionLabels &labels;
  const DimTable &dims;
  OpBuilder builder;
  std::vector<Draft> drafts;
  std::map<std::string, unsigned> edgeNames;
};

} // namespace

LogicalResult outlineSections(ModuleOp module, const SectionLabels &labels, const DimTable &dims) {
  return Outliner(module, labels, dims).run();
}

} // namespace maestro

// --maestro-check-padding: where padding would show, nothing is padded.
//
// Samples of a micro-batch are padded to the longest. Where a loss depends on how far (padding.h says how that is
// found), the micro-batches may hold samples of equal length only, so that each sample means what it means alone:
//
//   module attributes {nn.dims = {batch = {combine = "sum"}, seq = {combine = "max"}}} {
//     func.func @graph(%x: !nn.tensor<[batch, seq, 8], f32> {nn.field = "x"}) -> … {
//       %m = nn.reduce_mean %x {axes = array<i64: 1>} : …          a mean over what is padded
//
// becomes
//
//   module attributes {nn.dims = {…, seq = {combine = "max", unpadded = "nn.reduce_mean is a mean over 'seq'"}}} {
//
// A dim of which the user says so (`unpadded = ""`) is left as it is.
//
// Behind the partition it looks at each section by itself: what crosses an edge arrives with zeros behind every
// sample's end, whatever lay there. Where a section relied on something else (−∞ behind a mask), the plan is refused.
// Between the stages of one section micro-batches pass as they are, padding included.
#include "passes/padding_transfer.h"
#include "passes/passes.h"

using namespace mlir;

namespace maestro {
namespace padding {
namespace {

/// A field is padded with a value that is known, what arrives over an edge with 0: it is cleared. Nothing else that a
/// graph is given is padded.
Tensor argumentOf(func::FuncOp graph, BlockArgument argument, llvm::StringRef symbol, const Crossing &arriving) {
  nn::TensorType type = nn::typeOf(argument);
  Tensor tensor;
  tensor.range = allOf(type.getElementType());
  unsigned index = argument.getArgNumber();
  if (auto known = arriving.find(argumentText(graph, index, attributes::kEdge)); known != arriving.end())
    return known->second;
  if (argumentText(graph, index, attributes::kField).empty() && argumentText(graph, index, attributes::kEdge).empty())
    return tensor;
  auto pad = graph.getArgAttrOfType<FloatAttr>(index, attributes::kPad);
  Range tail = Range::point(pad ? pad.getValueAsDouble() : 0);
  if (graph.getArgAttr(index, attributes::kOwnPositions))
    tensor.range = Range::point(1);
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (llvm::is_contained(size.symbols(), symbol.str()))
      tensor.axes.push_back({unsigned(dim), 1, size, size, tail, 0});
  return tensor;
}

} // namespace

std::optional<Visible> find(func::FuncOp graph, llvm::StringRef symbol, const Crossing &arriving, Crossing *leaving) {
  llvm::SmallVector<Value> losses;
  for (auto [index, value] : llvm::enumerate(returnedValues(graph)))
    if (!resultText(graph, index, attributes::kLoss).empty() || !resultText(graph, index, attributes::kEdge).empty())
      losses.push_back(value);
  llvm::DenseMap<Value, Tensor> known;
  for (BlockArgument argument : graph.getArguments())
    known[argument] = argumentOf(graph, argument, symbol, arriving);
  llvm::DenseSet<Operation *> wanted = backwardSlice(losses);
  for (Operation &op : graph.getBody().front().without_terminator())
    if (wanted.contains(&op))
      for (auto [result, tensor] : llvm::zip(op.getResults(), Transfer(&op, known, symbol).run()))
        known[result] = tensor;
  for (auto [index, value] : llvm::enumerate(returnedValues(graph)))
    if (StringRef edge = resultText(graph, index, attributes::kEdge); leaving && !edge.empty())
      (*leaving)[edge.str()] = known[value];
  for (Value loss : losses)
    if (known[loss].visible)
      return known[loss].visible;
  return std::nullopt;
}

} // namespace padding

namespace {

struct CheckPaddingPass : PassWrapper<CheckPaddingPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckPaddingPass)
  StringRef getArgument() const override { return "maestro-check-padding"; }
  StringRef getDescription() const override { return "Where padding would show, nothing is padded"; }

  void runOnOperation() override {
    auto dims = getOperation()->getAttrOfType<DictionaryAttr>(attributes::kDims);
    if (!dims)
      return;
    if (func::FuncOp graph = findFunction(getOperation(), attributes::kGraphFunction))
      return checkGraph(graph, dims);
    for (NamedAttribute dim : dims)
      if (mayBePadded(cast<DictionaryAttr>(dim.getValue())) && failed(checkSections(dim.getName())))
        return signalPassFailure();
  }

  static bool mayBePadded(DictionaryAttr entry) {
    auto combine = entry.getAs<StringAttr>("combine");
    return combine && combine.getValue() == "max" && !entry.get(attributes::kUnpadded);
  }

  void checkGraph(func::FuncOp graph, DictionaryAttr dims) {
    NamedAttrList checked;
    for (NamedAttribute dim : dims) {
      NamedAttrList entry(cast<DictionaryAttr>(dim.getValue()));
      if (mayBePadded(cast<DictionaryAttr>(dim.getValue())))
        if (std::optional<padding::Visible> visible = padding::find(graph, dim.getName()))
          entry.set(attributes::kUnpadded, StringAttr::get(&getContext(), describe(visible->op) + " " + visible->what));
      checked.set(dim.getName(), entry.getDictionary(&getContext()));
    }
    getOperation()->setAttr(attributes::kDims, checked.getDictionary(&getContext()));
  }

  LogicalResult checkSections(StringRef symbol) {
    std::map<std::string, padding::Crossing> betweenStages; // By section; producers come before consumers.
    for (auto op : getOperation().getOps<section::SectionOp>()) {
      func::FuncOp graph = findFunction(op.getBody(), attributes::kGraphFunction);
      padding::Crossing &own = betweenStages[op.getSectionName().str()];
      if (!graph)
        continue;
      padding::Crossing arriving = own;
      if (std::optional<padding::Visible> visible = padding::find(graph, symbol, arriving, &own))
        return visible->op->emitError() << "in section '" << op.getSectionName() << "' " << describe(visible->op) << " "
                                        << visible->what << ", since what arrives from other sections is 0 where '"
                                        << symbol << "' is padded; write dims: {" << symbol << ": {pad: never}}";
    }
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> createCheckPaddingPass() { return std::make_unique<CheckPaddingPass>(); }

} // namespace maestro

#include "planner/import/embedding_bag.h"

#include "planner/import/metadata.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

/// embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
/// padding_idx) without what changes its meaning.
bool isPlainBag(const onnx::NodeProto &node) {
  std::string_view text = fxNode(node), target = fxTarget(text);
  if (!target.starts_with("aten.embedding_bag.") && !target.starts_with("aten._embedding_bag"))
    return false;
  std::vector<std::string> arguments = fxArguments(text);
  auto isNot = [&](size_t i, std::string_view usual) { return arguments.size() > i && arguments[i] != usual; };
  bool hasPadding = arguments.size() > 8 && arguments[8] != "None" && arguments[8] != "-1";
  return !isNot(3, "False") && !isNot(6, "None") && !isNot(7, "False") && !hasPadding;
}

/// How many indices each bag has, where the offsets are multiples of that.
std::optional<int64_t> bagSize(NodeContext &n, mlir::Value offsets) {
  if (const FoldedTensor *known = n.folded(2)) {
    auto size = known->size() > 1 ? known->asInteger(1) : std::nullopt;
    for (int64_t i = 0; size && i < known->size(); ++i)
      if (known->asInteger(i) != i * *size)
        return std::nullopt;
    return size;
  }
  while (auto cast = offsets.getDefiningOp<nn::CastOp>())
    offsets = cast.getX();
  auto iota = offsets.getDefiningOp<nn::IotaOp>();
  if (!iota || !iota.getStart().getValues()[0].isConstant(0))
    return std::nullopt;
  return iota.getStep().getValues()[0].asConstant();
}

} // namespace

void EmbeddingBags::add(const onnx::NodeProto &node) {
  if (!isPlainBag(node))
    return;
  Bag &bag = bags[fxNode(node)];
  onnx::NodeProto &standIn = bag.standIn;
  if (!bag.last) {
    standIn.set_op_type("EmbeddingBag");
    for (int i = 0; i < 3; ++i)
      standIn.add_input();
    auto *mode = standIn.add_attribute();
    mode->set_name("mode");
    mode->set_type(onnx::AttributeProto::INT);
    mode->set_i(static_cast<int64_t>(fxNumber(fxNode(node), 4).value_or(0)));
  }
  if (node.op_type() == "Gather" && standIn.input(0).empty())
    standIn.set_input(0, node.input(0));
  if (node.op_type() == "Reshape" && standIn.input(1).empty())
    standIn.set_input(1, node.input(0));
  if (node.op_type() == "Size" && standIn.input(2).empty())
    standIn.set_input(2, node.input(0));
  standIn.set_name(node.name());
  *standIn.mutable_metadata_props() = node.metadata_props();
  standIn.clear_output();
  standIn.add_output(node.output_size() > 0 ? node.output(0) : "");
  bag.last = &node;
  for (const std::string &output : node.output())
    madeBy[output] = fxNode(node);
}

void EmbeddingBags::keepWhatOthersRead(const onnx::NodeProto &node) {
  if (bags.empty())
    return;
  for (const std::string &input : node.input())
    if (auto found = madeBy.find(input); found != madeBy.end() && found->second != fxNode(node)) {
      Bag &bag = bags[found->second];
      bag.isRead = bag.isRead || bag.standIn.output(0) != input;
    }
}

const EmbeddingBags::Bag *EmbeddingBags::bagOf(const onnx::NodeProto &node) const {
  auto found = bags.empty() ? bags.end() : bags.find(fxNode(node));
  bool isWhole = found != bags.end() && !found->second.isRead && !found->second.standIn.input(0).empty() &&
                 !found->second.standIn.input(1).empty() && !found->second.standIn.input(2).empty();
  return isWhole ? &found->second : nullptr;
}

const onnx::NodeProto *EmbeddingBags::endingAt(const onnx::NodeProto &node) const {
  const Bag *bag = bagOf(node);
  return bag && bag->last == &node ? &bag->standIn : nullptr;
}

bool EmbeddingBags::contains(const onnx::NodeProto &node) const { return bagOf(node) != nullptr; }

bool isEmbeddingBag(const onnx::NodeProto &node) {
  return node.op_type() == "EmbeddingBag" && node.domain().empty() && node.input_size() == 3 && node.output_size() == 1;
}

Status importEmbeddingBag(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value weight, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value indices, n.tensor(1));
  MAESTRO_ASSIGN(mlir::Value offsets, n.tensor(2));
  std::optional<int64_t> size = bagSize(n, offsets);
  auto count = Emitter::rankOf(offsets) == 1 ? Emitter::shapeOf(offsets)[0] : DimExpr(0);
  if (!size || *size < 1 || !(nn::productOf(Emitter::shapeOf(indices)) == count * DimExpr(*size)))
    return Status::invalidInput("bags whose sizes are data are not supported; give the module indices of two dims, one "
                                "row a bag");
  MAESTRO_ASSIGN(mlir::Value rows, n.e.emit<nn::GatherOp>(weight, n.e.reshape(indices, {count, DimExpr(*size)}), 0));
  const int64_t within[] = {1};
  int64_t mode = n.intAttribute("mode", 0);
  if (mode == 0)
    return n.set(0, n.e.emit<nn::ReduceSumOp>(rows, llvm::ArrayRef<int64_t>(within), false));
  if (mode == 1)
    return n.set(0, n.e.emit<nn::ReduceMeanOp>(rows, llvm::ArrayRef<int64_t>(within), false));
  return n.set(0, n.e.emit<nn::ReduceMaxOp>(rows, llvm::ArrayRef<int64_t>(within), false));
}

} // namespace maestro::planner

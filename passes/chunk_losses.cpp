// --maestro-chunk-losses: a head's product, the loss behind it and their gradients are done over chunks of rows.
//
// A language model's logits are many times wider than what they are computed from: [tokens, vocabulary], once for the
// product, once for its gradient. Where what follows the product works row by row until it is summed over the rows, a
// few rows at a time do: in a section with nn.loss_chunks = 2,
//
//   %logits = nn.matmul %h, %w                          [rows, 64] · [64, 1000]
//   %loss, %lse = nn.cross_entropy %logits, %labels
//   %sum = nn.reduce_sum %loss
//   %d = nn.cross_entropy_grad %logits, %labels, %lse, %scale
//   %dh = nn.matmul %d, %w                              rows leave,
//   %dw = nn.matmul %d, %h {transpose_a}                and a sum over rows
//
// becomes
//
//   %h0 = nn.slice %h                                   rows 0 … rows floordiv 2
//   %logits0 = nn.matmul %h0, %w                        [rows floordiv 2, 1000]
//   %loss0, %lse0 = nn.cross_entropy %logits0, %labels0
//   %d0 = nn.cross_entropy_grad %logits0, …
//   %dh0 = nn.matmul %d0, %w
//   %dw0 = nn.matmul %d0, %h0
//   …                                                   the same of the rest of the rows
//   %loss = nn.concat %loss0, %loss1
//   %dh = nn.concat %dh0, %dh1
//   %dw = nn.add %dw0, %dw1
//
// so that one chunk's logits are alive. Sums of gradients are made in the order of the chunks, by the products
// themselves where they reach a parameter (planner/emit/gradient_sinks.cpp). Operators of chunks say nn.chunked:
// --maestro-split-programs leaves all of them to @backward, loss included, so that nothing is computed twice.
//
// Which operators: loss_regions.h.
#include "passes/chunk_losses.h"
#include "passes/graph_functions.h"
#include "passes/loss_regions.h"
#include "passes/passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <algorithm>
#include <array>

using namespace mlir;

namespace maestro {
namespace {

/// Replaces a region by its copies for chunks.
class Chunker {
public:
  Chunker(const LossRegion &region, int64_t count)
      : rows(region.rows), count(count), ops(region.ops.begin(), region.ops.end()), members(ops.begin(), ops.end()),
        builder(ops.front()->getContext()) {
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  }

  LogicalResult run() {
    setInsertionPoint();
    flattenOperands();
    for (int64_t chunk = 0; chunk < count; ++chunk)
      if (failed(copyChunk(DimExpr::floorDiv(rows * chunk, count), DimExpr::floorDiv(rows * (chunk + 1), count))))
        return failure();
    replace();
    for (Operation *op : llvm::reverse(ops))
      op->erase();
    sortTopologically(block); // What reads the losses may stand before the gradients' operands.
    return success();
  }

private:
  bool isInside(Operation *op) const { return members.contains(op); }

  /// Behind all that the region reads.
  void setInsertionPoint() {
    block = ops.front()->getBlock();
    Operation *last = nullptr;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && !isInside(producer))
          if (!last || last->isBeforeInBlock(producer))
            last = producer;
    if (last)
      builder.setInsertionPointAfter(last);
    else
      builder.setInsertionPointToStart(block);
  }

  /// [rows, rest…]
  nn::TensorType flat(nn::TensorType type, unsigned rank, const DimExpr &size) {
    llvm::SmallVector<DimExpr> shape{size};
    llvm::append_range(shape, type.getShape().drop_front(rank));
    return type.withShape(shape);
  }

  template <typename OpTy, typename... Args> Value emit(Location location, Args &&...args) {
    auto op = OpTy::create(builder, location, std::forward<Args>(args)...);
    op->setAttr(attributes::kChunked, builder.getUnitAttr());
    return op->getResult(0);
  }

  /// What comes from outside with rows is a matrix of them, to be cut.
  void flattenOperands() {
    for (Operation *op : ops)
      for (Value operand : op->getOperands()) {
        if (Operation *producer = operand.getDefiningOp(); producer && isInside(producer))
          continue;
        std::optional<unsigned> rank = rowRank(operand, rows);
        if (!rank || flattened.count(operand))
          continue;
        nn::TensorType type = nn::typeOf(operand), matrix = flat(type, *rank, rows);
        flattened[operand] = matrix == type ? operand : emit<nn::ReshapeOp>(op->getLoc(), matrix, operand);
      }
  }

  /// An operand without rows, less the leading dims of 1 by which it would make the result's rank what it was.
  Value shortened(Operation *op, Value operand, nn::TensorType result) {
    nn::TensorType type = nn::typeOf(operand);
    int64_t surplus = type.getRank() - result.getRank();
    if (isa<nn::MatmulOp, nn::ReshapeOp>(op) || surplus <= 0)
      return operand;
    return emit<nn::ReshapeOp>(op->getLoc(), type.withShape(type.getShape().drop_front(surplus)), operand);
  }

  LogicalResult copyChunk(const DimExpr &begin, const DimExpr &end) {
    IRMapping mapping;
    for (auto [operand, matrix] : flattened) {
      nn::TensorType type = nn::typeOf(matrix);
      llvm::SmallVector<DimExpr> offsets(type.getRank(), DimExpr(0));
      offsets.front() = begin;
      llvm::SmallVector<int64_t> steps(type.getRank(), 1);
      mapping.map(operand, emit<nn::SliceOp>(matrix.getLoc(), flat(type, 1, end - begin), matrix,
                                             nn::DimsAttr::get(builder.getContext(), offsets),
                                             builder.getDenseI64ArrayAttr(steps)));
    }
    for (Operation *op : ops)
      if (failed(copyOperation(op, end - begin, mapping)))
        return failure();
    for (Operation *op : ops)
      for (Value result : op->getResults())
        collect(result, mapping.lookup(result));
    return success();
  }

  LogicalResult copyOperation(Operation *op, const DimExpr &size, IRMapping &mapping) {
    bool sums = roleOf(op, rows) == RowRole::Sums;
    OperationState state(op->getLoc(), op->getName());
    for (Value result : op->getResults())
      state.addTypes(sums ? result.getType() : flat(nn::typeOf(result), *rowRank(result, rows), size));
    for (Value operand : op->getOperands()) {
      Value mapped = mapping.lookupOrNull(operand);
      state.addOperands(mapped ? mapped
                        : sums ? operand
                               : shortened(op, operand, cast<nn::TensorType>(state.types[0])));
    }
    state.addAttributes(op->getAttrs());
    shiftAxes(op, state.attributes);
    state.attributes.set(attributes::kChunked, builder.getUnitAttr());
    Operation *copy = builder.create(state);
    mapping.map(op->getResults(), copy->getResults());
    if (failed(mlir::verify(copy)))
      return op->emitError() << describe(op) << " cannot be done over chunks of rows";
    return success();
  }

  /// Axes count from the first dim, and rows are one now.
  void shiftAxes(Operation *op, NamedAttrList &list) {
    std::optional<unsigned> rank = op->getNumOperands() > 0 ? rowRank(op->getOperand(0), rows) : std::nullopt;
    if (!rank)
      return;
    int64_t surplus = static_cast<int64_t>(*rank) - 1;
    if (auto axis = op->getAttrOfType<IntegerAttr>("axis"))
      list.set("axis", builder.getI64IntegerAttr(axis.getInt() - surplus));
    if (auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes")) {
      llvm::SetVector<int64_t> shifted;
      for (int64_t axis : axes.asArrayRef())
        shifted.insert(std::max<int64_t>(axis - surplus, 0));
      list.set("axes", builder.getDenseI64ArrayAttr(shifted.getArrayRef()));
    }
  }

  /// Of what leaves: rows, one chunk behind the other, or the sum so far.
  void collect(Value original, Value part) {
    if (!llvm::any_of(original.getUsers(), [&](Operation *user) { return !isInside(user); }))
      return;
    auto &parts = leaving[original];
    if (parts.empty() || rowRank(original, rows))
      parts.push_back(part);
    else
      parts.front() = emit<nn::AddOp>(part.getLoc(), part.getType(), parts.front(), part);
  }

  void replace() {
    for (Operation *op : ops)
      for (Value result : op->getResults()) {
        auto found = leaving.find(result);
        if (found == leaving.end())
          continue;
        Value whole = found->second.front();
        if (std::optional<unsigned> rank = rowRank(result, rows)) {
          nn::TensorType type = nn::typeOf(result), matrix = flat(type, *rank, rows);
          whole = emit<nn::ConcatOp>(result.getLoc(), matrix, found->second, builder.getI64IntegerAttr(0));
          if (matrix != type)
            whole = emit<nn::ReshapeOp>(result.getLoc(), type, whole);
        }
        result.replaceUsesWithIf(whole, [&](OpOperand &use) { return !isInside(use.getOwner()); });
      }
  }

  DimExpr rows;
  int64_t count;
  llvm::SmallVector<Operation *> ops; ///< In their order.
  llvm::DenseSet<Operation *> members;
  Block *block = nullptr;
  OpBuilder builder;
  llvm::MapVector<Value, Value> flattened; ///< What comes from outside, as a matrix of rows.
  llvm::DenseMap<Value, llvm::SmallVector<Value>> leaving;
};

struct ChunkLossesPass : PassWrapper<ChunkLossesPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ChunkLossesPass)
  StringRef getArgument() const override { return "maestro-chunk-losses"; }
  StringRef getDescription() const override { return "Heads, losses and their gradients over chunks of rows"; }

  void runOnOperation() override {
    auto count = getOperation()->getAttrOfType<IntegerAttr>(attributes::kLossChunks);
    func::FuncOp step = findFunction(getOperation(), attributes::kStepFunction);
    if (!step || !count || count.getInt() < 2)
      return;
    std::vector<LossRegion> regions = findLossRegions(step);
    if (regions.empty())
      getOperation()->removeAttr(attributes::kLossChunks);
    for (const LossRegion &region : regions)
      if (failed(Chunker(region, count.getInt()).run()))
        return signalPassFailure();
  }
};

} // namespace

std::vector<uint32_t> lossChunkCounts(ModuleOp section) {
  constexpr std::array<uint32_t, 2> kCounts = {2, 8}; // Beyond, adding up the head's gradient takes more than it saves.
  func::FuncOp step = findFunction(section, attributes::kStepFunction);
  int64_t widening = 0;
  for (const LossRegion &region : step ? findLossRegions(step) : std::vector<LossRegion>())
    widening = std::max({widening, region.widening, int64_t{kCounts.front()}});
  return {kCounts.begin(), std::ranges::upper_bound(kCounts, widening)};
}

std::unique_ptr<Pass> createChunkLossesPass() { return std::make_unique<ChunkLossesPass>(); }

} // namespace maestro

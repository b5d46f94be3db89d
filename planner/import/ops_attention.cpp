// The Attention and RotaryEmbedding operators of operator set 23.
#include "planner/import/node_context.h"

#include <fmt/format.h>

#include <cmath>

namespace maestro::planner {

Status importAttention(NodeContext &n);
Status importRotaryEmbedding(NodeContext &n);

namespace {

struct Heads {
  mlir::Value q, k, v;
  bool sequenceMajor = false; ///< [B, S, H, D], as inputs of rank 3 split into heads.
};

/// [B, S, H·D] -> [B, S, H, D]
Result<mlir::Value> splitHeads(NodeContext &n, mlir::Value x, int64_t heads, std::string_view what) {
  Shape shape(Emitter::shapeOf(x));
  auto size = heads > 0 ? shape[2].exactQuotient(DimExpr(heads)) : std::nullopt;
  if (!size)
    return Status::invalidInput(fmt::format("{} of width {} in {} heads", what, shape[2].str(), heads));
  return n.e.reshape(x, {shape[0], shape[1], DimExpr(heads), *size});
}

Result<Heads> readHeads(NodeContext &n) {
  Heads h;
  MAESTRO_ASSIGN(h.q, n.tensor(0));
  MAESTRO_ASSIGN(h.k, n.tensor(1));
  MAESTRO_ASSIGN(h.v, n.tensor(2));
  int64_t rank = Emitter::rankOf(h.q);
  if (rank != Emitter::rankOf(h.k) || rank != Emitter::rankOf(h.v) || (rank != 3 && rank != 4))
    return Status::invalidInput("query, key and value must all have rank 3 or rank 4");
  h.sequenceMajor = rank == 3;
  if (rank == 4)
    return h;
  int64_t keyHeads = n.intAttribute("kv_num_heads", 0);
  MAESTRO_ASSIGN(h.q, splitHeads(n, h.q, n.intAttribute("q_num_heads", 0), "a query"));
  MAESTRO_ASSIGN(h.k, splitHeads(n, h.k, keyHeads, "a key"));
  MAESTRO_ASSIGN(h.v, splitHeads(n, h.v, keyHeads, "a value"));
  return h;
}

Status checkHeads(NodeContext &n, const Heads &h) {
  auto q = Emitter::shapeOf(h.q), k = Emitter::shapeOf(h.k), v = Emitter::shapeOf(h.v);
  int head = h.sequenceMajor ? 2 : 1, sequence = 3 - head;
  MAESTRO_TRY(n.e.requireEqual(q[0], k[0], "batches of query and key"));
  MAESTRO_TRY(n.e.requireEqual(k[0], v[0], "batches of key and value"));
  MAESTRO_TRY(n.e.requireEqual(k[sequence], v[sequence], "lengths of key and value"));
  MAESTRO_TRY(n.e.requireEqual(k[head], v[head], "heads of key and value"));
  MAESTRO_TRY(n.e.requireEqual(q[3], k[3], "head sizes of query and key"));
  if (!q[head].exactQuotient(k[head]))
    return Status::invalidInput(fmt::format("{} query heads over {} key heads", q[head].str(), k[head].str()));
  return {};
}

/// A mask for [B, H, S, T]; a mask shorter than T leaves the rest out (since version 24).
Result<mlir::Value> readMask(NodeContext &n, const Heads &h) {
  if (!n.has(3))
    return mlir::Value();
  MAESTRO_ASSIGN(mlir::Value mask, n.tensor(3));
  if (Emitter::rankOf(mask) > 4 || Emitter::rankOf(mask) < 1)
    return Status::invalidInput(fmt::format("a mask of rank {}", Emitter::rankOf(mask)));
  mask = n.e.padRank(mask, 4);
  int head = h.sequenceMajor ? 2 : 1, sequence = 3 - head;
  auto q = Emitter::shapeOf(h.q), k = Emitter::shapeOf(h.k);
  Shape scores{q[0], q[head], q[sequence], k[sequence]};
  Shape shape(Emitter::shapeOf(mask));
  auto length = shape[3].asConstant(), wanted = scores[3].asConstant();
  if (length && wanted && *length != 1 && *length < *wanted) {
    Shape low(4, DimExpr(0)), high(4, DimExpr(0));
    high[3] = DimExpr(*wanted - *length);
    shape[3] = scores[3];
    bool flags = Emitter::dtypeOf(mask) == DType::Bool;
    mask = n.e.typed<nn::PadOp>(n.e.like(mask, shape), mask, n.e.dims(low), n.e.dims(high),
                                n.e.builder.getF64FloatAttr(flags ? 0.0 : -INFINITY),
                                n.e.builder.getStringAttr("constant"));
  }
  MAESTRO_ASSIGN(Shape both, n.e.broadcast(shape, scores));
  if (both != scores)
    return Status::invalidInput(
        fmt::format("a mask of {} for scores of {}", nn::shapeText(shape), nn::shapeText(scores)));
  return mask;
}

/// Past keys and values stand before the new ones.
Result<int64_t> joinPast(NodeContext &n, Heads &h) {
  if (!n.has(4) && !n.has(5))
    return 0;
  MAESTRO_ASSIGN(mlir::Value pastKey, n.tensor(4));
  MAESTRO_ASSIGN(mlir::Value pastValue, n.tensor(5));
  auto length = Emitter::rankOf(pastKey) == 4 ? Emitter::shapeOf(pastKey)[2].asConstant() : std::nullopt;
  if (!length || Emitter::rankOf(pastValue) != 4)
    return Status::invalidInput("past keys and values must have rank 4 and a constant length");
  if (h.sequenceMajor) {
    for (mlir::Value *x : {&h.q, &h.k, &h.v}) {
      MAESTRO_ASSIGN(*x, n.e.transpose(*x, {0, 2, 1, 3}));
    }
    h.sequenceMajor = false;
  }
  MAESTRO_ASSIGN(h.k, n.e.emit<nn::ConcatOp>(mlir::ValueRange{pastKey, h.k}, 2));
  MAESTRO_ASSIGN(h.v, n.e.emit<nn::ConcatOp>(mlir::ValueRange{pastValue, h.v}, 2));
  return *length;
}

Status setPresent(NodeContext &n, int output, const Heads &h, mlir::Value x) {
  if (!n.wants(output))
    return {};
  if (!h.sequenceMajor)
    return n.set(output, x);
  return n.set(output, n.e.transpose(x, {0, 2, 1, 3}));
}

} // namespace

Status importAttention(NodeContext &n) {
  MAESTRO_ASSIGN(Heads h, readHeads(n));
  bool rank3 = h.sequenceMajor;
  MAESTRO_ASSIGN(int64_t past, joinPast(n, h));
  MAESTRO_TRY(setPresent(n, 1, h, h.k));
  MAESTRO_TRY(setPresent(n, 2, h, h.v));
  MAESTRO_TRY(checkHeads(n, h));
  MAESTRO_ASSIGN(mlir::Value mask, readMask(n, h));
  auto headSize = Emitter::shapeOf(h.q)[3].asConstant();
  double scale = n.floatAttribute("scale", 0);
  if (!n.attribute("scale")) {
    if (!headSize || *headSize <= 0)
      return Status::invalidInput("no scale, and a head size that is not constant");
    scale = 1 / std::sqrt(static_cast<double>(*headSize));
  }
  MAESTRO_ASSIGN(mlir::Value o, n.e.emit<nn::AttentionOp>(h.q, h.k, h.v, mask, llvm::APFloat(scale),
                                                          llvm::APFloat(n.floatAttribute("softcap", 0)),
                                                          n.intAttribute("is_causal", 0) != 0, past, h.sequenceMajor));
  if (!rank3)
    return n.set(0, o);
  if (!h.sequenceMajor) {
    MAESTRO_ASSIGN(o, n.e.transpose(o, {0, 2, 1, 3}));
  }
  auto shape = Emitter::shapeOf(o);
  return n.set(0, n.e.reshape(o, {shape[0], shape[1], shape[2] * shape[3]}));
}

namespace {

/// [B, S, D/2] as the rope operator reads it: [B, S, D], each value twice, at the place of its pair.
mlir::Value doubled(NodeContext &n, mlir::Value cache, bool interleaved) {
  Shape shape(Emitter::shapeOf(cache)), pair(shape), wide, result(shape);
  size_t at = interleaved ? shape.size() : shape.size() - 1;
  pair.insert(pair.begin() + at, DimExpr(1));
  wide = pair;
  wide[at] = DimExpr(2);
  result.back() = result.back() * DimExpr(2);
  return n.e.reshape(n.e.broadcastTo(n.e.reshape(cache, pair), wide), result);
}

/// cos or sin by position, broadcast over heads.
Result<mlir::Value> rotation(NodeContext &n, int input, const DimExpr &size, bool interleaved, int64_t headAxis) {
  MAESTRO_ASSIGN(mlir::Value cache, n.tensor(input));
  if (n.has(3)) {
    MAESTRO_ASSIGN(mlir::Value positions, n.tensor(3));
    MAESTRO_ASSIGN(cache, n.e.emit<nn::GatherOp>(cache, positions, 0));
  }
  if (Emitter::rankOf(cache) != 3)
    return Status::invalidInput("cos and sin must have rank 3, or rank 2 beside position_ids");
  MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(cache)[2] * DimExpr(2), size, "width of cos and sin"));
  mlir::Value both = doubled(n, cache, interleaved);
  Shape shape(Emitter::shapeOf(both));
  shape.insert(shape.begin() + headAxis, DimExpr(1));
  return n.e.reshape(both, shape);
}

} // namespace

Status importRotaryEmbedding(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  Shape original(Emitter::shapeOf(x));
  bool rank3 = original.size() == 3;
  if (!rank3 && original.size() != 4)
    return Status::invalidInput(fmt::format("an input of rank {}", original.size()));
  if (rank3) {
    MAESTRO_ASSIGN(x, splitHeads(n, x, n.intAttribute("num_heads", 0), "an input"));
  }
  DimExpr width = Emitter::shapeOf(x)[3];
  int64_t part = n.intAttribute("rotary_embedding_dim", 0);
  DimExpr rotated = part > 0 ? DimExpr(part) : width;
  bool interleaved = n.intAttribute("interleaved", 0) != 0;
  MAESTRO_ASSIGN(mlir::Value cosine, rotation(n, 1, rotated, interleaved, rank3 ? 2 : 1));
  MAESTRO_ASSIGN(mlir::Value sine, rotation(n, 2, rotated, interleaved, rank3 ? 2 : 1));
  mlir::Value turned = n.e.sliceAxis(x, 3, DimExpr(0), rotated);
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::RopeOp>(turned, cosine, sine, interleaved, false));
  if (!(rotated == width)) {
    mlir::Value rest = n.e.sliceAxis(x, 3, rotated, width - rotated);
    MAESTRO_ASSIGN(y, n.e.emit<nn::ConcatOp>(mlir::ValueRange{y, rest}, 3));
  }
  return n.set(0, n.e.reshape(y, original));
}

} // namespace maestro::planner

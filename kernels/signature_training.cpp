// Norms, attention, recurrences, dropout, losses and optimizers.
#include "base/recurrent_cell.h"
#include "kernels/optimizer.h"
#include "kernels/shape.h"
#include "kernels/signature_checker.h"

#include <array>

namespace maestro::kernels {
namespace {

/// Shared by the norms: rows before the axis, width from it on.
struct NormRows {
  int64_t count, width;
  NormRows(const Checker &c, const TensorType &x)
      : count(product(x.shape().first(static_cast<size_t>(c.axis())))),
        width(product(x.shape().subspan(static_cast<size_t>(c.axis())))) {}
};
Status checkNorm(const Checker &c) {
  bool centred = c.spec.kernel == "layer_norm";
  MAESTRO_TRY(centred ? c.counts(1, 3, 3, 3) : c.counts(1, 2, 2, 2));
  MAESTRO_TRY(c.axisBelow(c.in(0).rank));
  NormRows rows(c, c.in(0));
  for (size_t i = 1; i < 3; ++i)
    if (c.has(i))
      MAESTRO_TRY(c.elementsAre(c.in(i), rows.width, i == 1 ? "scale" : "bias"));
  for (size_t i = 1; i < c.spec.outputs.size(); ++i)
    MAESTRO_TRY(c.elementsAre(c.out(i), rows.count, "a row statistic"));
  return c.sameShape(c.out(0), c.in(0), "y");
}
Status checkNormGrad(const Checker &c) {
  bool centred = c.spec.kernel == "layer_norm_grad";
  size_t scale = centred ? 4 : 3;
  MAESTRO_TRY(c.counts(scale, scale + 1, 1, centred ? 3 : 2));
  MAESTRO_TRY(c.axisBelow(c.in(1).rank));
  MAESTRO_TRY(c.sameShape(c.in(0), c.in(1), "dy"));
  MAESTRO_TRY(c.sameShape(c.out(0), c.in(1), "dx"));
  NormRows rows(c, c.in(1));
  for (size_t i = 2; i < scale; ++i)
    MAESTRO_TRY(c.elementsAre(c.in(i), rows.count, "a row statistic"));
  if (c.has(scale))
    MAESTRO_TRY(c.elementsAre(c.in(scale), rows.width, "scale"));
  for (size_t i = 1; i < c.spec.outputs.size(); ++i)
    if (c.hasOut(i))
      MAESTRO_TRY(c.elementsAre(c.out(i), rows.width, "a gradient of scale or bias"));
  return Status();
}

Status checkRope(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 3, 1, 1));
  if (c.in(0).rank < 1 || c.in(0).shape().back() % 2)
    return c.fail("the last dim must be even");
  MAESTRO_TRY(c.broadcasts(c.in(1).shape(), c.in(0).shape(), "cos"));
  MAESTRO_TRY(c.broadcasts(c.in(2).shape(), c.in(0).shape(), "sin"));
  return c.sameShape(c.out(0), c.in(0), "y");
}

/// q, k, v from operand `q` on, the mask at `mask`.
Status checkAttended(const Checker &c, size_t q, size_t mask, const TensorType &o, const TensorType &lse) {
  const TensorType &query = c.in(q), &key = c.in(q + 1), &value = c.in(q + 2);
  if (query.rank != 4 || key.rank != 4 || value.rank != 4)
    return c.fail("q, k and v have four dims");
  bool sequenceMajor = c.attributes.getFlag("sequence_major");
  int head = sequenceMajor ? 2 : 1, sequence = sequenceMajor ? 1 : 2;
  int64_t heads = query.dims[head], keyHeads = key.dims[head];
  if (keyHeads < 1 || heads % keyHeads)
    return c.fail(fmt::format("{} query heads are no multiple of {} key heads", heads, keyHeads));
  TensorType expected = key;
  expected.dims[3] = value.dims[3];
  MAESTRO_TRY(c.sameShape(value, expected, "v"));
  if (key.dims[0] != query.dims[0] || key.dims[3] != query.dims[3])
    return c.fail("q and k differ in batch or depth");
  expected = query;
  expected.dims[3] = value.dims[3];
  MAESTRO_TRY(c.sameShape(o, expected, "o"));
  int64_t statistics[] = {query.dims[0], heads, query.dims[sequence]};
  MAESTRO_TRY(c.shapeIs(lse, statistics, "lse"));
  int64_t scores[] = {query.dims[0], heads, query.dims[sequence], key.dims[sequence]};
  return c.has(mask) ? c.broadcasts(c.in(mask).shape(), scores, "the mask") : Status();
}
Status checkAttention(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 4, 2, 2));
  return checkAttended(c, 0, 3, c.out(0), c.out(1));
}
Status checkAttentionGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(6, 7, 3, 3));
  MAESTRO_TRY(checkAttended(c, 1, 6, c.in(4), c.in(5)));
  MAESTRO_TRY(c.sameShape(c.in(0), c.in(4), "o's gradient"));
  for (size_t i = 0; i < 3; ++i)
    MAESTRO_TRY(c.sameShape(c.out(i), c.in(1 + i), "a gradient"));
  return Status();
}

/// weight, initial and lengths; `states` blocks in the initial state's rows.
Status checkRecurrent(const Checker &c, std::optional<RecurrentCell> cell, const TensorType &weight,
                      const TensorType &initial, size_t lengths) {
  if (!cell)
    return c.fail(fmt::format("there is no cell '{}'", c.attributes.getText("cell", "")));
  if (weight.rank != 2 || initial.rank != 2)
    return c.fail("weight and the initial state have two dims");
  int64_t hidden = weight.dims[1], rows = initial.dims[0];
  int64_t blocks[] = {blocksOf(*cell).inputs * hidden, hidden}, states[] = {rows, blocksOf(*cell).states * hidden};
  MAESTRO_TRY(c.shapeIs(weight, blocks, "weight"));
  MAESTRO_TRY(c.shapeIs(initial, states, "the initial state"));
  if (!c.has(lengths))
    return Status();
  if (isFloat(c.in(lengths).dtype))
    return c.fail("lengths are integers");
  return c.elementsAre(c.in(lengths), rows, "lengths");
}
Status checkSequence(const Checker &c, const TensorType &type, int64_t rows, int64_t length, int64_t width,
                     std::string_view what) {
  int64_t expected[] = {rows, length, width};
  return c.shapeIs(type, expected, what);
}
Status checkRecurrence(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 5, 2, 2));
  auto cell = recurrentCellFromName(c.attributes.getText("cell", ""));
  MAESTRO_TRY(checkRecurrent(c, cell, c.in(1), c.in(2), 4));
  if (c.in(0).rank != 3)
    return c.fail("x has three dims");
  int64_t rows = c.in(2).dims[0], length = c.in(0).dims[1], hidden = c.in(1).dims[1];
  CellBlocks blocks = blocksOf(*cell);
  MAESTRO_TRY(checkSequence(c, c.in(0), rows, length, blocks.inputs * hidden, "x"));
  MAESTRO_TRY(checkSequence(c, c.out(0), rows, length, blocks.states * hidden, "states"));
  MAESTRO_TRY(checkSequence(c, c.out(1), rows, length, blocks.gates * hidden, "gates"));
  return c.has(3) ? c.elementsAre(c.in(3), hidden, "bias") : Status();
}
Status checkRecurrenceGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(5, 6, 2, 2));
  auto cell = recurrentCellFromName(c.attributes.getText("cell", ""));
  MAESTRO_TRY(checkRecurrent(c, cell, c.in(1), c.in(2), 5));
  if (c.in(3).rank != 3)
    return c.fail("states have three dims");
  int64_t rows = c.in(2).dims[0], length = c.in(3).dims[1], hidden = c.in(1).dims[1];
  CellBlocks blocks = blocksOf(*cell);
  MAESTRO_TRY(checkSequence(c, c.in(0), rows, length, blocks.states * hidden, "the states' gradient"));
  MAESTRO_TRY(checkSequence(c, c.in(3), rows, length, blocks.states * hidden, "states"));
  MAESTRO_TRY(checkSequence(c, c.in(4), rows, length, blocks.gates * hidden, "gates"));
  MAESTRO_TRY(checkSequence(c, c.out(0), rows, length, blocks.inputs * hidden, "dx"));
  return c.sameShape(c.out(1), c.in(2), "the initial state's gradient");
}

Status checkDropout(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 3, 1, 1));
  if (c.in(0).rank < 1)
    return c.fail("x has no rows");
  MAESTRO_TRY(c.sameShape(c.out(0), c.in(0), "y"));
  MAESTRO_TRY(c.elementsAre(c.in(1), 2, "state"));
  MAESTRO_TRY(c.listHas("strides", static_cast<size_t>(c.in(0).rank - 1)));
  int64_t samples = c.in(2).elements(), rows = c.in(0).dims[0];
  if (rows > 0 && (samples < 1 || rows % samples))
    return c.fail(fmt::format("{} rows are no multiple of {} samples", rows, samples));
  return Status();
}

Status checkCrossEntropy(const Checker &c) {
  bool grad = c.spec.kernel == "cross_entropy_grad";
  MAESTRO_TRY(grad ? c.counts(4, 4, 1, 1) : c.counts(2, 2, 2, 2));
  if (c.in(0).rank < 1)
    return c.fail("logits have no classes");
  MAESTRO_TRY(c.shapeIs(c.in(1), c.in(0).shape().first(static_cast<size_t>(c.in(0).rank - 1)), "labels"));
  if (!grad) {
    MAESTRO_TRY(c.sameShape(c.out(0), c.in(1), "loss"));
    return c.sameShape(c.out(1), c.in(1), "lse");
  }
  MAESTRO_TRY(c.sameShape(c.in(2), c.in(1), "lse"));
  MAESTRO_TRY(c.broadcasts(c.in(3).shape(), c.in(1).shape(), "dloss"));
  return c.sameShape(c.out(0), c.in(0), "dlogits");
}

Status checkKlDivergence(const Checker &c) {
  bool grad = c.spec.kernel == "kl_divergence_grad";
  MAESTRO_TRY(grad ? c.counts(5, 5, 1, 1) : c.counts(2, 2, 3, 3));
  if (c.in(0).rank < 1)
    return c.fail("logits have no classes");
  MAESTRO_TRY(c.sameShape(c.in(1), c.in(0), "teacher"));
  auto positions = c.in(0).shape().first(static_cast<size_t>(c.in(0).rank - 1));
  for (size_t i = 0; i < (grad ? 2u : 3u); ++i)
    MAESTRO_TRY(c.shapeIs(grad ? c.in(2 + i) : c.out(i), positions, "a value per position"));
  if (!grad)
    return Status();
  MAESTRO_TRY(c.broadcasts(c.in(4).shape(), positions, "dloss"));
  return c.sameShape(c.out(0), c.in(0), "dstudent");
}

/// Parameter, gradient and states in f32; results over them; an optional copy. `stateElements`: 0 where a state is
/// absent; of sgd's momentum, where it may be.
Status checkOptimizer(const Checker &c, std::span<const int64_t> stateElements) {
  size_t states = stateElements.size();
  MAESTRO_TRY(c.counts(2, 3 + states, 1, 3 + states));
  if (c.spec.inputs.size() != 3 + states || !c.has(2 + states))
    return c.fail(fmt::format("{} operands, expected {}", c.spec.inputs.size(), 3 + states));
  int64_t count = c.in(0).elements();
  auto isState = [&](size_t i, size_t first) { return i >= first && i < first + states; };
  for (size_t i = 0; i < 2 + states; ++i) {
    int64_t expected = isState(i, 2) ? stateElements[i - 2] : count;
    if (!c.has(i) && (c.spec.kernel == "sgd" || (isState(i, 2) && expected == 0)))
      continue;
    if (!c.has(i))
      return c.fail(fmt::format("operand {} is missing", i));
    MAESTRO_TRY(c.dtypeIs(c.in(i), DType::F32, "an operand"));
    MAESTRO_TRY(c.elementsAre(c.in(i), expected, "an operand"));
  }
  for (size_t i = 0; i < c.spec.outputs.size(); ++i)
    if (c.hasOut(i)) {
      MAESTRO_TRY(c.elementsAre(c.out(i), isState(i, 1) ? stateElements[i - 1] : count, "a result"));
      if (i < 2 + states)
        MAESTRO_TRY(c.dtypeIs(c.out(i), DType::F32, "a result"));
    }
  for (size_t i = 1; i <= states; ++i)
    if (c.has(1 + i) != c.hasOut(i))
      return c.fail("a state is read but not written, or written but not read");
  MAESTRO_TRY(c.dtypeIs(c.in(2 + states), DType::F32, "the scalars"));
  return c.elementsAre(c.in(2 + states), kOptimizerScalars, "the scalars");
}
constexpr size_t kMostOperands = 6; ///< Of an optimizer's step, and results.
Status checkAdam(const Checker &c) {
  MAESTRO_TRY(c.counts(1, kMostOperands, 1, kMostOperands));
  int64_t count = c.in(0).elements();
  return checkOptimizer(c, std::array{count, count});
}
Status checkSgd(const Checker &c) {
  MAESTRO_TRY(c.counts(1, kMostOperands, 1, kMostOperands));
  return checkOptimizer(c, std::array{c.in(0).elements()});
}
Status checkMuon(const Checker &c) {
  constexpr int64_t kMostIterations = 100;
  MAESTRO_TRY(c.counts(1, kMostOperands, 1, kMostOperands));
  if (c.in(0).rank != 2)
    return c.fail(fmt::format("the parameter has {} dims; it updates matrices", c.in(0).rank));
  int64_t iterations = c.attributes.getInt("iterations", 5);
  if (iterations < 1 || iterations > kMostIterations)
    return c.fail(fmt::format("{} iterations, expected 1 to {}", iterations, kMostIterations));
  return checkOptimizer(c, std::array{c.in(0).elements()});
}
Status checkAdafactor(const Checker &c) {
  MAESTRO_TRY(c.counts(1, kMostOperands, 1, kMostOperands));
  const TensorType &param = c.in(0);
  int64_t count = param.elements();
  if (param.rank < 2)
    return checkOptimizer(c, std::array{int64_t(0), count});
  int64_t rows = product(param.shape().first(static_cast<size_t>(param.rank - 1)));
  int64_t columns = product(param.shape().first(static_cast<size_t>(param.rank - 2))) * param.dims[param.rank - 1];
  return checkOptimizer(c, std::array{rows, columns});
}
Status checkAverage(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 3, 1, 1));
  for (const TensorType *type : {&c.in(0), &c.in(1), &c.out(0)}) {
    MAESTRO_TRY(c.dtypeIs(*type, DType::F32, "an operand or result"));
    MAESTRO_TRY(c.elementsAre(*type, c.in(0).elements(), "an operand or result"));
  }
  MAESTRO_TRY(c.dtypeIs(c.in(2), DType::F32, "the scalars"));
  return c.elementsAre(c.in(2), kOptimizerScalars, "the scalars");
}

Status checkSumSquares(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return c.elementsAre(c.out(0), 1, "the result");
}

} // namespace

std::span<const SignatureRule> trainingRules() {
  static constexpr SignatureRule kRules[] = {
      {"layer_norm", checkNorm},
      {"rms_norm", checkNorm},
      {"layer_norm_grad", checkNormGrad},
      {"rms_norm_grad", checkNormGrad},
      {"rope", checkRope},
      {"attention", checkAttention},
      {"attention_grad", checkAttentionGrad},
      {"recurrence", checkRecurrence},
      {"recurrence_grad", checkRecurrenceGrad},
      {"dropout", checkDropout},
      {"cross_entropy", checkCrossEntropy},
      {"cross_entropy_grad", checkCrossEntropy},
      {"kl_divergence", checkKlDivergence},
      {"kl_divergence_grad", checkKlDivergence},
      {"adam", checkAdam},
      {"adamw", checkAdam},
      {"sgd", checkSgd},
      {"muon", checkMuon},
      {"adafactor", checkAdafactor},
      {"average", checkAverage},
      {"sum_squares", checkSumSquares},
  };
  return kRules;
}

} // namespace maestro::kernels

// Small graphs and the operators that they become.
#include "onnx_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A graph of operator set `opset`.
std::string graph(const std::string &signature, const std::string &body, int opset = 20) {
  return "<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) + "]>\ng " + signature + "\n{" + body +
         "}\n";
}

TEST(Import, ShapeArithmeticFolds) {
  std::string text = imported(graph("(float[batch, seq, 64] x) => (float[n, 64] y)", R"(
    s = Shape(x)
    i = Constant<value = int64[1] {0}>()
    j = Constant<value = int64[1] {1}>()
    b = Gather(s, i)
    t = Gather(s, j)
    rows = Mul(b, t)
    d = Constant<value_ints = [64]>()
    to = Concat<axis = 0>(rows, d)
    y = Reshape(x, to)
  )"));
  EXPECT_THAT(text, HasSubstr("nn.reshape"));
  EXPECT_THAT(text, HasSubstr("[batch*seq, 64]"));
  EXPECT_THAT(text, Not(HasSubstr("nn.gather")));
  EXPECT_THAT(text, Not(HasSubstr("nn.mul")));
}

TEST(Import, ReshapeInfersSymbolicDims) {
  std::string text = imported(graph("(float[batch, seq, 64] x) => (float[a, b, 4, 16] y)", R"(
    to = Constant<value_ints = [0, 0, -1, 16]>()
    y = Reshape(x, to)
  )"));
  EXPECT_THAT(text, HasSubstr("[batch, seq, 4, 16]"));
}

TEST(Import, SlicesKnowThatDimsArePositive) {
  std::string text = imported(graph("(float[batch, seq] x) => (float[a, b] y)", R"(
    start = Constant<value_ints = [1]>()
    end = Constant<value_ints = [9223372036854775807]>()
    axes = Constant<value_ints = [1]>()
    y = Slice(x, start, end, axes)
  )"));
  EXPECT_THAT(text, HasSubstr("[batch, seq - 1]"));
}

TEST(Import, RangesBecomeIota) {
  std::string text = imported(graph("(int64[batch, seq] x) => (int64[n] y)", R"(
    s = Shape<start = 1, end = 2>(x)
    n = Squeeze(s)
    zero = Constant<value = int64 {0}>()
    one = Constant<value = int64 {1}>()
    y = Range(zero, n, one)
  )"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.iota"), HasSubstr("!nn.tensor<[seq], i64>")));
}

TEST(Import, DimsThatMustAgreeGetOneName) {
  std::string text = imported(graph("(float[batch, 4] x, float[b2, 4] z) => (float[n, 4] y)", "y = Add(x, z)"));
  EXPECT_THAT(text, Not(HasSubstr("error")));
  EXPECT_TRUE(text.find("b2") == std::string::npos || text.find("batch") == std::string::npos) << text;
}

TEST(Import, RefusesShapesThatContradict) {
  EXPECT_THAT(imported(graph("(float[3, 4] x, float[5, 4] z) => (float[n, 4] y)", "y = Add(x, z)")),
              AllOf(StartsWith("error"), HasSubstr("3"), HasSubstr("5")));
  EXPECT_THAT(imported(graph("(float[3, 4] x, float[5, 4] z) => (float[n, m] y)", "y = MatMul(x, z)")),
              AllOf(StartsWith("error"), HasSubstr("multiply")));
  EXPECT_THAT(imported(graph("(float[3, 4] x, int64[3, 4] z) => (float[n, m] y)", "y = Add(x, z)")),
              AllOf(StartsWith("error"), HasSubstr("f32"), HasSubstr("i64")));
  EXPECT_THAT(imported(graph("(float[3, 4] x) => (float[3, 5] y)", "y = Exp(x)")),
              AllOf(StartsWith("error"), HasSubstr("declared with shape [3, 5]")));
  EXPECT_THAT(imported(graph("(float[3, 4] x) => (int64[3, 4] y)", "y = Exp(x)")),
              AllOf(StartsWith("error"), HasSubstr("declared as INT64")));
  EXPECT_THAT(
      imported(graph("(float[3, 4] x) => (float[n] y)", "to = Constant<value_ints = [5, -1]>() y = Reshape(x, to)")),
      AllOf(StartsWith("error"), HasSubstr("no multiple of 5")));
}

TEST(Import, RefusesWhatItDoesNotKnowByName) {
  std::string text = imported(graph("(float[3, 4] x) => (float[n] y)", "y = Det(x)"));
  EXPECT_THAT(text, AllOf(StartsWith("error"), HasSubstr("'Det'"), HasSubstr("ai.onnx"), HasSubstr("20")));
  std::string foreign = imported("<ir_version: 10, opset_import: [\"\" : 20, \"com.acme\" : 1]>\n"
                                 "g (float[3] x) => (float[3] y) { y = com.acme.Frobnicate(x) }");
  EXPECT_THAT(foreign, AllOf(StartsWith("error"), HasSubstr("Frobnicate"), HasSubstr("com.acme")));
  std::string control =
      imported(graph("(bool c, float[3] x) => (float[3] y)",
                     "y = If<then_branch = g1 () => (float[3] a) { a = Exp(x) }, else_branch = g2 () => "
                     "(float[3] b) { b = Neg(x) }>(c)"));
  EXPECT_THAT(control, AllOf(StartsWith("error"), HasSubstr("'If'"), HasSubstr("control flow")));
}

TEST(Import, BranchesThatShapesChoose) {
  const char *branches = "one = Constant<value = int64 {1}>() many = Greater(n, one) "
                         "y = If<then_branch = g1 () => (float[b, 4] a) { a = Exp(x) }, else_branch = g2 () => "
                         "(float[b, 4] b) { c = Neg(x) b = Add(c, w) }>(many)";
  std::string chosen = imported(graph("(float[batch, 4] x, float[4] w) => (float[batch, 4] y)",
                                      std::string("s = Shape<start = 1, end = 2>(x) n = Squeeze(s) ") + branches));
  EXPECT_THAT(chosen, AllOf(HasSubstr("nn.exp"), Not(HasSubstr("nn.neg"))));
  std::string other = imported(graph("(float[batch, 1] x, float[1] w) => (float[batch, 1] y)",
                                     std::string("s = Shape<start = 1, end = 2>(x) n = Squeeze(s) ") + branches));
  EXPECT_THAT(other, AllOf(HasSubstr("nn.neg"), HasSubstr("nn.add"), Not(HasSubstr("nn.exp"))));
  std::string unknown = imported(graph("(float[batch, 4] x, float[4] w) => (float[batch, 4] y)",
                                       std::string("s = Shape<start = 0, end = 1>(x) n = Squeeze(s) ") + branches));
  EXPECT_THAT(unknown, AllOf(StartsWith("error"), HasSubstr("control flow")));
}

TEST(Import, FunctionBodiesStandInForUnknownOperators) {
  std::string text =
      imported(graph("(float[batch, 4, 5, 6] x) => (float[batch, 4, 5, 6] y)", "y = MeanVarianceNormalization(x)"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.reduce_mean"), HasSubstr("nn.sqrt")));
}

TEST(Import, ModelLocalFunctions) {
  std::string text = imported(R"(<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
    g (float[n] x) => (float[n] y) { y = local.twice <factor = 3.0> (x) }
    <domain: "local", opset_import: ["" : 20]>
    twice <factor> (a) => (b) { f = Constant<value_float : float = @factor>() b = Mul(a, f) }
  )");
  EXPECT_THAT(text, AllOf(HasSubstr("nn.mul"), HasSubstr("3.0")));
}

TEST(Import, TransposedWeightsAreReadAsTheyLie) {
  std::string text = imported(graph("(float[batch, 4] x, float[5, 4] w) => (float[batch, 5] y)",
                                    "t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t)"));
  EXPECT_THAT(text, AllOf(HasSubstr("transpose_b = true"), Not(HasSubstr("nn.transpose"))));
}

TEST(Import, LossIsSumOverCount) {
  std::string text = imported(graph("(float[n, 10] x, int64[n] t) => (float l)",
                                    "l = SoftmaxCrossEntropyLoss<ignore_index = -100, reduction = \"mean\">(x, t)"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.cross_entropy"), HasSubstr("nn.equal"), HasSubstr("nn.not"),
                          HasSubstr("nn.reduce_sum"), HasSubstr("nn.div")));
}

TEST(Import, DropoutOfTrainingDropsOut) {
  std::string text = imported(graph("(float[batch, seq, 8] x) => (float[batch, seq, 8] y)", R"(
    ratio = Constant<value_float = 0.25>()
    on = Constant<value = bool {1}>()
    y = Dropout(x, ratio, on)
  )"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.dropout"), HasSubstr("rng_state"), HasSubstr("sample_ids"),
                          HasSubstr("array<i64: 8, 1>")));
  std::string off = imported(graph("(float[batch, seq, 8] x) => (float[batch, seq, 8] y)",
                                   "ratio = Constant<value_float = 0.25>() y = Dropout(x, ratio)"));
  EXPECT_THAT(off, Not(HasSubstr("nn.dropout")));
}

TEST(Import, TrainingBatchNormIsRefused) {
  std::string text =
      imported(graph("(float[n, 3, 4, 4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[n, 3, 4, 4] y)",
                     "y, m1, v1 = BatchNormalization<training_mode = 1>(x, s, b, m, v)"));
  EXPECT_THAT(text, AllOf(StartsWith("error"), HasSubstr("couples the samples"), HasSubstr("GroupNorm")));
}

TEST(Import, MaskedScatter) {
  std::string text = imported(graph("(float[batch, seq, 8] x, bool[batch, seq, 8] mask, float[images, 8] f) => "
                                    "(float[batch, seq, 8] y)",
                                    R"(
    z = NonZero(mask)
    index = Transpose<perm = [1, 0]>(z)
    flat = Constant<value_ints = [-1]>()
    source = Reshape(f, flat)
    s = Shape(index)
    zero = Constant<value_ints = [0]>()
    count = Gather(s, zero)
    used = Slice(source, zero, count, zero)
    y = ScatterND(x, index, used)
  )"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.masked_scatter"), Not(HasSubstr("nonzero"))));
}

TEST(Import, OnlyTheExportersCutOfAMaskedScattersSourceGoes) {
  // x[mask] = y[1:]: the first update is y's second element.
  std::string text = imported(graph("(float[n] x, bool[n] mask, float[7] f) => (float[n] y)", R"(
    places = NonZero(mask)
    index = Transpose<perm = [1, 0]>(places)
    one = Constant<value_ints = [1]>()
    seven = Constant<value_ints = [7]>()
    zero = Constant<value_ints = [0]>()
    updates = Slice(f, one, seven, zero)
    y = ScatterND(x, index, updates)
  )"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.masked_scatter"), HasSubstr("nn.slice"), HasSubstr("offsets = #nn.dims<[1]>")));
}

TEST(Import, DataDependentSizesAreRefused) {
  std::string text = imported(graph("(bool[n] mask) => (int64[r, c] y)", "y = NonZero(mask)"));
  EXPECT_THAT(text, AllOf(StartsWith("error"), HasSubstr("depends on data")));
}

TEST(Import, SequencesBecomeSlices) {
  std::string text = imported(graph("(float[batch, 12] x) => (float[batch, 4] y)", R"(
    size = Constant<value = int64 {4}>()
    parts = SplitToSequence<axis = 1>(x, size)
    second = Constant<value = int64 {1}>()
    y = SequenceAt(parts, second)
  )"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.slice"), HasSubstr("offsets = #nn.dims<[0, 4]>")));
}

/// What is computed is the workload's to say, so only the parameter is as narrow as in the file; a constant that f16
/// rounds stays what it was rounded to.
TEST(Import, HalfPrecisionIsWidened) {
  std::string weight = "<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>";
  std::string text = importedBytes(withHalfWeights(graph("(float16[n, 4] x) => (float16[n, 2] y) " + weight, R"(
    p = MatMul(x, w)
    c = Constant<value = float16 {11878}>()
    z = Mul(p, c)
    f = Cast<to = 1>(z)
    e = Exp(f)
    y = Cast<to = 10>(e)
  )")));
  EXPECT_THAT(text, AllOf(HasSubstr("!nn.tensor<[4, 2], f16> {nn.elements = f16"),
                          HasSubstr("%arg0: !nn.tensor<[n, 4], f32>"),
                          HasSubstr("nn.cast %arg1 : (!nn.tensor<[4, 2], f16>) -> !nn.tensor<[4, 2], f32>"),
                          HasSubstr("-> (!nn.tensor<[n, 2], f32>"), HasSubstr("0.0999755859")));
  EXPECT_THAT(text.substr(text.find("nn.cast") + 7), Not(HasSubstr("nn.cast"))) << text;
}

/// Casts in a graph of f32 weights are its author's.
TEST(Import, CastsStayWhereWeightsAreWide) {
  std::string weight = "<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>";
  std::string text = imported(graph("(float[n, 4] x) => (float[n, 2] y) " + weight, R"(
    a = Cast<to = 16>(x)
    b = Cast<to = 16>(w)
    p = MatMul(a, b)
    y = Cast<to = 1>(p)
  )"));
  EXPECT_THAT(text, HasSubstr("nn.matmul %0, %1 : (!nn.tensor<[n, 4], bf16>, !nn.tensor<[4, 2], bf16>)"));
}

TEST(Import, ParametersOfOtherExporters) {
  std::string text = imported(R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 4] x) => (float[batch, 4] y)
<float[4] w = {1, 2, 3, 4}, float scale = {2}>
{ a = Mul(x, scale) y = Add(a, w) }
)");
  EXPECT_THAT(text, AllOf(HasSubstr("nn.parameter = \"model/w\""), HasSubstr("nn.source"), HasSubstr("nn.constant")));
}

} // namespace
} // namespace maestro::planner

// What tables say of dims, and of the integers that a sample may hold.
#include "onnx_text.h"
#include "passes/attributes.h"
#include "planner/import/index_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A graph over `inputs` with a float table of `rows` × 2, whose result is y.
std::string model(const std::string &inputs, int rows, const std::string &body) {
  std::string values = "0";
  for (int i = 1; i < 2 * rows; ++i)
    values += ", " + std::to_string(i);
  return "<ir_version: 10, opset_import: [\"\" : 20]>\ng (" + inputs + ") => (float[batch, seq, 2] y)\n<float[" +
         std::to_string(rows) + ", 2] table = {" + values + "}>\n{" + body + "}\n";
}

std::string bound(const std::string &body,
                  const std::string &inputs = "int64[batch, seq] ids, int64[batch, seq] mask") {
  std::string text = imported(model(inputs, 16, body));
  size_t at = text.find("nn.dim_bounds = {");
  return at == std::string::npos ? text.substr(0, text.starts_with("error") ? 300 : 0)
                                 : text.substr(at + 17, text.find('}', at) - at - 17);
}

const char *kPositions = R"(
  shape = Shape<start = 1, end = 2>(ids)
  n = Squeeze(shape)
  zero = Constant<value = int64 {0}>()
  one = Constant<value = int64 {1}>()
  two = Constant<value = int64 {2}>()
  p = Range(zero, n, one)
)";
const std::string kSpread = "full = Shape(ids) wide = Expand(at, full) y = Gather(table, wide)";

TEST(IndexBound, PositionsThatATableHolds) {
  EXPECT_EQ(bound(kPositions + ("at = Identity(p) " + kSpread)), "seq = 16 : i64");
  EXPECT_EQ(bound(kPositions + ("first = Unsqueeze(p, zero) at = Add(first, two) " + kSpread)), "seq = 14 : i64");
  EXPECT_EQ(bound(kPositions + ("from = Range(two, n, one) shift = Sub(from, two) at = Identity(p) " + kSpread)),
            "seq = 16 : i64");
}

/// OPT and RoBERTa number the positions that a mask counts.
TEST(IndexBound, RunningCountsOfAMask) {
  EXPECT_EQ(bound("axis = Constant<value = int64 {1}>() c = CumSum(mask, axis) m = Mul(c, mask) y = Gather(table, m)"),
            "seq = 15 : i64");
  EXPECT_EQ(bound("axis = Constant<value = int64 {1}>() c = CumSum(mask, axis) m = Mul(c, ids) y = Gather(table, m)"),
            "");
  EXPECT_EQ(bound("axis = Constant<value = int64 {1}>() two = Constant<value = int64 {2}>() c = CumSum(mask, axis) "
                  "s = Add(c, two) y = Gather(table, s)"),
            "seq = 13 : i64");
  EXPECT_EQ(bound("axis = Constant<value = int64 {1}>() k = Equal(ids, axis) o = Not(k) i = Cast<to = 7>(o) "
                  "c = CumSum(i, axis) m = Mul(c, i) s = Add(m, axis) y = Gather(table, s)"),
            "seq = 14 : i64");
}

/// A table of position ids, cut to the sequence's length.
TEST(IndexBound, SlicesOfABuffer) {
  std::string numbers = "0";
  for (int i = 1; i < 12; ++i)
    numbers += ", " + std::to_string(i);
  EXPECT_EQ(
      bound("buffer = Constant<value = int64[1, 12] {" + numbers +
            "}>() one = Constant<value_ints = [1]>() "
            "zero = Constant<value_ints = [0]>() n = Shape<start = 1, end = 2>(ids) at = Slice(buffer, zero, n, one) " +
            kSpread),
      "seq = 12 : i64");
}

/// Ids are data, and a condition may keep large positions away.
TEST(IndexBound, NothingIsGuessed) {
  EXPECT_EQ(bound("y = Gather(table, ids)"), "");
  EXPECT_EQ(bound(kPositions + ("near = Less(p, two) at = Where(near, p, zero) " + kSpread)), "");
}

std::string range(const std::string &body) {
  std::string bytes = modelBytes(model("int64[batch, seq] ids, int64[batch, seq] mask", 16, body));
  auto file = parseOnnx({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, "model.onnx");
  mlir::MLIRContext context;
  loadImportDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  auto imported = importModel(*file, ImportOptions(), *module);
  if (!imported)
    return std::string(imported.status().message());
  IndexRange found = indexRange(imported->function.getArgument(0));
  return (found.limit ? std::to_string(*found.limit) : "any") +
         (found.ignored ? " or " + std::to_string(*found.ignored) : "");
}

TEST(IndexRange, BehindWhatMovesAndShifts) {
  EXPECT_EQ(range("y = Gather(table, ids)"), "16");
  EXPECT_EQ(range("a = Cast<to = 6>(ids) y = Gather(table, a)"), "16");
  EXPECT_EQ(range("two = Constant<value = int64 {2}>() a = Add(two, ids) y = Gather(table, a)"), "14");
  EXPECT_EQ(
      range("to = Constant<value_ints = [-1]>() flat = Reshape(ids, to) rows = Gather(table, flat) s = Shape(ids) "
            "w = Constant<value_ints = [2]>() back = Concat<axis = 0>(s, w) y = Reshape(rows, back)"),
      "16");
}

/// Image tokens of -200 and their like never reach the table; what another field decides, nobody knows here.
TEST(IndexRange, WhereExemptsOneValue) {
  std::string constants = "zero = Constant<value = int64 {0}>() image = Constant<value = int64 {-200}>() ";
  EXPECT_EQ(range(constants + "k = Equal(ids, image) a = Where(k, zero, ids) y = Gather(table, a)"), "16 or -200");
  EXPECT_EQ(range(constants + "k = Equal(ids, image) n = Not(k) a = Where(n, ids, zero) y = Gather(table, a)"),
            "16 or -200");
  EXPECT_EQ(range(constants + "k = Equal(ids, image) a = Where(k, ids, zero) y = Gather(table, a)"), "any");
  EXPECT_EQ(range(constants + "k = Equal(mask, image) a = Where(k, zero, ids) y = Gather(table, a)"), "any");
}

} // namespace
} // namespace maestro::planner

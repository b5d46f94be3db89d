// Predicted times of operators: which measured curve an attention's mask stands for (of masks that hide what comes
// later kernels skip blocks), and how times follow sizes.
#include "planner/emit/operator_costs.h"

#include "ir/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace maestro::planner {
namespace {

constexpr double kOpen = 1e-3, kOrdered = 2e-3;

/// The time of the attention in a function whose mask comes of `made`, given %m of the shape `given`.
double secondsWith(const std::string &given, const std::string &dtype, const std::string &made, const std::string &mask,
                   const std::string &type) {
  std::string x = "!nn.tensor<[b, 4, s, 5], f32>";
  std::string text = "func.func @f(%q: " + x + ", %m: !nn.tensor<" + given + ", " + dtype + ">) {\n" + made +
                     "\n  %r:2 = nn.attention %q, %q, %q, " + mask + " {scale = 1.0 : f64} : (" + x + ", " + x + ", " +
                     x + ", !nn.tensor<" + type + ", i1>) -> (" + x + ", !nn.tensor<[b, 4, s], f32>)\n  return\n}";
  mlir::MLIRContext context;
  context.loadDialect<nn::NNDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return -1;
  auto curves = std::make_shared<cost_models::KernelCurves>();
  EXPECT_TRUE(curves->addGrid("attention", {{32, 4, 5, cost_models::Seconds(kOpen)}}).isOk());
  EXPECT_TRUE(curves->addGrid("attention masked", {{32, 4, 5, cost_models::Seconds(kOrdered)}}).isOk());
  cost_models::DeviceModel device;
  device.curves = curves;
  MicroBatchLimits limits;
  limits.largest = {{{"b", 2}, {"s", 4}}};
  plan::PlanBuilder tables;
  OperatorWorks works;
  OperatorCosts costs(device, limits, works, tables);
  double seconds = -1;
  module->walk([&](nn::AttentionOp op) { seconds = costs.of(*op).seconds; });
  return seconds;
}

TEST(OperatorCosts, MasksOfPositionsInOrderHideWhatComes) {
  std::string positions =
      "  %o = nn.less_equal %i, %m : (!nn.tensor<[s], i64>, !nn.tensor<[s, 1], i64>) -> !nn.tensor<[s, s], i1>";
  std::string iota = "  %i = nn.iota {start = #nn.dims<[0]>, step = #nn.dims<[1]>} : () -> !nn.tensor<[s], i64>\n";
  EXPECT_DOUBLE_EQ(secondsWith("[s, 1]", "i64", iota + positions, "%o", "[s, s]"), kOrdered);
  std::string behind = "\n  %n = nn.not %o : (!nn.tensor<[s, s], i1>) -> !nn.tensor<[s, s], i1>";
  EXPECT_DOUBLE_EQ(secondsWith("[s, 1]", "i64", iota + positions + behind, "%n", "[s, s]"), kOrdered);
}

TEST(OperatorCosts, MasksOfPaddingHideLittle) {
  std::string padding = "  %n = nn.not %m : (!nn.tensor<[b, 1, s, s], i1>) -> !nn.tensor<[b, 1, s, s], i1>";
  EXPECT_DOUBLE_EQ(secondsWith("[b, 1, s, s]", "i1", padding, "%n", "[b, 1, s, s]"), kOpen);
}

TEST(OperatorCosts, MasksThatAreGivenGoByTheirShape) {
  EXPECT_DOUBLE_EQ(secondsWith("[b, 1, s, s]", "i1", "", "%m", "[b, 1, s, s]"), kOrdered);
  EXPECT_DOUBLE_EQ(secondsWith("[b, 1, 1, s]", "i1", "", "%m", "[b, 1, 1, s]"), kOpen);
}

/// The polynomial of an addition of b × 1,000 floats, where `b` is at most 8, on a device that was measured so.
OperatorCost addition(std::vector<cost_models::CurveSample> measured) {
  std::string x = "!nn.tensor<[b, 1000], f32>";
  std::string text =
      "func.func @f(%x: " + x + ") {\n  %r = nn.add %x, %x : (" + x + ", " + x + ") -> " + x + "\n  return\n}";
  mlir::MLIRContext context;
  context.loadDialect<nn::NNDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  auto curves = std::make_shared<cost_models::KernelCurves>();
  EXPECT_TRUE(curves->addCurve("add", std::move(measured)).isOk());
  cost_models::DeviceModel device;
  device.curves = curves;
  MicroBatchLimits limits;
  limits.largest = {{{"b", 8}}};
  for (int64_t usual : {2, 4, 6})
    limits.usual.push_back({{"b", usual}});
  plan::PlanBuilder tables;
  OperatorWorks works;
  OperatorCosts costs(device, limits, works, tables);
  OperatorCost found;
  module->walk([&](nn::AddOp op) { found = costs.of(*op); });
  return found;
}

double picosecondsAt(const OperatorCost &cost, double b) {
  double sum = 0;
  for (const auto &[symbols, picoseconds] : cost.terms) {
    double value = picoseconds;
    for (size_t i = 0; i < symbols.size(); ++i)
      value *= b;
    sum += value;
  }
  return sum;
}

TEST(OperatorCosts, MeasuredTimesOnALineStayOnIt) {
  OperatorCost cost = addition(
      {{24e3, cost_models::Seconds(2e-6)}, {48e3, cost_models::Seconds(4e-6)}, {96e3, cost_models::Seconds(8e-6)}});
  for (double b : {1.0, 2.0, 5.0, 8.0})
    EXPECT_NEAR(picosecondsAt(cost, b), b * 1e6, b * 1e4) << b; // 12 kB a row: 1 us.
}

TEST(OperatorCosts, MeasuredTimesThatBendAreMetInTheMiddle) {
  // Beyond 48 kB, half of the bounds, twice as slow.
  OperatorCost cost = addition(
      {{24e3, cost_models::Seconds(2e-6)}, {48e3, cost_models::Seconds(4e-6)}, {96e3, cost_models::Seconds(16e-6)}});
  EXPECT_DOUBLE_EQ(cost.seconds, 16e-6);
  double small = picosecondsAt(cost, 2) / 2e6, large = picosecondsAt(cost, 8) / 16e6;
  EXPECT_GT(
      small,
      0.9); // A line through the bounds and their half would have no time left for it, one through 0 twice as much.
  EXPECT_LT(small, 1.6);
  EXPECT_GT(large, 0.5);
  EXPECT_LT(large, 0.9);
}

TEST(CostPolynomial, AQuotientGrowsWithWhatIsDivided) {
  plan::PlanBuilder tables;
  (void)tables.symbol("n", plan::fb::Combine::Max, 99, 1);
  std::map<std::string, int64_t> bounds{{"n", 99}};
  DimExpr n = DimExpr::symbol("n");
  const std::vector<uint32_t> ofN{tables.symbolIndex("n")};
  CostPolynomial half;
  addTerms(half, 3 * DimExpr::floorDiv(n + 1, 2), 1, bounds, tables);
  EXPECT_DOUBLE_EQ(half[ofN] * 99 + half[{}], 150);
  EXPECT_DOUBLE_EQ(half[ofN], 1.5);
  CostPolynomial parts; // Of all together: n.
  for (int64_t i = 0; i < 4; ++i)
    addTerms(parts, DimExpr::floorDiv((i + 1) * n, 4) - DimExpr::floorDiv(i * n, 4), 1, bounds, tables);
  EXPECT_NEAR(parts[ofN], 1, 1e-12);
}

} // namespace
} // namespace maestro::planner

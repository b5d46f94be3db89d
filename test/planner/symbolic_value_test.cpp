#include "planner/import/symbolic_value.h"

#include <gtest/gtest.h>

#include <cmath>

namespace maestro::planner {
namespace {

DimExpr dim(const char *text) { return *DimExpr::parse(text); }

FoldedTensor ints(std::vector<DimExpr> values) { return FoldedTensor::vector(std::move(values)); }

TEST(SymbolicValue, ArithmeticOnDims) {
  auto sum = fold(FoldedBinary::Add, ints({dim("batch"), DimExpr(4)}), ints({DimExpr(1), DimExpr(2)}));
  ASSERT_TRUE(sum);
  EXPECT_EQ(*sum->asDim(0), dim("batch + 1"));
  EXPECT_EQ(*sum->asInteger(1), 6);
  auto quotient = fold(FoldedBinary::Div, ints({dim("4*images")}), ints({DimExpr(4)}));
  ASSERT_TRUE(quotient);
  EXPECT_EQ(*quotient->asDim(0), dim("images"));
  EXPECT_FALSE(fold(FoldedBinary::Div, ints({dim("n")}), ints({DimExpr(0)})));
}

TEST(SymbolicValue, ComparesWhatIsKnown) {
  auto compare = [](FoldedBinary op, const char *a, const char *b) {
    auto result = fold(op, ints({dim(a)}), ints({dim(b)}));
    return result ? std::optional<int64_t>(result->asInteger(0)) : std::nullopt;
  };
  EXPECT_EQ(compare(FoldedBinary::Less, "seq", "seq + 1"), 1);
  EXPECT_EQ(compare(FoldedBinary::Equal, "seq", "seq"), 1);
  EXPECT_EQ(compare(FoldedBinary::Equal, "seq", "seq + 2"), 0);
  EXPECT_EQ(compare(FoldedBinary::Greater, "seq", "0"), 1);
  EXPECT_EQ(compare(FoldedBinary::Less, "seq", "batch"), std::nullopt);
}

TEST(SymbolicValue, BroadcastsAndMoves) {
  FoldedTensor matrix{DType::I64, {2, 2}, {DimExpr(1), DimExpr(2), DimExpr(3), DimExpr(4)}};
  auto product = fold(FoldedBinary::Mul, matrix, ints({dim("n"), DimExpr(10)}));
  ASSERT_TRUE(product);
  EXPECT_EQ(*product->asDim(2), dim("3*n"));
  auto transposed = foldTranspose(matrix, std::vector<int64_t>{1, 0});
  EXPECT_EQ(transposed->asInteger(1), 3);
  auto gathered = foldGather(matrix, ints({DimExpr(-1)}), 1);
  ASSERT_TRUE(gathered);
  EXPECT_EQ(gathered->asInteger(0), 2);
  EXPECT_EQ(gathered->asInteger(1), 4);
  EXPECT_FALSE(foldGather(matrix, ints({DimExpr(2)}), 0));
  auto wide = foldExpand(ints({DimExpr(7)}), std::vector<int64_t>{2, 3});
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->size(), 6);
  EXPECT_FALSE(foldExpand(ints({DimExpr(7)}), std::vector<int64_t>{100, 100}));
}

TEST(SymbolicValue, CastsKeepExactIntegers) {
  auto real = foldCast(ints({dim("seq")}), DType::F32);
  ASSERT_TRUE(real);
  auto back = foldCast(*real, DType::I64);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back->asDim(0), dim("seq"));
  auto narrow = foldCast(ints({DimExpr(300)}), DType::U8);
  EXPECT_EQ(narrow->asInteger(0), 44);
  EXPECT_EQ(foldCast(ints({dim("seq")}), DType::Bool)->asInteger(0), 1);
  auto half = foldCast(FoldedTensor::scalar(DType::F32, 2.7), DType::I64);
  EXPECT_EQ(half->asInteger(0), 2);
}

TEST(SymbolicValue, FloatsRoundToTheirType) {
  auto root = fold(FoldedUnary::Sqrt, FoldedTensor::scalar(DType::F32, 2.0));
  ASSERT_TRUE(root);
  EXPECT_EQ(*root->asDouble(0), static_cast<double>(std::sqrt(2.0f)));
}

TEST(SymbolicValue, ClampUsesThatDimsArePositive) {
  EXPECT_EQ(clampDim(DimExpr(1), DimExpr(0), dim("seq")), DimExpr(1));
  EXPECT_EQ(clampDim(DimExpr(int64_t(1) << 48), DimExpr(0), dim("seq + 1")).str(),
            clampDim(dim("seq + 1"), DimExpr(0), DimExpr(int64_t(1) << 48)).str());
  EXPECT_EQ(clampDim(dim("seq"), DimExpr(0), dim("seq + 1")), dim("seq"));
}

TEST(DimConstraints, UnifiesSymbols) {
  DimConstraints constraints([](std::string_view name) { return name == "batch"; });
  EXPECT_TRUE(constraints.unify(dim("batch"), dim("b2")));
  EXPECT_EQ(constraints.apply(dim("b2*3")), dim("3*batch"));
  EXPECT_TRUE(constraints.unify(dim("rows"), dim("2*b2")));
  EXPECT_EQ(constraints.apply(dim("rows")), dim("2*batch"));
  EXPECT_TRUE(constraints.unify(dim("2*k + 1"), DimExpr(9)));
  EXPECT_EQ(constraints.apply(dim("k")), DimExpr(4));
  EXPECT_FALSE(constraints.unify(dim("batch"), DimExpr(4)));
  EXPECT_FALSE(constraints.unify(dim("x"), dim("x + 1")));
  EXPECT_FALSE(constraints.unify(DimExpr(3), DimExpr(4)));
}

TEST(DimConstraints, AMinThatMustBeTheDimBoundsIt) {
  DimConstraints constraints([](std::string_view) { return true; });
  EXPECT_FALSE(constraints.unify(dim("seq"), dim("min(seq, 128) + 1")));
  EXPECT_FALSE(constraints.unify(dim("seq"), dim("max(seq, 128)")));
  EXPECT_TRUE(constraints.bounds().empty());
  EXPECT_TRUE(constraints.unify(dim("64*batch*seq"), dim("64*batch*min(seq, 128)")));
  ASSERT_EQ(constraints.bounds().count("seq"), 1u);
  EXPECT_EQ(constraints.bounds().at("seq"), 128);
  EXPECT_EQ(constraints.apply(dim("128 - max(0, 128 - seq)")), dim("seq"));
  EXPECT_EQ(constraints.apply(dim("min(seq, 64)")), dim("min(seq, 64)"));
  EXPECT_TRUE(constraints.unify(dim("seq"), dim("100 - max(0, 100 - seq)")));
  EXPECT_EQ(constraints.bounds().at("seq"), 100);
}

} // namespace
} // namespace maestro::planner

// Interning, folding, determinism.
#include "test/plan/example.h"

#include <gtest/gtest.h>

namespace maestro::plan {
namespace {

TEST(Builder, equalExpressionsShareANode) {
  PlanBuilder builder;
  uint32_t a = builder.symbol("a", fb::Combine::Sum, 4), b = builder.symbol("b", fb::Combine::Max, 8);
  EXPECT_EQ(builder.dim(fb::DimOp::Mul, a, b), builder.dim(fb::DimOp::Mul, b, a));
  EXPECT_NE(builder.dim(fb::DimOp::FloorDiv, a, b), builder.dim(fb::DimOp::FloorDiv, b, a));
  EXPECT_EQ(builder.symbolNamed("b"), b);
  EXPECT_EQ(builder.symbolIndex("b"), 1u);
  EXPECT_EQ(builder.symbolNamed("c"), kNone);
}

TEST(Builder, constantsFoldWhereTheResultIsExact) {
  PlanBuilder builder;
  auto folded = [&](fb::DimOp op, int64_t a, int64_t b) {
    uint32_t left = builder.constant(a), right = builder.constant(b);
    return builder.dim(op, left, right);
  };
  EXPECT_EQ(folded(fb::DimOp::Mul, 6, 7), builder.constant(42));
  EXPECT_EQ(folded(fb::DimOp::CeilDiv, 7, 2), builder.constant(4));
  EXPECT_EQ(folded(fb::DimOp::FloorDiv, 7, 2), builder.constant(3));
  EXPECT_EQ(folded(fb::DimOp::Mod, 7, 2), builder.constant(1));
  EXPECT_EQ(folded(fb::DimOp::Min, 7, 2), builder.constant(2));
  uint32_t overflow = folded(fb::DimOp::Mul, INT64_MAX, 2), zero = folded(fb::DimOp::Mod, 1, 0);
  EXPECT_EQ(builder.plan().exprs[overflow].op(), fb::DimOp::Mul);
  EXPECT_EQ(builder.plan().exprs[zero].op(), fb::DimOp::Mod);
}

TEST(Builder, attributeListsAreSharedOnlyWhenEqual) {
  PlanBuilder builder;
  uint32_t one = builder.attributes({intsAttribute("axis", {1})});
  EXPECT_EQ(builder.attributes({intsAttribute("axis", {1})}), one);
  EXPECT_NE(builder.attributes({intsAttribute("axis", {2})}), one);
  EXPECT_NE(builder.attributes({floatsAttribute("axis", {1})}), one);
  EXPECT_NE(builder.attributes({textAttribute("axis", "1")}), one);
  EXPECT_EQ(builder.attributes({}), kNone);
  EXPECT_EQ(builder.scope(""), kNone);
  EXPECT_EQ(builder.kernel("add"), builder.kernel("add"));
}

TEST(Builder, sameInputsGiveTheSameBytes) {
  PlanBuilder builder = test::exampleBuilder();
  auto first = builder.finish(), second = builder.finish();
  ASSERT_TRUE(first.isOk()) << first.status().message();
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(*first, test::exampleBytes());
}

TEST(Builder, unpackedAndPackedAgainTheBytesStay) {
  auto bytes = test::exampleBytes();
  auto plan = Plan::fromBytes(bytes);
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  std::unique_ptr<fb::PlanT> tables((*plan)->UnPack());
  auto again = finish(*tables);
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(*again, bytes);
}

TEST(Builder, whatTheVerifierRefusesIsNotWritten) {
  PlanBuilder builder = test::exampleBuilder();
  builder.plan().training->lr = 0;
  auto bytes = builder.finish();
  ASSERT_FALSE(bytes.isOk());
  EXPECT_EQ(bytes.status().code(), StatusCode::Internal);
  EXPECT_NE(bytes.status().message().find("plan.training.lr: 0 is not"), std::string::npos) << bytes.status().message();
}

TEST(Builder, missingTablesAreAnErrorAndNoCrash) {
  for (auto remove : std::initializer_list<void (*)(fb::PlanT &)>{
           [](fb::PlanT &plan) { plan.machine.reset(); }, [](fb::PlanT &plan) { plan.sections[0]->layout.reset(); },
           [](fb::PlanT &plan) { plan.executables[1]->programs[0]->calls[0].reset(); },
           [](fb::PlanT &plan) { plan.attribute_lists[0]->items[0].reset(); },
           [](fb::PlanT &plan) { plan.fields[1].reset(); }}) {
    PlanBuilder builder = test::exampleBuilder();
    remove(builder.plan());
    auto bytes = builder.finish();
    ASSERT_FALSE(bytes.isOk());
    EXPECT_EQ(bytes.status().code(), StatusCode::Internal);
  }
}

} // namespace
} // namespace maestro::plan

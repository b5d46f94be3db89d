// Factor rules as text.
#include "ir/nn/factor_rule.h"

#include <gtest/gtest.h>

using namespace maestro::nn;

TEST(FactorRule, RoundTrips) {
  for (const char *text : {"(i,k),(k,j)->(i,j) reduce k", "()->()", "->(i)", "(i,j*k)->(i*j,k)", "(i,1),(1,j)->(i,j)",
                           "(i,j)->(i) reduce_max j", "(i,j),(k)->(i,l) reduce i,k whole j,l"}) {
    std::optional<FactorRule> rule = FactorRule::parse(text);
    ASSERT_TRUE(rule) << text;
    std::optional<FactorRule> again = FactorRule::parse(rule->str());
    ASSERT_TRUE(again) << rule->str();
    EXPECT_EQ(rule->str(), again->str());
  }
}

TEST(FactorRule, NamesFollowAppearance) {
  EXPECT_EQ(FactorRule::parse("(b,x),(x,y)->(b,y) reduce x")->str(), "(i,j),(j,k)->(i,k) reduce j");
}

TEST(FactorRule, ReadsKindsAndProducts) {
  std::optional<FactorRule> rule = FactorRule::parse("(i*j,k)->(i,j) reduce k whole j");
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->factors.size(), 3u);
  EXPECT_EQ(rule->operandDims[0][0], (DimFactors{0, 1}));
  EXPECT_EQ(rule->factors[2].kind, FactorKind::ReduceSum);
  EXPECT_EQ(rule->factors[1].kind, FactorKind::Whole);
  EXPECT_EQ(rule->factors[0].kind, FactorKind::Parallel);
  EXPECT_EQ(FactorRule::soleFactor(rule->resultDims[0], 0), 0u);
  EXPECT_EQ(FactorRule::soleFactor(rule->operandDims[0], 0), std::nullopt);
}

TEST(FactorRule, MalformedTextIsRefused) {
  for (const char *text : {"", "(i)", "(i)->", "(i)->(j) split j", "(i)->(i) reduce k", "(i,)->(i)", "i->i",
                           "(i*)->(i)", "(2)->(i)", "(i)->(i) reduce"})
    EXPECT_FALSE(FactorRule::parse(text)) << text;
}

// Symbolic integers: canonical form, text, division, bounds, overflow; and random expressions against evaluation.
#include "ir/dim_expr.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using maestro::DimExpr;

namespace {

DimExpr parse(std::string_view text) {
  std::optional<DimExpr> expr = DimExpr::parse(text);
  EXPECT_TRUE(expr.has_value()) << text;
  return expr.value_or(DimExpr::overflow());
}

std::string canonical(std::string_view text) { return parse(text).str(); }

auto valuesFrom(const std::map<std::string, int64_t, std::less<>> &values) {
  return [&](std::string_view name) -> std::optional<int64_t> {
    auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

//===----------------------------------------------------------------------===//
// Rounding up
//===----------------------------------------------------------------------===//

TEST(DimExpr, WhatIsMissingToAMultipleMakesOne) {
  DimExpr padded = parse("n + (-n) % 8"), again = parse("n + (8 - n % 8) % 8");
  EXPECT_EQ(padded, parse("8*((n + 7)//8)"));
  EXPECT_EQ(again, padded);
  EXPECT_EQ(parse("(-(n % 256)) % 256"), parse("(-n) % 256"));
  EXPECT_EQ(DimExpr::floorDiv(padded, 8), DimExpr::ceilDiv(parse("n"), 8));
  EXPECT_EQ(DimExpr::mod(padded, 4), DimExpr(0));
  EXPECT_EQ(DimExpr::min(padded, parse("n")), parse("n"));
  EXPECT_EQ((padded - parse("n")).lowerBound(), 0);
  EXPECT_EQ((parse("n") - 8 * DimExpr::floorDiv(parse("n"), 8)).lowerBound(), 0);
}

//===----------------------------------------------------------------------===//
// Canonical form and text
//===----------------------------------------------------------------------===//

TEST(DimExpr, EqualPolynomialsAreEqual) {
  EXPECT_EQ(parse("(a + b) * (a - b)"), parse("a*a - b*b"));
  EXPECT_EQ(parse("2*(a + 3) - a - 6"), parse("a"));
  EXPECT_EQ(parse("a*b*c"), parse("c*b*a"));
  EXPECT_NE(parse("a"), parse("b"));
  EXPECT_EQ(parse("a - a"), DimExpr(0));
  EXPECT_EQ(parse("a").hash(), DimExpr::symbol("a").hash());
}

TEST(DimExpr, PrintsTermsByDegree) {
  EXPECT_EQ(canonical("1 + b*a + 4*images"), "a*b + 4*images + 1");
  EXPECT_EQ(canonical("3 - n"), "-n + 3");
  EXPECT_EQ(canonical("0"), "0");
  EXPECT_EQ(canonical("-n*2"), "-2*n");
  EXPECT_EQ(canonical("n//2 + 1"), "n floordiv 2 + 1");
  EXPECT_EQ(canonical("3 * (n % 2)"), "3*(n mod 2)");
  EXPECT_EQ(canonical("-(n floordiv 2)"), "-(n floordiv 2)");
  EXPECT_EQ(canonical("max(n - 3, k)"), "max(k, n - 3)");
}

TEST(DimExpr, NamesMayLookLikeWords) {
  EXPECT_EQ(canonical("min + max"), "max + min");
  EXPECT_EQ(canonical("s17*layer.dim_0"), "layer.dim_0*s17");
  EXPECT_EQ(canonical("modulus mod 4"), "modulus mod 4");
}

TEST(DimExpr, ReadsWhatExportersWrite) {
  EXPECT_EQ(parse("((s77 - 1)//2) + 1"), parse("(s77 + 1) floordiv 2"));
  EXPECT_EQ(parse("Max(1, Mod(s0, 8))"), parse("max(s0 mod 8, 1)"));
  EXPECT_EQ(parse("s0**2*Min(a, b)"), parse("s0*s0*min(a, b)"));
  EXPECT_EQ(parse("(a + 1)**2 - FloorDiv(4*a, 2)"), parse("a*a + 1"));
  EXPECT_EQ(parse("-s0**2"), parse("0 - s0*s0"));
}

TEST(DimExpr, MalformedTextIsRefused) {
  for (const char *text : {"",
                           " ",
                           "a +",
                           "a b",
                           "(a",
                           "a)",
                           "min(a)",
                           "min(a, b, c)",
                           "*a",
                           "a / 2",
                           "2a",
                           "1.5",
                           "a $ b",
                           "9223372036854775808",
                           "-9223372036854775809",
                           "99999999999999999999",
                           "overflow!",
                           "a,b",
                           "max(,)",
                           "floordiv 2 3",
                           "a**b",
                           "a**-1",
                           "a**65",
                           "a***2",
                           "a**"})
    EXPECT_FALSE(DimExpr::parse(text)) << text;
  EXPECT_FALSE(DimExpr::parse(std::string(100000, '(')));
  EXPECT_FALSE(DimExpr::parse(std::string(1000, '(') + "a" + std::string(1000, ')')));
}

TEST(DimExpr, Symbols) {
  EXPECT_EQ(parse("b*a + max(c, b floordiv d) - a").symbols(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(parse("n").asSymbol(), "n");
  EXPECT_EQ(parse("2*n").asSymbol(), std::nullopt);
  EXPECT_EQ(parse("n - n + 7").asConstant(), 7);
  EXPECT_EQ(parse("n").asConstant(), std::nullopt);
}

//===----------------------------------------------------------------------===//
// Division, minimum, maximum
//===----------------------------------------------------------------------===//

TEST(DimExpr, FloorDivSimplifies) {
  EXPECT_EQ(parse("(4*n) floordiv 2"), parse("2*n"));
  EXPECT_EQ(parse("(4*n + 7) floordiv 4"), parse("n + 1"));
  EXPECT_EQ(parse("(2*n + 1) floordiv 4"), parse("n floordiv 2"));
  EXPECT_EQ(parse("(n floordiv 3) floordiv 5"), parse("n floordiv 15"));
  EXPECT_EQ(parse("((n + 1) floordiv 2 + 1) floordiv 2"), parse("(n + 3) floordiv 4"));
  EXPECT_EQ(parse("(batch*seq) floordiv seq"), parse("batch"));
  EXPECT_EQ(parse("(batch*seq + 2*seq) floordiv seq"), parse("batch + 2"));
  EXPECT_EQ(parse("(n - 1) floordiv 1"), parse("n - 1"));
  EXPECT_EQ(parse("-7 floordiv 2"), DimExpr(-4));
  EXPECT_EQ(parse("n ceildiv 4"), parse("(n + 3) floordiv 4"));
  EXPECT_EQ(parse("(4*n + 1) ceildiv 4"), parse("n + 1"));
}

TEST(DimExpr, ModSimplifies) {
  EXPECT_EQ(parse("n mod 1"), DimExpr(0));
  EXPECT_EQ(parse("(6*n + 5) mod 3"), DimExpr(2));
  EXPECT_EQ(parse("(n mod 4) mod 8"), parse("n mod 4"));
  EXPECT_EQ(parse("(a*b) mod b"), DimExpr(0));
  EXPECT_EQ(parse("-7 mod 4"), DimExpr(1));
}

TEST(DimExpr, MinAndMaxSimplify) {
  EXPECT_EQ(parse("max(n, 0)"), parse("n"));
  EXPECT_EQ(parse("min(n, 9223372036854775807)"), parse("n"));
  EXPECT_EQ(parse("max(n - 9223372036854775807, 0)"), DimExpr(0));
  EXPECT_EQ(parse("min(n, n + m)"), parse("n"));
  EXPECT_EQ(parse("max(min(a, b), min(b, a))"), parse("min(a, b)"));
  EXPECT_EQ(parse("max(a, max(b, a))"), parse("max(b, a)"));
  EXPECT_EQ(parse("min(3, 5)"), DimExpr(3));
  EXPECT_EQ(parse("max(n, 1)").str(), "max(n, 1)"); // n may be 0.
}

TEST(DimExpr, ExactQuotient) {
  EXPECT_EQ(parse("batch*seq*64").exactQuotient(parse("64*seq")), parse("batch"));
  EXPECT_EQ(parse("a*a - b*b").exactQuotient(parse("a + b")), parse("a - b"));
  EXPECT_EQ(parse("(a + b)*(c + 1)*(a - 2)").exactQuotient(parse("(c + 1)*(a - 2)")), parse("a + b"));
  EXPECT_EQ(parse("0").exactQuotient(parse("n")), DimExpr(0));
  EXPECT_EQ(parse("n + 1").exactQuotient(parse("n")), std::nullopt);
  EXPECT_EQ(parse("6*n").exactQuotient(parse("4")), std::nullopt);
  EXPECT_EQ(parse("n").exactQuotient(DimExpr(0)), std::nullopt);
}

//===----------------------------------------------------------------------===//
// Values and bounds
//===----------------------------------------------------------------------===//

TEST(DimExpr, Evaluates) {
  std::map<std::string, int64_t, std::less<>> values{{"n", 10}, {"m", 0}, {"huge", INT64_MAX}};
  auto valueOf = valuesFrom(values);
  EXPECT_EQ(parse("n*n - 3*n floordiv 7 + n mod 4").evaluate(valueOf), 100 - 4 + 2);
  EXPECT_EQ(parse("max(n, m) - min(n, m)").evaluate(valueOf), 10);
  EXPECT_EQ(parse("n + missing").evaluate(valueOf), std::nullopt);
  EXPECT_EQ(parse("n floordiv m").evaluate(valueOf), std::nullopt);
  EXPECT_EQ(parse("n floordiv 0").evaluate(valueOf), std::nullopt);
  EXPECT_EQ(parse("n mod -2").evaluate(valueOf), std::nullopt);
  EXPECT_EQ(parse("huge + 1").evaluate(valueOf), std::nullopt);
  EXPECT_EQ(parse("huge*2").evaluate(valueOf), std::nullopt);
}

TEST(DimExpr, Substitutes) {
  auto replacement = [](std::string_view name) -> std::optional<DimExpr> {
    return name == "n" ? std::optional(DimExpr::symbol("k") * 4) : std::nullopt;
  };
  EXPECT_EQ(parse("n floordiv 2 + m").substitute(replacement), parse("2*k + m"));
}

TEST(DimExpr, Bounds) {
  EXPECT_EQ(parse("2*n + 3").lowerBound(), 5);
  EXPECT_EQ(parse("2*n + 3").lowerBound(true), 3);
  EXPECT_EQ(parse("n - m").lowerBound(), std::nullopt);
  EXPECT_EQ(parse("max(n - 5, 2)").lowerBound(), 2);
  EXPECT_EQ(parse("n mod 8").lowerBound(), 0);
  std::map<std::string, int64_t, std::less<>> bounds{{"n", 100}, {"m", 7}};
  auto boundOf = valuesFrom(bounds);
  EXPECT_EQ(parse("n*m - 1").upperBound(boundOf), 699);
  EXPECT_EQ(parse("(n + 1) floordiv 2 - m").upperBound(boundOf), 50);
  EXPECT_EQ(parse("n mod 8").upperBound(boundOf), 7);
  EXPECT_EQ(parse("(3*n) floordiv 4 - n floordiv 2").upperBound(boundOf), 25); // A quarter of 100, whatever n is.
  EXPECT_EQ(parse("n - (6*n) floordiv 7").upperBound(boundOf), 15);
  EXPECT_EQ(parse("min(n, 2*m)").upperBound(boundOf), 14);
  EXPECT_EQ(parse("n + unknown").upperBound(boundOf), std::nullopt);
}

//===----------------------------------------------------------------------===//
// Overflow
//===----------------------------------------------------------------------===//

TEST(DimExpr, OverflowIsPassedOn) {
  DimExpr big = INT64_MAX, n = DimExpr::symbol("n");
  for (const DimExpr &expr : {big + 1, big * 2, DimExpr(0) - DimExpr(INT64_MIN), (big * n) * 3, n + (big + 1),
                              DimExpr::min(n, big + 1), DimExpr::floorDiv(big + 1, n)}) {
    EXPECT_TRUE(expr.isOverflow()) << expr;
    EXPECT_EQ(expr.evaluate([](auto) { return 1; }), std::nullopt);
    EXPECT_EQ(expr.asConstant(), std::nullopt);
  }
  EXPECT_FALSE((big - 1).isOverflow());
}

TEST(DimExpr, GrowthIsBounded) {
  DimExpr sum;
  for (int i = 0; i < 70; ++i)
    sum = sum + DimExpr::symbol("x" + std::to_string(i));
  EXPECT_TRUE((sum * sum * sum).isOverflow());
}

TEST(DimExpr, SmallestIntegerRoundTrips) {
  for (const char *text : {"-9223372036854775808", "n + -9223372036854775808", "-9223372036854775808*n"})
    EXPECT_EQ(canonical(text), text);
}

//===----------------------------------------------------------------------===//
// Random expressions: text and simplification keep the value
//===----------------------------------------------------------------------===//

/// An expression both as a DimExpr and as the value that plain arithmetic gives.
struct Sample {
  DimExpr expr;
  int64_t value;
};

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {
    for (const char *name : {"a", "b", "c"})
      values[name] = static_cast<int64_t>(random() % 6);
  }

  Sample make(int depth) {
    if (depth == 0 || random() % 5 == 0)
      return leaf();
    Sample x = make(depth - 1), y = make(depth - 1);
    int64_t divisor = 1 + static_cast<int64_t>(random() % 5);
    int64_t remainder = ((x.value % divisor) + divisor) % divisor;
    switch (random() % 8) {
    case 0:
      return {x.expr + y.expr, x.value + y.value};
    case 1:
      return {x.expr - y.expr, x.value - y.value};
    case 2:
      return {x.expr * y.expr, x.value * y.value};
    case 3:
      return {DimExpr::min(x.expr, y.expr), std::min(x.value, y.value)};
    case 4:
      return {DimExpr::max(x.expr, y.expr), std::max(x.value, y.value)};
    case 5:
      return {DimExpr::mod(x.expr, divisor), remainder};
    case 6:
      return {DimExpr::floorDiv(x.expr, divisor), (x.value - remainder) / divisor};
    default:
      return {DimExpr::ceilDiv(x.expr, divisor), (x.value - remainder) / divisor + (remainder ? 1 : 0)};
    }
  }

  std::map<std::string, int64_t, std::less<>> values;

private:
  Sample leaf() {
    if (random() % 3 == 0) {
      int64_t constant = static_cast<int64_t>(random() % 11) - 5;
      return {constant, constant};
    }
    auto entry = std::next(values.begin(), static_cast<long>(random() % values.size()));
    return {DimExpr::symbol(entry->first), entry->second};
  }

  std::mt19937 random;
};

TEST(DimExpr, RandomExpressionsKeepTheirValue) {
  int compared = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Generator generator(seed);
    Sample sample = generator.make(4);
    if (sample.expr.isOverflow())
      continue;
    auto valueOf = valuesFrom(generator.values);
    EXPECT_EQ(sample.expr.evaluate(valueOf), sample.value) << sample.expr << " seed " << seed;
    EXPECT_EQ(DimExpr::parse(sample.expr.str()), sample.expr) << sample.expr << " seed " << seed;
    if (std::optional<int64_t> lower = sample.expr.lowerBound(true)) {
      EXPECT_LE(*lower, sample.value) << sample.expr;
    }
    if (std::optional<int64_t> upper = sample.expr.upperBound(valueOf)) {
      EXPECT_GE(*upper, sample.value) << sample.expr;
    }
    ++compared;
  }
  EXPECT_GT(compared, 2500);
}

} // namespace

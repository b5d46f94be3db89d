// Evaluation of symbolic integers.
#include "plan/dims.h"
#include "test/plan/example.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace maestro::plan {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

/// Serialises expressions without the verifier: DimTable needs tables, not a meaningful plan.
class Table {
public:
  explicit Table(PlanBuilder &builder) { flatbuffers.Finish(fb::Plan::Pack(flatbuffers, &builder.plan())); }
  const fb::Plan &plan() const { return *flatbuffers::GetRoot<fb::Plan>(flatbuffers.GetBufferPointer()); }

private:
  flatbuffers::FlatBufferBuilder flatbuffers;
};

struct DimsCase {
  fb::DimOp op;
  int64_t a, b, result; ///< kUndefined: an error.
};

TEST(Dims, everyOperationAndItsErrors) {
  constexpr int64_t kError = DimTable::kUndefined;
  const DimsCase cases[] = {
      {fb::DimOp::Add, 3, 4, 7},
      {fb::DimOp::Add, kMost, 1, kError},
      {fb::DimOp::Mul, -3, 4, -12},
      {fb::DimOp::Mul, kMost, 2, kError},
      {fb::DimOp::FloorDiv, 7, 2, 3},
      {fb::DimOp::FloorDiv, -7, 2, -4},
      {fb::DimOp::FloorDiv, 7, 0, kError},
      {fb::DimOp::FloorDiv, 7, -2, kError},
      {fb::DimOp::CeilDiv, 7, 2, 4},
      {fb::DimOp::CeilDiv, -7, 2, -3},
      {fb::DimOp::CeilDiv, 8, 2, 4},
      {fb::DimOp::CeilDiv, 1, 0, kError},
      {fb::DimOp::Mod, 7, 4, 3},
      {fb::DimOp::Mod, -7, 4, 1},
      {fb::DimOp::Mod, -1, kMost, kMost - 1},
      {fb::DimOp::Mod, 7, 0, kError},
      {fb::DimOp::Mod, -kMost, kMost - 1, kMost - 2}, // The quotient times the divisor has no 64 bits.
      {fb::DimOp::Min, -2, 5, -2},
      {fb::DimOp::Max, -2, 5, 5},
  };
  for (const DimsCase &test : cases) {
    PlanBuilder builder;
    uint32_t a = builder.symbol("a", fb::Combine::Sum, 1), b = builder.symbol("b", fb::Combine::Sum, 1);
    builder.plan().exprs.emplace_back(test.op, a, b); // Not dim(), which sorts operands.
    Table table(builder);
    DimTable dims(table.plan());
    int64_t symbols[] = {test.a, test.b}, values[3];
    Status status = dims.evaluate(symbols, values);
    EXPECT_EQ(status.isOk(), test.result != kError) << status.message();
    EXPECT_EQ(values[2], test.result) << dims.text(2) << " of " << test.a << " and " << test.b;
  }
}

TEST(Dims, undefinedSymbolsSpreadAndAreExplained) {
  PlanBuilder builder = test::exampleBuilder();
  Table table(builder);
  DimTable dims(table.plan());
  std::vector<int64_t> symbols = {4, DimTable::kUndefined, 2}, values(dims.nodes());
  dims.evaluateDefined(symbols, values);
  uint32_t batch = builder.symbolNamed("batch"), seq = builder.symbolNamed("seq");
  uint32_t rows = builder.dim(fb::DimOp::Mul, batch, seq);
  EXPECT_EQ(values[batch], 4);
  EXPECT_EQ(values[rows], DimTable::kUndefined);
  EXPECT_EQ(dims.explain(rows, values), "exprs[1]: the symbol 'seq' has no value here");
  EXPECT_FALSE(dims.evaluate(symbols, values).isOk());
}

TEST(Dims, textIsWhatPeopleWrite) {
  PlanBuilder builder;
  uint32_t a = builder.symbol("a", fb::Combine::Sum, 1), b = builder.symbol("b", fb::Combine::Sum, 1);
  uint32_t sum = builder.dim(fb::DimOp::Add, a, b), product = builder.dim(fb::DimOp::Mul, sum, b);
  uint32_t quotient = builder.dim(fb::DimOp::FloorDiv, product, product);
  uint32_t least = builder.dim(fb::DimOp::Min, quotient, a);
  uint32_t longest = a;
  for (int i = 0; i < 1000; ++i)
    longest = builder.dim(i % 2 ? fb::DimOp::Mod : fb::DimOp::FloorDiv, longest, longest);
  Table table(builder);
  DimTable dims(table.plan());
  EXPECT_EQ(dims.text(product), "b*(a + b)");
  EXPECT_EQ(dims.text(quotient), "(b*(a + b)) floordiv (b*(a + b))");
  EXPECT_EQ(dims.text(least), "min(a, (b*(a + b)) floordiv (b*(a + b)))");
  EXPECT_LT(dims.text(longest).size(), 2000u);
  EXPECT_NE(dims.text(longest).find("…"), std::string::npos);
}

TEST(Dims, aSubsetHasTheTablesValues) {
  PlanBuilder builder;
  std::vector<uint32_t> nodes = {builder.symbol("a", fb::Combine::Sum, 1), builder.symbol("b", fb::Combine::Max, 1)};
  std::mt19937 random(7);
  auto any = [&](size_t count) { return random() % count; };
  for (int i = 0; i < 200; ++i)
    nodes.push_back(any(4) == 0 ? builder.constant(static_cast<int64_t>(any(9)) - 3)
                                : builder.dim(static_cast<fb::DimOp>(2 + any(7)), nodes[any(nodes.size())],
                                              nodes[any(nodes.size())]));
  Table table(builder);
  DimTable dims(table.plan());
  std::vector<int64_t> values(dims.nodes());
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int64_t> symbols = {static_cast<int64_t>(any(1000)),
                                    trial % 5 ? static_cast<int64_t>(any(50)) : DimTable::kUndefined};
    dims.evaluateDefined(symbols, values);
    std::vector<uint32_t> wanted = {nodes[any(nodes.size())], nodes[any(nodes.size())], nodes[0]};
    DimSubset subset(table.plan(), wanted);
    std::span<const int64_t> got = subset.evaluate(symbols);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(got[i], values[wanted[i]]) << dims.text(wanted[i]);
  }
}

/// 2^64 paths lead from the last node to the first: only one visit a node ends.
TEST(Dims, aSubsetVisitsSharedOperandsOnce) {
  PlanBuilder builder;
  uint32_t node = builder.symbol("a", fb::Combine::Sum, 1);
  for (int i = 0; i < 64; ++i)
    node = builder.dim(i % 2 ? fb::DimOp::Max : fb::DimOp::Add, node, node);
  Table table(builder);
  std::vector<uint32_t> wanted = {node};
  std::vector<int64_t> symbols = {3};
  EXPECT_EQ(DimSubset(table.plan(), wanted).evaluate(symbols)[0], int64_t{3} << 32);
}

} // namespace
} // namespace maestro::plan

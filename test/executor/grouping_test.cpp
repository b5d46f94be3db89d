// Micro-batches in file order: capacities in samples, rows and padded length.
#include "executor/wavefront/grouping.h"

#include <gtest/gtest.h>

#include <random>

using namespace maestro;
using namespace maestro::wavefront;

namespace {

std::vector<DimRule> rules(int64_t rows, int64_t length, int64_t multiple) {
  return {{"batch", true, 1, rows}, {"seq", false, multiple, length}};
}

std::vector<MicroBatch> group(const GroupingProblem &problem) {
  std::vector<MicroBatch> groups;
  size_t count = 0;
  groupInOrder(problem, groups, count);
  groups.resize(count);
  return groups;
}

TEST(Grouping, FillsMicroBatchesInOrder) {
  auto dims = rules(16, 64, 8);
  std::vector<int64_t> sizes = {1, 5, 1, 9, 1, 3, 1, 60, 1, 1};
  GroupingProblem problem{dims, sizes, 2};
  ASSERT_TRUE(check(problem).isOk());
  auto groups = group(problem);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].dims, (std::vector<int64_t>{2, 16}));
  EXPECT_EQ(groups[1].dims, (std::vector<int64_t>{2, 64}));
  EXPECT_EQ(groups[2].dims, (std::vector<int64_t>{1, 8}));
}

TEST(Grouping, RowsBoundAGroupBeforeSamplesDo) {
  auto dims = rules(4, 64, 1);
  std::vector<int64_t> sizes = {3, 5, 2, 5, 2, 5};
  GroupingProblem problem{dims, sizes, 8};
  auto groups = group(problem);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].count, 1u);
  EXPECT_EQ(groups[1].dims[0], 4);
}

TEST(Grouping, NamesASampleThatFitsNowhere) {
  auto dims = rules(4, 64, 8);
  std::vector<int64_t> sizes = {1, 5, 1, 65};
  Status status = check({dims, sizes, 8});
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("sample 1"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("seq = 72"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("dims.seq.max"), std::string::npos) << status.message();
}

TEST(Grouping, RandomProblemsVerify) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    auto dims = rules(1 + random() % 8, 64, 1 + random() % 8);
    std::vector<int64_t> sizes;
    for (size_t s = 0; s < random() % 40; ++s) {
      sizes.push_back(static_cast<int64_t>(random() % dims[0].capacity + 1));
      sizes.push_back(static_cast<int64_t>(random() % 48));
    }
    GroupingProblem problem{dims, sizes, 1 + static_cast<int64_t>(random() % 6)};
    ASSERT_TRUE(check(problem).isOk());
    auto groups = group(problem);
    Status status = verify(problem, groups);
    EXPECT_TRUE(status.isOk()) << status.message();
  }
}

TEST(Grouping, VerifyRejectsALostSample) {
  auto dims = rules(8, 64, 1);
  std::vector<int64_t> sizes = {1, 5, 1, 9};
  GroupingProblem problem{dims, sizes, 2};
  auto groups = group(problem);
  groups[0].count = 1;
  EXPECT_FALSE(verify(problem, groups).isOk());
}

} // namespace

// The scheduling problem that a plan poses.
#include "executor/core/topology.h"

#include "plan/plan.h"
#include "test/plan/example.h"

#include <gtest/gtest.h>

using namespace maestro;
using namespace maestro::executor;

namespace {

TEST(Topology, MicroBatchesKeepToThePlansCapacities) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  auto area = std::make_unique<plan::fb::AreaT>();
  area->rows = builder.symbolIndex("batch");
  area->padded = builder.symbolIndex("seq");
  area->value = 48;
  auto &areas = builder.plan().executables[plan::test::kStudent]->areas;
  areas.clear();
  areas.push_back(std::move(area));
  auto loaded = plan::Plan::fromBytes(plan::test::packUnverified(builder.plan()));
  ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
  Topology topology(*loaded);
  wavefront::Problem problem = makeProblem(*loaded, topology, {});
  ASSERT_EQ(problem.sections[0].areas.size(), 1u);
  EXPECT_EQ(problem.sections[0].areas[0].capacity, 72) << "the example's";
  const wavefront::Section &student = problem.sections[plan::test::kStudent];
  ASSERT_EQ(student.areas.size(), 1u);
  int64_t dims[] = {4, 12, 0}; // batch, seq, images
  EXPECT_TRUE(wavefront::fits(student, 4, dims));
  dims[1] = 13;
  EXPECT_FALSE(wavefront::fits(student, 4, dims)) << "52 padded tokens, at most 48";
  dims[0] = 3;
  EXPECT_TRUE(wavefront::fits(student, 3, dims));
  // One micro-batch holds them all where the step is evaluated in one piece.
  problem = makeProblem(*loaded, topology, {.onePiece = true});
  dims[0] = 1000;
  EXPECT_TRUE(wavefront::fits(problem.sections[plan::test::kStudent], 1000, dims));
}

TEST(Topology, SchedulingBeginsWhereThePlanSays) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  auto add = [&](const char *name, double value) {
    auto row = std::make_unique<plan::fb::QuantityT>();
    row->name = name, row->value = value, row->source = "tuned";
    builder.plan().quantities.push_back(std::move(row));
  };
  auto hints = [&](const ProblemOptions &options) {
    auto loaded = plan::Plan::fromBytes(plan::test::packUnverified(builder.plan()));
    EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
    Topology topology(*loaded);
    wavefront::Problem problem = makeProblem(*loaded, topology, options);
    EXPECT_EQ(wavefront::check(problem).message(), "ok");
    return problem.hints;
  };
  EXPECT_TRUE(hints({}).empty());
  add("schedule.micro_batches_per_replica", 24);
  add("schedule.length_bands", 1e300), add("schedule.light_ends", -7); // The nearest that there is.
  add("schedule.of_yesterday", 1);
  ASSERT_EQ(hints({}).size(), 1u);
  EXPECT_EQ(hints({})[0].microBatchesPerReplica, 24);
  EXPECT_EQ(hints({})[0].lengthBands, 64);
  EXPECT_EQ(hints({})[0].lightEnds, 0);
  EXPECT_EQ(hints({})[0].headroom, wavefront::Choice().headroom);
  EXPECT_TRUE(hints({.evaluates = true}).empty());
  add("schedule.3.headroom", 2), add("schedule.9.headroom", 2), add("schedule..headroom", 2);
  ASSERT_EQ(hints({}).size(), 3u);
  EXPECT_EQ(hints({})[0].microBatchesPerReplica, 24);
  EXPECT_EQ(hints({})[1], wavefront::Choice());
  EXPECT_EQ(hints({})[2].headroom, 2);
}

} // namespace

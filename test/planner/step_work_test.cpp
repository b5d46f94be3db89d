// A step's work is that of its samples: of short ones little, whatever micro-batches may hold.
#include "planner/driver/step_work.h"

#include "plan/dims.h"
#include "plan/plan_generated.h"
#include "test/plan/example.h"

#include "gtest/gtest.h"

namespace maestro::planner {
namespace {

namespace fb = plan::fb;

/// Of the tasks of a step of training, at these sizes of batch, seq and images.
double flopsOf(const fb::PlanT &plan, std::vector<int64_t> sizes) {
  double flops = 0;
  for (const auto &executable : plan.executables) {
    bool trains = plan.sections[executable->section]->trains;
    for (const auto &program : executable->programs) {
      bool runs = program->kind == fb::ProgramKind::Forward || program->kind == fb::ProgramKind::Backward ||
                  program->kind == fb::ProgramKind::WeightGradient;
      std::vector<int64_t> values(plan.exprs.size());
      plan::evaluateDefined(plan.exprs, sizes, values);
      flops += runs && (trains || program->kind == fb::ProgramKind::Forward)
                   ? static_cast<double>(values[program->flops])
                   : 0;
    }
  }
  return flops;
}

TEST(StepWork, IsOfTheSamplesThemselves) {
  fb::PlanT plan = plan::test::exampleBuilder().take();
  std::vector<cost_models::SampleSizes> one = {{1, 20, 2}}, other = {{1, 5, 0}}, both = {{1, 20, 2, 1, 5, 0}},
                                        steps = {one[0], other[0]};
  StepWork large = workOf(plan, one), small = workOf(plan, other);
  EXPECT_EQ(large.flops, flopsOf(plan, {1, 20, 2}));
  EXPECT_EQ(small.flops, flopsOf(plan, {1, 5, 0}));
  EXPECT_LT(small.flops, large.flops);
  EXPECT_EQ(workOf(plan, both).flops, large.flops + small.flops) << "the short one is not padded to the long one";
  EXPECT_EQ(workOf(plan, steps).flops, (large.flops + small.flops) / 2) << "the mean of two steps";
  EXPECT_EQ(large.tokens, 20);
  double sum = 0;
  for (const SectionWork &section : large.sections)
    sum += section.flops;
  EXPECT_EQ(sum, large.flops) << "sections' work is the step's";
  EXPECT_EQ(workOf(plan, both).tokens, 25);
}

TEST(StepWork, SectionsWithoutRowsDoNothing) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  builder.plan().sections[plan::test::kStudent]->active = {builder.symbolIndex("images")};
  fb::PlanT plan = builder.take();
  std::vector<cost_models::SampleSizes> with = {{1, 8, 1}}, without = {{1, 8, 0}};
  EXPECT_GT(workOf(plan, with).flops, workOf(plan, without).flops);
  EXPECT_GT(workOf(plan, without).flops, 0);
  EXPECT_EQ(workOf(plan, without).sections[plan::test::kStudent].flops, 0);
  EXPECT_EQ(workOf(plan, without).sections[plan::test::kStudent].tokens, 0);
}

} // namespace
} // namespace maestro::planner

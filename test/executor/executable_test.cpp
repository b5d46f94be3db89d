// What an executable refuses that the verifier cannot know: sizes of a micro-batch, and calls of kernels.
#include "executor/core/executable.h"
#include "executor/core/job.h"
#include "test/plan/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace maestro;
using namespace maestro::executor;
using testing::HasSubstr;

namespace {

namespace fb = plan::fb;
using plan::test::kStudent;

plan::Plan verified(const fb::PlanT &plan) {
  auto loaded = plan::Plan::fromBytes(plan::test::packUnverified(plan));
  EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
  return *std::move(loaded);
}

/// A tensor of [x, x] in the slot, x = 2^40 · (24 − seq): none at the bounds, and more than 64 bits count below them.
void addGrowingBuffer(plan::PlanBuilder &builder) {
  fb::ExecutableT &student = *builder.plan().executables[kStudent];
  student.areas.clear();
  uint32_t negative = builder.dim(fb::DimOp::Mul, builder.symbolNamed("seq"), builder.constant(-1));
  uint32_t rest = builder.dim(fb::DimOp::Add, builder.constant(24), negative);
  uint32_t wide = builder.dim(fb::DimOp::Mul, rest, builder.constant(int64_t{1} << 40));
  student.buffers.push_back(std::make_unique<fb::BufferT>());
  student.buffers.back()->name = "growing";
  student.buffers.back()->shape = {wide, wide};
  student.buffers.back()->region = 5;
}

class ExecutableTest : public testing::Test {
protected:
  /// The student of a plan that outlives the test.
  Result<std::unique_ptr<ExecutableInstance>> create(const plan::PlanBuilder &builder) {
    loaded.emplace(verified(const_cast<plan::PlanBuilder &>(builder).plan()));
    return ExecutableInstance::create(*loaded, kStudent, *device);
  }

  std::optional<plan::Plan> loaded;
  std::unique_ptr<Device> device = createCpuDevice(kernels::createCpuLibrary(), {});
};

TEST_F(ExecutableTest, RefusesSizesThatOverflowBelowTheBounds) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  addGrowingBuffer(builder);
  auto student = create(builder);
  ASSERT_TRUE(student.isOk()) << student.status().message();
  EXPECT_TRUE((*student)->bind(std::vector<int64_t>{4, 24, 2}).isOk());
  auto shorter = (*student)->bind(std::vector<int64_t>{4, 8, 2});
  ASSERT_FALSE(shorter.isOk());
  EXPECT_THAT(std::string(shorter.status().message()),
              HasSubstr("student: a buffer (growing) needs 18446744073709551615 bytes"));
}

TEST_F(ExecutableTest, RefusesAResultOverAnOperandThatIsReadAgain) {
  auto student = create(plan::test::exampleBuilder());
  ASSERT_TRUE(student.isOk()) << student.status().message();
  BoundShapes *shapes = *(*student)->bindBounds();
  Status status = (*student)->launch(fb::ProgramKind::Forward, *shapes, 0, 0);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("student: dropout of student.drop writes a result over its operand 0"));
}

TEST_F(ExecutableTest, GrowthOutOfAllProportionIsRefused) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  plan::Plan plan = verified(builder.plan());
  EXPECT_EQ(*growthFor(plan, std::vector<int64_t>{4, 24, 2}), 1u);
  EXPECT_EQ(*growthFor(plan, std::vector<int64_t>{16, 24, 2}), 4u);
  auto large = growthFor(plan, std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40, 2});
  ASSERT_FALSE(large.isOk());
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("use a smaller train.global_batch"));
}

TEST(JobTest, RefusesEdgesOfFormat10) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  builder.plan().version_minor = 0;
  plan::Plan plan = verified(builder.plan());
  auto job = Job::create(plan, {});
  ASSERT_FALSE(job.isOk());
  EXPECT_EQ(job.status().code(), StatusCode::InvalidInput);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("the plan has 1 and format 1.0"));
}

} // namespace

// What a rank does in a step: messages between sections whose micro-batches differ, and where each sample's rows lie.
#include "executor/core/rank_work.h"

#include "plan/plan.h"
#include "test/plan/example.h"

#include <gtest/gtest.h>

using namespace maestro;
using namespace maestro::executor;
using wavefront::Schedule;
using wavefront::TaskKind;

namespace {

/// A teacher on rank 0 and a student on rank 1, joined by one edge, and a batch of three samples.
struct Bench {
  explicit Bench(plan::PlanBuilder builder = plan::test::exampleBuilder()) : plan(load(builder)), topology(plan) {
    problem = makeProblem(plan, topology, {});
    problem.sizes = {1, 5, 2, 1, 3, 0, 1, 12, 1}; // batch, seq, images
  }

  static plan::Plan load(plan::PlanBuilder &builder) {
    auto loaded = plan::Plan::fromBytes(plan::test::packUnverified(builder.plan()));
    EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
    return *std::move(loaded);
  }

  uint32_t group(uint32_t section, std::vector<uint32_t> samples) {
    wavefront::MicroBatch group;
    group.section = section;
    group.firstSample = static_cast<uint32_t>(schedule.samples.size());
    group.samples = static_cast<uint32_t>(samples.size());
    group.firstDim = static_cast<uint32_t>(schedule.dims.size());
    std::vector<int64_t> dims(problem.dims.size(), 0);
    for (uint32_t sample : samples)
      for (size_t d = 0; d < dims.size(); ++d)
        dims[d] = wavefront::combine(problem.dims[d], dims[d], problem.sizes[sample * dims.size() + d]);
    schedule.samples.insert(schedule.samples.end(), samples.begin(), samples.end());
    schedule.dims.insert(schedule.dims.end(), dims.begin(), dims.end());
    schedule.microBatches.push_back(group);
    return static_cast<uint32_t>(schedule.microBatches.size() - 1);
  }

  void order(std::vector<std::vector<std::pair<uint32_t, TaskKind>>> devices) {
    schedule.deviceTasks = {0};
    for (const auto &device : devices) {
      for (auto [microBatch, kind] : device)
        schedule.tasks.push_back({microBatch, 0, kind, 0, 0});
      schedule.deviceTasks.push_back(static_cast<uint32_t>(schedule.tasks.size()));
    }
  }

  plan::Plan plan;
  Topology topology;
  wavefront::Problem problem;
  Schedule schedule;
};

constexpr TaskKind kForward = TaskKind::Forward, kBackward = TaskKind::Backward;

/// Two micro-batches of the teacher, {0, 1} and {2}; two of the student, {1, 2} and {0}.
struct Regrouped : Bench {
  Regrouped() {
    first = group(0, {0, 1}), second = group(0, {2});
    pair = group(1, {1, 2}), single = group(1, {0});
    order({{{first, kForward}, {second, kForward}},
           {{pair, kForward}, {single, kForward}, {single, kBackward}, {pair, kBackward}}});
  }
  uint32_t first, second, pair, single;
};

uint64_t offset(const Box &box) { return box.source; }

TEST(RankWork, OneMessagePerMicroBatchThatSharesASample) {
  Regrouped bench;
  RankWork order(bench.plan, bench.topology, 0);
  ASSERT_TRUE(order.build(bench.problem, bench.schedule, false).isOk());
  ASSERT_EQ(order.tasks().size(), 2u);
  auto sends = order.sendsOf(order.tasks()[0]);
  ASSERT_EQ(sends.size(), 2u);
  EXPECT_EQ(sends[0].microBatch, bench.single);
  EXPECT_EQ(sends[0].sequence, 1u); // The student takes it second.
  EXPECT_EQ(sends[1].microBatch, bench.pair);
  EXPECT_EQ(sends[1].sequence, 0u);
  EXPECT_EQ(order.sendsOf(order.tasks()[1]).size(), 1u);
  EXPECT_TRUE(order.receivesOf(order.tasks()[0]).empty());
}

/// [batch, seq, 8] f32; seq is padded to a multiple of 8: 8 in the teacher's first micro-batch, 16 in the student's
/// pair.
TEST(RankWork, PaddedRowsGoToTheirFinalPlace) {
  Regrouped bench;
  RankWork order(bench.plan, bench.topology, 0);
  ASSERT_TRUE(order.build(bench.problem, bench.schedule, false).isOk());
  const Send &toPair = order.sendsOf(order.tasks()[0])[1];
  ASSERT_EQ(toPair.boxes, 1u);
  const Box &box = order.boxesOf(toPair)[0]; // Sample 1: row 1 there, row 0 here.
  EXPECT_EQ(offset(box), 8u * 32);
  EXPECT_EQ(box.destination, 0u);
  EXPECT_EQ(box.elementBytes, 3u * 32); // Without padding.
  ASSERT_EQ(box.rank, 1u);
  EXPECT_EQ(box.extents[0], 1u);
  EXPECT_EQ(box.sourceStrides[0], 8 * 32);
  EXPECT_EQ(box.destinationStrides[0], 16 * 32);
  EXPECT_EQ(toPair.rows, 1u);
  EXPECT_EQ(toPair.bytes, 3u * 32);
  const Send &longest = order.sendsOf(order.tasks()[1])[0];
  EXPECT_EQ(order.boxesOf(longest)[0].destination, 16u * 32); // Sample 2: row 1 of the pair.
  EXPECT_EQ(longest.bytes, 12u * 32);
}

TEST(RankWork, AHeldSlotIsGivenBackByTheBackwardTask) {
  Regrouped bench;
  RankWork order(bench.plan, bench.topology, 1);
  ASSERT_TRUE(order.build(bench.problem, bench.schedule, false).isOk());
  ASSERT_EQ(order.tasks().size(), 4u);
  const uint32_t posts[] = {2, 1, 1, 2};
  const uint64_t sequences[] = {0, 1, 1, 0};
  for (size_t t = 0; t < 4; ++t) {
    auto receives = order.receivesOf(order.tasks()[t]);
    ASSERT_EQ(receives.size(), 1u) << t;
    EXPECT_EQ(receives[0].posts, posts[t]) << t;
    EXPECT_EQ(receives[0].sequence, sequences[t]) << t;
    EXPECT_EQ(receives[0].last, t >= 2) << t;
  }
}

TEST(RankWork, EvaluationGivesSlotsBackAtOnce) {
  Regrouped bench;
  bench.schedule.tasks.resize(4);
  bench.schedule.deviceTasks = {0, 2, 4};
  RankWork order(bench.plan, bench.topology, 1);
  ASSERT_TRUE(order.build(bench.problem, bench.schedule, true).isOk());
  for (const RankTask &task : order.tasks())
    EXPECT_TRUE(order.receivesOf(task)[0].last);
}

TEST(RankWork, SequencesContinueOverSteps) {
  Regrouped bench;
  RankWork sender(bench.plan, bench.topology, 0), receiver(bench.plan, bench.topology, 1);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(sender.build(bench.problem, bench.schedule, false).isOk());
    ASSERT_TRUE(receiver.build(bench.problem, bench.schedule, false).isOk());
    EXPECT_EQ(sender.sendsOf(sender.tasks()[0])[1].sequence, 2 * step);
    EXPECT_EQ(receiver.receivesOf(receiver.tasks()[1])[0].sequence, 2 * step + 1);
  }
}

/// The example with the edge over images, [4*images, 8]: 2 of sample 0, none of sample 1, 1 of sample 2.
plan::PlanBuilder overImages(bool active) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  auto &plan = builder.plan();
  uint32_t images = builder.symbolIndex("images");
  std::vector<uint32_t> shape = {builder.dim(plan::fb::DimOp::Mul, builder.symbolNamed("images"), builder.constant(4)),
                                 builder.constant(8)};
  plan.edges[0]->shape = plan.executables[0]->buffers[2]->shape = plan.executables[1]->buffers[25]->shape = shape;
  if (active)
    plan.sections[0]->active = {images};
  return builder;
}

TEST(RankWork, RowsOfAModalityLieOneAfterTheOther) {
  Bench bench(overImages(true));
  uint32_t encoded = bench.group(0, {0, 2}), text = bench.group(1, {1}), rest = bench.group(1, {2, 0});
  bench.order({{{encoded, kForward}}, {{text, kForward}, {rest, kForward}, {rest, kBackward}, {text, kBackward}}});
  RankWork sender(bench.plan, bench.topology, 0), receiver(bench.plan, bench.topology, 1);
  ASSERT_TRUE(sender.build(bench.problem, bench.schedule, false).isOk());
  ASSERT_TRUE(receiver.build(bench.problem, bench.schedule, false).isOk());
  auto sends = sender.sendsOf(sender.tasks()[0]);
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_EQ(sends[0].rows, 12u);
  auto boxes = sender.boxesOf(sends[0]);
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].rank, 0u); // One run of bytes.
  EXPECT_EQ(boxes[0].elementBytes, 8u * 32);
  EXPECT_EQ(offset(boxes[0]), 0u);
  EXPECT_EQ(boxes[0].destination, 4u * 32);
  EXPECT_EQ(boxes[1].elementBytes, 4u * 32);
  EXPECT_EQ(offset(boxes[1]), 8u * 32);
  EXPECT_EQ(boxes[1].destination, 0u);
  EXPECT_EQ(receiver.receivesOf(receiver.tasks()[0])[0].posts, 0u); // Nobody has an image.
  EXPECT_EQ(receiver.receivesOf(receiver.tasks()[1])[0].posts, 1u);
}

/// A producer that every sample visits posts a message also where the sample has no rows for it.
TEST(RankWork, AMessageWithoutRowsIsPosted) {
  Bench bench(overImages(false));
  uint32_t all = bench.group(0, {0, 1, 2}), text = bench.group(1, {1}), rest = bench.group(1, {2, 0});
  bench.order({{{all, kForward}}, {{text, kForward}, {rest, kForward}, {rest, kBackward}, {text, kBackward}}});
  RankWork sender(bench.plan, bench.topology, 0), receiver(bench.plan, bench.topology, 1);
  ASSERT_TRUE(sender.build(bench.problem, bench.schedule, false).isOk());
  ASSERT_TRUE(receiver.build(bench.problem, bench.schedule, false).isOk());
  auto sends = sender.sendsOf(sender.tasks()[0]);
  ASSERT_EQ(sends.size(), 2u);
  EXPECT_EQ(sends[1].microBatch, text);
  EXPECT_EQ(sends[1].boxes, 0u);
  EXPECT_EQ(sends[1].bytes, 0u);
  EXPECT_EQ(sends[0].boxes, 2u);
  EXPECT_EQ(receiver.receivesOf(receiver.tasks()[0])[0].posts, 1u);
}

/// Rows that do not add up: two samples of one row each in a micro-batch of one.
TEST(RankWork, RefusesShapesThatDoNotHoldTheirSamples) {
  plan::PlanBuilder builder = overImages(false);
  uint32_t rounded = builder.dim(plan::fb::DimOp::CeilDiv, builder.symbolNamed("images"), builder.constant(4));
  std::vector<uint32_t> shape = {rounded, builder.constant(8)};
  auto &plan = builder.plan();
  plan.edges[0]->shape = plan.executables[0]->buffers[2]->shape = plan.executables[1]->buffers[25]->shape = shape;
  Bench bench(std::move(builder));
  bench.group(0, {0, 1, 2});
  bench.group(1, {0, 1, 2});
  bench.order({{{0, kForward}}, {{1, kForward}, {1, kBackward}}});
  RankWork order(bench.plan, bench.topology, 0);
  Status status = order.build(bench.problem, bench.schedule, false);
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("edges[0].shape[0]: a sample's"), std::string::npos) << status.message();
}

} // namespace

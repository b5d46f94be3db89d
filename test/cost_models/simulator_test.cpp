#include "cost_models/collectives.h"
#include "cost_models/in_flight.h"
#include "cost_models/sample_sizes.h"
#include "cost_models/simulations.h"
#include "cost_models/simulator.h"

#include <gtest/gtest.h>

#include <cmath>

namespace maestro::cost_models {
namespace {

/// A frozen section before a trained one; 1 µs a sample for each task, 2 µs for a backward.
CompoundModel pair() {
  CompoundModel model;
  model.dims = {{"batch", true, 1}};
  model.microBatches = {1, 2};
  std::vector<MicroBatchCapacity> capacities{{1, {1}, {}}, {2, {2}, {}}};
  wavefront::Cost one{{{1'000'000, {0}}}}, two{{{2'000'000, {0}}}};
  StageModel frozen{{1000, 0, 0}, {{one, {}, 10, 5, 1}, {one, {}, 20, 6, 1}}};
  StageModel trained{{1000, 1000, 2000}, {{one, two, 100, 7, 1}, {one, two, 200, 8, 1}}};
  model.sections = {{"teacher", false, {}, capacities, {frozen}}, {"student", true, {}, capacities, {trained}}};
  model.edges = {{0, 0, 1, 0, false, false, {}, {30, 60}, {}}};
  return model;
}

Machine machineOf(uint32_t devices, double streamBytesPerSecond) {
  Machine machine;
  machine.devices = devices;
  machine.kinds[0].rates.stream = BytesPerSecond(streamBytesPerSecond);
  machine.kinds[0].rates.wake = Seconds(0);
  return machine;
}

CompoundLayout on(std::vector<std::vector<uint32_t>> teacher, std::vector<std::vector<uint32_t>> student) {
  return {{0, std::move(teacher)}, {0, std::move(student)}};
}

TEST(Simulator, OneDeviceDoesAllTheWork) {
  std::vector<SampleSizes> steps{{1, 1, 1, 1}};
  Machine machine = machineOf(1, 1e9);
  auto result = Simulator(steps).run(pair(), machine, on({{0}}, {{0}}), wavefront::Order::Wavefront);
  ASSERT_TRUE(result.isOk()) << result.status().message();
  EXPECT_NEAR(result->makespanSeconds, 16e-6, 1e-12);    // 4 samples · (1 + 1 + 2) µs
  EXPECT_NEAR(result->stepSeconds, 16e-6 + 9e-6, 1e-12); // and 9,000 bytes at 1 GB/s
  EXPECT_NEAR(result->lowerBoundSeconds, 16e-6, 1e-12);
  EXPECT_NEAR(result->sections[0].busySeconds, 4e-6, 1e-12);
  EXPECT_NEAR(result->sections[1].busySeconds, 12e-6, 1e-12);
  EXPECT_NEAR(result->sections[1].idleSeconds, 0, 1e-12);
  EXPECT_EQ(result->sections[0].microBatches, 4);
}

TEST(Simulator, ApartTheyOverlap) {
  std::vector<SampleSizes> steps{{1, 1, 1, 1}};
  Machine machine = machineOf(2, 1e18);
  auto result = Simulator(steps).run(pair(), machine, on({{0}}, {{1}}), wavefront::Order::Wavefront);
  ASSERT_TRUE(result.isOk()) << result.status().message();
  EXPECT_NEAR(result->makespanSeconds, 13e-6,
              1e-12); // The student waits for the first sample and then works without a pause.
  EXPECT_NEAR(result->deviceBusySeconds[0], 4e-6, 1e-12);
  EXPECT_TRUE(
      result->runsAhead); // The teacher does not wait for the student's update: a steady step is the student's work.
  EXPECT_NEAR(result->stepSeconds, 12e-6, 1e-12);
  EXPECT_NEAR(result->sections[0].idleSeconds, 8e-6, 1e-12);
}

TEST(Simulator, ReplicasReduceTheirGradients) {
  std::vector<SampleSizes> steps{{1, 1, 1, 1}};
  Machine machine = machineOf(2, 1e9);
  auto result = Simulator(steps).run(pair(), machine, on({{0}, {1}}, {{0}, {1}}), wavefront::Order::Wavefront);
  ASSERT_TRUE(result.isOk()) << result.status().message();
  EXPECT_NEAR(result->makespanSeconds, 8e-6, 1e-12);
  EXPECT_NEAR(reductionSeconds(1000, std::vector<uint32_t>{0, 1}, machine).value, 5.5e-6, 1e-12);
  EXPECT_EQ(reductionSeconds(1000, std::vector<uint32_t>{1}, machine), Seconds(0));
  EXPECT_NEAR(result->stepSeconds, 8e-6 + 9e-6 + 5.5e-6, 1e-12);
}

TEST(Simulator, TasksAndStepsHaveTimesOfTheirOwn) {
  std::vector<SampleSizes> steps{{1, 1, 1, 1}};
  Machine machine = machineOf(2, 1e18);
  CompoundLayout shared = on({{0}, {1}}, {{0}, {1}});
  auto seconds = [&] {
    return Simulator(steps).run(pair(), machine, shared, wavefront::Order::Wavefront)->stepSeconds;
  };
  double plain = seconds();
  machine.kinds[0].rates.step = microseconds(5); // Once, whatever number of sections a device has.
  EXPECT_NEAR(seconds(), plain + 5e-6, 1e-12);
  machine.kinds[0].rates.task =
      microseconds(1); // Two samples a device: the teacher's, and the student's forward and backward.
  EXPECT_NEAR(seconds(), plain + 5e-6 + 6e-6, 1e-12);
}

TEST(Simulations, AreThoseOfOneSimulatorInTheOrderOfQuestions) {
  std::vector<SampleSizes> steps{{1, 1, 1, 1}, {1, 1}};
  Machine machine = machineOf(3, 1e9);
  std::vector<CompoundLayout> layouts{on({{0}}, {{1}}), on({{0}}, {{0}}), on({{0}}, {{7}}), on({{0}, {1}}, {{2}}),
                                      on({{0}, {1}}, {{0}, {1}})};
  std::vector<SimulationQuestion> questions;
  for (int i = 0; i < 20; ++i)
    questions.push_back({std::make_shared<const CompoundModel>(pair()), &machine,
                         layouts[static_cast<size_t>(i) % layouts.size()], wavefront::Order::Wavefront});
  Simulations simulations(steps, UINT64_MAX);
  EXPECT_GE(simulations.atOnce(), 1u);
  std::vector<Result<Simulation>> answers = simulations.run(questions);
  ASSERT_EQ(answers.size(), questions.size());
  for (size_t i = 0; i < questions.size(); ++i) {
    Result<Simulation> alone =
        Simulator(steps).run(*questions[i].model, machine, questions[i].layout, questions[i].order);
    ASSERT_EQ(answers[i].isOk(), alone.isOk()) << i;
    if (alone.isOk())
      EXPECT_EQ(answers[i]->stepSeconds, alone->stepSeconds) << i;
    else
      EXPECT_EQ(answers[i].status().message(), alone.status().message());
  }
  EXPECT_TRUE(simulations.run({}).empty());
}

TEST(Simulator, TasksAreShorterBesideIdleDevices) {
  std::vector<SampleSizes> steps{{1, 1, 1, 1}};
  Machine machine = machineOf(2, 1e18);
  auto seconds = [&](const CompoundLayout &layout) {
    return Simulator(steps).runTuned(pair(), machine, layout)->makespanSeconds;
  };
  CompoundLayout one = on({{0}}, {{0}}), both = on({{0}, {1}}, {{0}, {1}}), apart = on({{0}}, {{1}});
  double alone = seconds(one), together = seconds(both), partly = seconds(apart);
  machine.kinds[0].rates.alone = 0.5;
  EXPECT_EQ(seconds(one), alone); // Nothing says that others worked when it was measured.
  machine.kinds[0].atOnce = 2;
  EXPECT_NEAR(seconds(one), alone / 2, 1e-12);
  EXPECT_NEAR(seconds(both), together, 1e-12);
  EXPECT_LT(seconds(apart), partly);
  EXPECT_GT(seconds(apart), partly / 2);
  machine.kinds[0].atOnce = 3; // One other is half the company.
  EXPECT_NEAR(seconds(both), 0.75 * together, 1e-12);
}

TEST(Simulator, DevicesThatWorkAtTheSameTimeWaitForTheSlowest) {
  std::vector<SampleSizes> steps{{1, 1, 1, 1}};
  Machine machine = machineOf(2, 1e18);
  auto seconds = [&](const CompoundLayout &layout) {
    return Simulator(steps).runTuned(pair(), machine, layout)->makespanSeconds;
  };
  CompoundLayout one = on({{0}}, {{0}}), both = on({{0}, {1}}, {{0}, {1}});
  double alone = seconds(one), together = seconds(both);
  machine.kinds[0].rates.together = 1.25;
  EXPECT_EQ(seconds(both), together); // Nothing says how many were compared.
  machine.kinds[0].atOnce = 2;
  EXPECT_NEAR(seconds(one), alone, 1e-12);
  EXPECT_NEAR(seconds(both), 1.25 * together, 1e-12);
}

TEST(Simulator, DevicesWaitForTheHostWhereNoProcessorIsLeft) {
  std::vector<SampleSizes> steps{{1, 1, 1, 1}};
  Machine machine = machineOf(2, 1e18);
  auto seconds = [&](const CompoundLayout &layout) {
    return Simulator(steps).runTuned(pair(), machine, layout)->stepSeconds;
  };
  CompoundLayout one = on({{0}}, {{0}}), both = on({{0}, {1}}, {{0}, {1}}), apart = on({{0}}, {{1}});
  double alone = seconds(one), together = seconds(both), partly = seconds(apart);
  machine.kinds[0].rates.host = microseconds(8);
  EXPECT_NEAR(seconds(one), alone + 8e-6, 1e-12); // It has all processors.
  machine.kinds[0].atOnce = 2;
  EXPECT_NEAR(seconds(one), alone, 1e-12);
  EXPECT_NEAR(seconds(both), together + 4e-6, 1e-12); // Once, whatever number of sections a device has.
  EXPECT_GT(seconds(apart), partly);
  EXPECT_LT(seconds(apart), partly + 4e-6);
}

TEST(Simulator, BytesOfEachDevice) {
  CompoundModel model = pair();
  Machine machine = machineOf(2, 1e9);
  CompoundLayout layout = on({{0}}, {{1}});
  layout[0].microBatch =
      1; // Larger than the student's: one of the teacher's tasks fills two slots, and eight may wait.
  std::vector<uint64_t> bytes = deviceBytes(model, machine, layout);
  EXPECT_EQ(bytes[0], 1000u + 20 + 6 + 1);
  EXPECT_EQ(bytes[1], 4000u + 100 + 7 + 1 + 10 * 30);
}

TEST(Simulator, RefusesWhatDoesNotFitTogether) {
  std::vector<SampleSizes> steps{{1, 1}};
  Machine machine = machineOf(1, 1e9);
  auto message = [&](const CompoundModel &model, const CompoundLayout &layout) {
    return std::string(Simulator(steps).run(model, machine, layout, wavefront::Order::Wavefront).status().message());
  };
  EXPECT_NE(message(pair(), on({{0}}, {{1}})).find("device 1 of 1"), std::string::npos);
  EXPECT_NE(message(pair(), on({{0, 0}}, {{0}})).find("1 stages"), std::string::npos);
  CompoundModel model = pair();
  model.edges[0].slotBytes.pop_back();
  EXPECT_NE(message(model, on({{0}}, {{0}})).find("slot sizes"), std::string::npos);
}

TEST(InFlight, AChainHasTwoMorePerStageBefore) {
  std::vector<StageFlow> stages{{0, 4}, {0, 4}, {0, 4}};
  std::vector<EdgeFlow> edges{{0, 1, true}, {1, 2, true}};
  InFlight limits = microBatchesInFlight(stages, edges);
  EXPECT_EQ(limits.slots, (std::vector<uint32_t>{5, 3, 1}));
  EXPECT_EQ(limits.depth, (std::vector<uint32_t>{7, 5}));
  EXPECT_EQ(limits.gradientDepth, (std::vector<uint32_t>{5, 5}));
}

TEST(InFlight, SmallMicroBatchesGatherForALargeOne) {
  std::vector<StageFlow> stages{{0, 2}, {1, 8}};
  std::vector<EdgeFlow> edges{{0, 1, true}};
  InFlight limits = microBatchesInFlight(stages, edges);
  EXPECT_EQ(limits.slots, (std::vector<uint32_t>{4 * (1 + 4) + 2, 1}));
  EXPECT_EQ(limits.depth, (std::vector<uint32_t>{1 + 8}));
  EXPECT_EQ(limits.gradientDepth, (std::vector<uint32_t>{4 + 8})); // Its backward task sends to four.
}

TEST(InFlight, NoMoreThanAStepHas) {
  std::vector<StageFlow> stages{{0, 2, 2}, {1, 8}};
  std::vector<EdgeFlow> edges{{0, 1, true}};
  EXPECT_EQ(microBatchesInFlight(stages, edges, 40).slots, (std::vector<uint32_t>{10 + 2, 1})); // All that wait.
  EXPECT_EQ(microBatchesInFlight(stages, edges, 16).slots, (std::vector<uint32_t>{4 + 2, 1}));
  EXPECT_EQ(microBatchesInFlight(stages, edges, 3).slots, (std::vector<uint32_t>{1 + 2, 1}));
  EXPECT_EQ(microBatchesInFlight(stages, edges, 2).slots, (std::vector<uint32_t>{2, 1})); // A sample each.
  std::vector<StageFlow> chain{{0, 4}, {0, 4}, {0, 4}};
  EXPECT_EQ(microBatchesInFlight(chain, std::vector<EdgeFlow>{{0, 1, true}, {1, 2, true}}, 4).slots,
            (std::vector<uint32_t>{4, 3, 1}));
}

TEST(InFlight, ReplicasCount) {
  std::vector<EdgeFlow> edges{{0, 1, true}};
  InFlight oneFeedsThree = microBatchesInFlight(std::vector<StageFlow>{{0, 4, 1}, {1, 4, 3}}, edges);
  EXPECT_EQ(oneFeedsThree.slots, (std::vector<uint32_t>{3 * (1 + 4) + 2, 1}));
  EXPECT_EQ(oneFeedsThree.depth, (std::vector<uint32_t>{1 + 8}));         // One task may be all for one replica,
  EXPECT_EQ(oneFeedsThree.gradientDepth, (std::vector<uint32_t>{3 + 8})); // three send to one.
  InFlight threeFeedOne = microBatchesInFlight(std::vector<StageFlow>{{0, 4, 3}, {1, 4, 1}}, edges);
  EXPECT_EQ(threeFeedOne.slots, (std::vector<uint32_t>{2 + 2, 1}));
  EXPECT_EQ(threeFeedOne.depth, (std::vector<uint32_t>{3 + 8}));
}

TEST(InFlight, WithoutGradientsOneIsEnough) {
  InFlight limits =
      microBatchesInFlight(std::vector<StageFlow>{{0, 8, 2}, {1, 4, 2}}, std::vector<EdgeFlow>{{0, 1, false}});
  EXPECT_EQ(limits.slots, (std::vector<uint32_t>{1, 1}));
  EXPECT_EQ(limits.depth, (std::vector<uint32_t>{2 + 8}));
}

TEST(InFlight, OfSamplesThatPassOneSectionByItHoldsNone) {
  std::vector<EdgeFlow> edges{{0, 1, true}};
  auto places = [&](double first, double second, int64_t stepSamples) {
    return microBatchesInFlight(std::vector<StageFlow>{{0, 2, 1, 0, first}, {1, 8, 1, 0, second}}, edges, stepSamples)
        .slots.front();
  };
  EXPECT_EQ(places(1, 1, kAnySamples), 4 * (1 + 4) + 2u);
  EXPECT_EQ(places(0.5, 1, kAnySamples), 2 * (1 + 4) + 2u);
  EXPECT_EQ(places(0.5, 0.5, kAnySamples), 4 * (1 + 4) + 2u); // All that the second one sees come from the first.
  EXPECT_EQ(places(1, 0.5, kAnySamples), 4 * (1 + 4) + 2u);
  EXPECT_EQ(places(0.3, 1, kAnySamples), 6 + 2u);  // Of 40 samples 12.
  EXPECT_EQ(places(0.01, 1, kAnySamples), 4 + 2u); // All 8 of a micro-batch may be such.
  EXPECT_EQ(places(0.01, 1, 4), 2 + 2u);
}

TEST(InFlight, MoreThanUsual) {
  std::vector<EdgeFlow> edges{{0, 1, false}, {1, 2, true}};
  InFlight limits = microBatchesInFlight(std::vector<StageFlow>{{0, 4, 1, 3}, {1, 4, 1, 2}, {1, 4, 1, 2}}, edges);
  EXPECT_EQ(limits.slots,
            (std::vector<uint32_t>{1, 3 + 2, 1 + 2})); // What only runs forward is done with a micro-batch at once.
  EXPECT_EQ(limits.depth, (std::vector<uint32_t>{3 + 8 + 2, 1 + 4 + 2}));
  EXPECT_EQ(limits.gradientDepth[1], 1 + 4 + 2u);
  EXPECT_EQ(
      microBatchesInFlight(std::vector<StageFlow>{{0, 4, 1, 9}, {0, 4, 1, 9}}, std::vector<EdgeFlow>{{0, 1, true}}, 6)
          .slots,
      (std::vector<uint32_t>{6, 6})); // A step has no more samples.
}

TEST(Simulator, TunedIsNoLonger) {
  std::vector<SampleSizes> steps;
  for (size_t samples : {48, 47})
    steps.emplace_back(samples, 1);
  CompoundModel model = pair();
  Machine machine = machineOf(2, 1e9);
  Simulator simulator(steps);
  Result<Simulation> usual = simulator.run(model, machine, on({{0}}, {{1}}), wavefront::Order::Wavefront);
  Result<Simulation> tuned = simulator.runTuned(model, machine, on({{0}}, {{1}}));
  ASSERT_TRUE(usual.isOk() && tuned.isOk()) << usual.status().message() << tuned.status().message();
  EXPECT_LE(tuned->stepSeconds, usual->stepSeconds);
  EXPECT_EQ(!tuned->hints.empty(), tuned->stepSeconds < usual->stepSeconds);
}

TEST(SampleSizes, FollowTheirDistributionsWithinBounds) {
  using Kind = SizeDistribution::Kind;
  std::vector<SizeDistribution> dims{
      {Kind::Constant, 1, 0, 1, 16}, {Kind::Uniform, 0, 3, 0, 3}, {Kind::LogNormal, 512, 0.6, 1, 2048}};
  std::vector<SampleSizes> steps = drawSizes(dims, 4, 1000, 7);
  ASSERT_EQ(steps.size(), 4u);
  double none = 0, above = 0;
  for (const SampleSizes &step : steps) {
    ASSERT_EQ(step.size(), 3000u);
    for (size_t i = 0; i < step.size(); i += 3) {
      EXPECT_EQ(step[i], 1);
      EXPECT_TRUE(step[i + 1] >= 0 && step[i + 1] <= 3);
      EXPECT_TRUE(step[i + 2] >= 1 && step[i + 2] <= 2048);
      none += step[i + 1] == 0;
      above += step[i + 2] > 512;
    }
  }
  EXPECT_NEAR(none / 4000, 0.25, 0.04);
  EXPECT_NEAR(above / 4000, 0.5, 0.04);
  EXPECT_EQ(steps, drawSizes(dims, 4, 1000, 7));
  EXPECT_NE(steps, drawSizes(dims, 4, 1000, 8));
}

TEST(SampleSizes, ATypicalStepIsAsTheMeanOfMany) {
  using Kind = SizeDistribution::Kind;
  std::vector<SizeDistribution> dims{
      {Kind::Constant, 1, 0, 1, 16}, {Kind::Normal, 3, 4, 0, 16}, {Kind::LogNormal, 512, 0.6, 1, 8192}};
  SampleSizes typical = typicalStep(dims, 256, 7);
  ASSERT_EQ(typical.size(), 3 * 256u);
  std::vector<SampleSizes> many = drawSizes(dims, 64, 256, 8);
  for (size_t d = 0; d < dims.size(); ++d) {
    double own = 0, all = 0;
    for (size_t i = d; i < typical.size(); i += 3)
      own += static_cast<double>(typical[i]);
    for (const SampleSizes &step : many)
      for (size_t i = d; i < step.size(); i += 3)
        all += static_cast<double>(step[i]) / 64;
    EXPECT_NEAR(own, all, 0.02 * all) << d; // A step of these has a standard deviation of 5 %.
  }
  double lengths = 0, pictures = 0, both = 0; // Dims do not go together.
  for (size_t i = 0; i < typical.size(); i += 3) {
    pictures += static_cast<double>(typical[i + 1]);
    lengths += static_cast<double>(typical[i + 2]);
    both += static_cast<double>(typical[i + 1] * typical[i + 2]);
  }
  EXPECT_NEAR(both / pictures, lengths / 256, 0.15 * lengths / 256);
  EXPECT_EQ(typical, typicalStep(dims, 256, 7));
  EXPECT_NE(typical, typicalStep(dims, 256, 8));
}

TEST(Simulator, OtherStepsSayHowMuchStepsDiffer) {
  std::vector<SampleSizes> steps{SampleSizes(32, 1)},
      others{SampleSizes(16, 1), SampleSizes(32, 1), SampleSizes(64, 1)};
  CompoundModel model = pair();
  Machine machine = machineOf(2, 1e9);
  CompoundLayout layout = on({{0}}, {{0}});
  Simulator simulator(steps);
  Result<Simulation> own = simulator.run(model, machine, layout, wavefront::Order::Wavefront);
  ASSERT_TRUE(own.isOk());
  EXPECT_EQ(own->meanSeconds, own->stepSeconds);
  double step = own->stepSeconds;
  ASSERT_TRUE(simulator.addSteps(others, model, machine, layout, *own).isOk());
  EXPECT_EQ(own->stepSeconds, step);
  EXPECT_LT(own->leastSeconds, step);
  EXPECT_GT(own->mostSeconds, step);
  EXPECT_GT(own->meanSeconds, step);
}

} // namespace
} // namespace maestro::cost_models

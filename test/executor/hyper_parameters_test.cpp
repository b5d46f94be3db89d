// The learning rate's schedule and the clipping factor against their definitions.
#include "executor/core/hyper_parameters.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace maestro;
using namespace maestro::executor;
namespace fb = maestro::plan::fb;

namespace {

class Schedule : public testing::Test {
protected:
  const fb::Training &table(const fb::TrainingT &training) {
    builder.Finish(fb::CreateTraining(builder, &training));
    return *flatbuffers::GetRoot<fb::Training>(builder.GetBufferPointer());
  }
  flatbuffers::FlatBufferBuilder builder;
};

fb::TrainingT cosine() {
  fb::TrainingT training;
  training.lr = 3e-4;
  training.min_lr = 3e-5;
  training.warmup_steps = 10;
  training.total_steps = 110;
  training.decay = fb::Decay::Cosine;
  return training;
}

TEST_F(Schedule, WarmupIsLinearAndEndsAtTheFullRate) {
  const fb::Training &training = table(cosine());
  EXPECT_DOUBLE_EQ(learningRate(training, 1), 3e-5);
  EXPECT_DOUBLE_EQ(learningRate(training, 10), 3e-4);
}

TEST_F(Schedule, CosineIsHalfWayInTheMiddleAndStaysAtTheMinimum) {
  const fb::Training &training = table(cosine());
  EXPECT_NEAR(learningRate(training, 60), 3e-5 + 0.5 * (3e-4 - 3e-5), 1e-12);
  EXPECT_NEAR(learningRate(training, 110), 3e-5, 1e-12);
  EXPECT_NEAR(learningRate(training, 500), 3e-5, 1e-12);
}

TEST_F(Schedule, LinearFallsByEqualSteps) {
  fb::TrainingT tables = cosine();
  tables.decay = fb::Decay::Linear;
  const fb::Training &training = table(tables);
  double a = learningRate(training, 20), b = learningRate(training, 21), c = learningRate(training, 22);
  EXPECT_NEAR(a - b, b - c, 1e-15);
  EXPECT_GT(a, b);
}

TEST_F(Schedule, WarmupStableDecayFallsAtTheEnd) {
  fb::TrainingT tables = cosine(); // 10 steps of warm-up, 110 in all, from 3e-4 to 3e-5.
  tables.decay = fb::Decay::Wsd;
  tables.decay_steps = 20;
  const fb::Training &training = table(tables);
  EXPECT_DOUBLE_EQ(learningRate(training, 5), 1.5e-4);
  EXPECT_DOUBLE_EQ(learningRate(training, 11), 3e-4);
  EXPECT_DOUBLE_EQ(learningRate(training, 90), 3e-4);
  EXPECT_NEAR(learningRate(training, 100), 3e-5 + 0.5 * (3e-4 - 3e-5), 1e-12);
  EXPECT_NEAR(learningRate(training, 110), 3e-5, 1e-12);
  EXPECT_NEAR(learningRate(training, 500), 3e-5, 1e-12);
}

TEST_F(Schedule, ConstantNeverDecays) {
  fb::TrainingT tables;
  tables.lr = 0.1;
  const fb::Training &training = table(tables);
  EXPECT_DOUBLE_EQ(learningRate(training, 1), 0.1);
  EXPECT_DOUBLE_EQ(learningRate(training, 1000000), 0.1);
}

TEST_F(Schedule, ClippingOnlyShrinks) {
  fb::TrainingT tables;
  tables.clip_grad_norm = 1.0;
  const fb::Training &training = table(tables);
  EXPECT_DOUBLE_EQ(clipFactor(training, 0.5), 1.0);
  EXPECT_NEAR(clipFactor(training, 4.0), 0.25, 1e-6);
}

TEST_F(Schedule, AdamsBiasCorrectionsAreThoseOfTheStep) {
  fb::TrainingT tables;
  tables.lr = 0.1;
  tables.beta1 = 0.9;
  tables.beta2 = 0.99;
  auto values = hyperParameters(table(tables), 0, 2, 2, 0.5);
  EXPECT_FLOAT_EQ(values[1], static_cast<float>(1 - 0.81));
  EXPECT_FLOAT_EQ(values[2], static_cast<float>(1 - 0.9801));
  EXPECT_FLOAT_EQ(values[3], 0.5f);
  EXPECT_FLOAT_EQ(values[4], 2.0f);
}

} // namespace

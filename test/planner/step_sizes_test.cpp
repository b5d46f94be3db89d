// The samples that plans are simulated with: of data where it tells, else as declared, else at the bounds; each with
// its source.
#include "planner/driver/step_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace maestro::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  Case() {
    workload.train.globalBatch = 2;
    graph.dims = {
        {"batch", true, 1, 1, 1}, {"seq", false, 100, 8, 1}, {"images", true, 8, 1, 1}, {"frames", false, 50, 1, 1}};
    GraphField ids, pixels, mask;
    ids.name = "ids";
    ids.shape = {DimExpr::symbol("batch"), DimExpr::symbol("seq")};
    pixels.name = "pixels";
    pixels.shape = {DimExpr::symbol("images"), DimExpr(3)};
    pixels.optional = true;
    mask.name = "mask";
    mask.shape = {DimExpr::symbol("batch"), DimExpr::symbol("frames")}; // That no sample carries.
    mask.ownPositions = true;
    graph.fields = {ids, pixels, mask};
  }

  StepSizes take(const ReadSizes &read) {
    auto sizes = stepSizes(workload, graph, read);
    EXPECT_TRUE(sizes.isOk()) << sizes.status().message();
    return sizes.isOk() ? std::move(*sizes) : StepSizes();
  }
  static const Quantity &quantity(const StepSizes &sizes, const std::string &name) {
    return *std::find_if(sizes.quantities.begin(), sizes.quantities.end(),
                         [&](const Quantity &q) { return q.name == name; });
  }

  Workload workload;
  GraphSummary graph;
};

TEST(StepSizes, DataTellsAndIsNamed) {
  Case c;
  DataQuestion asked;
  StepSizes sizes = c.take([&](const DataQuestion &question) -> Result<DataSizes> {
    asked = question;
    return DataSizes{{1, 10, 0, 0, 1, 20, 3, 0, 1, 30, 5, 0}, "all 3 samples of 1 shard ('a.tar')"};
  });
  ASSERT_EQ(asked.fields.size(), 3u);
  EXPECT_EQ(asked.fields[1].shape[0].dim, 2);
  EXPECT_EQ(asked.fields[1].shape[1].fixed, 3);
  EXPECT_TRUE(asked.fields[1].optional);
  EXPECT_TRUE(asked.fields[2].ownPositions);
  // Four steps of two samples, from equally distant places, the data repeated; frames, which it does not tell, at their
  // bound.
  ASSERT_EQ(sizes.steps.size(), 4u);
  EXPECT_THAT(sizes.steps[0], ElementsAre(1, 10, 0, 50, 1, 20, 3, 50));
  EXPECT_THAT(sizes.steps[3], ElementsAre(1, 30, 5, 50, 1, 10, 0, 50));
  EXPECT_EQ(Case::quantity(sizes, "sizes.seq.mean").value, 20);
  EXPECT_EQ(Case::quantity(sizes, "sizes.seq.most").value, 30);
  EXPECT_EQ(Case::quantity(sizes, "sizes.seq.mean").source, "read from headers: all 3 samples of 1 shard ('a.tar')");
  EXPECT_THAT(Case::quantity(sizes, "sizes.frames.mean").source, HasSubstr("assumed"));
  EXPECT_EQ(c.graph.dims[2].typical, 4); // Of the samples that have images.
  EXPECT_EQ(c.graph.dims[1].typical, 20);
  EXPECT_EQ(c.graph.dims[2].presence, 2.0 / 3);
  EXPECT_EQ(c.graph.dims[1].presence, 1);
}

TEST(StepSizes, AllOfTheDataLowersWhatModelsAloneSay) {
  auto read = [](bool isWhole) {
    return [=](const DataQuestion &) -> Result<DataSizes> {
      return DataSizes{{1, 10, 0, 0, 1, 2001, 3, 0}, "data", isWhole};
    };
  };
  Case whole, part, declared;
  for (Case *c : {&whole, &part, &declared}) {
    c->graph.dims[1].max = 131'072;
    c->graph.dims[1].maxIsSaid = c != &declared;
  }
  whole.graph.dims[3].max = 4096; // Which no field tells.
  whole.graph.dims[3].maxIsSaid = true;
  StepSizes sizes = whole.take(read(true));
  EXPECT_EQ(whole.graph.dims[1].max, 2008); // A multiple of 8.
  EXPECT_EQ(whole.graph.dims[3].max, 4096);
  EXPECT_THAT(sizes.notes, ElementsAre("dims.seq: max 2008, as no sample is longer; the model allows 131072"));
  EXPECT_THAT(Case::quantity(sizes, "sizes.seq.bound").source, HasSubstr("no sample is longer (data)"));
  part.take(read(false));
  declared.take(read(true));
  EXPECT_EQ(part.graph.dims[1].max, 131'072);
  EXPECT_EQ(declared.graph.dims[1].max, 131'072);
  Case shorter; // Not below the default, nor above what the model says.
  shorter.graph.dims[1].max = 4096;
  shorter.graph.dims[1].maxIsSaid = true;
  shorter.take([](const DataQuestion &) -> Result<DataSizes> { return DataSizes{{1, 10, 0, 0}, "data", true}; });
  EXPECT_EQ(shorter.graph.dims[1].max, 1024);
}

TEST(StepSizes, WithoutDataAsDeclaredElseAtTheBounds) {
  Case c;
  c.workload.synthetic["images"] = {SizeDistribution::Kind::Constant, 2, 0};
  StepSizes sizes = c.take(nullptr);
  ASSERT_EQ(sizes.steps.size(), 1u); // Nothing varies.
  EXPECT_THAT(sizes.steps[0], ElementsAre(1, 100, 2, 50, 1, 100, 2, 50));
  EXPECT_EQ(Case::quantity(sizes, "sizes.images.mean").source, "declared: synthetic.images");
  EXPECT_THAT(Case::quantity(sizes, "sizes.seq.mean").source, HasSubstr("at the bound"));
  EXPECT_EQ(c.graph.dims[2].typical, 2);
  EXPECT_TRUE(sizes.data.empty());
}

TEST(StepSizes, OfManySamplesOneStepIsTypicalAndOthersAreAsTheyCome) {
  Case c;
  c.workload.train.globalBatch = 256;
  c.workload.synthetic["images"] = {SizeDistribution::Kind::Uniform, 0, 7};
  StepSizes sizes = c.take(nullptr);
  ASSERT_EQ(sizes.steps.size(), 1u);
  ASSERT_EQ(sizes.others.size(), 4u);
  auto images = [](const cost_models::SampleSizes &step) {
    int64_t sum = 0;
    for (size_t i = 2; i < step.size(); i += 4)
      sum += step[i];
    return static_cast<double>(sum) / 256;
  };
  EXPECT_NEAR(images(sizes.steps[0]), 3.5, 0.05);
  EXPECT_NE(images(sizes.others[0]), images(sizes.others[1]));
  c.workload.synthetic.clear();
  sizes = c.take(nullptr);
  EXPECT_EQ(sizes.steps.size(), 1u); // All are alike.
  EXPECT_TRUE(sizes.others.empty());
}

TEST(StepSizes, WhatIsReadComesBeforeWhatIsDeclared) {
  Case c;
  c.workload.synthetic["seq"] = {SizeDistribution::Kind::Uniform, 90, 100};
  StepSizes sizes = c.take([](const DataQuestion &) -> Result<DataSizes> { return DataSizes{{1, 7, 0, 0}, "data"}; });
  for (const cost_models::SampleSizes &step : sizes.steps)
    EXPECT_EQ(step[1], 7);
}

TEST(StepSizes, WhatTheReaderSaysIsPassedOn) {
  Case c;
  auto sizes = stepSizes(c.workload, c.graph, [](const DataQuestion &) -> Result<DataSizes> {
    return Status::invalidInput("shard 'a.tar' is cut off");
  });
  ASSERT_FALSE(sizes.isOk());
  EXPECT_EQ(std::string(sizes.status().message()), "shard 'a.tar' is cut off");
}

} // namespace
} // namespace maestro::planner

// What chains of atoms add up to, and problems as one of their equal parts.
#include "cost_models/atoms.h"
#include "cost_models/fold.h"

#include <gtest/gtest.h>

namespace maestro::cost_models {
namespace {

wavefront::Cost cost(int64_t picoseconds) { return {{{picoseconds, {0}}}}; }

StageModel stage(uint64_t bytes, int64_t picoseconds, uint64_t slot, uint64_t workspace) {
  return {{bytes / 4, bytes / 4, bytes / 2}, {{cost(picoseconds), cost(2 * picoseconds), slot, workspace, 10, {}}}};
}

/// An embedding, four layers, a head; a pair of layers costs 190 where one costs 100, and keeps 230 where one keeps
/// 100.
AtomicModel chain() {
  AtomicModel model;
  model.dims = {{"batch", true, 1}};
  model.microBatches = {1};
  model.sections.push_back({"m", true, {}, {{1, {1}, {}}}, {0, 1, 1, 1, 1, 2}, {Variant{}}});
  model.costs->put(0, {},
                   {{stage(400, 10, 5, 7), stage(800, 20, 10, 7)},
                    {stage(1000, 100, 100, 50), stage(2000, 190, 230, 60)},
                    {stage(400, 30, 20, 90), stage(800, 60, 40, 90)}});
  for (uint32_t atom = 0; atom < 5; ++atom)
    model.tensors.push_back({0, atom, {{0, atom + 1}}, true, {{4, {0}}}, {64}, {}});
  return model;
}

void addSelective(AtomicModel &model, AtomClasses classes) {
  model.sections[0].variants.insert({Recompute::Selective});
  model.costs->put(0, {Recompute::Selective}, std::move(classes));
}

TEST(Atoms, AStageIsTheSumOfItsAtoms) {
  AtomicModel model = chain();
  ASSERT_TRUE(check(model).isOk()) << check(model).message();
  StageModel layers = composeStage(model, 0, Recompute::None, 1, 5); // One, and three times what another one adds.
  EXPECT_EQ(layers.parameters.resident(), 4000u);
  EXPECT_EQ(layers.at[0].forward.terms.front().picoseconds, 100 + 3 * 90);
  EXPECT_EQ(layers.at[0].backward.terms.front().picoseconds, 200 + 3 * 180);
  EXPECT_EQ(layers.at[0].slotBytes, 100u + 3 * 130);
  EXPECT_EQ(layers.at[0].workspaceBytes, 60u); // The largest, not the sum.
  EXPECT_EQ(layers.at[0].hostBytes, 10u);
  StageModel all = composeStage(model, 0, Recompute::None, 0, 6); // Between unlike atoms what passes is kept.
  EXPECT_EQ(all.at[0].slotBytes, 5u + 64 + 100 + 3 * 130 + 64 + 20);
  EXPECT_EQ(all.at[0].workspaceBytes, 90u);
}

TEST(Atoms, LastLayersMayKeepMore) {
  AtomicModel model = chain();
  AtomClasses selective = model.classesOf(0, {}); // Half as much kept, twice as long forward.
  for (AtomClass &own : selective)
    for (StageModel *kind : {&own.alone, &own.pair}) {
      kind->at[0].slotBytes /= 2;
      kind->at[0].forward.terms.front().picoseconds *= 2;
    }
  addSelective(model, std::move(selective));
  ASSERT_TRUE(check(model).isOk()) << check(model).message();
  RecomputeChoice choice{Recompute::Selective, 3}; // Atoms 0, 1 and 2 compute again, 3, 4 and 5 keep.
  StageModel all = composeStage(model, 0, choice, 0, 6);
  EXPECT_EQ(all.at[0].forward.terms.front().picoseconds, 20 + 200 + 180 + 2 * 90 + 30);
  EXPECT_EQ(all.at[0].slotBytes, 2u + 64 + 50 + 65 + 64 + 2 * 130 + 64 + 20); // Between them, too, what passes is kept.
  EXPECT_EQ(composeStage(model, 0, choice, 3, 6).at[0].forward.terms.front().picoseconds,
            composeStage(model, 0, Recompute::None, 3, 6).at[0].forward.terms.front().picoseconds);
  EXPECT_EQ(composeStage(model, 0, choice, 0, 3).at[0].slotBytes,
            composeStage(model, 0, Recompute::Selective, 0, 3).at[0].slotBytes);
  EXPECT_TRUE(check(model, {{{2}, choice}}).isOk());
  EXPECT_FALSE(check(model, {{{2}, {Recompute::Selective, 6}}}).isOk()); // No layer is left.
  EXPECT_FALSE(check(model, {{{2}, {Recompute::Full, 1}}}).isOk());
}

TEST(Atoms, AVariantIsMeasuredWhenItIsFirstAskedFor) {
  AtomicModel model = chain();
  std::vector<Variant> asked;
  AtomClasses usual = model.classesOf(0, {});
  auto measure = [&](const Variant &variant) -> Result<std::map<uint32_t, AtomClasses>> {
    asked.push_back(variant);
    if (variant.recompute == Recompute::Full)
      return Status::invalidInput("no such programs");
    return std::map<uint32_t, AtomClasses>{{0, usual}};
  };
  model.costs = std::make_shared<AtomCosts>(measure, model.costs->known())->changed([](AtomClass &own) {
    own.alone.at[0].slotBytes += 1;
  });
  ASSERT_TRUE(check(model).isOk()) << check(model).message();
  EXPECT_EQ(model.classesOf(0, {})[0].alone.at[0].slotBytes, 6u);
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(model.classesOf(0, {Recompute::None, true})[0].alone.at[0].slotBytes, 6u);
  EXPECT_EQ(model.classesOf(0, {Recompute::None, true})[0].alone.at[0].slotBytes, 6u);
  EXPECT_EQ(asked, (std::vector<Variant>{{Recompute::None, true}}));
  EXPECT_TRUE(model.costs->status().isOk());
  EXPECT_EQ(model.classesOf(0, {Recompute::Full})[0].alone.at[0].slotBytes, 6u); // Something, and why it is wrong.
  EXPECT_EQ(model.costs->status().message(), "no such programs");
}

TEST(Atoms, LayersThatKeepMoreMayLieEvenlyAmongTheOthers) {
  auto lighter = [](uint32_t count, uint32_t layers) {
    std::string text;
    for (uint32_t layer = 0; layer < layers; ++layer)
      text += RecomputeChoice(Recompute::Full, count, true).of(layer, layers) == Recompute::Selective ? '+' : '.';
    return text;
  };
  EXPECT_EQ(lighter(0, 4), "....");
  EXPECT_EQ(lighter(1, 4), "...+");
  EXPECT_EQ(lighter(3, 8), "..+..+.+");
  EXPECT_EQ(lighter(6, 8), ".+++.+++");
  AtomicModel model = chain();
  AtomClasses selective = model.classesOf(0, {});
  for (AtomClass &own : selective)
    own.alone.at[0].slotBytes /= 2;
  addSelective(model, std::move(selective));
  RecomputeChoice choice{Recompute::Selective, 2, true}; // Atoms 2 and 5 keep.
  EXPECT_EQ(composeStage(model, 0, choice, 0, 2).at[0].slotBytes,
            composeStage(model, 0, Recompute::Selective, 0, 2).at[0].slotBytes);
  EXPECT_EQ(composeStage(model, 0, choice, 2, 3).at[0].slotBytes,
            composeStage(model, 0, Recompute::None, 2, 3).at[0].slotBytes);
  EXPECT_EQ(composeStage(model, 0, choice, 3, 5).at[0].slotBytes,
            composeStage(model, 0, Recompute::Selective, 3, 5).at[0].slotBytes);
}

TEST(Atoms, ChoicesAreText) {
  for (RecomputeChoice choice : {RecomputeChoice(), RecomputeChoice(Recompute::Full),
                                 RecomputeChoice(Recompute::Selective, 12), RecomputeChoice(Recompute::Full, 3, true)})
    EXPECT_EQ(recomputeChoiceFromText(textOf(choice)), choice);
  EXPECT_EQ(textOf({Recompute::Full, 4}), "full-4");
  EXPECT_EQ(textOf({Recompute::Full, 4, true}), "full-4-evenly");
  for (const char *wrong : {"", "some", "none-1", "full-", "full-0", "full-x", "full-4x", "full--4", "full-4294967296",
                            "-4", "full-evenly", "full-0-evenly", "none-1-evenly", "full-4-evenly-evenly", "-evenly"})
    EXPECT_FALSE(recomputeChoiceFromText(wrong)) << wrong;
}

TEST(Atoms, ATiedParameterIsHeldOnceByAStage) {
  AtomicModel model = chain();
  model.tied.push_back({0, {0, 5}, {200, 100, 0}});
  EXPECT_EQ(composeStage(model, 0, Recompute::None, 0, 6).parameters.resident(), 400u + 4000 + 400 - 300);
  EXPECT_EQ(composeStage(model, 0, Recompute::None, 1, 6).parameters.resident(), 4400u);
}

TEST(Atoms, CutsMakeStagesAndEdges) {
  AtomicModel model = chain();
  std::vector<SectionCut> cuts{{{2, 5}, Recompute::None}};
  ASSERT_TRUE(check(model, cuts).isOk());
  CompoundModel compound = compose(model, cuts);
  ASSERT_TRUE(check(compound).isOk()) << check(compound).message();
  ASSERT_EQ(compound.sections[0].stages.size(), 3u);
  ASSERT_EQ(compound.edges.size(), 2u);
  EXPECT_EQ(compound.edges[1].producerStage, 1u);
  EXPECT_EQ(compound.edges[1].consumerStage, 2u);
  EXPECT_TRUE(compound.edges[1].gradient);
  EXPECT_FALSE(check(model, {{{5, 2}, Recompute::None}}).isOk());
  EXPECT_FALSE(check(model, {{{6}, Recompute::None}}).isOk());
  EXPECT_FALSE(check(model, {{{2}, Recompute::Selective}}).isOk());
}

wavefront::Problem replicated(std::vector<std::vector<uint32_t>> first, std::vector<std::vector<uint32_t>> second,
                              uint32_t devices) {
  wavefront::Problem problem;
  problem.dims = {{"batch", true, 1}};
  problem.devices = devices;
  for (auto *list : {&first, &second}) {
    wavefront::Section section;
    section.stages.resize(list->front().size());
    section.devices = std::move(*list);
    problem.sections.push_back(std::move(section));
  }
  problem.sizes.assign(8, 1);
  return problem;
}

TEST(Fold, EqualPartsHaveDevicesOfTheirOwn) {
  // A pipeline of two stages beside a section that shares its devices, twice.
  wavefront::Problem problem = replicated({{0, 1}, {2, 3}}, {{0}, {1}, {2}, {3}}, 4);
  EXPECT_EQ(equalParts(problem, 8), 2u);
  wavefront::Problem part = firstPart(problem, 2);
  EXPECT_EQ(part.devices, 2u);
  EXPECT_EQ(part.sampleCount(), 4u);
  EXPECT_EQ(part.sections[0].devices.size(), 1u);
  EXPECT_EQ(part.sections[1].devices, (std::vector<std::vector<uint32_t>>{{0}, {1}}));
  EXPECT_EQ(equalParts(problem, 1), 1u);
}

TEST(Fold, ThePartHasTheLongestSampleAndOthersOfAllLengths) {
  wavefront::Problem problem = replicated({{0}, {1}}, {{2}, {3}}, 4);
  problem.dims.push_back({"seq", false, 1});
  for (wavefront::Section &section : problem.sections)
    section.stages[0].forward = {{{1'000'000, {1}}}};
  problem.sizes = {1, 5, 1, 2, 1, 9, 1, 3, 1, 8, 1, 4};
  EXPECT_EQ(firstPart(problem, 2).sizes, (std::vector<int64_t>{1, 5, 1, 9, 1, 3}));
  EXPECT_EQ(firstPart(problem, 1).sizes, problem.sizes);
}

TEST(Fold, WhatIsSharedAcrossPartsStaysWhole) {
  EXPECT_EQ(equalParts(replicated({{0}, {1}}, {{1}, {0}}, 2), 8), 1u); // Each part would use both devices.
  EXPECT_EQ(equalParts(replicated({{0}, {1}}, {{2}, {2}}, 3), 8), 1u);
  EXPECT_EQ(equalParts(replicated({{0}, {1}, {2}}, {{3}, {4}}, 5), 8), 1u);
  EXPECT_EQ(equalParts(replicated({{0}, {1}}, {{2}, {3}}, 4), 8), 2u);
}

} // namespace
} // namespace maestro::cost_models

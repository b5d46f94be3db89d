// Every check of lint on a plan where it fires, and on one that is the same but for what it is about.
#include "plan/print/print.h"
#include "test/plan/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace maestro::plan {
namespace {

constexpr uint32_t kSeq = 1; ///< Plan.symbols

struct Case {
  const char *check;
  void (*fires)(fb::PlanT &plan, StepTimes &times);
  void (*silent)(fb::PlanT &plan, StepTimes &times);
  const char *text, *remedy;
  double value;
};

/// All tasks of the example take so many picoseconds a position; it has no other costs.
void setTaskCosts(fb::PlanT &plan, size_t executable, int64_t picoseconds) {
  for (auto &program : plan.executables[executable]->programs)
    program->cost[0]->picoseconds = picoseconds;
}

void setQuantity(fb::PlanT &plan, const char *name, double value) {
  plan.quantities.push_back(std::make_unique<fb::QuantityT>());
  plan.quantities.back()->name = name;
  plan.quantities.back()->value = value;
}

/// The teacher in two stages, each with tasks of its own.
void cutTeacher(fb::PlanT &plan, int64_t first, int64_t second) {
  plan.sections[0]->layout->stages = 2;
  plan.executables.push_back(std::make_unique<fb::ExecutableT>(*plan.executables[0]));
  plan.executables.back()->name = "teacher stage 1";
  plan.executables.back()->stage = 1;
  plan.executables.back()->bindings.pop_back(); // The edge leaves stage 0.
  plan.stations.push_back(std::make_unique<fb::StationT>(*plan.stations[0]));
  plan.stations.back()->executable = 2;
  setTaskCosts(plan, 0, first);
  setTaskCosts(plan, 2, second);
}

/// 64 values a position cross.
void widenEdge(PlanBuilder &builder) {
  fb::PlanT &plan = builder.plan();
  plan.edges[0]->shape[2] = builder.constant(64);
  for (auto [executable, buffer] : {std::pair(0, 2), std::pair(1, 25)}) {
    fb::BufferT &end = *plan.executables[executable]->buffers[buffer];
    end.shape[2] = builder.constant(64);
    end.bytes = 4 * 24 * 64 * sizeof(float);
    plan.executables[executable]->regions[end.region]->bytes = end.offset + end.bytes;
  }
}

const Case kCases[] = {
    {"idle-devices",
     [](fb::PlanT &, StepTimes &times) {
       times.sections[0] = {0.4, 0.6};
     },
     [](fb::PlanT &, StepTimes &times) {
       times.sections[0] = {0.7, 0.3};
     },
     "idle for 60 % of the predicted step (600 ms of 1.00 s)", "--pin teacher.devices=", 0.6},
    {"padding",
     [](fb::PlanT &, StepTimes &times) {
       times.padding = {{1, kSeq, 100, 180}};
     },
     [](fb::PlanT &, StepTimes &times) {
       times.padding = {{1, kSeq, 100, 140}};
     },
     "along seq its micro-batches are padded to 1.80 x", "--pin student.micro_batch=", 1.8},
    {"small-micro-batch",
     [](fb::PlanT &plan, StepTimes &) {
       for (size_t executable : {0, 1})
         setTaskCosts(plan, executable, 1'000'000'000 / 96); // 1 ms; the student's two make 9 calls of 0.1 ms.
       setQuantity(plan, "device.call_seconds", 100e-6);
     },
     [](fb::PlanT &plan, StepTimes &) {
       for (size_t executable : {0, 1})
         setTaskCosts(plan, executable, 1'000'000'000 / 96);
       setQuantity(plan, "device.call_seconds", 10e-6);
     },
     "60 % of a full micro-batch's 1.50 ms are the 9 kernel calls' own time, 100 us each",
     "--pin student.micro_batch_tokens=144", 0.6},
    {"heavy-edge", [](fb::PlanT &plan, StepTimes &) { plan.edges[0]->cost[0]->picoseconds = 2000 * 24 * 96; },
     [](fb::PlanT &plan, StepTimes &) { plan.edges[0]->cost[0]->picoseconds = 10; }, "that its producer computes in",
     "let teacher and student share devices", 0},
    {"memory-almost-full",
     [](fb::PlanT &plan, StepTimes &) { plan.ranks[1]->peak_bytes = (uint64_t{1} << 30) - (10 << 20); },
     [](fb::PlanT &plan, StepTimes &) { plan.ranks[1]->peak_bytes = uint64_t{900} << 20; },
     "predicted peak 1014 MiB of 1.00 GiB (99 %)", "recompute", 1014.0 / 1024},
    {"uneven-stages", [](fb::PlanT &plan, StepTimes &) { cutTeacher(plan, 1000, 3000); },
     [](fb::PlanT &plan, StepTimes &) { cutTeacher(plan, 1000, 1200); }, "in a stage on average: the others wait",
     "--pin teacher.stages=", 1.5},
    {"no-gradient", [](fb::PlanT &plan, StepTimes &) { setQuantity(plan, "student.parameters_without_gradient", 3); },
     [](fb::PlanT &, StepTimes &) {}, "3 trainable parameters keep their values", "freeze them", 3},
};

StepTimes steadyTimes() {
  StepTimes times;
  times.stepSeconds = 1;
  times.sections = {{0.9, 0.1}, {0.9, 0.1}};
  return times;
}

std::vector<Finding> found(PlanBuilder &builder, const StepTimes &times) {
  auto plan = Plan::fromBytes(test::packUnverified(builder.plan()));
  EXPECT_TRUE(plan.isOk()) << plan.status().message();
  return plan.isOk() ? lint(*plan, &times) : std::vector<Finding>();
}

const Finding *named(const std::vector<Finding> &findings, const std::string &check) {
  auto at =
      std::find_if(findings.begin(), findings.end(), [&](const Finding &finding) { return finding.check == check; });
  return at == findings.end() ? nullptr : &*at;
}

class LintCase : public testing::TestWithParam<Case> {};

TEST_P(LintCase, firesWhereItShould) {
  PlanBuilder bad = test::exampleBuilder(), good = test::exampleBuilder();
  StepTimes badTimes = steadyTimes(), goodTimes = steadyTimes();
  GetParam().fires(bad.plan(), badTimes);
  GetParam().silent(good.plan(), goodTimes);
  std::vector<Finding> findings = found(bad, badTimes);
  const Finding *finding = named(findings, GetParam().check);
  ASSERT_NE(finding, nullptr) << lintText(findings);
  EXPECT_THAT(finding->text, testing::HasSubstr(GetParam().text));
  EXPECT_THAT(finding->remedy, testing::HasSubstr(GetParam().remedy));
  if (GetParam().value > 0) {
    EXPECT_NEAR(finding->value, GetParam().value, 1e-6);
  }
  EXPECT_GT(finding->value, finding->limit);
  std::vector<Finding> none = found(good, goodTimes);
  EXPECT_EQ(named(none, GetParam().check), nullptr) << lintText(none);
}

INSTANTIATE_TEST_SUITE_P(All, LintCase, testing::ValuesIn(kCases), [](const auto &info) {
  std::string name = info.param.check;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// 64 values that a matrix of 64 x 8 makes are logits; 64 that nothing makes are none.
TEST(Lint, logitsThatCrossAnEdge) {
  PlanBuilder bad = test::exampleBuilder(), good = test::exampleBuilder();
  for (PlanBuilder *builder : {&bad, &good})
    widenEdge(*builder);
  auto head = std::make_unique<fb::ParameterT>(*bad.plan().parameters[3]);
  head->name = "head.weight";
  head->shape = {64, 8};
  bad.plan().parameters.push_back(std::move(head));
  std::vector<Finding> findings = found(bad, steadyTimes()), none = found(good, steadyTimes());
  ASSERT_NE(named(findings, "logits-edge"), nullptr);
  EXPECT_EQ(named(findings, "logits-edge")->text, "carries 64 values a position, which follow from 8: 8.0 x the bytes");
  EXPECT_EQ(named(none, "logits-edge"), nullptr);
}

TEST(Lint, textAndJsonSayTheSame) {
  std::vector<Finding> findings = {{"padding", "section \"a\"", 1.8, 1.5, "too much", "less"}};
  EXPECT_EQ(lintText(findings), "padding: section \"a\": too much\n    less\n");
  auto rows = nlohmann::json::parse(lintJson(findings));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["place"], "section \"a\"");
  EXPECT_EQ(rows[0]["value"], 1.8);
  EXPECT_EQ(rows[0]["remedy"], "less");
  EXPECT_EQ(nlohmann::json::parse(lintJson({})), nlohmann::json::array());
}

} // namespace
} // namespace maestro::plan

// Predicted and measured timelines: the same tasks, honest idle time, one format.
#include "tools/timeline/timeline.h"

#include "plan/plan_generated.h"
#include "test/executor_files/scratch_folder.h"
#include "test/plan/example.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace maestro;
using namespace maestro::timeline;

namespace {

constexpr uint32_t kForward = 0, kBackward = 1, kUpdate = 5;

/// A frozen teacher and a student; tasks of microseconds, an update of 7.
struct Bench {
  explicit Bench(std::vector<uint32_t> ranks = {0, 1}) : plan(load(ranks)), topology(plan) {}

  static plan::Plan load(const std::vector<uint32_t> &ranks) {
    plan::PlanBuilder builder = plan::test::exampleBuilder();
    plan::fb::PlanT &plan = builder.plan();
    for (auto &executable : plan.executables)
      for (auto &program : executable->programs) {
        program->cost[0]->picoseconds = 1'000'000;
        if (program->kind == plan::fb::ProgramKind::Update) {
          program->cost[0]->picoseconds = 7'000'000;
          program->cost[0]->symbols.clear();
        }
      }
    for (uint32_t s = 0; s < plan.stations.size(); ++s)
      plan.stations[s]->ranks = {ranks[s]};
    auto loaded = plan::Plan::fromBytes(plan::test::packUnverified(plan));
    EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
    return *std::move(loaded);
  }

  Timeline predicted(const metrics::TraceRun &run = {}) const {
    auto sizes = typicalSizes(plan);
    EXPECT_TRUE(sizes.isOk()) << sizes.status().message();
    std::vector<uint64_t> steps;
    for (uint64_t s = 1; s <= sizes->size(); ++s)
      steps.push_back(s);
    auto timeline = predict(plan, topology, run, steps, *sizes);
    EXPECT_TRUE(timeline.isOk()) << timeline.status().message();
    return *std::move(timeline);
  }

  plan::Plan plan;
  executor::Topology topology;
};

bool overlap(const Bench &bench, const Timeline &timeline) {
  for (const Span &a : timeline.spans)
    for (const Span &b : timeline.spans)
      if (&a != &b && bench.topology.stations[a.station].rank == bench.topology.stations[b.station].rank &&
          a.startNs < b.endNs && b.startNs < a.endNs)
        return true;
  return false;
}

TEST(Timeline, PredictsEveryTaskOnceAndDevicesDoOneThingAtATime) {
  Bench bench;
  Timeline timeline = bench.predicted();
  EXPECT_FALSE(overlap(bench, timeline));
  std::set<std::tuple<uint64_t, int64_t, uint32_t, uint32_t>> seen;
  for (const Span &span : timeline.spans)
    EXPECT_TRUE(seen.insert({span.step, span.microBatch, span.station, span.kind}).second);
  size_t updates = static_cast<size_t>(std::count_if(timeline.spans.begin(), timeline.spans.end(),
                                                     [](const Span &span) { return span.kind == kUpdate; }));
  EXPECT_EQ(updates, timeline.steps.size());
  for (const Span &span : timeline.spans)
    if (span.kind == kUpdate) {
      EXPECT_EQ(span.endNs - span.startNs, 7000);
      EXPECT_EQ(span.endNs, timeline.steps[span.step - 1].endNs);
    }
}

TEST(Timeline, AFrozenTeacherRunsAheadUnlessItWaits) {
  Bench bench;
  auto runsAhead = [](const Timeline &timeline) {
    return std::any_of(timeline.spans.begin(), timeline.spans.end(), [&](const Span &span) {
      return span.step > 1 && span.startNs < timeline.steps[span.step - 2].endNs;
    });
  };
  EXPECT_TRUE(runsAhead(bench.predicted()));
  metrics::TraceRun waiting;
  waiting.waitsForSteps = true;
  EXPECT_FALSE(runsAhead(bench.predicted(waiting)));
}

TEST(Timeline, AnEvaluationHasForwardTasksAlone) {
  Bench bench;
  metrics::TraceRun evaluation;
  evaluation.evaluates = true;
  Timeline timeline = bench.predicted(evaluation);
  ASSERT_FALSE(timeline.steps.empty());
  for (const Span &span : timeline.spans)
    EXPECT_EQ(span.kind, kForward);
}

TEST(Timeline, SleepingMultipliesTasksAndUpdates) {
  Bench bench;
  metrics::TraceRun asleep;
  asleep.sleepScale = 1000;
  Timeline once = bench.predicted(), slept = bench.predicted(asleep);
  auto worked = [](const Timeline &timeline) {
    int64_t ns = 0;
    for (const Span &span : timeline.spans)
      ns += span.endNs - span.startNs;
    return ns;
  };
  EXPECT_EQ(worked(slept), 1000 * worked(once));
}

/// Three steps by hand: the teacher 2 of 10 µs, the student 6, its update 1.
Timeline byHand() {
  Timeline timeline;
  for (uint64_t step = 1; step <= 3; ++step) {
    int64_t start = 10'000 * static_cast<int64_t>(step - 1);
    timeline.spans.push_back({0, kForward, step, 0, start, start + 2000});
    timeline.spans.push_back({1, kForward, step, 1, start + 2000, start + 4000});
    timeline.spans.push_back({1, kBackward, step, 1, start + 4000, start + 8000});
    timeline.spans.push_back({1, kUpdate, step, -1, start + 9000, start + 10'000});
  }
  timeline.steps = windows(timeline.spans);
  return timeline;
}

TEST(Timeline, StepsEndWithTheirUpdates) {
  Timeline timeline = byHand();
  ASSERT_EQ(timeline.steps.size(), 3u);
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(timeline.steps[s].startNs, 10'000 * static_cast<int64_t>(s));
    EXPECT_EQ(timeline.steps[s].ns(), 10'000);
  }
}

TEST(Timeline, IdleIsADevicesTimeInNoTask) {
  Bench apart;
  Usage found = usage(byHand(), apart.topology, apart.plan);
  EXPECT_DOUBLE_EQ(found.stepNs, 10'000);
  EXPECT_DOUBLE_EQ(found.devices[0].busyNs, 2000);
  EXPECT_DOUBLE_EQ(found.devices[1].busyNs, 7000);
  EXPECT_DOUBLE_EQ(found.sections[0].idleNs, 8000);
  EXPECT_DOUBLE_EQ(found.sections[1].busyNs, 6000); // The update is not a task of a section.
  EXPECT_DOUBLE_EQ(found.sections[1].idleNs, 3000);
}

TEST(Timeline, AColocatedNeighboursWorkIsNotIdle) {
  Bench together({0, 0});
  Usage found = usage(byHand(), together.topology, together.plan);
  EXPECT_DOUBLE_EQ(found.devices[0].busyNs, 9000);
  EXPECT_DOUBLE_EQ(found.sections[0].busyNs, 2000);
  EXPECT_DOUBLE_EQ(found.sections[0].idleNs, 1000);
  EXPECT_DOUBLE_EQ(found.sections[1].idleNs, 1000);
}

/// What maestro-run would write of a run that takes exactly its predicted time.
std::string writeTrace(const Bench &bench, const test::ScratchFolder &folder, uint64_t planHash) {
  std::string path = folder.file("trace.json");
  auto file = metrics::TraceFile::create(path);
  EXPECT_TRUE(file.isOk());
  metrics::TraceRun run;
  run.planHash = planHash;
  (*file)->describe(run);
  auto sizes = typicalSizes(bench.plan);
  for (size_t s = 0; s < sizes->size(); ++s)
    (*file)->addSizes(s + 1, (*sizes)[s]);
  for (const Span &span : bench.predicted().spans) {
    metrics::TraceEvent event;
    event.name = metrics::kTaskNames[span.kind];
    event.category = "task";
    event.rank = bench.topology.stations[span.station].rank;
    event.station = 1 + span.station;
    event.startNs = span.startNs + 123'456'789;
    event.durationNs = span.endNs - span.startNs;
    event.step = static_cast<int64_t>(span.step);
    event.microbatch = span.microBatch;
    (*file)->add(event);
    event.category = "kernel";
    event.name = "matmul";
    event.station = 0;
    (*file)->add(event);
  }
  return path;
}

TEST(Timeline, AMeasuredRunThatGoesAsPredictedIsItsPrediction) {
  Bench bench;
  test::ScratchFolder folder;
  auto measured = readTrace(writeTrace(bench, folder, bench.plan.hash()), bench.plan, bench.topology);
  ASSERT_TRUE(measured.isOk()) << measured.status().message();
  auto again = predict(bench.plan, bench.topology, measured->run, measured->steps, measured->sizes);
  ASSERT_TRUE(again.isOk());
  ASSERT_EQ(measured->timeline.spans.size(), again->spans.size());
  Usage left = usage(measured->timeline, bench.topology, bench.plan), right = usage(*again, bench.topology, bench.plan);
  EXPECT_NEAR(left.stepNs, right.stepNs, 2);
  EXPECT_NEAR(left.sections[1].idleNs, right.sections[1].idleNs, 2);
  EXPECT_NE(usageTable(bench.plan, bench.topology, right, &left).find("(1.00 x predicted)"), std::string::npos);
}

TEST(Timeline, TracesOfPredictionsHaveTheFormatOfRuns) {
  Bench bench;
  test::ScratchFolder folder;
  auto ours = nlohmann::json::parse(traceText(bench.predicted(), bench.plan, bench.topology, {}));
  auto theirs = nlohmann::json::parse(test::readFile(writeTrace(bench, folder, 0)));
  auto keys = [](const nlohmann::json &trace) {
    std::set<std::string> found;
    for (const auto &event : trace["traceEvents"]) {
      std::string row = event["ph"] == "M" ? event["name"] : event["cat"];
      for (const auto &[key, value] : event.items())
        found.insert(row + "." + key);
      for (const auto &[key, value] : event["args"].items())
        found.insert(row + ".args." + key);
    }
    return found;
  };
  std::set<std::string> own = keys(ours), run = keys(theirs);
  for (const char *key : {"task.ts", "task.dur", "task.pid", "task.tid", "task.args.step", "task.args.microbatch"})
    EXPECT_TRUE(own.count(key) && run.count(key)) << key;
  std::vector<std::string> names;
  for (const auto &event : ours["traceEvents"])
    if (event["name"] == "thread_name")
      names.push_back(event["args"]["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"teacher", "student"}));
}

TEST(Timeline, OtherFilesAreRefusedWithTheRemedy) {
  Bench bench;
  test::ScratchFolder folder;
  auto said = [&](const std::string &path) {
    auto read = readTrace(path, bench.plan, bench.topology);
    EXPECT_EQ(read.status().code(), StatusCode::InvalidInput);
    return std::string(read.status().message());
  };
  EXPECT_NE(said(folder.file("none.json")).find("cannot be opened"), std::string::npos);
  EXPECT_NE(said(folder.write("text.json", "hello")).find("is not JSON"), std::string::npos);
  EXPECT_NE(said(folder.write("list.json", "[]")).find("is no Chrome trace"), std::string::npos);
  EXPECT_NE(said(folder.write("empty.json", R"({"traceEvents": []})")).find("does not say which run"),
            std::string::npos);
  EXPECT_NE(said(folder.write("odd.json", R"({"traceEvents": [{"ph": 1}]})")).find("does not write"),
            std::string::npos);
  std::string other = said(writeTrace(bench, folder, 1));
  EXPECT_NE(other.find("another plan"), std::string::npos);
  EXPECT_NE(other.find("maestro-run --trace"), std::string::npos);
}

size_t count(const std::string &text, std::string_view part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++found;
  return found;
}

TEST(Timeline, ThePageNeedsNothingElse) {
  Bench bench;
  Timeline predicted = bench.predicted(), measured = byHand();
  std::string html = timelinesHtml(bench.plan, bench.topology, predicted, &measured);
  EXPECT_EQ(count(html, "<script"), 0u);
  EXPECT_EQ(count(html, "http"), 0u);
  EXPECT_EQ(count(html, "<svg"), 2u);
  EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
  EXPECT_EQ(count(html, "<rect"), count(html, "</title></rect>"));
  EXPECT_LT(html.find("<h3>Measured: step 2"), html.find("<h3>Predicted: step 2"));
  Timeline alone = byHand();
  std::string one = timelinesHtml(bench.plan, bench.topology, alone, nullptr);
  EXPECT_EQ(count(one, "<svg"), 1u);
  EXPECT_EQ(count(one, "<rect"), 4u); // Of one step.
  EXPECT_NE(one.find("<td>section student</td><td>0.01 ms</td><td>0.00 ms</td><td>30.0 %</td>"), std::string::npos)
      << one;
}

/// As many replicas of each section, on devices of their own.
plan::Plan replicated(uint32_t replicas) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  plan::fb::PlanT &plan = builder.plan();
  plan.training->global_batch = 8 * replicas;
  plan.machine->devices = 2 * replicas;
  plan.gradient_sums.push_back(std::make_unique<plan::fb::GradientSumT>());
  plan.gradient_sums[0]->parameters = {0, 1};
  for (uint32_t s = 0; s < 2; ++s)
    plan.sections[s]->layout->data_parallel = replicas;
  plan.machine->links.push_back(std::make_unique<plan::fb::LinkT>(*plan.machine->links.front()));
  plan.machine->links.front()->spans = 8;
  plan.machine->links.back()->spans = 2 * replicas;
  for (auto &kind : plan.machine->device_kinds)
    kind->devices = replicas;
  plan.ranks.clear();
  plan.stations.clear();
  for (uint32_t s = 0; s < 2; ++s)
    for (uint32_t replica = 0; replica < replicas; ++replica) {
      plan.ranks.push_back(std::make_unique<plan::fb::RankT>());
      plan.ranks.back()->device = s * replicas + replica;
      plan.ranks.back()->peak_bytes = uint64_t{64} << 20;
      plan.stations.push_back(std::make_unique<plan::fb::StationT>());
      plan.stations.back()->executable = s;
      plan.stations.back()->replica = replica;
      plan.stations.back()->ranks = {s * replicas + replica};
      if (s == 1)
        plan.gradient_sums[0]->stations.push_back(replicas + replica);
    }
  auto loaded = plan::Plan::fromBytes(plan::test::packUnverified(plan));
  EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
  return *std::move(loaded);
}

TEST(Timeline, AThousandDevicesAreAPageOfLessThanAMegabyte) {
  plan::Plan plan = replicated(512);
  executor::Topology topology(plan);
  auto sizes = typicalSizes(plan);
  ASSERT_TRUE(sizes.isOk());
  auto predicted = predict(plan, topology, {}, {1, 2, 3}, {(*sizes)[0], (*sizes)[1], (*sizes)[2]});
  ASSERT_TRUE(predicted.isOk()) << predicted.status().message();
  std::string html =
      plan::print(plan, plan::Format::Html, plan::Selection(plan), timelinesHtml(plan, topology, *predicted, nullptr));
  EXPECT_LT(html.size(), 1u << 20);
  EXPECT_NE(html.find("Of 1024 devices one for each set of stages is drawn."), std::string::npos);
  EXPECT_NE(html.find("<td>devices 0-511</td>"), std::string::npos);
  EXPECT_NE(html.find("128 nodes of 8 devices"), std::string::npos);
  EXPECT_NE(html.find("<title>device 1023, node 127: student replica 511</title>"), std::string::npos);
}

TEST(Timeline, OfManyMoreDevicesACellIsSeveral) {
  plan::Plan plan = replicated(8192);
  std::string html = plan::print(plan, plan::Format::Html, plan::Selection(plan));
  EXPECT_LT(html.size(), 1u << 20);
  EXPECT_NE(html.find("a cell is 16 devices"), std::string::npos);
  EXPECT_NE(html.find("<title>devices 16368-16383, node 2046: student replica 8176, replica 8177, replica 8178, "
                      "replica 8179 and 12 more</title>"),
            std::string::npos);
}

TEST(Timeline, StepsAreThoseThatThePlanWasMadeFor) {
  Bench bench;
  auto steps = typicalSizes(bench.plan);
  ASSERT_TRUE(steps.isOk()) << steps.status().message();
  ASSERT_GT(steps->size(), 1u);
  for (const std::vector<int64_t> &step : *steps)
    EXPECT_EQ(step, (std::vector<int64_t>{1, 12, 1, 1, 7, 0}));
}

/// By hand: two samples of 3 and 8 in one micro-batch hold 16 positions of which 11 are theirs.
TEST(Timeline, PaddingIsCountedAsMicroBatchesHoldIt) {
  Bench bench;
  auto timeline = predict(bench.plan, bench.topology, {}, {1}, {{1, 3, 1, 1, 8, 1}});
  ASSERT_TRUE(timeline.isOk()) << timeline.status().message();
  ASSERT_EQ(timeline->padding.size(), 2u);
  for (const Padding &padding : timeline->padding) {
    EXPECT_EQ(padding.own, 11);
    EXPECT_EQ(padding.padded, 16);
    EXPECT_EQ(bench.plan->symbols()->Get(padding.symbol)->name()->str(), "seq");
  }
}

} // namespace

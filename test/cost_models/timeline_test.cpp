// Times from orders: the scheduler's own times come out again, and steps follow each other without staleness.
#include "cost_models/timeline.h"

#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace maestro::cost_models {

using namespace wavefront;

namespace {

Cost perSample(int64_t ns) { return {{{ns * 1000, {0}}}}; }

/// A frozen teacher on `teachers` devices of its own, a student on the next ones.
Problem distillation(uint32_t samples, uint32_t teachers, uint32_t students, int64_t teacherNs, uint32_t depth) {
  Problem problem;
  problem.dims = {{"batch", true, 1}};
  problem.sizes.assign(samples, 1);
  Section teacher{"teacher", false, false, {}, 1, {1}, {}, {Stage{perSample(teacherNs), {}, {}, 1, {}}}, {}};
  Section student{
      "student", true, false, {}, 1, {1}, {}, {Stage{perSample(1000), perSample(2000), {}, 2, {{{500'000, {}}}}}}, {}};
  for (uint32_t r = 0; r < teachers; ++r)
    teacher.devices.push_back({r});
  for (uint32_t r = 0; r < students; ++r)
    student.devices.push_back({teachers + r});
  problem.sections = {teacher, student};
  Edge edge;
  edge.producer = 0, edge.consumer = 1, edge.depth = depth, edge.heldUntilBackward = true;
  problem.edges = {edge};
  problem.devices = teachers + students;
  return problem;
}

TEST(Timeline, ReproducesOneStep) {
  Scheduler scheduler;
  Schedule schedule;
  Timeline timeline;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Problem problem = arbitraryProblem(seed);
    scheduler.run(problem, Order::Wavefront, schedule);
    TimelineStep step{&problem, &schedule, {}};
    Status status = computeTimeline({&step, 1}, Boundary::Wait, timeline);
    ASSERT_TRUE(status.isOk()) << seed << ": " << status.message();
    for (size_t i = 0; i < schedule.tasks.size(); ++i) {
      // Never later than planned: the list scheduler waits for nothing but the rules.
      ASSERT_LE(timeline.steps[0].endNs[i], schedule.tasks[i].endNs) << seed;
      ASSERT_EQ(timeline.steps[0].endNs[i] - timeline.steps[0].startNs[i],
                schedule.tasks[i].endNs - schedule.tasks[i].startNs);
    }
    ASSERT_EQ(timeline.steps[0].tasksNs, schedule.makespanNs) << seed;
  }
}

TEST(Timeline, SchedulesOneAfterTheOtherAreTheSameSteps) {
  Scheduler scheduler;
  Schedule schedules[2];
  Timeline computed, followed;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Problem problem = arbitraryProblem(seed);
    scheduler.run(problem, Order::Wavefront, schedules[0]);
    scheduler.run(problem, Order::FileOrder, schedules[1]);
    TimelineStep steps[] = {
        {&problem, &schedules[0], {}}, {&problem, &schedules[1], {}}, {&problem, &schedules[0], {}}};
    ASSERT_TRUE(computeTimeline(steps, Boundary::Wait, computed).isOk());
    followSchedules(steps, followed);
    ASSERT_EQ(followed.busyNs, computed.busyNs) << seed;
    for (size_t s = 0; s < 3; ++s) {
      ASSERT_EQ(followed.steps[s].tasksNs, computed.steps[s].tasksNs) << seed;
      ASSERT_EQ(followed.steps[s].gradientsNs, computed.steps[s].gradientsNs) << seed;
      ASSERT_EQ(followed.steps[s].updatedNs, computed.steps[s].updatedNs) << seed;
    }
  }
}

TEST(Timeline, TakesMeasuredDurations) {
  Problem problem = distillation(8, 1, 1, 1000, 4);
  Scheduler scheduler;
  Schedule schedule;
  scheduler.run(problem, Order::Wavefront, schedule);
  std::vector<int64_t> twice;
  for (const Task &task : schedule.tasks)
    twice.push_back(2 * (task.endNs - task.startNs));
  TimelineStep step{&problem, &schedule, twice};
  Timeline timeline;
  ASSERT_TRUE(computeTimeline({&step, 1}, Boundary::Wait, timeline).isOk());
  EXPECT_EQ(timeline.steps[0].tasksNs, 2 * schedule.makespanNs);
  EXPECT_EQ(timeline.steps[0].updatedNs, 2 * schedule.makespanNs + 500);
  twice.pop_back();
  step.durationsNs = twice;
  EXPECT_FALSE(computeTimeline({&step, 1}, Boundary::Wait, timeline).isOk());
}

TEST(Timeline, FindsOrdersThatDeadlock) {
  Problem problem = distillation(2, 1, 1, 1000, 4);
  problem.sections[1].devices[0][0] = 0; // All on one device.
  problem.devices = 2;
  Scheduler scheduler;
  Schedule schedule;
  scheduler.run(problem, Order::Wavefront, schedule);
  ASSERT_TRUE(verify(problem, schedule).isOk());
  std::reverse(schedule.tasks.begin(), schedule.tasks.end());
  TimelineStep step{&problem, &schedule, {}};
  Timeline timeline;
  EXPECT_FALSE(computeTimeline({&step, 1}, Boundary::Wait, timeline).isOk());
  EXPECT_FALSE(verify(problem, schedule).isOk());
}

struct Steps {
  std::vector<Problem> problems;
  std::vector<Schedule> schedules;
  std::vector<TimelineStep> steps;
};

void plan(Steps &run, const Problem &problem, size_t count) {
  Scheduler scheduler;
  run.problems.assign(count, problem);
  run.schedules.resize(count);
  for (size_t s = 0; s < count; ++s) {
    scheduler.run(run.problems[s], Order::Wavefront, run.schedules[s]);
    run.steps.push_back({&run.problems[s], &run.schedules[s], {}});
  }
}

/// Of the steady step, the part in which the student's devices do nothing, in 1/1000.
int64_t studentIdle(const Steps &run, Boundary boundary) {
  Timeline timeline;
  Status status = computeTimeline(run.steps, boundary, timeline);
  EXPECT_TRUE(status.isOk()) << status.message();
  const Problem &problem = run.problems.back();
  int64_t busy = 0, devices = 0;
  for (const auto &replica : problem.sections[1].devices)
    for (uint32_t device : replica) {
      busy += timeline.busyNs[(run.steps.size() - 1) * problem.devices + device];
      ++devices;
    }
  return 1000 - busy * 1000 / (devices * timeline.steadyNs());
}

TEST(Timeline, FrozenTeacherRunsAheadOfTheStudent) {
  Steps run;
  plan(run, distillation(64, 2, 4, 1400, 8), 8);
  int64_t waiting = studentIdle(run, Boundary::Wait), ahead = studentIdle(run, Boundary::RunAhead);
  std::printf("student idle: %ld.%ld %% of a steady step, waiting at the boundary %ld.%ld %%\n",
              static_cast<long>(ahead / 10), static_cast<long>(ahead % 10), static_cast<long>(waiting / 10),
              static_cast<long>(waiting % 10));
  EXPECT_LE(ahead, 30);
  EXPECT_GT(waiting, ahead);
}

/// As the executor has it: apart, the teacher runs ahead all the same; on the student's device nothing passes the
/// update.
TEST(Timeline, OnlyDevicesWithNothingToTrainRunAhead) {
  Steps apart;
  plan(apart, distillation(64, 2, 4, 1400, 8), 8);
  EXPECT_EQ(studentIdle(apart, Boundary::FrozenRunsAhead), studentIdle(apart, Boundary::RunAhead));
  Problem problem = distillation(16, 1, 1, 1000, 4);
  problem.sections[0].devices[0][0] = problem.sections[1].devices[0][0];
  Steps together;
  plan(together, problem, 4);
  Timeline ahead, frozen;
  ASSERT_TRUE(computeTimeline(together.steps, Boundary::RunAhead, ahead).isOk());
  ASSERT_TRUE(computeTimeline(together.steps, Boundary::FrozenRunsAhead, frozen).isOk());
  auto first = [](const Timeline::Step &step) { return *std::min_element(step.startNs.begin(), step.startNs.end()); };
  for (size_t s = 1; s < 4; ++s) {
    EXPECT_LT(first(ahead.steps[s]), ahead.steps[s - 1].updatedNs);
    EXPECT_GE(first(frozen.steps[s]), frozen.steps[s - 1].updatedNs);
  }
}

/// Without staleness: no task that trains starts before its step's weights are there, and nothing but that waits.
TEST(Timeline, TrainedSectionsWaitForTheirWeights) {
  Steps run;
  plan(run, distillation(16, 1, 2, 1000, 4), 4);
  Timeline timeline;
  ASSERT_TRUE(computeTimeline(run.steps, Boundary::RunAhead, timeline).isOk());
  bool ranAhead = false;
  for (size_t s = 1; s < run.steps.size(); ++s)
    for (size_t i = 0; i < run.schedules[s].tasks.size(); ++i) {
      const Task &task = run.schedules[s].tasks[i];
      bool trains = run.problems[s].sections[run.schedules[s].microBatches[task.microBatch].section].trains;
      if (trains) {
        EXPECT_GE(timeline.steps[s].startNs[i], timeline.steps[s - 1].gradientsNs + 500);
      } else {
        ranAhead |= timeline.steps[s].startNs[i] < timeline.steps[s - 1].gradientsNs;
      }
    }
  EXPECT_TRUE(ranAhead);
  ASSERT_TRUE(computeTimeline(run.steps, Boundary::Wait, timeline).isOk());
  for (size_t s = 1; s < run.steps.size(); ++s)
    for (int64_t start : timeline.steps[s].startNs)
      EXPECT_GE(start, timeline.steps[s - 1].updatedNs);
}

/// A ring that holds few slots holds the teacher back: run-ahead never overfills it.
TEST(Timeline, RunAheadKeepsTheRings) {
  Steps shallow, deep;
  plan(shallow, distillation(32, 1, 1, 100, 1), 4);
  plan(deep, distillation(32, 1, 1, 100, 16), 4);
  auto lead = [](const Steps &run) {
    Timeline timeline;
    EXPECT_TRUE(computeTimeline(run.steps, Boundary::RunAhead, timeline).isOk());
    int64_t before = 0; // Teacher tasks of the last step that start before the weights of the step before are known.
    for (size_t i = 0; i < run.schedules[3].tasks.size(); ++i)
      before += run.schedules[3].microBatches[run.schedules[3].tasks[i].microBatch].section == 0 &&
                timeline.steps[3].startNs[i] < timeline.steps[2].gradientsNs;
    return before;
  };
  EXPECT_LE(lead(shallow), 1);
  EXPECT_GT(lead(deep), 8);
  EXPECT_LE(lead(deep), 16);
}

} // namespace
} // namespace maestro::cost_models

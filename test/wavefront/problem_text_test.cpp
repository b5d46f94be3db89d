#include "test/wavefront/problem_text.h"
#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro::wavefront {
namespace {

using testing::HasSubstr;

const char *small = R"(
devices 3
dim batch sum
dim seq max 8
section teacher   # forward only
  max_samples 4
  capacity 4 2048
  area batch seq 4096
  stage slots 2 forward 20000+5*batch*seq
  replica 0
section student trains split
  active seq
  max_samples 2
  capacity 2 2048
  stage slots 2 forward 1000*batch backward 1000*batch weight_gradient 900*batch update 5000
  replica 1
  replica 2
edge teacher 0 -> student 0 held depth 4 transfer 1000
sample 1 512
sample 1 0
)";

TEST(ProblemText, ReadsTheExample) {
  Result<Problem> problem = parseProblem(small);
  ASSERT_TRUE(problem.isOk()) << problem.status().message();
  EXPECT_TRUE(check(*problem).isOk());
  EXPECT_EQ(problem->sampleCount(), 2u);
  EXPECT_EQ(problem->sections[1].devices.size(), 2u);
  EXPECT_EQ(problem->sections[1].stages[0].update.terms[0].picoseconds, 5000);
  ASSERT_EQ(problem->sections[0].areas.size(), 1u);
  EXPECT_EQ(problem->sections[0].areas[0].padded, 1u);
  EXPECT_EQ(problem->sections[0].areas[0].capacity, 4096);
  EXPECT_EQ(problem->edges[0].depth, 4u);
  EXPECT_TRUE(problem->edges[0].heldUntilBackward);
  int64_t dims[] = {2, 512};
  EXPECT_EQ(evaluate(problem->sections[0].stages[0].forward, dims), 26); // 20 ns + 5.12 ns, rounded up.
}

TEST(ProblemText, HintsAreParts) {
  Result<Problem> problem =
      parseProblem(std::string(small) + "hint micro_batches_per_replica 16 headroom 2 rule 2\nhint light_ends 1\n");
  ASSERT_TRUE(problem.isOk()) << problem.status().message();
  ASSERT_EQ(problem->hints.size(), 2u);
  EXPECT_EQ(problem->hints[0].microBatchesPerReplica, 16);
  EXPECT_EQ(problem->hints[0].headroom, 2);
  EXPECT_EQ(problem->hints[0].lengthBands, Choice().lengthBands);
  EXPECT_EQ(problem->hints[0].rule, Rule::ShortestFirst);
  Result<Problem> again = parseProblem(print(*problem));
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(again->hints, problem->hints);
  EXPECT_THAT(parseProblem(std::string(small) + "hint speed 4\n").status().message(),
              HasSubstr("no part of a choice is called 'speed'"));
  EXPECT_THAT(parseProblem(std::string(small) + "hint rule 200\n").status().message(),
              HasSubstr("rule 200 is not in [0, 3]"));
  problem->hints[0].lengthBands = 0;
  EXPECT_THAT(check(*problem).message(), HasSubstr("length_bands 0 is not in [1, 64]"));
}

TEST(ProblemText, RoundTrips) {
  Scheduler scheduler;
  Schedule schedule;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Problem problem = arbitraryProblem(seed);
    Result<Problem> again = parseProblem(print(problem));
    ASSERT_TRUE(again.isOk()) << again.status().message();
    ASSERT_EQ(print(problem), print(*again));
    scheduler.run(problem, Order::Wavefront, schedule);
    Result<Schedule> read = parseSchedule(*again, print(problem, schedule));
    ASSERT_TRUE(read.isOk()) << read.status().message();
    ASSERT_EQ(hash(*read), hash(schedule));
    Status verified = verify(*again, *read);
    ASSERT_TRUE(verified.isOk()) << verified.message();
    ASSERT_EQ(read->makespanNs, schedule.makespanNs);
  }
}

TEST(ProblemText, NamesTheLineOfAFault) {
  auto fault = [](std::string_view text) {
    Result<Problem> problem = parseProblem(text);
    return problem.isOk() ? std::string("accepted") : std::string(problem.status().message());
  };
  EXPECT_THAT(fault("devices 1\nbanana 3\n"), HasSubstr("line 2: unknown keyword 'banana'"));
  EXPECT_THAT(fault("devices many"), HasSubstr("line 1: expected a number of devices, found 'many'"));
  EXPECT_THAT(fault("devices 1 2"), HasSubstr("line 1: unexpected '2'"));
  EXPECT_THAT(fault("devices 99999999999"), HasSubstr("line 1"));
  EXPECT_THAT(fault("dim a max x"), HasSubstr("a multiple"));
  EXPECT_THAT(fault("stage slots 1"), HasSubstr("outside of a section"));
  EXPECT_THAT(fault("section s\nsection s"), HasSubstr("line 2: section s is there twice"));
  EXPECT_THAT(fault("dim a sum\nsection s\nstage forward 1*b"), HasSubstr("line 3: no dim is called 'b'"));
  EXPECT_THAT(fault("dim a sum\nsection s\narea a b 4"), HasSubstr("line 3: no dim is called 'b'"));
  EXPECT_THAT(fault("dim a sum\ndim b max\nsection s\narea a b"),
              HasSubstr("line 4: expected a number of padded tokens"));
  EXPECT_THAT(fault("section s\nedge s 0 -> t 0"), HasSubstr("line 2: no section is called 't'"));
  EXPECT_THAT(fault("dim a sum\nsample"), HasSubstr("a value of a"));
  EXPECT_THAT(fault("section s\ndim a sum"), HasSubstr("dims stand before"));
}

TEST(ProblemText, NamesTheLineOfAFaultInASchedule) {
  Problem problem = *parseProblem(small);
  auto fault = [&](std::string_view text) {
    Result<Schedule> schedule = parseSchedule(problem, text);
    return schedule.isOk() ? std::string("accepted") : std::string(schedule.status().message());
  };
  EXPECT_THAT(fault("microbatch x 0 samples 0"), HasSubstr("no section is called 'x'"));
  EXPECT_THAT(fault("microbatch teacher 0 samples 7"), HasSubstr("line 1: sample 7: the batch has 2"));
  EXPECT_THAT(fault("device 7"), HasSubstr("device 7 of 3"));
  EXPECT_THAT(fault("device 0 F0.0@0-1"), HasSubstr("micro-batch 0 of 0"));
  EXPECT_THAT(fault("microbatch teacher 0 samples 0\ndevice 0 X0.0@0-1"), HasSubstr("line 2: expected a task"));
  EXPECT_THAT(fault("microbatch teacher 0 samples 0\ndevice 0 F0.0@0"), HasSubstr("line 2: expected a task"));
}

/// Cut, doubled, or changed anywhere: read or refused, never a crash; what check() then accepts gets a schedule.
TEST(ProblemText, SurvivesDamage) {
  Random random(7);
  Scheduler scheduler;
  Schedule schedule;
  size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = small;
    for (int64_t edits = random.in(1, 4); edits > 0 && !text.empty(); --edits) {
      size_t at = static_cast<size_t>(random.in(0, static_cast<int64_t>(text.size()) - 1));
      switch (random.in(0, 3)) {
      case 0:
        text.erase(at, static_cast<size_t>(random.in(1, 30)));
        break;
      case 1:
        text[at] = static_cast<char>(random.in(0, 255));
        break;
      case 2:
        text.insert(at, text.substr(at / 2, 20));
        break;
      default:
        text.insert(at, std::to_string(random.in(0, 12)));
      }
    }
    Result<Problem> problem = parseProblem(text);
    if (!problem.isOk() || !check(*problem).isOk())
      continue;
    ++accepted;
    ASSERT_TRUE(parseProblem(print(*problem)).isOk()) << text;
    if (problem->devices > 1000)
      continue;
    scheduler.run(*problem, Order::Wavefront, schedule);
    Status verified = verify(*problem, schedule);
    ASSERT_TRUE(verified.isOk()) << verified.message() << "\n" << text;
    (void)parseSchedule(*problem, text);
  }
  EXPECT_GT(accepted, 200u);
}

TEST(ProblemText, DrawsAGantt) {
  Problem problem = *parseProblem(small);
  Schedule schedule;
  Scheduler().run(problem, Order::Wavefront, schedule);
  std::string gantt = drawGantt(problem, schedule, 40);
  EXPECT_THAT(gantt, HasSubstr("device 0   |A"));
  EXPECT_THAT(gantt, HasSubstr("B student: busy"));
  EXPECT_THAT(gantt, testing::ContainsRegex("b"));
}

} // namespace
} // namespace maestro::wavefront

// The problems of problems/*.txt: each is read, scheduled, verified, and held to what its `# expect` lines say.
#include "test/wavefront/problem_text.h"
#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace maestro::wavefront {
namespace {

TEST(Problems, AreScheduledAsExpected) {
  size_t expectations = 0;
  for (const auto &entry : std::filesystem::directory_iterator(PROBLEMS)) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream file(entry.path());
    std::string text((std::istreambuf_iterator<char>(file)), {});
    Result<Problem> problem = parseProblem(text);
    ASSERT_TRUE(problem.isOk()) << problem.status().message();
    ASSERT_TRUE(check(*problem).isOk()) << check(*problem).message();
    Schedule schedule, fileOrder;
    Scheduler scheduler;
    scheduler.run(*problem, Order::Wavefront, schedule);
    scheduler.run(*problem, Order::FileOrder, fileOrder);
    for (const Schedule *made : {&schedule, &fileOrder})
      ASSERT_TRUE(verify(*problem, *made).isOk()) << verify(*problem, *made).message();
    EXPECT_LE(schedule.makespanNs, fileOrder.makespanNs);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string hash, expect, what, value;
      words >> hash >> expect >> what >> value;
      if (hash != "#" || expect != "expect")
        continue;
      ++expectations;
      if (what == "makespan")
        EXPECT_EQ(schedule.makespanNs, std::stoll(value)) << print(*problem, schedule) << drawGantt(*problem, schedule);
      else if (what == "ratio")
        EXPECT_LE(static_cast<double>(schedule.makespanNs),
                  std::stod(value) * static_cast<double>(schedule.lowerBoundNs))
            << drawGantt(*problem, schedule);
      else
        EXPECT_EQ(what, "stuck");
    }
  }
  EXPECT_GE(expectations, 4u);
}

} // namespace
} // namespace maestro::wavefront

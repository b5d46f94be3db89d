// Quality of schedules, time to make them, and what they gain over static layouts in file order.
#include "executor/wavefront/scheduler.h"
#include "test/wavefront/random_problems.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace maestro::wavefront {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Of this thread, so that a busy machine does not count.
int64_t cpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

void quality(uint64_t firstSeed, uint64_t seeds, bool each, const char *only) {
  std::printf("%-14s %8s %8s %8s %10s %10s\n", "family", "median", "p90", "worst", "ns/task", "file/wave");
  Scheduler scheduler;
  Schedule schedule, file;
  std::vector<double> all;
  double slow = 0;
  int64_t totalTasks = 0, totalNs = 0;
  for (Family family : families) {
    if (only && std::string(only) != name(family))
      continue;
    std::vector<double> ratios, speeds, gains;
    for (uint64_t seed = firstSeed; seed < firstSeed + seeds; ++seed) {
      Problem problem = trainingProblem(family, seed);
      if (getenv("INF")) {
        int m = atoi(getenv("INF"));
        for (auto &e : problem.edges) { if (m & 1) e.depth = 1000000; if (m & 2) e.gradientDepth = 1000000; }
        for (auto &q : problem.sections) for (auto &st : q.stages) if (m & 4) st.slots = 1000000;
      }
      if (Status checked = check(problem); !checked.isOk()) {
        std::printf("%s\n", std::string(checked.message()).c_str());
        std::exit(1);
      }
      int64_t start = cpuNs();
      scheduler.run(problem, Order::Wavefront, schedule);
      int64_t end = cpuNs();
      if (Status verified = verify(problem, schedule); !verified.isOk()) {
        std::printf("%s %lu: %s\n", name(family), seed, std::string(verified.message()).c_str());
        std::exit(1);
      }
      scheduler.run(problem, Order::FileOrder, file);
      double ns = static_cast<double>(end - start);
      ratios.push_back(static_cast<double>(schedule.makespanNs) / static_cast<double>(schedule.lowerBoundNs));
      speeds.push_back(ns / static_cast<double>(schedule.tasks.size()));
      gains.push_back(static_cast<double>(file.makespanNs) / static_cast<double>(schedule.makespanNs));
      slow = std::max(slow, speeds.back());
      totalTasks += static_cast<int64_t>(schedule.tasks.size()), totalNs += static_cast<int64_t>(ns);
      if (each) {
        int64_t fullest = 0;
        for (uint32_t d = 0; d < problem.devices; ++d) {
          int64_t busy = 0;
          for (const Task &task : schedule.tasksOf(d))
            busy += task.endNs - task.startNs;
          fullest = std::max(fullest, busy);
        }
        std::printf("%s %lu: ratio %.3f load %.3f gain %.2f samples %zu devices %u tasks %zu groups %zu  %.1f us |", name(family), seed, ratios.back(), static_cast<double>(fullest) / static_cast<double>(schedule.lowerBoundNs),
                    gains.back(), problem.sampleCount(), problem.devices, schedule.tasks.size(), schedule.microBatches.size(), ns / 1000);
        for (const Section &s : problem.sections)
          std::printf(" %s %zux%zu", s.name.c_str(), s.devices.size(), s.stages.size());
        std::printf("\n");
      }
    }
    std::sort(ratios.begin(), ratios.end());
    all.insert(all.end(), ratios.begin(), ratios.end());
    std::printf("%-14s %8.3f %8.3f %8.3f %10.0f %10.2f\n", name(family), median(ratios), ratios[ratios.size() * 9 / 10],
                ratios.back(), median(speeds), median(gains));
  }
  std::sort(all.begin(), all.end());
  std::printf("%-14s %8.3f %8.3f %8.3f %10.0f (slowest %.0f)\n", "all", median(all), all[all.size() * 9 / 10], all.back(),
              static_cast<double>(totalNs) / static_cast<double>(totalTasks), slow);
}

} // namespace
} // namespace maestro::wavefront

int main(int argc, char **argv) {
  using namespace maestro::wavefront;
  quality(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0, argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 40, argc > 3, argc > 4 ? argv[4] : nullptr);
  return 0;
}

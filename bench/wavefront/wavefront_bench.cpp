// Quality of schedules by family of problems, what they gain over static layouts in file order by number of devices,
// and what they cost. Times are this thread's processor time, so that a busy machine does not count.
//
//   wavefront_bench [first seed [seeds per family [each]]]      each: a line a problem
#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace maestro::wavefront {
namespace {

int64_t cpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

struct Figures {
  std::vector<double> values;
  double at(size_t percent) {
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1, values.size() * percent / 100)];
  }
};

void insist(const Status &status) {
  if (status.isOk())
    return;
  std::printf("%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

struct Measured {
  double bound, gain, nsPerTask, stepPart, verifyNsPerTask, verifyStepPart;
};

Measured measure(Scheduler &scheduler, const Problem &problem) {
  static Schedule schedule, file;
  insist(check(problem));
  scheduler.run(problem, Order::Wavefront, schedule); // Its memory has grown, as in every step but the first.
  int64_t start = cpuNs();
  scheduler.run(problem, Order::Wavefront, schedule);
  int64_t ns = cpuNs() - start;
  static Verifier verifier;
  insist(verifier.run(problem, schedule));
  start = cpuNs();
  insist(verifier.run(problem, schedule));
  int64_t verifyNs = cpuNs() - start;
  scheduler.run(problem, Order::FileOrder, file);
  insist(verify(problem, file));
  return {ratio(schedule.makespanNs, schedule.lowerBoundNs),
          ratio(file.makespanNs, schedule.makespanNs),
          ratio(ns, static_cast<int64_t>(schedule.tasks.size())),
          ratio(ns, schedule.makespanNs),
          ratio(verifyNs, static_cast<int64_t>(schedule.tasks.size())),
          ratio(verifyNs, schedule.makespanNs)};
}

void quality(uint64_t firstSeed, uint64_t seeds, bool each) {
  std::printf("makespan / lower bound, %lu problems a family from seed %lu\n", static_cast<unsigned long>(seeds),
              static_cast<unsigned long>(firstSeed));
  std::printf("%-14s %8s %8s %8s %9s %11s %12s\n", "family", "median", "90 %", "worst", "ns/task", "% of step",
              "file / wave");
  Scheduler scheduler;
  Figures allBounds, allTight, allSpeeds, allParts, verifySpeeds, verifyParts;
  for (Family family : families) {
    Figures bounds, speeds, gains, parts;
    for (uint64_t seed = firstSeed; seed < firstSeed + seeds; ++seed) {
      Problem problem = plannedProblem(family, seed);
      Measured made = measure(scheduler, problem);
      bounds.values.push_back(made.bound);
      allTight.values.push_back(measure(scheduler, withTightRings(problem)).bound);
      gains.values.push_back(made.gain);
      speeds.values.push_back(made.nsPerTask);
      parts.values.push_back(100 * made.stepPart);
      verifySpeeds.values.push_back(made.verifyNsPerTask);
      verifyParts.values.push_back(100 * made.verifyStepPart);
      if (each)
        std::printf("%s %lu: %.3f of the bound, file order %.2f x\n", name(family), static_cast<unsigned long>(seed),
                    made.bound, made.gain);
    }
    std::printf("%-14s %8.3f %8.3f %8.3f %9.0f %11.2f %12.2f\n", name(family), bounds.at(50), bounds.at(90),
                bounds.at(100), speeds.at(50), parts.at(50), gains.at(50));
    for (auto [all, part] : {std::pair(&allBounds, &bounds), {&allSpeeds, &speeds}, {&allParts, &parts}})
      all->values.insert(all->values.end(), part->values.begin(), part->values.end());
  }
  std::printf("%-14s %8.3f %8.3f %8.3f %9.0f %11.2f\n", "all", allBounds.at(50), allBounds.at(90), allBounds.at(100),
              allSpeeds.at(50), allParts.at(50));
  size_t above = static_cast<size_t>(
      std::count_if(allBounds.values.begin(), allBounds.values.end(), [](double value) { return value > 1.15; }));
  std::printf("95 %% of all: %.3f of the bound, 99 %%: %.3f; above 1.15: %zu of %zu\n", allBounds.at(95),
              allBounds.at(99), above, allBounds.values.size());
  std::printf("with rings of two slots between stages: median %.3f, 90 %% %.3f, 95 %% %.3f, 99 %% %.3f, worst %.3f\n",
              allTight.at(50), allTight.at(90), allTight.at(95), allTight.at(99), allTight.at(100));
  std::printf("90 %% of all: %.0f ns/task, %.2f %% of the step; worst: %.0f ns/task, %.2f %%\n", allSpeeds.at(90),
              allParts.at(90), allSpeeds.at(100), allParts.at(100));
  std::printf("verifying: median %.0f ns/task, %.3f %% of the step; 90 %%: %.0f ns/task, %.3f %%; worst: %.0f ns/task, "
              "%.3f %%\n",
              verifySpeeds.at(50), verifyParts.at(50), verifySpeeds.at(90), verifyParts.at(90), verifySpeeds.at(100),
              verifyParts.at(100));
}

void againstFileOrder(uint64_t firstSeed) {
  std::printf("\nskewed multimodal mix: file order's time / wavefront's, 15 seeds\n%-10s %8s %8s %8s %14s\n", "devices",
              "least", "median", "most", "wave / bound");
  Scheduler scheduler;
  for (uint32_t devices : {2, 4, 8, 16, 32, 64}) {
    Figures gains, bounds;
    for (uint64_t seed = firstSeed; seed < firstSeed + 15; ++seed) {
      Measured made = measure(scheduler, multimodalMix(devices, seed));
      gains.values.push_back(made.gain);
      bounds.values.push_back(made.bound);
    }
    std::printf("%-10u %8.2f %8.2f %8.2f %14.3f\n", devices, gains.at(0), gains.at(50), gains.at(100), bounds.at(50));
  }
}

} // namespace
} // namespace maestro::wavefront

int main(int argc, char **argv) {
  auto number = [&](int index, uint64_t fallback) {
    return argc > index ? std::strtoull(argv[index], nullptr, 10) : fallback;
  };
  maestro::wavefront::quality(number(1, 0), std::max<uint64_t>(1, number(2, 40)), argc > 3);
  maestro::wavefront::againstFileOrder(number(1, 0));
  return 0;
}

// How good schedules are, by family of problems, and what they cost; what they gain over static layouts in file order;
// what each part of a recipe brings. Times are this thread's processor time, so that a busy machine does not count.
//
//   wavefront_bench [--seed N] [--seeds N] [--plain] [--each] [--without PART]... [--ablation]
//
//   --seed, --seeds   the first seed of each family, and how many: 0 and 40
//   --plain           without the hints and the micro-batches in flight that a plan has
//   --each            a line a problem: family, seed, makespan, bound, tasks, nanoseconds
//   --without PART    that part of every choice stays as it usually is, in hints as in steps; may be repeated
//   --ablation        the same table for every part, one at a time
#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::wavefront {
namespace {

struct Options {
  uint64_t firstSeed = 0, seeds = 40;
  bool plain = false, each = false, ablation = false;
  uint64_t fixedParts = 0; ///< As Scheduler has them.
};

int64_t cpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

struct Figures {
  std::vector<double> values;
  double at(double percent) {
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1, static_cast<size_t>(static_cast<double>(values.size()) * percent / 100))];
  }
  double mean() const {
    double sum = 0;
    for (double value : values)
      sum += value;
    return sum / static_cast<double>(values.size());
  }
};

void insist(const Status &status) {
  if (status.isOk())
    return;
  std::printf("%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

struct Measured {
  int64_t makespanNs, boundNs, fileNs, tasks, ns, verifyNs;
};

Measured measure(Scheduler &scheduler, const Problem &problem) {
  static Schedule schedule, file;
  static Verifier verifier;
  insist(check(problem));
  scheduler.run(problem, Order::Wavefront, schedule); // Its memory has grown, as in every step but the first.
  int64_t start = cpuNs();
  scheduler.run(problem, Order::Wavefront, schedule);
  int64_t ns = cpuNs() - start;
  insist(verifier.run(problem, schedule));
  start = cpuNs();
  insist(verifier.run(problem, schedule));
  int64_t verifyNs = cpuNs() - start;
  scheduler.run(problem, Order::FileOrder, file);
  insist(verify(problem, file));
  return {schedule.makespanNs,
          schedule.lowerBoundNs,
          file.makespanNs,
          static_cast<int64_t>(schedule.tasks.size()),
          ns,
          verifyNs};
}

Problem problemOf(const Options &options, Family family, uint64_t seed) {
  return options.plain ? trainingProblem(family, seed) : plannedProblem(family, seed, options.fixedParts);
}

void printDistribution(const char *what, Figures &figures) {
  std::printf("%-24s mean %.4f  median %.4f  95 %% %.4f  99 %% %.4f  worst %.4f\n", what, figures.mean(),
              figures.at(50), figures.at(95), figures.at(99), figures.at(100));
  std::fflush(stdout);
}

void quality(const Options &options, const char *title) {
  Scheduler scheduler(options.fixedParts);
  Figures all, tight, speeds, parts, verifySpeeds;
  bool table = !options.ablation && !options.each;
  for (Family family : families) {
    Figures bounds, gains;
    for (uint64_t seed = options.firstSeed; seed < options.firstSeed + options.seeds; ++seed) {
      Problem problem = problemOf(options, family, seed);
      Measured made = measure(scheduler, problem);
      bounds.values.push_back(ratio(made.makespanNs, made.boundNs));
      gains.values.push_back(ratio(made.fileNs, made.makespanNs));
      speeds.values.push_back(ratio(made.ns, made.tasks));
      parts.values.push_back(100 * ratio(made.ns, made.makespanNs));
      verifySpeeds.values.push_back(ratio(made.verifyNs, made.tasks));
      if (table) {
        Measured few = measure(scheduler, withTightRings(problem));
        tight.values.push_back(ratio(few.makespanNs, few.boundNs));
      }
      if (options.each)
        std::printf("each %s %lu %ld %ld %ld %ld\n", name(family), static_cast<unsigned long>(seed), made.makespanNs,
                    made.boundNs, made.tasks, made.ns);
    }
    all.values.insert(all.values.end(), bounds.values.begin(), bounds.values.end());
    if (table) {
      printDistribution(name(family), bounds);
      std::printf("%24s file order takes %.2f x as long\n", "", gains.at(50));
    }
  }
  printDistribution(title, all);
  if (!table)
    return;
  printDistribution("rings of two slots", tight);
  std::printf("processor time a task: median %.0f ns, 90 %% %.0f ns; of the step: median %.3f %%, 90 %% %.3f %%, worst "
              "%.3f %%; verifying a task: median %.0f ns\n",
              speeds.at(50), speeds.at(90), parts.at(50), parts.at(90), parts.at(100), verifySpeeds.at(50));
}

uint64_t partNamed(std::string_view name) {
  std::span<const ChoicePart> parts = choiceParts();
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].name == name)
      return uint64_t{1} << i;
  std::fprintf(stderr, "wavefront_bench: no part of a choice is called %s\n", std::string(name).c_str());
  std::exit(1);
}

void ablation(Options options) {
  quality(options, "all parts");
  uint64_t fixedParts = options.fixedParts;
  for (const ChoicePart &part : choiceParts()) {
    options.fixedParts = fixedParts | partNamed(part.name);
    quality(options, (std::string("without ") + part.name).c_str());
  }
}

void againstFileOrder(uint64_t firstSeed) {
  std::printf("\nskewed multimodal mix: file order's time / wavefront's, 15 seeds\n%-10s %8s %8s %8s %14s\n", "devices",
              "least", "median", "most", "wave / bound");
  Scheduler scheduler;
  for (uint32_t devices : {2, 4, 8, 16, 32, 64}) {
    Figures gains, bounds;
    for (uint64_t seed = firstSeed; seed < firstSeed + 15; ++seed) {
      Measured made = measure(scheduler, multimodalMix(devices, seed));
      gains.values.push_back(ratio(made.fileNs, made.makespanNs));
      bounds.values.push_back(ratio(made.makespanNs, made.boundNs));
    }
    std::printf("%-10u %8.2f %8.2f %8.2f %14.3f\n", devices, gains.at(0), gains.at(50), gains.at(100), bounds.at(50));
  }
}

} // namespace
} // namespace maestro::wavefront

int main(int argc, char **argv) {
  using namespace maestro::wavefront;
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (word == "--seed")
      options.firstSeed = std::strtoull(value(), nullptr, 10);
    else if (word == "--seeds")
      options.seeds = std::max<uint64_t>(1, std::strtoull(value(), nullptr, 10));
    else if (word == "--plain")
      options.plain = true;
    else if (word == "--each")
      options.each = true;
    else if (word == "--ablation")
      options.ablation = true;
    else if (word == "--without")
      options.fixedParts |= partNamed(value());
    else
      return std::fprintf(stderr, "wavefront_bench: unknown option %s\n", argv[i]), 1;
  }
  if (options.ablation)
    return ablation(options), 0;
  quality(options, "all");
  if (!options.each)
    againstFileOrder(options.firstSeed);
  return 0;
}

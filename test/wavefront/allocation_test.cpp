// Scheduling a step allocates nothing once a problem of its size has been seen: counted by replacing operator new.
#include "executor/wavefront/scheduler.h"
#include "test/wavefront/random_problems.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

namespace {
size_t allocations = 0;

void *allocate(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
} // namespace

void *operator new(size_t bytes) { return allocate(bytes); }
void *operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }

namespace maestro::wavefront {
namespace {

TEST(Allocation, NoneForAProblemSeenBefore) {
  Scheduler scheduler;
  Schedule schedule;
  std::vector<Problem> problems;
  for (Family family : families)
    for (uint64_t seed = 0; seed < 4; ++seed)
      problems.push_back(trainingProblem(family, seed));
  for (uint64_t seed = 0; seed < 50; ++seed)
    problems.push_back(arbitraryProblem(seed));
  for (Order order : {Order::Wavefront, Order::FileOrder}) {
    for (const Problem &problem : problems)
      scheduler.run(problem, order, schedule);
    for (size_t i = 0; i < problems.size(); ++i) {
      size_t before = allocations;
      scheduler.run(problems[i], order, schedule);
      EXPECT_EQ(allocations - before, 0u) << "problem " << i << ", order " << static_cast<int>(order);
    }
  }
}

} // namespace
} // namespace maestro::wavefront

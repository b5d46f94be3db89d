// Seeded search problems small enough to enumerate.
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// Two or three sections in a chain or a fork, two or three devices, two or three sizes of micro-batches, a few samples of
/// uneven sizes; some with sections that are also cut in two, with pins, or with little memory.
SearchProblem smallProblem(uint64_t seed);

/// Two sections, "teacher" (frozen) before "student": forward of `teacherPs` a sample, and `studentPs` for each direction.
SearchProblem distillation(uint32_t devices, int64_t teacherPs, int64_t studentPs);

} // namespace maestro::planner

// Seeded search problems small enough to enumerate.
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// The answer of a search, which must be one and obey verify(); an empty one, and a failure, otherwise.
SearchResult verified(const SearchProblem &problem, Result<SearchResult> result);

/// The layout of that name among those compared, which must be there.
const ComparedLayout &row(const SearchResult &result, const std::string &name);

/// Two or three sections in a chain or a fork, two or three devices, two or three sizes of micro-batches, a few samples
/// of uneven sizes; some with sections of two atoms, with recompute, with a split backward, with pins, or with little
/// memory.
SearchProblem smallProblem(uint64_t seed);

/// Two sections, "teacher" (frozen) before "student": forward of `teacherNs` a padded token, and `studentNs`, twice
/// that back.
SearchProblem distillation(uint32_t devices, int64_t teacherNs, int64_t studentNs);

/// A frozen teacher of so many layers before a student of half as many and a head, on devices in nodes of eight with
/// little memory, with eight samples a device.
SearchProblem layered(uint32_t devices, uint32_t layers, uint64_t seed);

} // namespace maestro::planner

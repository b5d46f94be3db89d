// A small plan that uses every table of the format: a frozen teacher and a student that trains.
#pragma once

#include "plan/builder.h"

namespace maestro::plan::test {

/// Built anew at each call, always the same.
PlanBuilder exampleBuilder();
/// A second replica of the student on a third device: gradients are added up.
void addReplica(PlanBuilder &builder);
/// A plan for one node, in one for two.
void addSpare(PlanBuilder &builder);
/// A third device that shares the student's station.
void shareStudent(PlanBuilder &builder);
/// The student's gradients, but its loss's, in a WeightGradient program.
void splitStudent(PlanBuilder &builder);

/// finish() of exampleBuilder(); ends the test program when that fails.
std::vector<uint8_t> exampleBytes();

/// Serialised without the verifier, for tests of the verifier.
std::vector<uint8_t> packUnverified(const fb::PlanT &plan);

/// Indices into the example, for tests that change it.
inline constexpr uint32_t kStudent = 1; ///< Section and executable.

} // namespace maestro::plan::test

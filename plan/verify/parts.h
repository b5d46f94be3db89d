// The parts of the verifier, in the order in which they run. Each may trust those before it.
#pragma once

#include "plan/dims.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/verify/place.h"
#include "plan/verify/work.h"

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::plan {

/// File identifier, structure of the bytes, version. Afterwards the tables may be read.
Status verifyBytes(std::span<const uint8_t> bytes);

/// Names, symbols, expressions, kernels, scopes, attribute lists, machine, prediction, decisions, explanation.
Status verifyCommon(const fb::Plan &plan, Work &work);
/// Optimizer, schedule, losses.
Status verifyTraining(const fb::Plan &plan, Work &work);
/// Fields, files, components, parameters.
Status verifyData(const fb::Plan &plan, Work &work);
/// Sections, edges, executables' places in them, stations, ranks.
Status verifySections(const fb::Plan &plan, Work &work);

/// One executable at the bounds of its symbols; made once per executable and shared by its checks.
struct BoundedExecutable {
  const fb::Plan &plan;
  const fb::Executable &table;
  const Place &place;
  Work &work;
  std::vector<int64_t> dims; ///< By Plan.exprs; DimTable::kUndefined where a symbol has no bound.

  const fb::Buffer &buffer(uint32_t index) const { return *table.buffers()->Get(index); }
  const fb::Region &regionOf(uint32_t buffer) const { return *table.regions()->Get(this->buffer(buffer).region()); }
  /// nullptr when there is none of this kind.
  const fb::Program *program(fb::ProgramKind kind) const;
};

/// Whether all dims are constants.
bool isFixed(const fb::Plan &plan, const flatbuffers::Vector<uint32_t> &shape);

/// Bounds, regions, buffers; fills dims.
Status verifyBuffers(BoundedExecutable &executable);
/// Kinds, indices of calls, expressions that they use.
Status verifyPrograms(const BoundedExecutable &executable);
/// Types, shapes, regions of bindings, and what each executable needs of them.
Status verifyBindings(const BoundedExecutable &executable);
/// Programs read only what was written and write only what they may.
Status verifyDataflow(const BoundedExecutable &executable);
/// Bindings that all executables together must have: losses, trainable parameters.
Status verifyCompleteness(const fb::Plan &plan);
/// Plans for fewer nodes, each as a whole; they have none themselves.
Status verifySpares(const fb::Plan &plan);
/// All parts.
Status verifyWhole(std::span<const uint8_t> bytes, bool isSpare);
/// Which stations add up which gradients.
Status verifyGradientSums(const fb::Plan &plan, Work &work);

} // namespace maestro::plan

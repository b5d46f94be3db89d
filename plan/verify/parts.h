// The parts of the verifier, in the order in which they run. Each may trust those before it.
#pragma once

#include "plan/dims.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/verify/place.h"

#include <span>
#include <vector>

namespace maestro::plan {

/// File identifier, structure of the bytes, version. Afterwards the tables may be read.
Status verifyBytes(std::span<const uint8_t> bytes);

/// Names, texts, symbols, expressions, kernels, attribute lists, machine, training, prediction.
Status verifyCommon(const fb::Plan &plan);

/// Fields, files, components, parameters, losses.
Status verifyData(const fb::Plan &plan);

/// Sections, edges, executables' places in them, stations, ranks.
Status verifySections(const fb::Plan &plan);

/// One executable at the bounds of its symbols; made once per executable and shared by its checks.
struct BoundedExecutable {
  const fb::Plan &plan;
  const fb::Executable &table;
  const Place &place;
  std::vector<int64_t> dims;        ///< By Plan.exprs; DimTable::kUndefined where a symbol has no bound.
  std::vector<uint64_t> neededBytes; ///< By buffer: what its shape needs at the bounds.
};

/// Bounds, regions, buffers, calls' indices; fills dims and neededBytes.
Status verifyBuffers(BoundedExecutable &executable);
/// Types, shapes, regions and completeness of bindings.
Status verifyBindings(const BoundedExecutable &executable);
/// Programs read only what was written and write only what they may.
Status verifyDataflow(const BoundedExecutable &executable);
/// Bindings that only all executables together can have: losses, trainable parameters.
Status verifyTraining(const fb::Plan &plan);

} // namespace maestro::plan

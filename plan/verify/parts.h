// The parts of the verifier, in the order in which they run. Each may trust those before it.
#pragma once

#include "plan/dims.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/verify/place.h"

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::plan {

/// File identifier, structure of the bytes, version. Afterwards the tables may be read.
Status verifyBytes(std::span<const uint8_t> bytes);

/// Counts what the verifier looks at. Tables may share vectors, so that a small file could name as
/// much work as it likes; real plans stay far below the limit.
class Work {
public:
  explicit Work(size_t fileBytes) : left((size_t{1} << 26) + 32 * fileBytes) {}
  Status spend(const Place &place, size_t amount) {
    if (amount > left)
      return wrong(place, "the plan shares so many vectors that checking it would not end");
    left -= amount;
    return {};
  }

private:
  size_t left;
};

/// Names, symbols, expressions, kernels, scopes, attribute lists, machine, prediction, decisions, explanation.
Status verifyCommon(const fb::Plan &plan, Work &work);
/// Optimizer, schedule, losses.
Status verifyTraining(const fb::Plan &plan, Work &work);
/// Fields, files, components, parameters.
Status verifyData(const fb::Plan &plan);
/// Sections, edges, executables' places in them, stations, ranks.
Status verifySections(const fb::Plan &plan, Work &work);

/// One executable at the bounds of its symbols; made once per executable and shared by its checks.
struct BoundedExecutable {
  const fb::Plan &plan;
  const fb::Executable &table;
  const Place &place;
  Work &work;
  std::vector<int64_t> dims;         ///< By Plan.exprs; DimTable::kUndefined where a symbol has no bound.
  std::vector<uint64_t> neededBytes; ///< By buffer: what its shape needs in the largest micro-batch.

  const fb::Buffer &buffer(uint32_t index) const { return *table.buffers()->Get(index); }
  const fb::Region &regionOf(uint32_t buffer) const {
    return *table.regions()->Get(this->buffer(buffer).region());
  }
  /// nullptr when there is none of this kind.
  const fb::Program *program(fb::ProgramKind kind) const;
};

/// Bounds, regions, buffers; fills dims and neededBytes.
Status verifyBuffers(BoundedExecutable &executable);
/// Kinds, indices of calls, expressions that they use.
Status verifyPrograms(const BoundedExecutable &executable);
/// Types, shapes, regions of bindings, and what each executable needs of them.
Status verifyBindings(const BoundedExecutable &executable);
/// Programs read only what was written and write only what they may.
Status verifyDataflow(const BoundedExecutable &executable);
/// Bindings that all executables together must have: losses, trainable parameters.
Status verifyCompleteness(const fb::Plan &plan);
/// Which stations add up which gradients.
Status verifyGradientSums(const fb::Plan &plan, Work &work);

} // namespace maestro::plan

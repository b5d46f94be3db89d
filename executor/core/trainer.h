// The step loop of one station: a global batch in, one optimizer step done.
//
//   samples ─▶ micro-batches ─▶ Count (all) ─▶ scales ─▶ (Forward, Backward) per micro-batch ─▶ Norm ─▶ Update
//
// Everything that decides anything is a pure function of the plan and the samples' sizes; the device does
// the rest. A step over shapes seen before allocates nothing here.
#pragma once

#include "base/status.h"
#include "executor/core/executable.h"
#include "executor/data/batcher.h"
#include "executor/data/source.h"
#include "executor/metrics/step_record.h"
#include "executor/wavefront/grouping.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::executor {

/// Per loss entry of the plan: sums over positions and their number, over a global batch or a data set.
struct LossTotals {
  std::vector<double> sums, counts; ///< By Plan.losses.
};

/// Data symbols and fields of a plan, as the data library wants them.
std::vector<data::SymbolSpec> symbolSpecs(const plan::Plan &plan);
std::vector<data::FieldSpec> fieldSpecs(const plan::Plan &plan);

class Trainer {
public:
  /// The plan, device and instance must outlive the trainer. The instance's parameters are loaded
  /// before: the Prepare program makes its copies of them here.
  static Result<std::unique_ptr<Trainer>> create(const plan::Plan &plan, Device &device,
                                                 ExecutableInstance &instance, uint64_t seed);

  /// Losses and gradients of a global batch; gradients are left in the instance. `step` from 1.
  Status computeGradients(const data::SampleBatch &batch, uint64_t step, LossTotals &totals);
  /// The 2-norm of the gradients of the last computeGradients().
  Result<double> gradientNorm();
  /// Clips, steps the optimizer, and leaves the gradients zero.
  Status update(uint64_t step, double gradientNorm);
  /// Losses of a batch without gradients: adds to `totals`.
  Status evaluate(const data::SampleBatch &batch, uint64_t step, LossTotals &totals);

  /// Symbol values of all samples of a batch taken as one micro-batch (for --self-check).
  Result<std::vector<int64_t>> combinedSymbols(const data::SampleBatch &batch);
  /// Makes every batch one micro-batch, whatever the capacities (for --self-check, on an instance
  /// that has grown accordingly).
  void useOnePiece() { onePiece = true; }

  /// The weighted loss, and each named loss unweighted.
  double weightedLoss(const LossTotals &totals) const;
  void namedLosses(const LossTotals &totals, std::vector<metrics::LossValue> &values) const;

  size_t microBatches() const { return groupCount; } ///< Of the last batch.
  uint64_t tokens() const { return tokenCount; }     ///< Of the last batch, padding not counted.

private:
  Trainer(const plan::Plan &plan, Device &device, ExecutableInstance &instance, uint64_t seed);
  Status prepareParameters();
  Status measure(const data::Sample &sample, std::span<int64_t> sizes) const;
  Status planBatch(const data::SampleBatch &batch);
  Status countLosses(uint64_t step, LossTotals &totals);
  Status writeScales(const LossTotals &totals);
  Status loadMicroBatch(size_t index, plan::fb::ProgramKind program, uint64_t step);
  Status loadField(uint32_t field, size_t index);
  Status readScalars(plan::fb::BindingKind kind, size_t index, std::vector<float> &values);
  Status runMicroBatches(bool gradients, uint64_t step, LossTotals &totals);
  Result<BoundShapes *> shapesOf(size_t index);

  const plan::Plan &plan;
  Device &device;
  ExecutableInstance &instance;
  uint64_t seed;
  bool onePiece = false;

  std::unique_ptr<data::Batcher> batcher;
  std::vector<wavefront::DimRule> rules; ///< By Plan.symbols.
  uint32_t sampleSymbol = kNone;         ///< Counts samples rather than a field's rows (dropout's sample ids).
  std::vector<wavefront::MicroBatch> groups;
  size_t groupCount = 0;
  uint64_t tokenCount = 0;
  std::vector<int64_t> manifest;         ///< samples × symbols
  std::vector<const data::Sample *> samples;

  /// Host copies of what a micro-batch's task reads; two sets, so that one is filled while the
  /// device still reads the other.
  struct Staging {
    std::vector<std::vector<std::byte>> fields; ///< By Plan.fields.
    std::vector<int64_t> sampleIds;
    std::array<int64_t, 2> randomState{};
    Event busyUntil = 0;
  };
  std::array<Staging, 2> staging;
  size_t nextStaging = 0;
  std::vector<float> sums, counts; ///< micro-batch × Plan.losses
  std::vector<float> scales;
  std::array<float, 8> hyper{};
  double normSquares = 0;
};

} // namespace maestro::executor

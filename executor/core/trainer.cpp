#include "executor/core/trainer.h"

#include "executor/core/hyper_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace maestro::executor {

namespace fb = plan::fb;

std::vector<data::SymbolSpec> symbolSpecs(const plan::Plan &plan) {
  std::vector<data::SymbolSpec> specs;
  for (const fb::Symbol *symbol : *plan->symbols()) {
    data::SymbolSpec spec;
    spec.name = symbol->name()->str();
    spec.combine = static_cast<data::Combine>(symbol->combine());
    spec.sampleMax = symbol->sample_max();
    spec.multipleOf = symbol->multiple_of();
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<data::FieldSpec> fieldSpecs(const plan::Plan &plan) {
  std::vector<data::FieldSpec> specs;
  for (const fb::Field *field : *plan->fields()) {
    data::FieldSpec spec;
    spec.name = field->name()->str();
    spec.dtype = static_cast<DType>(field->dtype());
    for (uint32_t expr : *field->shape()) {
      const fb::DimExpr *node = plan->exprs()->Get(expr);
      spec.dims.push_back(node->op() == fb::DimOp::Symbol
                              ? data::DimSpec::of(static_cast<int>(node->a()))
                              : data::DimSpec::fixed(node->a()));
    }
    spec.pad = field->pad();
    spec.indexLimit = field->index_limit();
    if (field->has_ignore_index())
      spec.ignoreIndex = field->ignore_index();
    spec.optional = field->optional();
    specs.push_back(std::move(spec));
  }
  return specs;
}

namespace {

/// The symbol of the sample ids' length, where no field has it.
uint32_t findSampleSymbol(const plan::Plan &plan, const ExecutableInstance &instance) {
  uint32_t buffer = instance.boundBuffer(fb::BindingKind::SampleIds, 0);
  if (buffer == kNone)
    return kNone;
  uint32_t length = instance.table().buffers()->Get(buffer)->shape()->Get(0);
  if (plan->exprs()->Get(length)->op() != fb::DimOp::Symbol)
    return kNone;
  for (const fb::Field *field : *plan->fields())
    for (uint32_t dim : *field->shape())
      if (dim == length)
        return kNone;
  return static_cast<uint32_t>(plan->exprs()->Get(length)->a());
}

} // namespace

Trainer::Trainer(const plan::Plan &plan, Device &device, ExecutableInstance &instance, uint64_t seed)
    : plan(plan), device(device), instance(instance), seed(seed) {}

Result<std::unique_ptr<Trainer>> Trainer::create(const plan::Plan &plan, Device &device,
                                                 ExecutableInstance &instance, uint64_t seed) {
  std::unique_ptr<Trainer> trainer(new Trainer(plan, device, instance, seed));
  MAESTRO_ASSIGN(trainer->batcher, data::Batcher::create(symbolSpecs(plan), fieldSpecs(plan)));
  for (const fb::Symbol *symbol : *plan->symbols()) {
    wavefront::DimRule rule;
    rule.name = symbol->name()->str();
    rule.sum = symbol->combine() == fb::Combine::Sum;
    rule.multipleOf = symbol->multiple_of();
    rule.capacity = std::numeric_limits<int64_t>::max();
    trainer->rules.push_back(std::move(rule));
  }
  for (const fb::Bound *bound : *instance.table().bounds())
    trainer->rules[bound->symbol()].capacity = bound->value();
  trainer->sampleSymbol = findSampleSymbol(plan, instance);
  for (Staging &set : trainer->staging)
    set.fields.resize(plan->fields()->size());
  trainer->scales.resize(plan->losses()->size());
  MAESTRO_TRY(trainer->prepareParameters());
  return trainer;
}

/// Copies of parameters in other element types, made from the values that were loaded.
Status Trainer::prepareParameters() {
  if (!instance.hasProgram(fb::ProgramKind::Prepare))
    return Status();
  MAESTRO_ASSIGN(BoundShapes * shapes, instance.bindBounds());
  MAESTRO_TRY(instance.launch(fb::ProgramKind::Prepare, *shapes, 0, -1));
  return device.wait(device.record());
}

Status Trainer::measure(const data::Sample &sample, std::span<int64_t> sizes) const {
  MAESTRO_TRY(batcher->measure(sample, sizes));
  if (sampleSymbol != kNone)
    sizes[sampleSymbol] = 1;
  return Status();
}

/// Measures the samples and forms the micro-batches.
Status Trainer::planBatch(const data::SampleBatch &batch) {
  size_t symbolCount = rules.size();
  manifest.resize(batch.count * symbolCount);
  samples.clear();
  tokenCount = 0;
  for (size_t s = 0; s < batch.count; ++s) {
    std::span<int64_t> sizes(manifest.data() + s * symbolCount, symbolCount);
    MAESTRO_TRY(measure(batch.samples[s], sizes));
    samples.push_back(&batch.samples[s]);
    int64_t longest = 1;
    for (size_t r = 0; r < symbolCount; ++r)
      if (!rules[r].sum)
        longest = std::max(longest, sizes[r]);
    tokenCount += static_cast<uint64_t>(longest);
  }
  wavefront::GroupingProblem problem{rules, manifest, instance.table().samples()};
  if (rules.empty())
    return Status::internal("the plan declares no symbolic dims");
  if (onePiece) {
    groups.resize(std::max<size_t>(groups.size(), 1));
    groups[0].first = 0;
    groups[0].count = batch.count;
    groups[0].dims.assign(symbolCount, 0);
    batcher->combine(manifest, groups[0].dims);
    groupCount = 1;
  } else {
    MAESTRO_TRY(wavefront::check(problem));
    wavefront::groupInOrder(problem, groups, groupCount);
  }
  sums.assign(groupCount * plan->losses()->size(), 0);
  counts.assign(groupCount * plan->losses()->size(), 0);
  return Status();
}

Result<std::vector<int64_t>> Trainer::combinedSymbols(const data::SampleBatch &batch) {
  std::vector<int64_t> sizes(batch.count * rules.size()), combined(rules.size());
  for (size_t s = 0; s < batch.count; ++s)
    MAESTRO_TRY(measure(batch.samples[s], {sizes.data() + s * rules.size(), rules.size()}));
  batcher->combine(sizes, combined);
  return combined;
}

Result<BoundShapes *> Trainer::shapesOf(size_t index) { return instance.bind(groups[index].dims); }

Status Trainer::loadField(uint32_t field, size_t index) {
  const wavefront::MicroBatch &group = groups[index];
  std::vector<std::byte> &bytes = staging[nextStaging].fields[field];
  size_t size = batcher->bytes(field, group.dims);
  if (bytes.size() < size)
    bytes.resize(size);
  std::span<const data::Sample *const> members(samples.data() + group.first, group.count);
  MAESTRO_TRY(batcher->write(field, members, group.dims, {bytes.data(), size}));
  uint32_t buffer = instance.boundBuffer(fb::BindingKind::Field, field);
  device.write(instance.address(buffer, 0), bytes.data(), size);
  return Status();
}

/// Queues what `program` reads of micro-batch `index` into the slot.
Status Trainer::loadMicroBatch(size_t index, fb::ProgramKind kind, uint64_t step) {
  Staging &set = staging[nextStaging];
  MAESTRO_TRY(device.wait(set.busyUntil));
  auto loadAll = [&](const fb::Program *program) -> Status {
    if (program)
      for (uint32_t field : *program->fields())
        MAESTRO_TRY(loadField(field, index));
    return Status();
  };
  MAESTRO_TRY(loadAll(instance.program(kind)));
  if (kind == fb::ProgramKind::Forward) {
    // Fields that only the backward task reads.
    const auto *forward = instance.program(kind)->fields();
    if (const fb::Program *backward = instance.program(fb::ProgramKind::Backward))
      for (uint32_t field : *backward->fields())
        if (std::find(forward->begin(), forward->end(), field) == forward->end())
          MAESTRO_TRY(loadField(field, index));
  }
  const wavefront::MicroBatch &group = groups[index];
  if (uint32_t buffer = instance.boundBuffer(fb::BindingKind::RandomState, 0); buffer != kNone) {
    set.randomState = {static_cast<int64_t>(seed), static_cast<int64_t>(step)};
    device.write(instance.address(buffer, 0), set.randomState.data(), 16);
  }
  if (uint32_t buffer = instance.boundBuffer(fb::BindingKind::SampleIds, 0); buffer != kNone) {
    set.sampleIds.clear();
    for (size_t s = 0; s < group.count; ++s)
      set.sampleIds.push_back(static_cast<int64_t>(samples[group.first + s]->ordinal));
    device.write(instance.address(buffer, 0), set.sampleIds.data(), group.count * 8);
  }
  set.busyUntil = device.record();
  nextStaging = (nextStaging + 1) % staging.size();
  return Status();
}

/// Queues reading the per-loss scalars of a micro-batch; the values are there after the next wait.
Status Trainer::readScalars(fb::BindingKind kind, size_t index, std::vector<float> &values) {
  size_t losses = plan->losses()->size();
  for (uint32_t k = 0; k < losses; ++k)
    if (uint32_t buffer = instance.boundBuffer(kind, k); buffer != kNone)
      device.read(&values[index * losses + k], instance.address(buffer, 0), 4);
  return Status();
}

Status Trainer::countLosses(uint64_t step, LossTotals &totals) {
  size_t losses = plan->losses()->size();
  for (size_t i = 0; i < groupCount; ++i) {
    MAESTRO_TRY(loadMicroBatch(i, fb::ProgramKind::Count, step));
    MAESTRO_ASSIGN(BoundShapes * shapes, shapesOf(i));
    MAESTRO_TRY(instance.launch(fb::ProgramKind::Count, *shapes, 0, static_cast<int32_t>(i)));
    MAESTRO_TRY(readScalars(fb::BindingKind::LossCount, i, counts));
  }
  MAESTRO_TRY(device.wait(device.record()));
  for (size_t i = 0; i < groupCount; ++i)
    for (size_t k = 0; k < losses; ++k)
      totals.counts[k] += counts[i * losses + k];
  return Status();
}

/// weight ÷ global count per loss; 0 where a batch has no counted position.
Status Trainer::writeScales(const LossTotals &totals) {
  for (uint32_t k = 0; k < plan->losses()->size(); ++k) {
    const fb::Loss &loss = *plan->losses()->Get(k);
    double weight = loss.weight() * loss.term_weight();
    scales[k] = totals.counts[k] != 0 ? static_cast<float>(weight / totals.counts[k]) : 0.0f;
    if (uint32_t buffer = instance.boundBuffer(fb::BindingKind::LossScale, k); buffer != kNone)
      device.write(instance.address(buffer, 0), &scales[k], 4);
  }
  return Status();
}

Status Trainer::runMicroBatches(bool gradients, uint64_t step, LossTotals &totals) {
  size_t losses = plan->losses()->size();
  fb::ProgramKind first = gradients ? fb::ProgramKind::Forward : fb::ProgramKind::Evaluate;
  for (size_t i = 0; i < groupCount; ++i) {
    MAESTRO_TRY(loadMicroBatch(i, first, step));
    MAESTRO_ASSIGN(BoundShapes * shapes, shapesOf(i));
    MAESTRO_TRY(instance.launch(first, *shapes, 0, static_cast<int32_t>(i)));
    MAESTRO_TRY(readScalars(fb::BindingKind::LossSum, i, sums));
    if (gradients)
      MAESTRO_TRY(instance.launch(fb::ProgramKind::Backward, *shapes, 0, static_cast<int32_t>(i)));
  }
  MAESTRO_TRY(device.wait(device.record()));
  for (size_t i = 0; i < groupCount; ++i)
    for (size_t k = 0; k < losses; ++k)
      totals.sums[k] += sums[i * losses + k];
  return Status();
}

Status Trainer::computeGradients(const data::SampleBatch &batch, uint64_t step, LossTotals &totals) {
  totals.sums.assign(plan->losses()->size(), 0);
  totals.counts.assign(plan->losses()->size(), 0);
  MAESTRO_TRY(planBatch(batch));
  MAESTRO_TRY(countLosses(step, totals));
  MAESTRO_TRY(writeScales(totals));
  return runMicroBatches(true, step, totals);
}

Status Trainer::evaluate(const data::SampleBatch &batch, uint64_t step, LossTotals &totals) {
  totals.sums.resize(plan->losses()->size());
  totals.counts.resize(plan->losses()->size());
  MAESTRO_TRY(planBatch(batch));
  MAESTRO_TRY(countLosses(step, totals));
  return runMicroBatches(false, step, totals);
}

Result<double> Trainer::gradientNorm() {
  MAESTRO_ASSIGN(BoundShapes * shapes, instance.bindBounds());
  MAESTRO_TRY(instance.launch(fb::ProgramKind::Norm, *shapes, 0, -1));
  uint32_t buffer = instance.boundBuffer(fb::BindingKind::NormSquares, 0);
  device.read(&normSquares, instance.address(buffer, 0), 8);
  MAESTRO_TRY(device.wait(device.record()));
  return std::sqrt(normSquares);
}

Status Trainer::update(uint64_t step, double gradientNorm) {
  const fb::Training &training = *plan->training();
  hyper = hyperParameters(training, step, clipFactor(training, gradientNorm));
  uint32_t buffer = instance.boundBuffer(fb::BindingKind::HyperParameters, 0);
  device.write(instance.address(buffer, 0), hyper.data(), sizeof hyper);
  MAESTRO_ASSIGN(BoundShapes * shapes, instance.bindBounds());
  MAESTRO_TRY(instance.launch(fb::ProgramKind::Update, *shapes, 0, -1));
  return device.wait(device.record());
}

double Trainer::weightedLoss(const LossTotals &totals) const {
  double loss = 0;
  for (uint32_t k = 0; k < plan->losses()->size(); ++k)
    if (totals.counts[k] != 0)
      loss += plan->losses()->Get(k)->weight() * plan->losses()->Get(k)->term_weight() * totals.sums[k] /
              totals.counts[k];
  return loss;
}

void Trainer::namedLosses(const LossTotals &totals, std::vector<metrics::LossValue> &values) const {
  size_t used = 0;
  for (uint32_t k = 0; k < plan->losses()->size(); ++k) {
    const fb::Loss &loss = *plan->losses()->Get(k);
    double value =
        totals.counts[k] != 0 ? loss.term_weight() * totals.sums[k] / totals.counts[k] : 0.0;
    bool continues = used > 0 && values[used - 1].name == loss.name()->string_view();
    if (continues) {
      values[used - 1].value += value;
      continue;
    }
    if (values.size() == used)
      values.push_back({loss.name()->str(), 0});
    values[used++].value = value;
  }
}

} // namespace maestro::executor

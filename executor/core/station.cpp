#include "executor/core/station.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {

namespace fb = plan::fb;

Result<std::unique_ptr<Station>> Station::create(const plan::Plan &plan, const Topology &topology, uint32_t number,
                                                 Device &device, const data::Batcher &batcher, uint64_t growth,
                                                 const SharedRegions &shared, const TensorGroup &group) {
  std::unique_ptr<Station> station(new Station(batcher, device));
  MAESTRO_ASSIGN(station->executable,
                 ExecutableInstance::create(plan, topology.stations[number].executable, device, growth, shared, group));
  for (Staging &set : station->staging)
    set.fields.resize(plan->fields()->size());
  for (Staging &set : station->counting)
    set.fields.resize(plan->fields()->size());
  station->loaded.resize(plan->fields()->size());
  station->reserveStaging();
  return station;
}

/// Room for any micro-batch: later a set is never too small. What is not written takes no memory.
void Station::reserveStaging() {
  const fb::Program *count = program(fb::ProgramKind::Count);
  for (uint32_t field = 0; field < loaded.size(); ++field) {
    uint32_t buffer = executable->boundBuffer(fb::BindingKind::Field, field);
    if (buffer == kNone)
      continue;
    for (Staging &set : staging)
      set.fields[field].reserve(executable->mostBytes(buffer));
    if (count && std::find(count->fields()->begin(), count->fields()->end(), field) != count->fields()->end())
      for (Staging &set : counting)
        set.fields[field].reserve(executable->mostBytes(buffer));
  }
  if (uint32_t ids = executable->boundBuffer(fb::BindingKind::SampleIds, 0); ids != kNone) {
    for (Staging &set : staging)
      set.sampleIds.reserve(executable->mostBytes(ids) / 8);
    for (Staging &set : counting)
      set.sampleIds.reserve(executable->mostBytes(ids) / 8);
  }
}

Status Station::prepareParameters() {
  return program(fb::ProgramKind::Prepare) ? launchOnce(fb::ProgramKind::Prepare) : Status();
}

Status Station::loadField(uint32_t field, const MicroBatchData &data, uint32_t slot, Staging &set) {
  std::vector<std::byte> &bytes = set.fields[field];
  size_t size = batcher.bytes(field, data.dims);
  if (bytes.size() < size)
    bytes.resize(size);
  MAESTRO_TRY(batcher.write(field, data.samples, data.dims, {bytes.data(), size}));
  uint32_t buffer = executable->boundBuffer(fb::BindingKind::Field, field);
  device.write(Queue::Compute, executable->address(buffer, slot), bytes.data(), size);
  return Status();
}

Status Station::load(const MicroBatchData &data, uint64_t seed, uint32_t slot,
                     std::span<const fb::Program *const> programs, Staging &set) {
  if (auto shapes = executable->bind(data.dims);
      !shapes) // Before anything is written: every buffer holds the micro-batch.
    return std::move(shapes).takeStatus();
  MAESTRO_TRY(device.wait(set.busyUntil));
  std::fill(loaded.begin(), loaded.end(), false);
  for (const fb::Program *program : programs)
    for (uint32_t i = 0; program && i < program->fields()->size(); ++i)
      if (uint32_t field = program->fields()->Get(i); !loaded[field]) {
        loaded[field] = true;
        MAESTRO_TRY(loadField(field, data, slot, set));
      }
  if (uint32_t buffer = executable->boundBuffer(fb::BindingKind::RandomState, 0); buffer != kNone) {
    set.randomState = {static_cast<int64_t>(seed), static_cast<int64_t>(data.step)};
    device.write(Queue::Compute, executable->address(buffer, slot), set.randomState.data(), 16);
  }
  if (uint32_t buffer = executable->boundBuffer(fb::BindingKind::SampleIds, 0); buffer != kNone) {
    set.sampleIds.clear();
    for (const data::Sample *sample : data.samples)
      set.sampleIds.push_back(static_cast<int64_t>(sample->ordinal));
    if (set.sampleIds.size() * 8 > executable->mostBytes(buffer))
      return Status::invalidInput(fmt::format("{}: a micro-batch of {} samples; their ids have room for {}; plan again",
                                              executable->table().name()->string_view(), set.sampleIds.size(),
                                              executable->mostBytes(buffer) / 8));
    device.write(Queue::Compute, executable->address(buffer, slot), set.sampleIds.data(), set.sampleIds.size() * 8);
  }
  set.busyUntil = device.record(Queue::Compute);
  return Status();
}

Status Station::launch(fb::ProgramKind kind, const MicroBatchData &data, uint32_t slot) {
  MAESTRO_ASSIGN(BoundShapes * shapes, executable->bind(data.dims));
  return executable->launch(kind, *shapes, slot, static_cast<int32_t>(data.number));
}

Status Station::launchCount(const MicroBatchData &data, uint64_t seed) {
  const fb::Program *count = program(fb::ProgramKind::Count);
  MAESTRO_TRY(load(data, seed, 0, {&count, 1}, counting[nextCounting++ % counting.size()]));
  return launch(fb::ProgramKind::Count, data, 0);
}

Status Station::launchForward(const MicroBatchData &data, uint64_t seed, uint32_t slot, bool evaluates) {
  bool trains = !evaluates && program(fb::ProgramKind::Forward);
  // Fields that only backward tasks read come along.
  const fb::Program *programs[] = {program(trains ? fb::ProgramKind::Forward : fb::ProgramKind::Evaluate),
                                   trains ? program(fb::ProgramKind::Backward) : nullptr,
                                   trains ? program(fb::ProgramKind::WeightGradient) : nullptr};
  MAESTRO_TRY(load(data, seed, slot, programs, staging[nextStaging++ % staging.size()]));
  return launch(trains ? fb::ProgramKind::Forward : fb::ProgramKind::Evaluate, data, slot);
}

Status Station::launchBackward(const MicroBatchData &data, uint32_t slot) {
  return launch(fb::ProgramKind::Backward, data, slot);
}

Status Station::launchWeightGradient(const MicroBatchData &data, uint32_t slot) {
  return launch(fb::ProgramKind::WeightGradient, data, slot);
}

Status Station::launchOnce(fb::ProgramKind kind) {
  MAESTRO_ASSIGN(BoundShapes * shapes, executable->bindBounds());
  return executable->launch(kind, *shapes, 0, -1);
}

void Station::readLosses(fb::BindingKind kind, uint32_t slot, std::span<float> values) {
  for (uint32_t k = 0; k < values.size(); ++k)
    if (uint32_t buffer = executable->boundBuffer(kind, k); buffer != kNone)
      device.read(Queue::Compute, &values[k], executable->address(buffer, slot), 4);
}

void Station::writeScales(std::span<const float> scales) {
  for (uint32_t k = 0; k < scales.size(); ++k)
    if (uint32_t buffer = executable->boundBuffer(fb::BindingKind::LossScale, k); buffer != kNone)
      device.write(Queue::Compute, executable->address(buffer, 0), &scales[k], 4);
}

void Station::zeroGradients() {
  const fb::Executable &table = executable->table();
  for (const fb::Binding *binding : *table.bindings())
    if (binding->kind() == fb::BindingKind::Gradient)
      device.fillZero(Queue::Compute, executable->address(binding->buffer(), 0),
                      table.buffers()->Get(binding->buffer())->bytes());
}

void Station::writeHyperParameters(std::span<const std::array<float, 8>> byGroup) {
  for (uint32_t group = 0; group < byGroup.size(); ++group)
    if (uint32_t buffer = executable->boundBuffer(fb::BindingKind::HyperParameters, group); buffer != kNone)
      device.write(Queue::Compute, executable->address(buffer, 0), byGroup[group].data(), sizeof byGroup[group]);
}

bool Station::readNormSquares(uint32_t index, double &value) {
  uint32_t buffer = executable->boundBuffer(fb::BindingKind::NormSquares, index);
  if (buffer != kNone)
    device.read(Queue::Compute, &value, executable->address(buffer, 0), 8);
  return buffer != kNone;
}

uint32_t findSampleSymbol(const plan::Plan &plan) {
  auto usedByField = [&](uint32_t length) {
    for (const fb::Field *field : *plan->fields())
      for (uint32_t dim : *field->shape())
        if (dim == length)
          return true;
    return false;
  };
  for (const fb::Executable *executable : *plan->executables())
    for (const fb::Binding *binding : *executable->bindings()) {
      if (binding->kind() != fb::BindingKind::SampleIds)
        continue;
      uint32_t length = executable->buffers()->Get(binding->buffer())->shape()->Get(0);
      if (plan->exprs()->Get(length)->op() == fb::DimOp::Symbol && !usedByField(length))
        return static_cast<uint32_t>(plan->exprs()->Get(length)->a());
    }
  return kNone;
}

} // namespace maestro::executor

#include "tools/profile/stand.h"

#include "base/philox.h"
#include "executor/core/hyper_parameters.h"
#include "kernels/kernel.h"
#include "kernels/optimizer.h"

#include <algorithm>
#include <atomic>

namespace maestro::profile {

namespace fb = plan::fb;
using executor::ExecutableInstance;
using kernels::TensorType;

namespace {

template <typename T>
void fillIntegers(const fb::Field *field, const std::vector<int64_t> &symbols, std::span<T> values) {
  int64_t limit = field ? field->index_limit() : 0;
  uint32_t drawn = 1;
  for (T &value : values)
    value = limit > 0 ? static_cast<T>((drawn = drawn * 1664525u + 1013904223u) % static_cast<uint64_t>(limit)) : T{1};
  if (!field || !field->marks())
    return;
  for (T &value : values)
    for (const fb::Mark *mark : *field->marks())
      value = value == static_cast<T>(mark->value()) ? T{0} : value;
  size_t next = 0;
  for (const fb::Mark *mark : *field->marks())
    for (int64_t left = mark->per_row() * symbols[mark->symbol()]; left > 0 && next < values.size(); --left)
      values[next++] = static_cast<T>(mark->value());
}

} // namespace

Result<std::unique_ptr<Stand>> Stand::make(const plan::Plan &plan, uint32_t index, int threads) {
  auto stand = std::unique_ptr<Stand>(new Stand(plan));
  executor::CpuDeviceOptions options;
  options.threads = threads;
  options.tracesOwnTime = threads == 1; // Several threads wait for each other on the clock.
  options.onSign = [signs = std::make_shared<std::atomic<uint64_t>>(0)](executor::DeviceSign) {
    signs->fetch_add(1, std::memory_order_relaxed);
  }; // As a rank's.
  stand->device = executor::createCpuDevice(kernels::createCpuLibrary(), options);
  MAESTRO_ASSIGN(stand->instance, ExecutableInstance::create(plan, index, *stand->device));
  MAESTRO_TRY(stand->fill());
  MAESTRO_TRY(stand->preparePulse());
  return stand;
}

Status Stand::round(std::span<const int64_t> sizes, int32_t task) {
  MAESTRO_ASSIGN(executor::BoundShapes * shapes, instance->bind(sizes));
  bool isFirst = true;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    const fb::Program *own = program(i);
    if (!own)
      continue;
    device->launch(*pulse, pulseBases, kPulseTask);
    if (std::exchange(isFirst, false))
      writeFields(*shapes);
    MAESTRO_TRY(instance->launch(own->kind(), *shapes, 0, task + static_cast<int32_t>(i)));
  }
  return device->drain();
}

Status Stand::update(int32_t task) {
  if (!instance->hasProgram(fb::ProgramKind::Update))
    return Status();
  MAESTRO_ASSIGN(executor::BoundShapes * bounds, instance->bindBounds());
  device->launch(*pulse, pulseBases, kPulseTask);
  for (size_t i = 0; i < kUpdateKinds.size(); ++i)
    MAESTRO_TRY(instance->launch(kUpdateKinds[i], *bounds, 0, task + static_cast<int32_t>(i)));
  return device->drain();
}

size_t Stand::calls() const {
  size_t count = 0;
  for (size_t i = 0; i < kKinds.size(); ++i)
    if (const fb::Program *own = program(i))
      count += own->calls()->size() + kPulseCalls;
  return count;
}

size_t Stand::updateCalls() const {
  size_t count = kPulseCalls;
  for (fb::ProgramKind kind : kUpdateKinds)
    if (const fb::Program *own = instance->program(kind))
      count += own->calls()->size();
  return count;
}

const fb::Program *Stand::program(size_t kind) const {
  const fb::Program *own = instance->program(kKinds[kind]);
  return own || kind > 0 ? own : instance->program(fb::ProgramKind::Evaluate);
}

/// What programs read that nobody else writes here: values, what comes over edges, scales of
/// losses.
Status Stand::fill() {
  using Kind = fb::BindingKind;
  MAESTRO_ASSIGN(executor::BoundShapes * bounds, instance->bindBounds());
  uint32_t drawn = 0;
  for (const fb::Binding *binding : *instance->table().bindings()) {
    DType dtype = static_cast<DType>(instance->table().buffers()->Get(binding->buffer())->dtype());
    if (binding->kind() == Kind::HyperParameters) {
      auto scalars = executor::hyperParameters(*plan->training(), binding->index(), 1, 1, 1);
      scalars[kernels::kLearningRate] = 0; // Values stay as they are.
      device->write(executor::Queue::Compute, instance->address(binding->buffer(), 0), scalars.data(), sizeof scalars);
      MAESTRO_TRY(device->drain());
      continue;
    }
    bool isValue = binding->kind() == Kind::Value || binding->kind() == Kind::EdgeInput ||
                   binding->kind() == Kind::EdgeGradientInput || binding->kind() == Kind::LossScale;
    if (!isValue || (dtype != DType::F32 && dtype != DType::BF16))
      continue;
    uint64_t bytes = instance->bytes(binding->buffer(), *bounds);
    std::vector<float> values(dtype == DType::F32 ? bytes / 4 : 0);
    for (float &value : values) {
      PhiloxCounter bits = philox4x32({drawn++, 0, 0, 0}, {7, 0});
      value = (static_cast<float>(bits[0]) * 0x1p-32f - 0.5f) * 0.1f;
    }
    std::vector<uint16_t> narrow(dtype == DType::BF16 ? bytes / 2 : 0, 0x3c23); // 0.01
    const void *source = dtype == DType::F32 ? static_cast<const void *>(values.data()) : narrow.data();
    device->write(executor::Queue::Compute, instance->address(binding->buffer(), 0), source, bytes);
    MAESTRO_TRY(device->drain());
  }
  if (instance->hasProgram(fb::ProgramKind::Prepare))
    MAESTRO_TRY(instance->launch(fb::ProgramKind::Prepare, *bounds, 0, -1));
  return device->drain();
}

/// Of all programs, as the executor does: their memory is used for other things between rounds,
/// and between programs holds what is saved.
void Stand::writeFields(const executor::BoundShapes &shapes) {
  for (const fb::Binding *binding : *instance->table().bindings()) {
    bool isField = binding->kind() == fb::BindingKind::Field;
    if (!isField && binding->kind() != fb::BindingKind::SampleIds)
      continue;
    std::vector<std::byte> &bytes = fields[{binding->buffer(), shapes.symbols}];
    if (bytes.empty()) {
      bytes.resize(instance->bytes(binding->buffer(), shapes));
      fillField(isField ? plan->fields()->Get(binding->index()) : nullptr,
                static_cast<DType>(instance->table().buffers()->Get(binding->buffer())->dtype()), shapes.symbols,
                bytes);
    }
    device->write(executor::Queue::Compute, instance->address(binding->buffer(), 0), bytes.data(), bytes.size());
  }
}

/// As synthetic data are (executor/data/synthetic.h), but that marked elements come first in the
/// micro-batch, not in each sample.
void Stand::fillField(const fb::Field *field, DType dtype, const std::vector<int64_t> &symbols,
                      std::vector<std::byte> &bytes) const {
  switch (dtype) {
  case DType::I64:
    fillIntegers<int64_t>(field, symbols, {reinterpret_cast<int64_t *>(bytes.data()), bytes.size() / sizeof(int64_t)});
    break;
  case DType::I32:
    fillIntegers<int32_t>(field, symbols, {reinterpret_cast<int32_t *>(bytes.data()), bytes.size() / sizeof(int32_t)});
    break;
  case DType::F32:
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i)
      reinterpret_cast<float *>(bytes.data())[i] = static_cast<float>(i % 7) * 0.1f - 0.3f;
    break;
  default:
    std::fill(bytes.begin(), bytes.end(), std::byte{1});
    break;
  }
}

Status Stand::preparePulse() {
  uint64_t offset = 0;
  executor::CallDescription call{
      pulseSubject.kernel, pulseSubject.attributes, pulseSubject.inputs, pulseSubject.outputs, {}, {}, {}};
  for (auto [types, operands] : {std::pair(&call.inputTypes, &call.inputs), {&call.outputTypes, &call.outputs}})
    for (const TensorType &type : *types) {
      operands->push_back(type.present ? executor::OperandRef{0, offset} : executor::OperandRef{});
      offset += type.present ? type.bytes() : 0;
    }
  MAESTRO_ASSIGN(executor::Address block, device->allocate(offset, "the pulse"));
  pulseBases = {block};
  std::vector<executor::CallDescription> calls(kPulseCalls, call);
  MAESTRO_ASSIGN(pulse, device->prepare(calls));
  return Status();
}

} // namespace maestro::profile

#include "tools/profile/plan_programs.h"

#include "base/philox.h"
#include "executor/core/executable.h"
#include "plan/capacity.h"
#include "plan/dims.h"
#include "plan/plan_generated.h"
#include "tools/profile/stopwatch.h"
#include "tools/profile/subjects.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace maestro::profile {
namespace {

namespace fb = plan::fb;
using cost_models::CallSample;
using executor::ExecutableInstance;
using kernels::TensorType;

/// Of a micro-batch's programs, so often at least and at most.
constexpr size_t kFewestRounds = 3, kMostRounds = 24;
/// Which part of the machine's memory may be used.
constexpr uint64_t kPartOfMemory = 4;
/// Which operand of attention is its mask; three later of its gradient.
constexpr size_t kMask = 3;
constexpr int32_t kPulseTask = -2;
constexpr std::array kKinds = {fb::ProgramKind::Forward, fb::ProgramKind::Backward, fb::ProgramKind::WeightGradient};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double elements(const TensorType &type) { return static_cast<double>(type.elements()); }

/// A call as planning asks for it (planner/emit/operator_costs.cpp).
struct CallKind {
  std::string name; ///< callsOf()
  CallSample work;
  double products = 1; ///< That it makes, one behind the other.
};

class CallReader {
public:
  CallReader(const plan::Plan &plan, std::span<const int64_t> dims) : plan(plan), dims(dims) {}

  CallKind read(const fb::Executable &executable, const fb::Call &call) {
    kernel = plan->kernels()->Get(call.kernel())->str();
    readTypes(executable, *call.inputs(), inputs);
    readTypes(executable, *call.outputs(), outputs);
    CallKind kind;
    bool bf16 = isBf16();
    place(call, kind);
    for (const auto *types : {&inputs, &outputs})
      for (const TensorType &type : *types)
        kind.work.bytes += type.present ? static_cast<double>(type.bytes()) : 0;
    for (double *size : {&kind.work.m, &kind.work.n, &kind.work.k, &kind.work.bytes})
      *size = std::max(*size, 1.0);
    kind.name = cost_models::callsOf(kernel, bf16);
    return kind;
  }

private:
  void readTypes(const fb::Executable &executable, const flatbuffers::Vector<uint32_t> &buffers, std::vector<TensorType> &types) const {
    types.clear();
    for (uint32_t buffer : buffers) {
      TensorType &type = types.emplace_back();
      if (buffer == plan::kNone)
        continue;
      const fb::Buffer &table = *executable.buffers()->Get(buffer);
      std::vector<int64_t> shape;
      for (uint32_t expr : *table.shape())
        shape.push_back(dims[expr]);
      type = TensorType(static_cast<DType>(table.dtype()), shape);
    }
  }

  bool isBf16() const {
    for (const TensorType &type : inputs)
      if (type.present && (type.dtype == DType::F32 || type.dtype == DType::BF16))
        return type.dtype == DType::BF16;
    return false;
  }

  const fb::Attribute *find(const fb::Call &call, std::string_view name) const {
    if (call.attributes() != plan::kNone)
      for (const fb::Attribute *item : *plan->attribute_lists()->Get(call.attributes())->items())
        if (item->name()->string_view() == name)
          return item;
    return nullptr;
  }
  bool flag(const fb::Call &call, std::string_view name) const {
    const fb::Attribute *item = find(call, name);
    return item && item->ints() && item->ints()->size() > 0 && item->ints()->Get(0) != 0;
  }

  void place(const fb::Call &call, CallKind &kind) {
    CallSample &work = kind.work;
    if (outputs.empty() || inputs.empty())
      return;
    const TensorType &first = inputs.front(), &result = outputs.front();
    if (kernel == "matmul") {
      bool transposed = flag(call, "transpose_a"), shared = inputs[1].rank == 2 && !transposed;
      work.n = static_cast<double>(result.dims[result.rank - 1]);
      work.m = elements(result) / work.n;
      work.k = static_cast<double>(first.dims[first.rank - (transposed ? 2 : 1)]);
      if (!shared) {
        kind.products = work.m / static_cast<double>(result.dims[result.rank - 2]);
        work.m /= kind.products;
      }
      if (transposed)
        kernel = "matmul transposed";
    } else if (kernel.starts_with("conv")) {
      bool ofFilters = kernel == "conv_grad_weight";
      const TensorType &filters = ofFilters ? result : inputs[1];
      const TensorType &y = kernel == "conv" ? result : kernel == "conv_grad_input" ? first : inputs[1];
      work.n = ofFilters ? elements(result) / static_cast<double>(result.dims[0]) : static_cast<double>(result.dims[1]);
      work.m = elements(result) / work.n;
      work.k = elements(y) * elements(filters) / static_cast<double>(filters.dims[0]) / elements(result);
    } else if (kernel == "attention" || kernel == "attention_grad") {
      size_t q = kernel == "attention_grad" ? 1 : 0;
      const TensorType &queries = inputs[q], &keys = inputs[q + 1];
      work.k = static_cast<double>(queries.dims[queries.rank - 1]);
      work.m = elements(queries) / work.k;
      work.n = static_cast<double>(keys.dims[flag(call, "sequence_major") ? 1 : 2]);
      TensorType none, &mask = inputs.size() > kMask + 3 * q ? inputs[kMask + 3 * q] : none;
      if (flag(call, "causal"))
        kernel += " causal";
      else if (mask.present && mask.rank > 1 && mask.dims[mask.rank - 2] > 1)
        kernel += " masked";
    } else {
      if (const fb::Attribute *kind = find(call, "approximate"); kind && kind->text() && kind->text()->string_view() == "tanh" &&
                                                                 (kernel == "gelu" || kernel == "gelu_grad"))
        kernel += " tanh";
      work.n = first.present && first.rank > 0 ? static_cast<double>(first.dims[first.rank - 1]) : 1;
      work.m = first.present ? elements(first) / work.n : 1;
    }
  }

  const plan::Plan &plan;
  std::span<const int64_t> dims;
  std::string kernel;
  std::vector<TensorType> inputs, outputs;
};

/// The largest micro-batches of the longest samples, of the shortest and between, and of fewer samples.
std::vector<std::vector<int64_t>> sizesOf(const plan::Plan &plan, const fb::Executable &executable) {
  std::vector<std::vector<int64_t>> largest = plan::largestMicroBatches(plan::capacityOf(*plan, executable));
  std::vector<std::vector<int64_t>> sizes{largest.front(), largest[largest.size() / 2], largest.back()};
  for (int64_t part : {2, 4}) {
    sizes.push_back(largest.front());
    for (uint32_t symbol = 0; symbol < sizes.back().size(); ++symbol)
      if (int64_t &size = sizes.back()[symbol]; size != plan::DimTable::kUndefined && plan->symbols()->Get(symbol)->combine() == fb::Combine::Sum)
        size = std::max<int64_t>(1, size / part);
  }
  for (std::vector<int64_t> &own : sizes)
    std::replace(own.begin(), own.end(), plan::DimTable::kUndefined, int64_t{1});
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

uint64_t bytesOf(const fb::Executable &executable) {
  uint64_t bytes = 0;
  for (const fb::Region *region : *executable.regions())
    bytes += region->bytes() * std::max(region->copies(), 1u);
  return bytes;
}

bool fits(const fb::Executable &executable, int groups) {
  auto memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
  return bytesOf(executable) < memory / kPartOfMemory / static_cast<uint64_t>(groups);
}

bool sharesTensors(const plan::Plan &plan, const fb::Executable &executable) {
  return plan->sections()->Get(executable.section())->layout()->tensor_parallel() > 1;
}

/// One executable on a device of its own.
class Stand {
public:
  static Result<std::unique_ptr<Stand>> make(const plan::Plan &plan, uint32_t index, int threads) {
    auto stand = std::unique_ptr<Stand>(new Stand(plan));
    executor::CpuDeviceOptions options;
    options.threads = threads;
    options.onKernel = [signs = std::make_shared<std::atomic<uint64_t>>(0)] { signs->fetch_add(1, std::memory_order_relaxed); }; // As a rank's.
    stand->device = executor::createCpuDevice(kernels::createCpuLibrary(), options);
    MAESTRO_ASSIGN(stand->instance, ExecutableInstance::create(plan, index, *stand->device));
    MAESTRO_TRY(stand->fill());
    MAESTRO_TRY(stand->preparePulse());
    return stand;
  }

  /// Whether there is anything to run.
  bool isEmpty() const { return std::none_of(kKinds.begin(), kKinds.end(), [&](fb::ProgramKind kind) { return instance->hasProgram(kind); }); }

  /// A micro-batch's programs, one after the other, with a pulse before each; `task` and the next numbers are theirs in traces.
  Status round(std::span<const int64_t> sizes, int32_t task) {
    MAESTRO_ASSIGN(executor::BoundShapes * shapes, instance->bind(sizes));
    for (fb::ProgramKind kind : kKinds) {
      ++task;
      if (!instance->hasProgram(kind))
        continue;
      device->launch(*pulse, pulseBases, kPulseTask);
      writeFields(*shapes);
      MAESTRO_TRY(instance->launch(kind, *shapes, 0, task - 1));
    }
    return device->wait(device->record());
  }

  size_t calls() const {
    size_t count = 0;
    for (fb::ProgramKind kind : kKinds)
      if (const fb::Program *program = instance->program(kind))
        count += program->calls()->size() + kPulseCalls;
    return count;
  }
  const fb::Program *program(fb::ProgramKind kind) const { return instance->program(kind); }
  Result<executor::BoundShapes *> shapes(std::span<const int64_t> sizes) { return instance->bind(sizes); }
  void trace(size_t spans) { device->enableTrace(spans); }
  std::span<const executor::TraceSpan> traced() const { return device->trace(); }

  static constexpr size_t kPulseCalls = 4;

private:
  explicit Stand(const plan::Plan &plan) : plan(plan), pulseSubject(product(DType::F32, 128, 128, 128)) {}

  /// What programs read that nobody else writes here: values, what comes over edges, scales of losses.
  Status fill() {
    using Kind = fb::BindingKind;
    MAESTRO_ASSIGN(executor::BoundShapes * bounds, instance->bindBounds());
    uint32_t drawn = 0;
    for (const fb::Binding *binding : *instance->table().bindings()) {
      DType dtype = static_cast<DType>(instance->table().buffers()->Get(binding->buffer())->dtype());
      bool isValue = binding->kind() == Kind::Value || binding->kind() == Kind::EdgeInput || binding->kind() == Kind::EdgeGradientInput ||
                     binding->kind() == Kind::LossScale;
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
      device->write(instance->address(binding->buffer(), 0), source, bytes);
      MAESTRO_TRY(device->wait(device->record()));
    }
    if (instance->hasProgram(fb::ProgramKind::Prepare))
      MAESTRO_TRY(instance->launch(fb::ProgramKind::Prepare, *bounds, 0, -1));
    return device->wait(device->record());
  }

  /// Before each task, as the executor does: their memory is used for other things meanwhile.
  void writeFields(const executor::BoundShapes &shapes) {
    for (const fb::Binding *binding : *instance->table().bindings()) {
      bool isField = binding->kind() == fb::BindingKind::Field;
      if (!isField && binding->kind() != fb::BindingKind::SampleIds)
        continue;
      std::vector<std::byte> &bytes = fields[{binding->buffer(), shapes.symbols}];
      if (bytes.empty()) {
        bytes.resize(instance->bytes(binding->buffer(), shapes));
        fillField(isField ? plan->fields()->Get(binding->index()) : nullptr, static_cast<DType>(instance->table().buffers()->Get(binding->buffer())->dtype()),
                  shapes.symbols, bytes);
      }
      device->write(instance->address(binding->buffer(), 0), bytes.data(), bytes.size());
    }
  }

  /// As synthetic data are (executor/data/synthetic.h), but that marked elements come first in the micro-batch, not in each sample.
  void fillField(const fb::Field *field, DType dtype, const std::vector<int64_t> &symbols, std::vector<std::byte> &bytes) const {
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

  template <typename T> void fillIntegers(const fb::Field *field, const std::vector<int64_t> &symbols, std::span<T> values) const {
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

  Status preparePulse() {
    uint64_t offset = 0;
    executor::CallDescription call{pulseSubject.kernel, pulseSubject.attributes, pulseSubject.inputs, pulseSubject.outputs, {}, {}, {}};
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

  const plan::Plan &plan;
  Subject pulseSubject;
  std::unique_ptr<executor::Device> device;
  std::unique_ptr<ExecutableInstance> instance;
  std::unique_ptr<executor::PreparedProgram> pulse;
  std::vector<executor::Address> pulseBases;
  std::map<std::pair<uint32_t, std::vector<int64_t>>, std::vector<std::byte>> fields; ///< By buffer and sizes.
};

struct Collected {
  using Key = std::tuple<std::string, double, double, double, double>;
  struct Kind {
    CallSample work;
    std::vector<double> pulses; ///< Of all calls of a kind.
  };
  std::map<Key, Kind> kinds;
  std::vector<double> pulses;
};

/// A round's pulses and calls: times of the calls, in pulses, are added by kind.
void collect(std::span<const executor::TraceSpan> spans, const std::map<int32_t, std::vector<CallKind>> &kinds,
             Collected &collected) {
  double pulse = 0;
  for (size_t i = 0; i < spans.size();) {
    size_t end = i;
    while (end < spans.size() && spans[end].task == spans[i].task)
      ++end;
    auto seconds = [&](size_t span) { return static_cast<double>(spans[span].endNs - spans[span].startNs) * 1e-9; };
    if (spans[i].task == kPulseTask) {
      pulse = seconds(i + 1); // The first brings code and operands near. What interrupts the thread is no slow processor.
      for (size_t span = i + 2; span < std::min(end, i + Stand::kPulseCalls); ++span)
        pulse = std::min(pulse, seconds(span));
      collected.pulses.push_back(pulse);
    } else if (auto program = kinds.find(spans[i].task); program != kinds.end() && program->second.size() == end - i && pulse > 0) {
      for (size_t span = i; span < end; ++span) {
        const CallKind &kind = program->second[span - i];
        Collected::Kind &own = collected.kinds[{kind.name, kind.work.m, kind.work.n, kind.work.k, kind.work.bytes}];
        own.work = kind.work;
        own.pulses.push_back(seconds(span) / kind.products / pulse);
      }
    }
    i = end;
  }
}

} // namespace

PlanPrograms::PlanPrograms(plan::Plan loaded) : plan(std::make_unique<plan::Plan>(std::move(loaded))) {}
PlanPrograms::PlanPrograms(PlanPrograms &&) noexcept = default;
PlanPrograms::~PlanPrograms() = default;

Result<PlanPrograms> PlanPrograms::load(const std::string &path) {
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  return PlanPrograms(std::move(plan));
}

size_t PlanPrograms::leftOut(int groups) const {
  size_t count = 0;
  for (const fb::Executable *executable : *(*plan)->executables())
    count += !fits(*executable, groups) || sharesTensors(*plan, *executable);
  return count;
}

namespace {

/// Of one executable. The other groups do the same until the first is done.
Status timeExecutable(const plan::Plan &plan, uint32_t index, int threads, int groups, double secondsEach, Collected &collected) {
  const fb::Executable &table = *plan->executables()->Get(index);
  std::vector<std::unique_ptr<Stand>> stands;
  for (int group = 0; group < groups; ++group) {
    MAESTRO_ASSIGN(std::unique_ptr<Stand> stand, Stand::make(plan, index, threads));
    stands.push_back(std::move(stand));
  }
  Stand &first = *stands.front();
  if (first.isEmpty())
    return Status();
  constexpr auto kTasksEach = static_cast<int32_t>(kKinds.size());
  std::vector<std::vector<int64_t>> sizes = sizesOf(plan, table);
  std::map<int32_t, std::vector<CallKind>> kinds;
  for (size_t size = 0; size < sizes.size(); ++size) {
    for (auto &stand : stands)
      MAESTRO_TRY(stand->round(sizes[size], -kTasksEach - 1)); // Kernels are prepared.
    MAESTRO_ASSIGN(executor::BoundShapes * shapes, first.shapes(sizes[size]));
    CallReader reader(plan, shapes->dims);
    for (size_t kind = 0; kind < kKinds.size(); ++kind)
      if (const fb::Program *program = first.program(kKinds[kind]))
        for (const fb::Call *call : *program->calls())
          kinds[static_cast<int32_t>(size) * kTasksEach + static_cast<int32_t>(kind)].push_back(reader.read(table, *call));
  }
  first.trace(first.calls() * sizes.size() * kMostRounds);
  std::atomic<bool> stops{false};
  std::vector<std::thread> others;
  for (size_t group = 1; group < stands.size(); ++group)
    others.emplace_back([&, group] {
      for (size_t round = 0; !stops.load(std::memory_order_relaxed); ++round)
        if (!stands[group]->round(sizes[round % sizes.size()], -kTasksEach - 1).isOk())
          return; // The first says so, too.
    });
  // Sizes take turns, so that none has a slow moment to itself.
  Status status;
  double begin = now();
  for (size_t round = 0; status.isOk() && round < kMostRounds && (round < kFewestRounds || now() - begin < secondsEach * static_cast<double>(sizes.size())); ++round)
    for (size_t size = 0; status.isOk() && size < sizes.size(); ++size)
      status = first.round(sizes[size], static_cast<int32_t>(size) * kTasksEach);
  stops = true;
  for (std::thread &other : others)
    other.join();
  MAESTRO_TRY(std::move(status));
  collect(first.traced(), kinds, collected);
  return Status();
}

} // namespace

Result<TimedCalls> PlanPrograms::time(int threads, int groups, double secondsEach) const {
  Collected collected;
  for (uint32_t index = 0; index < (*plan)->executables()->size(); ++index) {
    const fb::Executable &executable = *(*plan)->executables()->Get(index);
    if (fits(executable, groups) && !sharesTensors(*plan, executable))
      MAESTRO_TRY(timeExecutable(*plan, index, threads, groups, secondsEach, collected));
  }
  TimedCalls calls{{}, std::move(collected.pulses)};
  for (auto &[key, own] : collected.kinds)
    calls.kernels[std::get<0>(key)].push_back({own.work, middleMean(std::move(own.pulses))});
  return calls;
}

} // namespace maestro::profile

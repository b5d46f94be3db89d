#include "tools/profile/plan_programs.h"

#include "base/machine_memory.h"
#include "base/philox.h"
#include "cost_models/compound.h"
#include "executor/core/executable.h"
#include "executor/core/hyper_parameters.h"
#include "kernels/optimizer.h"
#include "plan/capacity.h"
#include "plan/dims.h"
#include "plan/plan_generated.h"
#include "tools/profile/call_reader.h"
#include "tools/profile/stopwatch.h"
#include "tools/profile/subjects.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

namespace maestro::profile {
namespace {

namespace fb = plan::fb;
using cost_models::CallSample;
using executor::ExecutableInstance;
using kernels::TensorType;

/// Of a micro-batch's programs, so often at least and at most.
constexpr size_t kFewestRounds = 3, kMostRounds = 24;
/// Threads that run less of the time than this waited for processors.
constexpr double kOwnProcessors = 0.9;
/// Which part of the machine's memory may be used.
constexpr uint64_t kPartOfMemory = 4;
constexpr int32_t kPulseTask = -2;
/// And the numbers behind it: of rounds that are not collected.
constexpr int32_t kUnknownTask = -1'000'000;
/// Longer calls are likely to be interrupted where other programs run.
constexpr int64_t kLongNs = 500'000;
/// In this order; what never trains has Evaluate in place of the first.
constexpr std::array kKinds = {fb::ProgramKind::Forward, fb::ProgramKind::Backward, fb::ProgramKind::WeightGradient};

/// Behind all micro-batches, once a step: what trains has both.
constexpr std::array kUpdateKinds = {fb::ProgramKind::Norm, fb::ProgramKind::Update};

/// The largest micro-batches of the longest samples, of the shortest and between, and of fewer
/// samples.
std::vector<std::vector<int64_t>> sizesOf(const plan::Plan &plan, const fb::Executable &executable) {
  std::vector<std::vector<int64_t>> largest = plan::largestMicroBatches(plan::capacityOf(*plan, executable));
  std::vector<std::vector<int64_t>> sizes{largest.front(), largest[largest.size() / 2], largest.back()};
  for (int64_t part : {2, 4}) {
    sizes.push_back(largest.front());
    for (uint32_t symbol = 0; symbol < sizes.back().size(); ++symbol)
      if (int64_t &size = sizes.back()[symbol];
          size != plan::DimTable::kUndefined && plan->symbols()->Get(symbol)->combine() == fb::Combine::Sum)
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

/// What its norm and optimizer move.
double updateBytesOf(const fb::Executable &executable) {
  cost_models::ParameterBytes parameters;
  for (const fb::Region *region : *executable.regions()) {
    parameters.gradients += region->kind() == fb::RegionKind::Gradients ? region->bytes() : 0;
    parameters.state += region->kind() == fb::RegionKind::OptimizerState ? region->bytes() : 0;
  }
  return static_cast<double>(parameters.moved());
}

bool fits(const fb::Executable &executable, int groups) {
  return bytesOf(executable) < usableMemoryBytes() / kPartOfMemory / static_cast<uint64_t>(groups);
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

  /// What is queued, where a round failed halfway, reads memory that goes with this.
  ~Stand() { (void)device->drain(); }

  /// Whether there is anything to run.
  bool isEmpty() const { return calls() == 0; }

  /// A micro-batch's programs, one after the other, with a pulse before each; `task` and the next
  /// numbers are theirs in traces.
  Status round(std::span<const int64_t> sizes, int32_t task) {
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

  /// Norm and optimizer, if it trains, with a pulse before; likewise.
  Status update(int32_t task) {
    if (!instance->hasProgram(fb::ProgramKind::Update))
      return Status();
    MAESTRO_ASSIGN(executor::BoundShapes * bounds, instance->bindBounds());
    device->launch(*pulse, pulseBases, kPulseTask);
    for (size_t i = 0; i < kUpdateKinds.size(); ++i)
      MAESTRO_TRY(instance->launch(kUpdateKinds[i], *bounds, 0, task + static_cast<int32_t>(i)));
    return device->drain();
  }

  size_t calls() const {
    size_t count = 0;
    for (size_t i = 0; i < kKinds.size(); ++i)
      if (const fb::Program *own = program(i))
        count += own->calls()->size() + kPulseCalls;
    return count;
  }
  size_t updateCalls() const {
    size_t count = kPulseCalls;
    for (fb::ProgramKind kind : kUpdateKinds)
      if (const fb::Program *own = instance->program(kind))
        count += own->calls()->size();
    return count;
  }
  /// Of kKinds; null where there is none.
  const fb::Program *program(size_t kind) const {
    const fb::Program *own = instance->program(kKinds[kind]);
    return own || kind > 0 ? own : instance->program(fb::ProgramKind::Evaluate);
  }
  Result<executor::BoundShapes *> shapes(std::span<const int64_t> sizes) { return instance->bind(sizes); }
  void trace(size_t spans) { device->enableTrace(spans); }
  std::span<const executor::TraceSpan> traced() const { return device->trace(); }

  static constexpr size_t kPulseCalls = 4;

private:
  explicit Stand(const plan::Plan &plan) : plan(plan), pulseSubject(pulseProduct()) {}

  /// What programs read that nobody else writes here: values, what comes over edges, scales of
  /// losses.
  Status fill() {
    using Kind = fb::BindingKind;
    MAESTRO_ASSIGN(executor::BoundShapes * bounds, instance->bindBounds());
    uint32_t drawn = 0;
    for (const fb::Binding *binding : *instance->table().bindings()) {
      DType dtype = static_cast<DType>(instance->table().buffers()->Get(binding->buffer())->dtype());
      if (binding->kind() == Kind::HyperParameters) {
        auto scalars = executor::hyperParameters(*plan->training(), binding->index(), 1, 1, 1);
        scalars[kernels::kLearningRate] = 0; // Values stay as they are.
        device->write(executor::Queue::Compute, instance->address(binding->buffer(), 0), scalars.data(),
                      sizeof scalars);
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
  void writeFields(const executor::BoundShapes &shapes) {
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
  void fillField(const fb::Field *field, DType dtype, const std::vector<int64_t> &symbols,
                 std::vector<std::byte> &bytes) const {
    switch (dtype) {
    case DType::I64:
      fillIntegers<int64_t>(field, symbols,
                            {reinterpret_cast<int64_t *>(bytes.data()), bytes.size() / sizeof(int64_t)});
      break;
    case DType::I32:
      fillIntegers<int32_t>(field, symbols,
                            {reinterpret_cast<int32_t *>(bytes.data()), bytes.size() / sizeof(int32_t)});
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

  template <typename T>
  void fillIntegers(const fb::Field *field, const std::vector<int64_t> &symbols, std::span<T> values) const {
    int64_t limit = field ? field->index_limit() : 0;
    uint32_t drawn = 1;
    for (T &value : values)
      value =
          limit > 0 ? static_cast<T>((drawn = drawn * 1664525u + 1013904223u) % static_cast<uint64_t>(limit)) : T{1};
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
  std::vector<double> togetherShares, aloneShares; ///< As TimedCalls has them.
  std::vector<TimedUpdate> updates;                ///< Likewise.
};

/// The number of the first update program behind a round of so many sizes.
int32_t updateTask(size_t sizes) { return static_cast<int32_t>(sizes * kKinds.size()); }

/// A round of each size and the update, and how long all took.
Status runSizes(Stand &stand, const std::vector<std::vector<int64_t>> &sizes, int32_t task,
                std::vector<double> &seconds) {
  double begin = now();
  for (size_t size = 0; size < sizes.size(); ++size)
    MAESTRO_TRY(stand.round(sizes[size], task + static_cast<int32_t>(size * kKinds.size())));
  MAESTRO_TRY(stand.update(task + updateTask(sizes.size())));
  seconds.push_back(now() - begin);
  return Status();
}

/// Seconds that this process's threads ran.
double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The same, and whether so many threads had processors of their own meanwhile: other programs take
/// them away, and more from many than from few.
Status runSizes(Stand &stand, const std::vector<std::vector<int64_t>> &sizes, int32_t task,
                std::vector<double> &seconds, int threads, bool &isUndisturbed) {
  double before = processorSeconds();
  MAESTRO_TRY(runSizes(stand, sizes, task, seconds));
  isUndisturbed = processorSeconds() - before > kOwnProcessors * threads * seconds.back();
  return Status();
}

/// Stands that do the same as the first, each on a thread of its own, but while they are asked to
/// rest.
class OtherStands {
public:
  OtherStands(std::span<const std::unique_ptr<Stand>> stands, const std::vector<std::vector<int64_t>> &sizes)
      : seconds(stands.size()) {
    for (size_t i = 0; i < stands.size(); ++i)
      threads.emplace_back([&, i, stand = stands[i].get()] {
        // Where one fails, the first does, too, and says so.
        while (state != State::Ends && runSizes(*stand, sizes, kUnknownTask, seconds[i]).isOk())
          rest();
        resting.fetch_add(1);
        resting.notify_all();
      });
  }
  ~OtherStands() { end(); }

  void end() {
    set(State::Ends);
    for (std::thread &thread : threads)
      thread.join();
    threads.clear();
  }
  /// Returns once they do nothing.
  void sendToRest() {
    set(State::Rests);
    for (size_t count = resting; count < threads.size(); count = resting)
      resting.wait(count);
  }
  void callBack() { set(State::Works); }

  std::vector<std::vector<double>> seconds; ///< By stand, of each time of all sizes. Once ended.

private:
  enum class State : uint8_t { Works, Rests, Ends };

  void set(State next) {
    state = next;
    state.notify_all();
  }
  void rest() {
    if (state != State::Rests)
      return;
    resting.fetch_add(1);
    resting.notify_all();
    state.wait(State::Rests);
    resting.fetch_sub(1);
  }

  std::atomic<State> state{State::Works};
  std::atomic<size_t> resting{0}; ///< Or failed.
  std::vector<std::thread> threads;
};

/// By group and time: each beside those that the others had then.
void compare(const std::vector<std::vector<double>> &seconds, Collected &collected) {
  size_t count = seconds.front().size();
  for (const std::vector<double> &own : seconds)
    count = std::min(count, own.size());
  for (size_t i = 0; i < count && seconds.size() > 1; ++i) {
    double most = 0, all = 0;
    for (const std::vector<double> &own : seconds) {
      most = std::max(most, own[i]);
      all += own[i];
    }
    collected.togetherShares.push_back(most * static_cast<double>(seconds.size()) / all);
  }
}

/// Rounds' pulses and calls: times of the calls, in pulses, are added by kind. Of update programs, from `firstUpdate`
/// on, each round's pulses from the first call's beginning to the last one's end.
std::vector<double> collect(std::span<const executor::TraceSpan> spans,
                            const std::map<int32_t, std::vector<CallKind>> &kinds, int32_t firstUpdate,
                            Collected &collected) {
  std::vector<double> updates;
  double pulse = 0;
  for (size_t i = 0; i < spans.size();) {
    size_t end = i;
    while (end < spans.size() && spans[end].task == spans[i].task)
      ++end;
    // What other programs take of a long call is left out; of short ones few are interrupted.
    auto seconds = [&](size_t span) {
      const executor::TraceSpan &own = spans[span];
      int64_t ns = own.endNs - own.startNs;
      return static_cast<double>(ns > kLongNs && own.ownNs > 0 ? own.ownNs : ns) * 1e-9;
    };
    if (spans[i].task == kPulseTask) {
      pulse = seconds(i + 1); // The first brings code and operands near. What interrupts the thread
                              // is no slow processor.
      for (size_t span = i + 2; span < std::min(end, i + Stand::kPulseCalls); ++span)
        pulse = std::min(pulse, seconds(span));
      collected.pulses.push_back(pulse);
    } else if (int32_t kind = spans[i].task - firstUpdate; kind >= 0 && pulse > 0) {
      if (kind == 0)
        updates.push_back(0);
      updates.back() += static_cast<double>(spans[end - 1].endNs - spans[i].startNs) * 1e-9 / pulse;
    } else if (auto program = kinds.find(spans[i].task);
               program != kinds.end() && program->second.size() == end - i && pulse > 0) {
      for (size_t span = i; span < end; ++span) {
        const CallKind &kind = program->second[span - i];
        Collected::Kind &own = collected.kinds[{kind.name, kind.work.m, kind.work.n, kind.work.k, kind.work.bytes}];
        own.work = kind.work;
        own.pulses.push_back(seconds(span) / kind.products / pulse);
      }
    }
    i = end;
  }
  return updates;
}

} // namespace

PlanPrograms::PlanPrograms(plan::Plan loaded, std::string path)
    : plan(std::make_unique<plan::Plan>(std::move(loaded))), path(std::move(path)) {}
PlanPrograms::PlanPrograms(PlanPrograms &&) noexcept = default;
PlanPrograms::~PlanPrograms() = default;

Result<PlanPrograms> PlanPrograms::load(const std::string &path) {
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  return PlanPrograms(std::move(plan), path);
}

size_t PlanPrograms::leftOut(int groups) const {
  size_t count = 0;
  for (const fb::Executable *executable : *(*plan)->executables())
    count += !fits(*executable, groups) || sharesTensors(*plan, *executable);
  return count;
}

namespace {

/// Of one executable. The other groups do the same until the first is done.
Status timeExecutable(const plan::Plan &plan, uint32_t index, int threads, int groups, double secondsEach,
                      bool withAlone, Collected &collected) {
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
      MAESTRO_TRY(stand->round(sizes[size], kUnknownTask)); // Kernels are prepared.
    MAESTRO_ASSIGN(executor::BoundShapes * shapes, first.shapes(sizes[size]));
    CallReader reader(plan, shapes->dims);
    for (size_t kind = 0; kind < kKinds.size(); ++kind)
      if (const fb::Program *program = first.program(kind))
        for (const fb::Call *call : *program->calls())
          kinds[static_cast<int32_t>(size) * kTasksEach + static_cast<int32_t>(kind)].push_back(
              reader.read(table, *call));
  }
  for (auto &stand : stands) {
    MAESTRO_TRY(stand->update(kUnknownTask));
    stand->trace((stand->calls() * sizes.size() + stand->updateCalls()) * kMostRounds *
                 2); // All, so that none is slower for it.
  }
  OtherStands company(std::span(stands).subspan(1), sizes);
  std::vector<double> together, alone;
  // Sizes take turns, so that none has a slow moment to itself, and so do company and none.
  for (double begin = now();;) {
    bool isOwn = false, isOwnAlone = false;
    MAESTRO_TRY(runSizes(first, sizes, 0, together, groups * threads, isOwn));
    if (withAlone && groups > 1) {
      company.sendToRest();
      MAESTRO_TRY(runSizes(first, sizes, kUnknownTask, alone, threads, isOwnAlone));
      company.callBack();
      if (isOwn && isOwnAlone)
        collected.aloneShares.push_back(alone.back() / together.back());
    }
    bool isLong = now() - begin >= secondsEach * static_cast<double>(sizes.size());
    if (together.size() >= kMostRounds || (together.size() >= kFewestRounds && isLong))
      break;
  }
  company.end();
  company.seconds.insert(company.seconds.begin(), std::move(together));
  compare(company.seconds, collected);
  if (std::vector<double> updates = collect(first.traced(), kinds, updateTask(sizes.size()), collected);
      !updates.empty())
    collected.updates.push_back({updateBytesOf(table), median(std::move(updates))});
  return Status();
}

} // namespace

Result<TimedCalls> PlanPrograms::time(int threads, int groups, double secondsEach, bool withAlone) const {
  Collected collected;
  for (uint32_t index = 0; index < (*plan)->executables()->size(); ++index) {
    const fb::Executable &executable = *(*plan)->executables()->Get(index);
    if (!fits(executable, groups) || sharesTensors(*plan, executable))
      continue;
    Status status = timeExecutable(*plan, index, threads, groups, secondsEach, withAlone, collected);
    if (!status.isOk())
      return std::move(status).withContext("plan '" + path + "'");
  }
  TimedCalls calls{{},
                   std::move(collected.pulses),
                   std::move(collected.togetherShares),
                   std::move(collected.aloneShares),
                   std::move(collected.updates)};
  for (auto &[key, own] : collected.kinds)
    calls.kernels[std::get<0>(key)].push_back({own.work, middleMean(std::move(own.pulses))});
  return calls;
}

} // namespace maestro::profile

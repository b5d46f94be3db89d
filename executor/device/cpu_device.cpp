// The CPU device: one thread, a bounded ring of commands, pointers computed at launch time from the
// bases of the regions. Running a command allocates nothing.
#include "executor/device/device.h"

#include "base/guarded.h"
#include "base/philox.h"
#include "executor/device/device_memory.h"
#include "executor/device/kernel_table.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <mutex>
#include <new>
#include <sys/prctl.h>
#include <thread>

namespace maestro::executor {
namespace {

using Clock = std::chrono::steady_clock;

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// That the calling thread has run.
int64_t ownNs() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct PreparedCall {
  KernelTable::Use use;
  uint32_t inputs, outputs; ///< How many of the program's operands.
  std::string_view name;
  std::string_view scope;
};

struct CpuProgram : PreparedProgram {
  explicit CpuProgram(std::shared_ptr<KernelTable> kernels) : kernels(std::move(kernels)) {}
  ~CpuProgram() override {
    for (const PreparedCall &call : calls)
      kernels->release(call.use);
  }

  std::shared_ptr<KernelTable> kernels;
  std::vector<PreparedCall> calls;
  std::vector<OperandRef> operands; ///< Call by call: inputs, then outputs.
  size_t mostOperands = 0;
};

enum class CommandKind : uint8_t { Write, Read, Fill, Launch, Call, Mark };

struct Command {
  CommandKind kind = CommandKind::Mark;
  int32_t task = -1;
  const CpuProgram *program = nullptr;
  std::byte *device = nullptr;
  void *host = nullptr;
  uint64_t bytes = 0;
  HostFunction function = nullptr;
  size_t pointers = 0; ///< Of the command's row in CpuDevice::pointers: regions' bases, or what a function gets.
};

class CpuDevice : public Device {
public:
  CpuDevice(std::shared_ptr<const kernels::Library> library, const CpuDeviceOptions &options)
      : CpuDevice(std::move(library), options, false) {}

  ~CpuDevice() override { stop(); }

  Result<Address> allocate(uint64_t bytes, std::string_view purpose) override {
    MAESTRO_ASSIGN(uint32_t block, memory.allocate(bytes, purpose));
    totalBytes += bytes;
    return Address{block, 0};
  }

  Result<Address> adopt(void *others, uint64_t) override { return Address{memory.adopt(others), 0}; }

  uint64_t allocatedBytes() const override { return totalBytes; }

  Result<std::unique_ptr<PreparedProgram>> prepare(std::span<const CallDescription> calls) override {
    auto program = std::make_unique<CpuProgram>(kernels);
    if (!library)
      return std::unique_ptr<PreparedProgram>(std::move(program));
    program->calls.reserve(calls.size());
    size_t scratchBytes = 0, operands = 0;
    for (const CallDescription &call : calls)
      operands += call.inputs.size() + call.outputs.size();
    program->operands.reserve(operands);
    for (const CallDescription &call : calls) {
      kernels::CallSpec spec{call.kernel, kernels::Attributes(call.attributes), call.inputTypes, call.outputTypes,
                             options.threads};
      auto use = kernels->acquire(*library, spec, call.attributes);
      if (!use)
        return std::move(use).takeStatus().withContext(describe(call.kernel, call.scope));
      if (!*use)
        return Status::internal(describe(call.kernel, call.scope) + ": the device has no kernel for these operands");
      program->calls.push_back({*use, static_cast<uint32_t>(call.inputs.size()),
                                static_cast<uint32_t>(call.outputs.size()), call.kernel, call.scope});
      for (const auto *list : {&call.inputs, &call.outputs})
        program->operands.insert(program->operands.end(), list->begin(), list->end());
      scratchBytes = std::max(scratchBytes, (*use)->second.kernel->scratchBytes());
      program->mostOperands = std::max({program->mostOperands, call.inputs.size(), call.outputs.size()});
    }
    size_t regions = 0;
    for (const OperandRef &operand : program->operands)
      if (operand.region != OperandRef::kAbsent)
        regions = std::max<size_t>(regions, operand.region + size_t{1});
    reserveRow(regions);
    MAESTRO_TRY(reserveScratch(scratchBytes));
    MAESTRO_TRY(reserveOperands(program->mostOperands));
    return std::unique_ptr<PreparedProgram>(std::move(program));
  }

  size_t preparedKernels() const override { return kernels->size(); }
  size_t preparedBytes() const override { return kernels->bytes(); }

  void write(Address destination, const void *source, uint64_t bytes) override {
    push({CommandKind::Write, -1, nullptr, pointer(destination), const_cast<void *>(source), bytes, nullptr, 0});
  }
  void read(void *destination, Address source, uint64_t bytes) override {
    push({CommandKind::Read, -1, nullptr, pointer(source), destination, bytes, nullptr, 0});
  }
  void fillZero(Address destination, uint64_t bytes) override {
    push({CommandKind::Fill, -1, nullptr, pointer(destination), nullptr, bytes, nullptr, 0});
  }
  void launch(const PreparedProgram &program, std::span<const Address> bases, int32_t task) override {
    Command command;
    command.kind = CommandKind::Launch;
    command.task = task;
    command.program = static_cast<const CpuProgram *>(&program);
    push(command, bases.first(std::min(bases.size(), rowLength))); // No prepared program uses regions behind those.
  }

  void call(HostFunction function, void *context, std::span<const Address> addresses) override {
    Command command;
    command.kind = CommandKind::Call;
    command.function = function;
    command.host = context;
    reserveRow(addresses.size());
    push(command, addresses);
  }

  Event record() override {
    std::lock_guard lock(mutex);
    return pushed;
  }

  Status wait(Event event) override {
    std::unique_lock lock(mutex);
    awaitCompletion(lock, event);
    if (failure.isOk())
      return Status();
    return Status(failure.code(), std::string(failure.message()));
  }

  void enableTrace(size_t capacity) override {
    spans.reserve(capacity);
    tracing = true;
  }
  std::span<const TraceSpan> trace() const override { return spans; }

protected:
  CpuDevice(std::shared_ptr<const kernels::Library> library, const CpuDeviceOptions &options, bool hidden)
      : library(std::move(library)), options(options), memory(hidden), ring(kRingSize) {}

  /// Called on the device's thread before a command's completion becomes visible.
  virtual void beforeCompletion(uint64_t) {}

  void start() {
    if (!thread.joinable())
      thread = std::thread([this] { serve(); });
  }
  void stop() {
    if (!thread.joinable())
      return;
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    arrived.notify_one();
    thread.join();
  }

private:
  static constexpr size_t kRingSize = 256;
  static constexpr uint64_t kNobody = ~uint64_t{0};

  static std::string describe(std::string_view kernel, std::string_view scope) {
    std::string text(kernel);
    if (!scope.empty())
      text.append(" (").append(scope).append(")");
    return text;
  }

  std::byte *pointer(Address address) const { return memory.block(address.block) + address.offset; }

  /// One block for all programs: an outgrown one goes once nothing queued uses it.
  Status reserveScratch(size_t bytes) {
    if (bytes <= scratchSize)
      return Status();
    size_t rounded = (bytes + (1u << 16) - 1) & ~size_t{(1u << 16) - 1};
    MAESTRO_TRY(wait(record()));
    MAESTRO_TRY(memory.replaceScratch(rounded));
    totalBytes += rounded - scratchSize;
    scratchSize = rounded;
    return Status();
  }

  Status reserveOperands(size_t count) {
    if (count <= operandCapacity)
      return Status();
    MAESTRO_TRY(wait(record())); // The device's thread uses the arrays that are about to be replaced.
    inputPointers.resize(count);
    outputPointers.resize(count);
    operandCapacity = count;
    return Status();
  }

  /// A command's row of pointers holds as many as a program has regions, or a function is given.
  void reserveRow(size_t count) {
    if (count <= rowLength)
      return;
    (void)wait(record()); // The device's thread uses the rows that are about to be replaced.
    pointers.resize(kRingSize * count);
    rowLength = count;
  }

  void push(Command command, std::span<const Address> addresses = {}) {
    start();
    command.pointers = addresses.size();
    std::unique_lock lock(mutex);
    awaitCompletion(lock, pushed < kRingSize ? 0 : pushed - kRingSize + 1);
    std::byte **row = rowOf(pushed);
    for (const Address &address : addresses)
      *row++ = address.isNull() ? nullptr : pointer(address);
    ring[pushed % kRingSize] = command;
    ++pushed;
    lock.unlock();
    arrived.notify_one();
  }

  /// Woken once, when it is reached: most commands take less than a wake-up.
  void awaitCompletion(std::unique_lock<std::mutex> &lock, uint64_t event) {
    if (completed >= event)
      return;
    sign(DeviceSign::HostAwaits);
    awaited = event;
    progressed.wait(lock, [&] { return completed >= event; });
    awaited = kNobody;
    sign(DeviceSign::HostResumes);
  }

  void sign(DeviceSign what) const {
    if (options.onSign)
      options.onSign(what);
  }

  /// The pointers of a command: they stay until it has completed.
  std::byte **rowOf(uint64_t command) { return pointers.data() + command % kRingSize * rowLength; }

  void serve() {
    ::prctl(PR_SET_NAME, kCpuDeviceThread); // For ps and top; threads that kernels start are called the same.
    for (uint64_t next = 0;; ++next) {
      Command command;
      if (!take(next, command))
        return;
      memory.reveal();
      Status status = failed ? Status() : guarded([&] { return execute(command, {rowOf(next), command.pointers}); });
      if (!status.isOk() && options.onFailure)
        options.onFailure(status);
      beforeCompletion(next);
      bool isAwaited;
      {
        std::lock_guard lock(mutex);
        if (!status.isOk()) {
          failure = std::move(status);
          failed = true;
        }
        completed = next + 1;
        isAwaited = completed >= awaited;
      }
      if (isAwaited)
        progressed.notify_one();
    }
  }

  /// The next command when it is there; false: no more will be.
  bool take(uint64_t next, Command &command) {
    std::unique_lock lock(mutex);
    if (pushed <= next && !stopping) {
      lock.unlock();
      memory.hide();
      lock.lock();
    }
    if (pushed <= next) {
      sign(DeviceSign::Idle);
      arrived.wait(lock, [&] { return pushed > next || stopping; });
      sign(DeviceSign::Busy);
    }
    if (pushed <= next)
      return false;
    command = ring[next % kRingSize];
    return true;
  }

  Status execute(const Command &command, std::span<std::byte *const> row) {
    switch (command.kind) {
    case CommandKind::Write:
      std::memcpy(command.device, command.host, command.bytes);
      return Status();
    case CommandKind::Read:
      std::memcpy(command.host, command.device, command.bytes);
      return Status();
    case CommandKind::Fill:
      std::memset(command.device, 0, command.bytes);
      return Status();
    case CommandKind::Launch:
      return run(*command.program, row, command.task);
    case CommandKind::Call:
      return command.function(command.host, row);
    case CommandKind::Mark:
      return Status();
    }
    return Status();
  }

  Status run(const CpuProgram &program, std::span<std::byte *const> bases, int32_t task) {
    const OperandRef *operand = program.operands.data();
    for (const PreparedCall &call : program.calls) {
      for (size_t i = 0; i < call.inputs; ++i)
        inputPointers[i] = resolve(*operand++, bases);
      for (size_t i = 0; i < call.outputs; ++i)
        outputPointers[i] = resolve(*operand++, bases);
      sign(DeviceSign::Kernel);
      bool timesOwn = tracing && options.tracesOwnTime;
      int64_t startOwnNs = timesOwn ? ownNs() : 0, startNs = tracing ? nowNs() : 0;
      Status status = call.use->second.kernel->run({inputPointers.data(), call.inputs},
                                                   {outputPointers.data(), call.outputs}, memory.scratch());
      if (!status.isOk())
        return std::move(status).withContext(describe(call.name, call.scope));
      if (tracing && spans.size() < spans.capacity())
        spans.push_back({call.name, call.scope, startNs, nowNs(), task, timesOwn ? ownNs() - startOwnNs : 0});
    }
    return Status();
  }

  static std::byte *resolve(const OperandRef &operand, std::span<std::byte *const> bases) {
    if (operand.region == OperandRef::kAbsent)
      return nullptr;
    return bases[operand.region] + operand.offset;
  }

  std::shared_ptr<const kernels::Library> library;
  std::shared_ptr<KernelTable> kernels = std::make_shared<KernelTable>();
  CpuDeviceOptions options;

protected:
  DeviceMemory memory;

private:
  uint64_t totalBytes = 0;
  size_t scratchSize = 0; ///< Of the memory's; replaced by the host's thread while the queue is empty.
  size_t operandCapacity = 0;
  std::vector<const void *> inputPointers;
  std::vector<void *> outputPointers;

  std::vector<Command> ring;
  size_t rowLength = 16;
  /// A row per place in the ring; replaced by the host's thread while the queue is empty.
  std::vector<std::byte *> pointers = std::vector<std::byte *>(kRingSize * rowLength);
  std::mutex mutex;
  std::condition_variable arrived, progressed;
  uint64_t pushed = 0;        ///< Written by the host thread under the mutex.
  uint64_t completed = 0;     ///< Written by the device's thread under the mutex.
  uint64_t awaited = kNobody; ///< By the host's thread.
  bool stopping = false;
  bool failed = false; ///< The device's thread only.
  Status failure;
  bool tracing = false;
  std::vector<TraceSpan> spans;
  std::thread thread;
};

/// Its memory is hidden, and every completion waits for a time that varies by command.
class LateCpuDevice : public CpuDevice {
public:
  LateCpuDevice(std::shared_ptr<const kernels::Library> library, const CpuDeviceOptions &options,
                const LateOptions &late)
      : CpuDevice(std::move(library), options, true), late(late) {}
  ~LateCpuDevice() override { stop(); }

private:
  void beforeCompletion(uint64_t command) override {
    if (late.mostDelayUs == 0)
      return;
    memory.hide();
    PhiloxCounter bits = philox4x32({static_cast<uint32_t>(command), 0, 0, 0},
                                    {static_cast<uint32_t>(late.seed), static_cast<uint32_t>(late.seed >> 32)});
    std::this_thread::sleep_for(std::chrono::microseconds(bits[0] % late.mostDelayUs));
  }
  LateOptions late;
};

} // namespace

std::unique_ptr<Device> createCpuDevice(std::shared_ptr<const kernels::Library> library,
                                        const CpuDeviceOptions &options) {
  return std::make_unique<CpuDevice>(std::move(library), options);
}

std::unique_ptr<Device> createLateCpuDevice(std::shared_ptr<const kernels::Library> library,
                                            const CpuDeviceOptions &options, const LateOptions &late) {
  return std::make_unique<LateCpuDevice>(std::move(library), options, late);
}

} // namespace maestro::executor

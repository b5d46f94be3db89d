// The CPU device: queues of commands, pointers computed when they are queued. Running a command allocates nothing.
#include "executor/device/device.h"

#include "base/guarded.h"
#include "base/philox.h"
#include "executor/device/command_queue.h"
#include "executor/device/cpu_program.h"
#include "executor/device/device_memory.h"
#include "executor/device/first_failure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace maestro::executor {
namespace {

class CpuDevice : public Device, public CommandRunner {
public:
  /// Queues of the late device have threads of their own.
  CpuDevice(std::shared_ptr<const kernels::Library> library, const CpuDeviceOptions &options,
            const LateOptions *late = nullptr)
      : options(options), late(late ? std::optional(*late) : std::nullopt), memory(late != nullptr),
        programs(std::move(library), this->options, memory) {
    for (size_t q = 0; q < (this->late ? kQueues : 1); ++q)
      threads[q] = std::make_unique<CommandQueue>(*this);
    resolved.reserve(64); // More than most commands have.
  }
  ~CpuDevice() override {
    for (auto &queue : threads)
      if (queue)
        queue->stop();
    if (!fabric) // Which reads this memory and counts here.
      return;
    fabric->awaitIdle();
    memory.forEachOwn([this](std::span<const std::byte> block) { fabric->removeSource(block); });
  }

  Result<Address> allocate(uint64_t bytes, std::string_view purpose) override {
    MAESTRO_ASSIGN(uint32_t block, memory.allocate(bytes, purpose));
    if (fabric)
      fabric->addSource({memory.block(block), bytes});
    totalBytes += bytes;
    return Address{block, 0};
  }
  Result<Address> adopt(const transport::Target &others, uint64_t) override {
    if (!others.memory && !fabric) {
      fabric = others.fabric;
      memory.forEachOwn([this](std::span<const std::byte> block) { fabric->addSource(block); });
    }
    return Address{memory.adopt(others), 0};
  }
  uint64_t allocatedBytes() const override { return totalBytes + programs.scratchBytes(); }

  Result<std::unique_ptr<PreparedProgram>> prepare(std::span<const CallDescription> calls) override {
    return programs.prepare(calls,
                            [this] { threadOf(Queue::Compute).awaitCompleted(threadOf(Queue::Compute).pushed()); });
  }
  size_t preparedKernels() const override { return programs.preparedKernels(); }
  size_t preparedBytes() const override { return programs.preparedBytes(); }

  void write(Queue queue, Address to, const void *from, uint64_t bytes) override {
    push(queue, command::Transfer{pointer(to), static_cast<const std::byte *>(from), bytes});
  }
  void read(Queue queue, void *to, Address from, uint64_t bytes) override {
    push(queue, command::Transfer{static_cast<std::byte *>(to), pointer(from), bytes});
  }
  void put(Queue queue, Address to, std::span<const std::byte> bytes) override {
    auto fill = [&](auto put) {
      put.count = std::min(bytes.size(), kMostPutBytes);
      std::copy_n(bytes.begin(), put.count, put.bytes.begin());
      push(queue, put);
    };
    if (memory.isFar(to.block))
      fill(command::SendBytes{memory.farBlock(to.block) + to.offset, {}, 0});
    else
      fill(command::Put{pointer(to), {}, 0});
  }
  void fillZero(Queue queue, Address to, uint64_t bytes) override { push(queue, command::Fill{pointer(to), bytes}); }
  void copy(Queue queue, Address to, Address from, const Box &box) override {
    if (!memory.isFar(to.block))
      return push(queue, command::Copy{pointer(to), pointer(from), box});
    Outgoing &own = outgoing[static_cast<size_t>(queue)];
    own.sent += runsOf(box);
    push(queue, command::Send{memory.farBlock(to.block) + to.offset, pointer(from), box, &own.taken, own.sent});
  }
  void sum(Queue queue, Address to, std::span<const Address> parts, uint64_t floats) override {
    resolved.assign(1, pointer(to));
    resolve(parts);
    push(queue, command::Sum{static_cast<uint32_t>(parts.size()), floats}, resolved);
  }
  void launch(const PreparedProgram &program, std::span<const Address> bases, int32_t task) override {
    resolved.clear();
    resolve(bases);
    push(Queue::Compute, command::Launch{static_cast<const CpuProgram *>(&program), task}, resolved);
  }

  Point record(Queue queue) override {
    return {queue, threadOf(queue).pushed(), outgoing[static_cast<size_t>(queue)].sent};
  }
  void await(Queue queue, Point point) override {
    CommandQueue &other = threadOf(point.queue);
    if (&other != &threadOf(queue) && !other.hasCompleted(point.count)) // Within one thread order does it.
      push(queue, command::Await{&other, point.count});
    Outgoing &sends = outgoing[static_cast<size_t>(point.queue)];
    if (sends.taken.count() < point.sent)
      push(queue, command::AwaitWord{&sends.taken, point.sent, networkNote(point.sent)});
  }
  void awaitWord(Queue queue, transport::Word &word, uint64_t atLeast, const transport::WaitNote &note) override {
    command::AwaitWord await{&word, atLeast, note};
    await.note.isWatched = &threadOf(queue) == &threadOf(Queue::Compute);
    push(queue, await);
  }
  void signal(Queue queue, const transport::WordTarget &word, uint64_t count) override {
    push(queue, command::Signal{word, count});
  }

  Status wait(Point point) override {
    CommandQueue &queue = threadOf(point.queue);
    if (!queue.hasCompleted(point.count)) {
      tell(DeviceSign::HostAwaits);
      queue.awaitCompleted(point.count);
      tell(DeviceSign::HostResumes);
    }
    if (transport::Word &taken = outgoing[static_cast<size_t>(point.queue)].taken;
        taken.count() < point.sent && !failure)
      MAESTRO_TRY(transport::awaitWord(taken, point.sent, *options.abort, hostSpin, networkNote(point.sent)));
    return failure.status();
  }
  Status drain() override {
    Status status;
    for (size_t q = 0; q < kQueues; ++q)
      status = wait(record(static_cast<Queue>(q)));
    return status;
  }

  void begin(Queue queue, Span &span) override { push(queue, command::Begin{&span}); }
  void end(Queue queue, Span &span) override { push(queue, command::End{&span}); }
  void enableTrace(size_t capacity) override { programs.enableTrace(capacity); }
  std::span<const TraceSpan> trace() const override { return programs.trace(); }

private:
  /// What a queue sends over a fabric, in runs.
  struct Outgoing {
    uint64_t sent = 0;     ///< Queued.
    transport::Word taken; ///< Has left.
  };

  transport::WaitNote networkNote(uint64_t index) const {
    return {options.rank, transport::Activity::AwaitingNetwork, "what was sent",
            index,        transport::LaneKind::Device,          false};
  }

  CommandQueue &threadOf(Queue queue) { return *threads[late ? static_cast<size_t>(queue) : 0]; }
  bool isMain(const CommandQueue &queue) { return &queue == &threadOf(Queue::Compute); }

  std::byte *pointer(Address address) const {
    return address.isNull() ? nullptr : memory.block(address.block) + address.offset;
  }
  void resolve(std::span<const Address> addresses) {
    for (const Address &address : addresses)
      resolved.push_back(pointer(address));
  }

  void push(Queue queue, const Command &command, std::span<std::byte *const> pointers = {}) {
    threadOf(queue).push(command, pointers);
  }

  void tell(DeviceSign what) const {
    if (options.onSign)
      options.onSign(what);
  }

  // ---- on a queue's thread

  void sign(CommandQueue &queue, DeviceSign what) override {
    if (isMain(queue))
      tell(what);
  }

  void run(CommandQueue &queue, const Command &command, std::span<std::byte *const> pointers) override {
    if (failure)
      return;
    bool touches = touchesMemory(command);
    if (touches)
      memory.reveal();
    Status status =
        guarded([&] { return std::visit([&](const auto &each) { return execute(queue, each, pointers); }, command); });
    if (touches)
      memory.hide();
    if (!status.isOk())
      failure.set(std::move(status), options.onFailure);
  }

  /// The late device's work is late.
  void beforeCompletion(CommandQueue &queue, const Command &command, uint64_t number) override {
    if (!late || late->mostDelayUs == 0 ||
        !(touchesMemory(command) || std::holds_alternative<command::Signal>(command)))
      return;
    auto which = static_cast<uint32_t>(
        std::find_if(threads.begin(), threads.end(), [&](const auto &thread) { return thread.get() == &queue; }) -
        threads.begin());
    PhiloxCounter bits = philox4x32({static_cast<uint32_t>(number), which, 0, 0},
                                    {static_cast<uint32_t>(late->seed), static_cast<uint32_t>(late->seed >> 32)});
    std::this_thread::sleep_for(std::chrono::microseconds(bits[0] % late->mostDelayUs));
  }

  Status execute(CommandQueue &, const command::Transfer &transfer, std::span<std::byte *const>) {
    if (transfer.bytes > 0) // Else either may be null.
      std::memcpy(transfer.to, transfer.from, transfer.bytes);
    return Status();
  }
  Status execute(CommandQueue &, const command::Put &put, std::span<std::byte *const>) {
    std::memcpy(put.to, put.bytes.data(), put.count);
    return Status();
  }
  Status execute(CommandQueue &, const command::Fill &fill, std::span<std::byte *const>) {
    std::memset(fill.to, 0, fill.bytes);
    return Status();
  }
  Status execute(CommandQueue &, const command::Copy &copy, std::span<std::byte *const>) {
    copyBox(copy.box, copy.to, copy.from);
    return Status();
  }
  Status execute(CommandQueue &queue, const command::Send &send, std::span<std::byte *const>) {
    RunCursor runs(send.box);
    for (RunCursor::Run run; runs.next(run);)
      send.to.fabric->write(send.to.place + static_cast<uint64_t>(run.destination), send.from + run.source, run.bytes,
                            send.taken);
    // The late device's memory can be read as long as the command runs.
    return late ? transport::awaitWord(*send.taken, send.sent, *options.abort, queue.spin, networkNote(send.sent))
                : Status();
  }
  Status execute(CommandQueue &, const command::SendBytes &send, std::span<std::byte *const>) {
    send.to.fabric->put(send.to.place, {send.bytes.data(), send.count});
    return Status();
  }
  Status execute(CommandQueue &, const command::Sum &sum, std::span<std::byte *const> pointers) {
    sumFloats(reinterpret_cast<float *>(pointers[0]), pointers.subspan(1, sum.parts), sum.floats);
    return Status();
  }
  Status execute(CommandQueue &, const command::Launch &launch, std::span<std::byte *const> pointers) {
    return programs.run(*launch.program, pointers, launch.task);
  }
  Status execute(CommandQueue &, const command::Await &await, std::span<std::byte *const>) {
    await.queue->awaitCompleted(await.count);
    return Status();
  }
  Status execute(CommandQueue &queue, const command::AwaitWord &await, std::span<std::byte *const>) {
    if (!options.abort)
      return Status::internal("a device that is alone waits for a word");
    return transport::awaitWord(*await.word, await.atLeast, *options.abort, queue.spin, await.note);
  }
  Status execute(CommandQueue &, const command::Signal &signal, std::span<std::byte *const>) {
    transport::signal(signal.word, signal.more);
    return Status();
  }
  Status execute(CommandQueue &, const command::Begin &begin, std::span<std::byte *const>) {
    if (options.onSpan)
      options.onSpan(*begin.span, false);
    begin.span->startNs = transport::nowNs();
    return Status();
  }
  Status execute(CommandQueue &, const command::End &end, std::span<std::byte *const>) {
    Span &span = *end.span;
    if (int64_t left = span.startNs + span.leastNs - transport::nowNs(); left > 0)
      std::this_thread::sleep_for(std::chrono::nanoseconds(left));
    span.endNs = transport::nowNs();
    if (options.onSpan)
      options.onSpan(span, true);
    return Status();
  }

  /// In blocks whose partial sums stay in the first cache.
  static void sumFloats(float *to, std::span<std::byte *const> parts, uint64_t floats) {
    constexpr uint64_t kBlockFloats = 2048;
    for (uint64_t at = 0; at < floats; at += kBlockFloats) {
      alignas(64) float block[kBlockFloats];
      uint64_t count = std::min(kBlockFloats, floats - at);
      for (size_t part = 0; part < parts.size(); ++part) {
        const float *from = reinterpret_cast<const float *>(parts[part]) + at;
        if (part == 0)
          std::memcpy(block, from, count * sizeof(float));
        else
          for (uint64_t i = 0; i < count; ++i)
            block[i] += from[i];
      }
      std::memcpy(to + at, block, count * sizeof(float));
    }
  }

  CpuDeviceOptions options;
  std::optional<LateOptions> late;
  DeviceMemory memory;
  CpuPrograms programs;
  uint64_t totalBytes = 0;
  std::vector<std::byte *> resolved;      ///< Of the command that is being queued.
  transport::Fabric *fabric = nullptr;    ///< Where what is sent goes through.
  std::array<Outgoing, kQueues> outgoing; ///< By queue.
  transport::Spin hostSpin;
  std::array<std::unique_ptr<CommandQueue>, kQueues> threads; ///< Only the first works, but for the late device.
  FirstFailure failure;
};

} // namespace

std::unique_ptr<Device> createCpuDevice(std::shared_ptr<const kernels::Library> library,
                                        const CpuDeviceOptions &options) {
  return std::make_unique<CpuDevice>(std::move(library), options);
}

std::unique_ptr<Device> createLateCpuDevice(std::shared_ptr<const kernels::Library> library,
                                            const CpuDeviceOptions &options, const LateOptions &late) {
  return std::make_unique<CpuDevice>(std::move(library), options, &late);
}

} // namespace maestro::executor

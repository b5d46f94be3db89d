// The GPU's device: memory, and what each kind of work becomes on a stream.
#include "executor/device/cuda/cuda_device.h"

#include "executor/device/cuda/cuda_program.h"
#include "executor/device/cuda/cuda_queues.h"
#include "executor/device/cuda/far_sends.h"
#include "executor/device/cuda/gpu_share.h"
#include "executor/device/cuda/queue_kernels.h"
#include "kernels/cuda/gpu_library.h"
#include "kernels/cuda/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace maestro::executor {
namespace {

constexpr uint64_t kMin2dRowBytes = 512; ///< Below, copy engines move a row in as long as a longer one.

/// Memory as a GPU sees it.
struct Spot {
  CUdeviceptr address;
  bool isHost;
  Spot operator+(int64_t bytes) const { return {address + static_cast<CUdeviceptr>(bytes), isHost}; }
};

Status checkGpu(const cuda::Context &context, const CudaDeviceOptions &options) {
  if (context.name().find(options.model) == std::string::npos)
    return Status::invalidInput(fmt::format("the plan is for a GPU called '{}', and this is {}; plan again for it "
                                            "(--set cluster.device=...)",
                                            options.model, context.name()));
  if (context.attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) == 0)
    return Status::unavailable(context.name() + " has no stream memory operations of 64 bits, with which queues wait; "
                                                "use a GPU of compute capability 7.0 or newer");
  if (context.attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) == 0)
    return Status::unavailable(context.name() +
                               " does not see the host's memory at the host's addresses, through which "
                               "ranks meet; use a machine with 64-bit Linux on x86 or Arm servers");
  const cuda::Driver &driver = context.driver();
  size_t free = 0, total = 0;
  context.makeCurrent();
  MAESTRO_CUDA_TRY(driver, cuMemGetInfo, &free, &total);
  if (options.neededBytes > free)
    return Status::unavailable(
        fmt::format("{} has {} bytes free of {}, and the plan needs {} for rank {}; end what else "
                    "runs there (nvidia-smi shows it), or plan with a smaller micro-batch",
                    context.name(), free, total, options.neededBytes, options.rank));
  return Status();
}

class CudaDevice : public Device {
public:
  static Result<std::unique_ptr<Device>> create(const CudaDeviceOptions &options) {
    MAESTRO_ASSIGN(int count, cuda::Context::count());
    MAESTRO_ASSIGN(auto context, cuda::Context::open(static_cast<int>(options.device) % count));
    MAESTRO_TRY(checkGpu(*context, options));
    MAESTRO_ASSIGN(GpuShare share, GpuShare::take(*context));
    std::vector<RegisteredMemory> shared;
    for (std::span<std::byte> mapping : options.shared) {
      MAESTRO_ASSIGN(auto registered, RegisteredMemory::create(*context, mapping));
      shared.push_back(std::move(registered));
    }
    MAESTRO_ASSIGN(auto path, kernels::cuda::Module::pathBesideProgram());
    MAESTRO_ASSIGN(auto module, kernels::cuda::Module::load(*context, path));
    MAESTRO_ASSIGN(auto kernels, QueueKernels::find(*module));
    std::unique_ptr<kernels::cuda::Library> library; // None where no plan runs.
    if (options.runsKernels) {
      MAESTRO_ASSIGN(library, kernels::cuda::createGpuLibrary(*module, *context));
    }
    std::unique_ptr<CudaDevice> device(new CudaDevice(options, std::move(context), std::move(share), std::move(shared),
                                                      std::move(module), std::move(library), kernels));
    MAESTRO_ASSIGN(device->queues,
                   CudaQueues::create(*device->context, device->options,
                                      [programs = &device->programs](const kernels::cuda::Failure &failure) {
                                        return programs->toStatus(failure);
                                      }));
    return std::unique_ptr<Device>(std::move(device));
  }
  ~CudaDevice() override {
    if (queues)
      queues->finish();
    farSends.reset(); // What was queued may go over fabrics.
  }

  // ---- memory

  Result<Address> allocate(uint64_t bytes, std::string_view purpose) override {
    MAESTRO_ASSIGN(CUdeviceptr start, arena.allocate(bytes, purpose, queues->aside()));
    totalBytes += bytes;
    return add({{start, false}, {}, {start, false, bytes}});
  }
  Result<Address> adopt(const transport::Target &memory, uint64_t bytes) override {
    if (memory.memory && !memory.isOnDevice)
      MAESTRO_TRY(registerBulk(memory.memory, bytes));
    if (!memory.memory)
      MAESTRO_TRY(farSends->open(*memory.fabric));
    Spot start{reinterpret_cast<CUdeviceptr>(memory.memory), !memory.isOnDevice};
    return add({start, memory, {start.address, start.isHost}});
  }
  uint64_t allocatedBytes() const override { return totalBytes + programs.scratchBytes(); }

  Result<std::unique_ptr<PreparedProgram>> prepare(std::span<const CallDescription> calls) override {
    context->makeCurrent();
    return programs.prepare(calls);
  }
  size_t preparedKernels() const override { return programs.preparedKernels(); }
  size_t preparedBytes() const override { return programs.preparedBytes(); }
  std::map<std::string, std::string> identity() const override {
    std::map<std::string, std::string> parts = kernels::cuda::libraryVersions();
    parts["gpu"] = context->model();
    parts["driver"] = cuda::versionText(driver().version);
    parts["kernels"] = fmt::format("{:016x}", module->hash());
    return parts;
  }

  // ---- work

  void write(Queue queue, Address to, const void *from, uint64_t bytes) override {
    auto source = static_cast<const std::byte *>(from);
    if (bytes <= kMostPutBytes)
      return put(queue, to, {source, bytes});
    queues->forPieces(queue, bytes, [&](uint64_t at, uint64_t count, const PinnedRing::Piece &piece) {
      std::memcpy(piece.memory, source + at, count);
      queues->enqueue(queue, [&](CUstream stream) { return copyRun(stream, locate(to + at), pinned(piece), count); });
      queues->mark(queue, entry::Release{piece.end});
    });
  }
  void read(Queue queue, void *to, Address from, uint64_t bytes) override {
    auto target = static_cast<std::byte *>(to);
    queues->forPieces(queue, bytes, [&](uint64_t at, uint64_t count, const PinnedRing::Piece &piece) {
      queues->enqueue(queue, [&](CUstream stream) { return copyRun(stream, pinned(piece), locate(from + at), count); });
      queues->mark(queue, entry::Deliver{target + at, piece, count});
    });
  }
  void put(Queue queue, Address to, std::span<const std::byte> bytes) override {
    bytes = bytes.first(std::min(bytes.size(), kMostPutBytes));
    if (bytes.empty())
      return;
    if (!isFar(to))
      return queues->enqueue(queue, [&](CUstream stream) { return kernels.put(stream, locate(to).address, bytes); });
    entry::SendBytes send{farTarget(to), {}, bytes.size()};
    std::copy(bytes.begin(), bytes.end(), send.bytes.begin());
    queues->mark(queue, send);
  }
  void fillZero(Queue queue, Address to, uint64_t bytes) override {
    if (bytes == 0)
      return;
    queues->enqueue(queue, [&](CUstream stream) {
      Spot spot = locate(to);
      return spot.isHost ? kernels.fillZero(stream, spot.address, bytes)
                         : driver().check(driver().cuMemsetD8Async(spot.address, 0, bytes, stream), "cuMemsetD8Async");
    });
  }
  void copy(Queue queue, Address to, Address from, const Box &box) override {
    Box runs = mergeDims(box);
    if (runs.elementBytes == 0)
      return;
    if (isFar(to))
      return farSends->send(*queues, queue, farTarget(to), blocks[from.block - 1].source, locate(from).address, runs);
    queues->enqueue(queue, [&](CUstream stream) { return copyRuns(stream, locate(to), locate(from), runs); });
  }
  void sum(Queue queue, Address to, std::span<const Address> parts, uint64_t floats) override {
    if (floats == 0)
      return;
    resolve(parts);
    CUdeviceptr target = locate(to).address;
    if (resolved.size() > QueueKernels::kMaxSumParts)
      return sumMany(queue, target, floats);
    queues->enqueue(queue, [&](CUstream stream) { return kernels.sum(stream, target, resolved, floats); });
  }
  void launch(const PreparedProgram &program, std::span<const Address> bases, int32_t task) override {
    const auto &own = static_cast<const CudaProgram &>(program);
    resolve(bases);
    if (!queues->traces() && !queues->hasFailure() && launchGraph(own))
      return;
    const OperandRef *operand = own.operands.data();
    for (const CudaProgram::Call &call : own.calls) {
      TimedEvent *start = queues->traces() ? queues->stamp(Queue::Compute) : nullptr;
      queues->enqueue(Queue::Compute, [&](CUstream stream) {
        return programs.enqueue(call, operand, resolved, stream, queues->failureAddress());
      });
      operand += call.inputs + call.outputs;
      if (TimedEvent *end = start ? queues->stamp(Queue::Compute) : nullptr)
        queues->mark(Queue::Compute, entry::Call{call.name, call.scope, start, end, task});
    }
  }

  // ---- order and times

  Point record(Queue queue) override { return queues->record(queue); }
  void await(Queue queue, Point point) override { queues->await(queue, point); }
  void awaitWord(Queue queue, transport::Word &word, uint64_t atLeast, const transport::WaitNote &note) override {
    if (options.abort && isShared(&word, sizeof word))
      return queues->awaitWord(queue, word, atLeast, note);
    queues->fail(Status::internal("a device that is alone, or has not registered the word, waits for it"));
  }
  void signal(Queue queue, const transport::WordTarget &word, uint64_t count) override {
    queues->mark(queue, entry::Signal{word, count});
  }
  Status wait(Point point) override { return queues->wait(point); }
  Status drain() override {
    Status status;
    for (size_t q = 0; q < kQueues; ++q)
      status = wait(record(static_cast<Queue>(q)));
    return status;
  }
  void begin(Queue queue, Span &span) override { queues->begin(queue, span); }
  void end(Queue queue, Span &span) override { queues->end(queue, span); }
  void enableTrace(size_t capacity) override { queues->enableTrace(capacity); }
  std::span<const TraceSpan> trace() const override { return queues->trace(); }

private:
  struct Block {
    Spot start;
    transport::Target far;  ///< Where it is reached by a fabric.
    FarSends::Block source; ///< As it is sent from.
  };

  CudaDevice(const CudaDeviceOptions &options, std::unique_ptr<cuda::Context> context, GpuShare share,
             std::vector<RegisteredMemory> shared, std::unique_ptr<kernels::cuda::Module> module,
             std::unique_ptr<kernels::cuda::Library> library, QueueKernels kernels)
      : options(options), context(std::move(context)), share(std::move(share)), shared(std::move(shared)),
        module(std::move(module)), kernels(kernels), arena(*this->context),
        programs(std::move(library), *this->context) {
    resolved.reserve(64); // More than most commands have.
    farSends = std::make_unique<FarSends>(
        *this->context, this->options,
        [this](CUstream stream, std::byte *to, CUdeviceptr from, bool isHost, uint64_t bytes) {
          return copyRun(stream, {reinterpret_cast<CUdeviceptr>(to), true}, {from, isHost}, bytes);
        });
  }

  /// False where the program's calls are to be launched one by one.
  bool launchGraph(const CudaProgram &program) {
    LaunchGraphs::Way way = program.graphs->next(resolved);
    context->makeCurrent();
    bool isThere = way == LaunchGraphs::Way::Replay ||
                   (way == LaunchGraphs::Way::Record && program.graphs->record(queues->aside(), [&](CUstream stream) {
                     const OperandRef *operand = program.operands.data();
                     for (const CudaProgram::Call &call : program.calls) {
                       MAESTRO_TRY(programs.enqueue(call, operand, resolved, stream, queues->failureAddress()));
                       operand += call.inputs + call.outputs;
                     }
                     return Status();
                   }));
    if (isThere)
      queues->enqueue(Queue::Compute, [&](CUstream stream) { return program.graphs->launch(stream); });
    return isThere;
  }

  const cuda::Driver &driver() const { return context->driver(); }
  Address add(Block block) {
    blocks.push_back(std::move(block));
    return {static_cast<uint32_t>(blocks.size()), 0};
  }
  bool isShared(const void *pointer, uint64_t bytes) const {
    return std::any_of(shared.begin(), shared.end(),
                       [&](const RegisteredMemory &mapping) { return mapping.contains(pointer, bytes); });
  }
  Status registerBulk(const void *pointer, uint64_t bytes) {
    for (std::span<std::byte> each : options.bulk)
      if (auto at = static_cast<const std::byte *>(pointer);
          !isShared(pointer, bytes) && at >= each.data() && at + bytes <= each.data() + each.size()) {
        MAESTRO_ASSIGN(auto registered, RegisteredMemory::create(*context, each));
        shared.push_back(std::move(registered));
      }
    return isShared(pointer, bytes)
               ? Status()
               : Status::internal("memory that ranks share is not registered with " + context->name());
  }
  bool isFar(Address address) const {
    return !address.isNull() && blocks[address.block - 1].far.fabric && !blocks[address.block - 1].far.memory;
  }
  transport::Target farTarget(Address address) const { return blocks[address.block - 1].far + address.offset; }
  Spot locate(Address address) const {
    return address.isNull() ? Spot{0, false} : blocks[address.block - 1].start + static_cast<int64_t>(address.offset);
  }
  static Spot pinned(const PinnedRing::Piece &piece) { return {reinterpret_cast<CUdeviceptr>(piece.memory), true}; }
  void resolve(std::span<const Address> addresses) {
    resolved.clear();
    for (const Address &address : addresses)
      resolved.push_back(locate(address).address);
  }

  Status copyRun(CUstream stream, Spot to, Spot from, uint64_t bytes) {
    return copyRuns(stream, to, from, Box::contiguous(0, 0, bytes));
  }
  /// Of a box whose dims are merged.
  Status copyRuns(CUstream stream, Spot to, Spot from, const Box &runs) {
    bool withinHost = to.isHost && from.isHost; // Where the driver would wait for the stream.
    if (runs.rank == 0 && !withinHost)
      return driver().check(
          driver().cuMemcpyAsync(to.address + runs.destination, from.address + runs.source, runs.elementBytes, stream),
          "cuMemcpyAsync");
    if (runs.rank == 1 && !withinHost && fits2d(runs))
      return copy2d(stream, to, from, runs);
    return kernels.copy(stream, to.address, from.address, runs);
  }
  static bool fits2d(const Box &runs) {
    auto fits = [&](int64_t stride) {
      return stride >= static_cast<int64_t>(runs.elementBytes) && stride <= INT32_MAX;
    };
    return runs.elementBytes >= kMin2dRowBytes && fits(runs.sourceStrides[0]) && fits(runs.destinationStrides[0]);
  }
  Status copy2d(CUstream stream, Spot to, Spot from, const Box &runs) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = from.address + runs.source;
    copy.dstDevice = to.address + runs.destination;
    copy.srcPitch = static_cast<size_t>(runs.sourceStrides[0]);
    copy.dstPitch = static_cast<size_t>(runs.destinationStrides[0]);
    copy.WidthInBytes = runs.elementBytes;
    copy.Height = runs.extents[0];
    return driver().check(driver().cuMemcpy2DAsync(&copy, stream), "cuMemcpy2DAsync");
  }

  /// Several launches: the sum so far is the first part of the next. It lies in `to`, unless that is yet to be read.
  void sumMany(Queue queue, CUdeviceptr to, uint64_t floats) {
    std::span<CUdeviceptr> left(resolved);
    CUdeviceptr partial = to;
    if (auto later = left.subspan(QueueKernels::kMaxSumParts);
        std::find(later.begin(), later.end(), to) != later.end()) {
      auto room = partialSums(queue, floats);
      if (!room)
        return queues->fail(std::move(room).takeStatus());
      partial = *room;
    }
    while (!left.empty()) {
      auto now = left.first(std::min(left.size(), QueueKernels::kMaxSumParts));
      bool isLast = now.size() == left.size();
      queues->enqueue(queue, [&](CUstream stream) { return kernels.sum(stream, isLast ? to : partial, now, floats); });
      left = left.subspan(isLast ? left.size() : now.size() - 1);
      if (!isLast)
        left.front() = partial;
    }
  }
  /// Room for sums that are not whole yet; kept, and as large as the largest that was asked for.
  Result<CUdeviceptr> partialSums(Queue queue, uint64_t floats) {
    constexpr uint64_t kMinFloats = 256 << 10; // What exchanges and reductions add up at a time.
    PartialSums &own = partials[static_cast<size_t>(queue)];
    if (floats > own.floats) {
      floats = std::max(floats, kMinFloats);
      MAESTRO_ASSIGN(own.start, arena.allocate(floats * sizeof(float), "sums of many parts", queues->aside()));
      own.floats = floats;
    }
    return own.start;
  }

  CudaDeviceOptions options;
  std::unique_ptr<cuda::Context> context;
  GpuShare share;
  std::vector<RegisteredMemory> shared;
  std::unique_ptr<kernels::cuda::Module> module;
  QueueKernels kernels;
  Arena arena;
  CudaPrograms programs;
  uint64_t totalBytes = 0;
  std::vector<Block> blocks;         ///< By number, from 1.
  std::vector<CUdeviceptr> resolved; ///< Of the work that is being queued.
  struct PartialSums {
    CUdeviceptr start = 0;
    uint64_t floats = 0;
  };
  std::array<PartialSums, kQueues> partials; ///< By queue.
  std::unique_ptr<FarSends> farSends;
  std::unique_ptr<CudaQueues> queues;
};

} // namespace

Result<std::unique_ptr<Device>> createCudaDevice(const CudaDeviceOptions &options) {
  return CudaDevice::create(options);
}

} // namespace maestro::executor

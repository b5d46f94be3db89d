// The driver's functions: streams, events, copies, kernels.
#include "cuda/driver.h"

#include "test/cuda/fake/fake.h"
#include "test/cuda/fake/kernels.h"
#include "test/cuda/fake/memory.h"
#include "test/cuda/fake/objects.h"
#include "test/cuda/fake/transfer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

using namespace maestro::cuda::fake;
using maestro::kernels::cuda::host::KernelEntry;
using Touches = CUstream_st::Touches;

namespace maestro::cuda::fake {

template <typename T> T &Table<T>::require(T *handle, const char *who) {
  std::lock_guard lock(mutex);
  auto found = held.find(handle);
  if (found == held.end())
    complain(std::string(who) + ": no such handle, or no longer");
  return *found->second;
}
template <typename T> void Table<T>::remove(T *handle, const char *who) {
  std::unique_ptr<T> last; // Goes without the lock.
  std::lock_guard lock(mutex);
  auto found = held.find(handle);
  if (found == held.end())
    complain(std::string(who) + ": no such handle, or no longer");
  last = std::move(found->second);
  held.erase(found);
}

std::string Objects::leftovers() const {
  std::string text;
  auto add = [&](size_t count, const char *what) {
    if (count > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(streams.size(), "streams");
  add(events.size(), "events");
  add(modules.size(), "modules");
  add(graphs.size(), "graphs");
  add(graphExecs.size(), "executable graphs");
  return text;
}

} // namespace maestro::cuda::fake

namespace {

/// The calls of this file need a context and a stream of ours: the default stream waits for all others.
CUstream_st &require(const char *who, CUstream stream) {
  Objects::requireContext(who);
  return Objects::get().streams.require(stream, who);
}
/// One that is not being captured: what is asked of it would end the capture with an error.
CUstream_st &requireLive(const char *who, CUstream stream) {
  CUstream_st &queue = require(who, stream);
  if (queue.isCapturing())
    complain(std::string(who) + " of a stream that is being captured");
  return queue;
}

void *asPointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

Memory::Kind kindOf(const char *who, const char *which, CUdeviceptr address, size_t bytes, CUdevice device) {
  return Memory::get().kindOf(std::string(who) + ", " + which, address, bytes, device);
}

/// What a copy may be; looked at when it is queued and when it runs.
void checkCopy(const char *who, CUdevice device, CUdeviceptr to, size_t toBytes, CUdeviceptr from, size_t fromBytes) {
  bool fromDevice = kindOf(who, "source", from, fromBytes, device) == Memory::Kind::Device;
  if (kindOf(who, "destination", to, toBytes, device) != Memory::Kind::Device && !fromDevice)
    complain(std::string(who) + " from host to host memory, which waits for the stream");
}

std::atomic<uint64_t> &wordAt(const char *who, CUdeviceptr address, CUdevice device) {
  if (address % 8 != 0)
    complain(std::string(who) + ": a word that is not aligned to 8 bytes");
  kindOf(who, "word", address, 8, device);
  return *static_cast<std::atomic<uint64_t> *>(asPointer(address));
}

struct AddedKernels {
  std::mutex mutex;
  std::map<std::string, const KernelEntry *> entries;
  static AddedKernels &get() {
    static auto *kernels = new AddedKernels();
    return *kernels;
  }
};

const KernelEntry *findKernel(const char *name) {
  std::lock_guard lock(AddedKernels::get().mutex);
  auto found = AddedKernels::get().entries.find(name);
  return found != AddedKernels::get().entries.end() ? found->second : maestro::kernels::cuda::host::findKernel(name);
}

/// The one parameter of a launch, copied.
std::vector<std::byte> paramsOf(const KernelEntry &kernel, void **params, void **extra) {
  const void *from = params ? params[0] : nullptr;
  size_t bytes = kernel.paramsBytes;
  for (void **item = extra; item && *item != CU_LAUNCH_PARAM_END; item += 2)
    if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER)
      from = item[1];
    else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<size_t *>(item[1]);
  if (!from || bytes != kernel.paramsBytes)
    complain(std::string("cuLaunchKernel of ") + kernel.name + " with " + std::to_string(from ? bytes : 0) +
             " bytes of parameters, not " + std::to_string(kernel.paramsBytes));
  if (bytes > 4096)
    complain(std::string("cuLaunchKernel of ") + kernel.name + ": more than 4096 bytes of parameters");
  return {static_cast<const std::byte *>(from), static_cast<const std::byte *>(from) + bytes};
}

} // namespace

extern "C" __attribute__((visibility("default"))) void maestroFakeCudaAddKernel(const KernelEntry *entry) {
  std::lock_guard lock(AddedKernels::get().mutex);
  AddedKernels::get().entries[entry->name] = entry;
}

extern "C" __attribute__((visibility("default"))) uint64_t maestroFakeCudaThreadInGrid() {
  return maestro::kernels::cuda::host::threadInGrid();
}

extern "C" __attribute__((visibility("default"))) CUdevice maestroFakeCudaDevice(const char *who) {
  return Objects::requireContext(who);
}

extern "C" __attribute__((visibility("default"))) void maestroFakeCudaTransfer(const char *who, CUstream stream,
                                                                               CUdeviceptr memory, size_t bytes,
                                                                               std::shared_ptr<Transfer> transfer) {
  CUstream_st &queue = require(who, stream);
  auto check = [=, device = queue.device] {
    if (memory)
      kindOf(who, "memory", memory, bytes, device);
  };
  check();
  queue.push(memory ? Touches::Nothing : Touches::Waits, [=] {
    check();
    for (size_t at = 0; at < bytes;) {
      size_t ready = transfer->ready();
      if (ready == Transfer::kEnded)
        return;
      if (ready == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        continue;
      }
      ready = std::min(ready, bytes - at);
      Memory::get().open();
      transfer->move(memory ? static_cast<std::byte *>(asPointer(memory)) + at : nullptr, ready);
      Memory::get().close();
      at += ready;
    }
  });
}

extern "C" __attribute__((visibility("default"))) bool maestroFakeCudaOpen(CUdeviceptr memory, size_t bytes,
                                                                           int *descriptor, size_t *offset) {
  return Memory::get().openShared(memory, bytes, descriptor, offset) == CUDA_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) uint64_t maestroFakeCudaGraphLaunches() {
  return Objects::get().graphLaunches;
}

/// Of a call that is right: what the GPU of the thread's context has come to.
static CUresult outcome() {
  return isLost(Objects::requireContext("a call")) ? CUDA_ERROR_ECC_UNCORRECTABLE : CUDA_SUCCESS;
}

// ---- streams

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  CUdevice device = Objects::requireContext("cuStreamCreate");
  if (flags != CU_STREAM_NON_BLOCKING)
    complain("cuStreamCreate of a stream that waits for the default stream");
  *stream = Objects::get().streams.add(std::make_unique<CUstream_st>(Objects::get().streamsMade++, device));
  return outcome();
}
CUresult cuStreamDestroy(CUstream stream) {
  requireLive("cuStreamDestroy", stream).awaitIdle();
  Objects::get().streams.remove(stream, "cuStreamDestroy");
  return outcome();
}
CUresult cuStreamSynchronize(CUstream stream) {
  requireLive("cuStreamSynchronize", stream).awaitIdle();
  return outcome();
}
CUresult cuStreamQuery(CUstream stream) {
  requireLive("cuStreamQuery", stream);
  return outcome();
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  requireLive("cuStreamWaitEvent", stream).await(Objects::get().events.require(event, "cuStreamWaitEvent"));
  return outcome();
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  if (flags != CU_STREAM_WAIT_VALUE_GEQ)
    complain("cuStreamWaitValue64 with flags that the fake does not know");
  CUstream_st &queue = requireLive("cuStreamWaitValue64", stream);
  CUdevice device = queue.device;
  wordAt("cuStreamWaitValue64", address, device);
  queue.push(Touches::Waits, [=] {
    auto &word = wordAt("cuStreamWaitValue64", address, device);
    while (static_cast<int64_t>(word.load() - value) < 0 && !isLost(device))
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  return outcome();
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  CUstream_st &queue = require("cuStreamWriteValue64", stream);
  CUdevice device = queue.device;
  wordAt("cuStreamWriteValue64", address, device);
  queue.push(Touches::Memory, [=] { wordAt("cuStreamWriteValue64", address, device).store(value); });
  return outcome();
}

// ---- graphs

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    complain("cuStreamBeginCapture in a mode in which other threads' calls end it");
  require("cuStreamBeginCapture", stream).beginCapture();
  return outcome();
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  auto items = require("cuStreamEndCapture", stream).endCapture();
  if (!items)
    return CUDA_ERROR_ILLEGAL_STATE;
  *graph = Objects::get().graphs.add(std::make_unique<CUgraph_st>(CUgraph_st{std::move(*items)}));
  return outcome();
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, unsigned long long) {
  Objects::requireContext("cuGraphInstantiateWithFlags");
  const CUgraph_st &from = Objects::get().graphs.require(graph, "cuGraphInstantiateWithFlags");
  *made = Objects::get().graphExecs.add(std::make_unique<CUgraphExec_st>(CUgraphExec_st{from.items}));
  return outcome();
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  CUstream_st &queue = requireLive("cuGraphLaunch", stream);
  for (const CUstream_st::Item &item : Objects::get().graphExecs.require(graph, "cuGraphLaunch").items)
    queue.push(item.touches, item.work);
  ++Objects::get().graphLaunches;
  return outcome();
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  Objects::requireContext("cuGraphExecDestroy");
  Objects::get().graphExecs.remove(graph, "cuGraphExecDestroy");
  return outcome();
}
CUresult cuGraphDestroy(CUgraph graph) {
  Objects::requireContext("cuGraphDestroy");
  Objects::get().graphs.remove(graph, "cuGraphDestroy");
  return outcome();
}

// ---- events

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  Objects::requireContext("cuEventCreate");
  *event = Objects::get().events.add(std::make_unique<CUevent_st>());
  (*event)->flags = flags;
  return outcome();
}
CUresult cuEventDestroy(CUevent event) {
  Objects::requireContext("cuEventDestroy");
  Objects::get().events.remove(event, "cuEventDestroy");
  return outcome();
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  requireLive("cuEventRecord", stream).record(Objects::get().events.require(event, "cuEventRecord"));
  return outcome();
}
CUresult cuEventQuery(CUevent event) {
  Objects::requireContext("cuEventQuery");
  auto last = Objects::get().events.require(event, "cuEventQuery").last.load();
  return outcome() != CUDA_SUCCESS || !last || last->timeNs != 0 ? outcome() : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent event) {
  CUdevice device = Objects::requireContext("cuEventSynchronize");
  if (auto last = Objects::get().events.require(event, "cuEventSynchronize").last.load())
    awaitRecording(*last, device);
  return outcome();
}
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  Objects::requireContext("cuEventElapsedTime");
  CUevent_st &first = Objects::get().events.require(start, "cuEventElapsedTime"),
             &second = Objects::get().events.require(end, "cuEventElapsedTime");
  auto from = first.last.load(), to = second.last.load();
  if ((first.flags | second.flags) & CU_EVENT_DISABLE_TIMING || !from || !to)
    complain("cuEventElapsedTime of events without times");
  if (from->timeNs == 0 || to->timeNs == 0)
    return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(to->timeNs - from->timeNs) * 1e-6);
  return outcome();
}

// ---- copies

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  CUstream_st &queue = require("cuMemcpyAsync", stream);
  auto check = [=, device = queue.device] { checkCopy("cuMemcpyAsync", device, to, bytes, from, bytes); };
  check();
  queue.push(Touches::Memory, [=] {
    check();
    std::memcpy(asPointer(to), asPointer(from), bytes);
  });
  return outcome();
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
  CUstream_st &queue = require("cuMemcpy2DAsync", stream);
  CUDA_MEMCPY2D box = *copy;
  auto start = [](CUmemorytype type, CUdeviceptr address, size_t pitch, size_t x, size_t y) {
    if (type != CU_MEMORYTYPE_UNIFIED)
      complain("cuMemcpy2DAsync of memory that is not CU_MEMORYTYPE_UNIFIED");
    return address + y * pitch + x;
  };
  CUdeviceptr to = start(box.dstMemoryType, box.dstDevice, box.dstPitch, box.dstXInBytes, box.dstY);
  CUdeviceptr from = start(box.srcMemoryType, box.srcDevice, box.srcPitch, box.srcXInBytes, box.srcY);
  if (box.WidthInBytes == 0 || box.Height == 0 || box.dstPitch < box.WidthInBytes || box.srcPitch < box.WidthInBytes)
    return CUDA_ERROR_INVALID_VALUE;
  auto check = [=, device = queue.device] {
    checkCopy("cuMemcpy2DAsync", device, to, (box.Height - 1) * box.dstPitch + box.WidthInBytes, from,
              (box.Height - 1) * box.srcPitch + box.WidthInBytes);
  };
  check();
  queue.push(Touches::Memory, [=] {
    check();
    for (size_t row = 0; row < box.Height; ++row)
      std::memcpy(asPointer(to + row * box.dstPitch), asPointer(from + row * box.srcPitch), box.WidthInBytes);
  });
  return outcome();
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  CUstream_st &queue = require("cuMemsetD8Async", stream);
  auto check = [=, device = queue.device] {
    if (kindOf("cuMemsetD8Async", "destination", to, bytes, device) != Memory::Kind::Device)
      complain("cuMemsetD8Async of host memory, which waits for the stream");
  };
  check();
  queue.push(Touches::Memory, [=] {
    check();
    std::memset(asPointer(to), value, bytes);
  });
  return outcome();
}

// ---- kernels

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  Objects::requireContext("cuModuleLoadData");
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != 0xba55ed50 && magic != 0x464c457f) // A fat binary; ELF.
    return CUDA_ERROR_INVALID_VALUE;
  if (Settings::get().version / 1000 < CUDA_VERSION / 1000) // Of the toolkit that compiled the kernels.
    return CUDA_ERROR_INVALID_IMAGE;
  *module = reinterpret_cast<CUmodule>(Objects::get().modules.add(std::make_unique<int>(0)));
  return outcome();
}
CUresult cuModuleUnload(CUmodule module) {
  Objects::requireContext("cuModuleUnload");
  Objects::get().modules.remove(reinterpret_cast<int *>(module), "cuModuleUnload");
  return outcome();
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  Objects::requireContext("cuModuleGetFunction");
  Objects::get().modules.require(reinterpret_cast<int *>(module), "cuModuleGetFunction");
  *function = reinterpret_cast<CUfunction>(const_cast<KernelEntry *>(findKernel(name)));
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute, CUfunction) {
  *value = 0;
  return outcome();
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return outcome(); }
CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                        unsigned blockY, unsigned blockZ, unsigned sharedBytes, CUstream stream, void **params,
                        void **extra) {
  CUstream_st &queue = require("cuLaunchKernel", stream);
  const auto &kernel = *reinterpret_cast<const KernelEntry *>(function);
  if (gridX == 0 || gridX > 0x7fffffff || gridY == 0 || gridY > 65535 || gridZ == 0 || gridZ > 65535 || blockX == 0 ||
      blockX > 1024 || blockY != 1 || blockZ != 1 || sharedBytes > 227 << 10)
    return CUDA_ERROR_INVALID_VALUE;
  queue.push(Touches::Memory, [=, &kernel, values = paramsOf(kernel, params, extra)] {
    maestro::Status status =
        maestro::kernels::cuda::host::runGrid(kernel, {gridX, gridY, gridZ}, blockX, sharedBytes, values.data());
    if (!status.isOk())
      complain(std::string(kernel.name) + ": " + std::string(status.message()));
  });
  return outcome();
}

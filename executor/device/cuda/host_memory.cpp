#include "executor/device/cuda/host_memory.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace maestro::executor {
namespace {

/// Of this process.
struct Registrations {
  std::mutex mutex;
  std::map<std::byte *, int> uses;
  static Registrations &get() {
    static Registrations registrations;
    return registrations;
  }
};

} // namespace

Result<PinnedBlock> PinnedBlock::create(const cuda::Context &context, uint64_t bytes) {
  context.makeCurrent();
  void *memory;
  CUresult result = context.driver().cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (result != CUDA_SUCCESS)
    return context.driver()
        .check(result, "cuMemHostAlloc")
        .withContext("cannot pin " + std::to_string(bytes) + " bytes of host memory for " + context.name());
  std::memset(memory, 0, bytes);
  return PinnedBlock(context, memory, bytes);
}

PinnedBlock::~PinnedBlock() {
  if (!memory)
    return;
  context->makeCurrent();
  (void)context->driver().cuMemFreeHost(memory);
}

Result<RegisteredMemory> RegisteredMemory::create(const cuda::Context &context, std::span<std::byte> memory) {
  if (memory.empty())
    return RegisteredMemory(context, {});
  context.makeCurrent();
  Registrations &registrations = Registrations::get();
  std::lock_guard lock(registrations.mutex);
  if (registrations.uses[memory.data()]++ > 0)
    return RegisteredMemory(context, memory);
  CUresult result = context.driver().cuMemHostRegister(memory.data(), memory.size(), CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS)
    return RegisteredMemory(context, memory);
  registrations.uses.erase(memory.data());
  return context.driver()
      .check(result, "cuMemHostRegister")
      .withContext("cannot register the " + std::to_string(memory.size()) +
                   " bytes in which ranks meet (ulimit -l limits how much may be)");
}

RegisteredMemory::~RegisteredMemory() {
  if (memory.empty())
    return;
  Registrations &registrations = Registrations::get();
  std::lock_guard lock(registrations.mutex);
  if (--registrations.uses[memory.data()] > 0)
    return;
  registrations.uses.erase(memory.data());
  context->makeCurrent();
  (void)context->driver().cuMemHostUnregister(memory.data());
}

} // namespace maestro::executor

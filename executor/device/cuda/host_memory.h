// Host memory that a GPU reads and writes: pinned blocks, and memory of others that is registered.
#pragma once

#include "cuda/context.h"

#include <cstddef>
#include <span>
#include <utility>

namespace maestro::executor {

/// Zeroed, pinned memory, which the GPU sees at the same address.
class PinnedBlock {
public:
  static Result<PinnedBlock> create(const cuda::Context &context, uint64_t bytes);
  PinnedBlock(PinnedBlock &&other) noexcept
      : context(other.context), memory(std::exchange(other.memory, nullptr)), size(other.size) {}
  PinnedBlock &operator=(PinnedBlock &&) = delete;
  ~PinnedBlock();

  std::byte *get() const { return static_cast<std::byte *>(memory); }
  uint64_t bytes() const { return size; }
  std::span<const std::byte> span() const { return {get(), size}; }

private:
  PinnedBlock(const cuda::Context &context, void *memory, uint64_t bytes)
      : context(&context), memory(memory), size(bytes) {}
  const cuda::Context *context;
  void *memory;
  uint64_t size;
};

/// Memory in which ranks meet, registered with the driver as long as a device of this process uses it: once, however
/// many ranks there are.
class RegisteredMemory {
public:
  static Result<RegisteredMemory> create(const cuda::Context &context, std::span<std::byte> memory);
  RegisteredMemory(RegisteredMemory &&other) noexcept
      : context(other.context), memory(std::exchange(other.memory, {})) {}
  RegisteredMemory &operator=(RegisteredMemory &&) = delete;
  ~RegisteredMemory();

  bool contains(const void *pointer, uint64_t bytes) const {
    auto at = static_cast<const std::byte *>(pointer);
    return at >= memory.data() && at + bytes <= memory.data() + memory.size();
  }

private:
  RegisteredMemory(const cuda::Context &context, std::span<std::byte> memory) : context(&context), memory(memory) {}
  const cuda::Context *context;
  std::span<std::byte> memory;
};

} // namespace maestro::executor

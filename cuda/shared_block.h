// One allocation of a GPU, mapped, which other processes map by a descriptor: what others' devices and libraries write.
#pragma once

#include "cuda/context.h"

#include <memory>

namespace maestro::cuda {

class SharedBlock {
public:
  /// Zeroed, and at least so many bytes. Unavailable where the GPU has too little: `purpose` says for what.
  static Result<std::unique_ptr<SharedBlock>> create(const Context &context, uint64_t bytes, std::string_view purpose);
  /// Another process's, which was created for so many bytes. The descriptor is not needed afterwards.
  static Result<std::unique_ptr<SharedBlock>> import(const Context &context, int descriptor, uint64_t bytes);
  ~SharedBlock();
  SharedBlock(const SharedBlock &) = delete;

  CUdeviceptr start() const { return base; }
  /// What is mapped: whole granules.
  uint64_t bytes() const { return mapped; }
  /// Open as long as this lives. Unavailable where the driver gives none.
  Result<int> descriptor();
  /// Lets a GPU of this process, by its ordinal, read and write it, too. Unavailable where there is no way between the
  /// two.
  Status allow(int ordinal);

private:
  explicit SharedBlock(const Context &context) : context(context) {}
  const Driver &driver() const { return context.driver(); }
  CUmemAllocationProp properties() const;
  Status measure(uint64_t wanted);
  Status allocate(std::string_view purpose);
  Status map();
  Status zero() const;
  Status allowDevice(CUdevice device);

  const Context &context;
  uint64_t mapped = 0;
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handle = 0;
  bool hasHandle = false, isMapped = false;
  int exported = -1;
};

} // namespace maestro::cuda

// A range of a GPU's addresses that is mapped, in granules, as far as it is used: one registration and one export serve
// all blocks, and it grows in place.
#pragma once

#include "cuda/context.h"

#include <string_view>
#include <vector>

namespace maestro::executor {

class Arena {
public:
  static constexpr uint64_t kAlignment = 256; ///< Of blocks, as kernels and cuBLASLt like it.

  explicit Arena(const cuda::Context &context) : context(context) {}
  ~Arena();
  Arena(const Arena &) = delete;

  /// The address of a new block, zeroed on the stream before this returns. Unavailable where the GPU's memory is full.
  Result<CUdeviceptr> allocate(uint64_t bytes, std::string_view purpose, CUstream stream);
  /// Maps at least so much from the start on.
  Status grow(uint64_t bytes, std::string_view purpose);

  CUdeviceptr start() const { return base; }
  uint64_t mappedBytes() const { return mapped; }

private:
  Status reserve();
  Status map(uint64_t bytes);
  Status zero(CUdeviceptr start, uint64_t bytes, CUstream stream) const;

  const cuda::Context &context;
  CUdeviceptr base = 0;
  uint64_t reserved = 0, mapped = 0, used = 0, granule = 0;
};

} // namespace maestro::executor

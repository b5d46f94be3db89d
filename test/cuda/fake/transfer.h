// Work that other libraries of the fake put on its streams.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

namespace maestro::cuda::fake {

/// Moves the bytes of some memory, in order, to or from somewhere else.
class Transfer {
public:
  static constexpr size_t kEnded = ~size_t{0};
  virtual ~Transfer() = default;
  /// How many can be moved now; kEnded: none any more.
  virtual size_t ready() = 0;
  virtual void move(std::byte *memory, size_t bytes) = 0;
};

} // namespace maestro::cuda::fake

/// Of the calling thread's context.
extern "C" CUdevice maestroFakeCudaDevice(const char *who);
/// Queues it for memory that the stream's device may use; `who` is blamed where it may not. Without memory it is a wait
/// for so much to be ready, and what is queued behind it to the GPU waits, too.
extern "C" void maestroFakeCudaTransfer(const char *who, CUstream stream, CUdeviceptr memory, size_t bytes,
                                        std::shared_ptr<maestro::cuda::fake::Transfer> transfer);
/// A descriptor for what is mapped there, of one allocation that others may open, and where in it this begins. False
/// where there is none.
extern "C" bool maestroFakeCudaOpen(CUdeviceptr memory, size_t bytes, int *descriptor, size_t *offset);

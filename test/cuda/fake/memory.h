// The memory that the fake driver knows: reserved addresses, what is mapped there, pinned and registered host memory.
//
// Device memory can be read and written between open() and close() alone.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace maestro::cuda::fake {

class Memory {
public:
  static constexpr size_t kGranule = 2 << 20;
  enum class Kind : uint8_t { Device, Pinned, Registered };

  static Memory &get();

  CUresult reserve(CUdeviceptr *address, size_t bytes);
  CUresult unreserve(CUdeviceptr address, size_t bytes);
  /// Memory of a device; another process can open what is exportable.
  CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, CUdevice device, bool isExportable,
                  bool isForNics);
  CUresult release(CUmemGenericAllocationHandle handle);
  CUresult exportTo(int *descriptor, CUmemGenericAllocationHandle handle);
  CUresult import(CUmemGenericAllocationHandle *handle, int descriptor);
  CUresult map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle);
  CUresult unmap(CUdeviceptr address, size_t bytes);
  /// A descriptor whose position is where the range begins in its file (test/cuda/fake/nic.cpp maps it there).
  CUresult openForNics(int *descriptor, CUdeviceptr address, size_t bytes);
  /// A descriptor of the one allocation that holds all of it, which others can open, and where in that it begins.
  CUresult openShared(CUdeviceptr address, size_t bytes, int *descriptor, size_t *offset);
  CUresult allow(CUdeviceptr address, size_t bytes, CUdevice device);

  CUresult allocateHost(void **pointer, size_t bytes);
  CUresult freeHost(void *pointer);
  CUresult registerHost(void *pointer, size_t bytes);
  CUresult unregisterHost(void *pointer);

  uint64_t freeBytes();
  /// What the bytes are; complains, in the caller's name, where they are not wholly the driver's, or the device has no
  /// access to them.
  Kind kindOf(const std::string &who, uintptr_t address, size_t bytes, CUdevice device);
  /// What there still is, in words; empty: nothing.
  std::string leftovers();

  void open();
  void close();

private:
  Memory();
  struct Range {
    size_t bytes;
    Kind kind;
    CUmemGenericAllocationHandle handle = 0;
    uint64_t devices = ~uint64_t{0}; ///< With access; a bit each.
    bool isAllowed() const { return devices != 0; }
  };
  struct Physical {
    size_t bytes;
    CUdevice device;
    int file;   ///< −1: nobody else can open it.
    bool isOwn; ///< This process has created it.
    bool isForNics = false;
    int uses = 1; ///< The creator's, and mappings.
  };
  /// Addresses, and a file for what is mapped there and has none of its own; −1: not yet.
  struct Reservation {
    size_t bytes = 0;
    int file = -1;
  };
  void setAccess(bool allowed);
  void drop(CUmemGenericAllocationHandle handle);
  static int fileOf(Reservation &reservation);

  std::mutex mutex;
  std::map<uintptr_t, Range> ranges;
  std::map<uintptr_t, Reservation> reserved;
  std::map<CUmemGenericAllocationHandle, Physical> physical;
  CUmemGenericAllocationHandle lastHandle = 0;
  uint64_t usedBytes = 0;
  int working; ///< Threads between open() and close(); and one where nothing is ever hidden.
};

} // namespace maestro::cuda::fake

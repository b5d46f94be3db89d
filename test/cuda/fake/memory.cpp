#include "test/cuda/fake/memory.h"

#include "test/cuda/fake/fake.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace maestro::cuda::fake {
namespace {

constexpr unsigned char kRubbish = 0xcd; ///< As f32, −4e8: it shows.

/// Behind the bytes of memory that can be opened by its file.
struct FileEnd {
  uint64_t magic = 0x6d61657374726f67;
  int64_t device = 0;
};

/// Full of rubbish.
int makeFile(size_t bytes, CUdevice device) {
  int file = ::memfd_create("fake GPU", MFD_CLOEXEC);
  FileEnd end;
  end.device = device;
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes + sizeof end)) != 0 ||
      ::pwrite(file, &end, sizeof end, static_cast<off_t>(bytes)) != sizeof end)
    return -1;
  void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    return -1;
  std::memset(memory, kRubbish, bytes);
  ::munmap(memory, bytes);
  return file;
}

uintptr_t asNumber(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void *asPointer(uintptr_t address) { return reinterpret_cast<void *>(address); }

} // namespace

Memory::Memory() : working(Settings::get().hides ? 0 : 1) {}

Memory &Memory::get() {
  static auto *memory = new Memory(); // Outlives every thread.
  return *memory;
}

CUresult Memory::reserve(CUdeviceptr *address, size_t bytes) {
  if (bytes == 0 || bytes % kGranule != 0)
    return CUDA_ERROR_INVALID_VALUE;
  void *room = ::mmap(nullptr, bytes + kGranule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  uintptr_t start = (asNumber(room) + kGranule - 1) / kGranule * kGranule;
  if (start > asNumber(room))
    ::munmap(room, start - asNumber(room));
  if (size_t behind = asNumber(room) + kGranule - start; behind > 0)
    ::munmap(asPointer(start + bytes), behind);
  std::lock_guard lock(mutex);
  reserved[start] = {bytes};
  *address = start;
  return CUDA_SUCCESS;
}

CUresult Memory::unreserve(CUdeviceptr address, size_t bytes) {
  std::lock_guard lock(mutex);
  auto found = reserved.find(address);
  if (found == reserved.end() || found->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  auto inside = ranges.lower_bound(address);
  if (inside != ranges.end() && inside->first < address + bytes)
    complain("cuMemAddressFree: memory is still mapped there");
  ::munmap(asPointer(address), bytes);
  if (found->second.file >= 0)
    ::close(found->second.file);
  reserved.erase(found);
  return CUDA_SUCCESS;
}

CUresult Memory::create(CUmemGenericAllocationHandle *handle, size_t bytes, CUdevice device, bool isExportable,
                        bool isForNics) {
  if (bytes == 0 || bytes % kGranule != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  if (usedBytes + bytes > Settings::get().memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  int file = isExportable ? makeFile(bytes, device) : -1;
  if (isExportable && file < 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  usedBytes += bytes;
  physical[ *handle = ++lastHandle] = {bytes, device, file, true, isForNics};
  return CUDA_SUCCESS;
}

CUresult Memory::exportTo(int *descriptor, CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex);
  auto found = physical.find(handle);
  if (found == physical.end() || found->second.file < 0)
    return CUDA_ERROR_INVALID_VALUE;
  *descriptor = ::dup(found->second.file);
  return *descriptor < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult Memory::import(CUmemGenericAllocationHandle *handle, int descriptor) {
  struct stat facts {};
  FileEnd end;
  if (::fstat(descriptor, &facts) != 0 || facts.st_size <= static_cast<off_t>(sizeof end))
    return CUDA_ERROR_INVALID_VALUE;
  auto bytes = static_cast<size_t>(facts.st_size) - sizeof end;
  if (::pread(descriptor, &end, sizeof end, static_cast<off_t>(bytes)) != sizeof end || end.magic != FileEnd().magic)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  physical[ *handle = ++lastHandle] = {bytes, static_cast<CUdevice>(end.device), ::dup(descriptor), false};
  return CUDA_SUCCESS;
}

void Memory::drop(CUmemGenericAllocationHandle handle) {
  auto found = physical.find(handle);
  if (--found->second.uses > 0)
    return;
  if (found->second.isOwn)
    usedBytes -= found->second.bytes;
  if (found->second.file >= 0)
    ::close(found->second.file);
  physical.erase(found);
}

CUresult Memory::release(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex);
  if (!physical.count(handle))
    return CUDA_ERROR_INVALID_VALUE;
  drop(handle);
  return CUDA_SUCCESS;
}

CUresult Memory::map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex);
  auto room = reserved.upper_bound(address);
  auto source = physical.find(handle);
  if (room == reserved.begin() || source == physical.end() || source->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  --room;
  auto next = ranges.lower_bound(address);
  if (address % kGranule != 0 || address + bytes > room->first + room->second.bytes ||
      (next != ranges.end() && next->first < address + bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (int file = source->second.file; file >= 0) {
    ::mmap(asPointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0);
  } else if (source->second.isForNics) {
    auto offset = static_cast<off_t>(address - room->first);
    ::mmap(asPointer(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fileOf(room->second), offset);
    std::memset(asPointer(address), kRubbish, bytes);
    ::mprotect(asPointer(address), bytes, PROT_NONE);
  } else {
    ::mmap(asPointer(address), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
           -1, 0);
    std::memset(asPointer(address), kRubbish, bytes);
    ::mprotect(asPointer(address), bytes, PROT_NONE);
  }
  ++source->second.uses;
  ranges[address] = {bytes, Kind::Device, handle, 0};
  return CUDA_SUCCESS;
}

int Memory::fileOf(Reservation &reservation) {
  if (reservation.file < 0) {
    reservation.file = ::memfd_create("fake GPU", MFD_CLOEXEC);
    if (::ftruncate(reservation.file, static_cast<off_t>(reservation.bytes)) != 0)
      complain("no file for memory that NICs read");
  }
  return reservation.file;
}

CUresult Memory::openForNics(int *descriptor, CUdeviceptr address, size_t bytes) {
  std::lock_guard lock(mutex);
  auto room = reserved.upper_bound(address);
  if (room == reserved.begin())
    return CUDA_ERROR_INVALID_VALUE;
  --room;
  int file = room->second.file;
  uintptr_t position = address - room->first;
  auto mapped = ranges.upper_bound(address);
  if (mapped != ranges.begin())
    --mapped;
  for (uintptr_t at = address; at < address + bytes; ++mapped) {
    if (mapped == ranges.end() || at < mapped->first || at >= mapped->first + mapped->second.bytes)
      complain("cuMemGetHandleForAddressRange of what is not mapped as a whole");
    const Physical &own = physical.at(mapped->second.handle);
    if (!own.isForNics)
      return CUDA_ERROR_INVALID_VALUE;
    if (own.file >= 0) {
      file = own.file;
      position = at - mapped->first;
    }
    at = mapped->first + mapped->second.bytes;
    if (own.file >= 0 && at < address + bytes)
      return CUDA_ERROR_NOT_SUPPORTED; // This driver of ours has no file for both.
  }
  *descriptor = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC); // A position of its own.
  if (*descriptor < 0 || ::lseek(*descriptor, static_cast<off_t>(position), SEEK_SET) < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  return CUDA_SUCCESS;
}

CUresult Memory::openShared(CUdeviceptr address, size_t bytes, int *descriptor, size_t *offset) {
  std::lock_guard lock(mutex);
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin() || (--found)->second.kind != Kind::Device ||
      address + bytes > found->first + found->second.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const Physical &own = physical.at(found->second.handle);
  if (own.file < 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  *descriptor = ::dup(own.file);
  *offset = address - found->first;
  return *descriptor < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult Memory::unmap(CUdeviceptr address, size_t bytes) {
  std::lock_guard lock(mutex);
  for (size_t at = 0; at < bytes;) {
    auto found = ranges.find(address + at);
    if (found == ranges.end() || found->second.kind != Kind::Device || found->second.bytes > bytes - at)
      return CUDA_ERROR_INVALID_VALUE;
    at += found->second.bytes;
    drop(found->second.handle);
    ranges.erase(found);
  }
  ::mmap(asPointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return CUDA_SUCCESS;
}

CUresult Memory::allow(CUdeviceptr address, size_t bytes, CUdevice device) {
  std::lock_guard lock(mutex);
  auto found = ranges.find(address);
  if (found == ranges.end() || found->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (device != physical.at(found->second.handle).device && !Settings::get().hasPeers)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  found->second.devices |= uint64_t{1} << device;
  if (working > 0)
    ::mprotect(asPointer(address), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

CUresult Memory::allocateHost(void **pointer, size_t bytes) {
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *pointer = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*pointer == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex);
  ranges[asNumber(*pointer)] = {bytes, Kind::Pinned};
  return CUDA_SUCCESS;
}

CUresult Memory::freeHost(void *pointer) {
  std::lock_guard lock(mutex);
  auto found = ranges.find(asNumber(pointer));
  if (found == ranges.end() || found->second.kind != Kind::Pinned)
    complain("cuMemFreeHost of memory that cuMemHostAlloc did not give, or twice");
  ::munmap(pointer, found->second.bytes);
  ranges.erase(found);
  return CUDA_SUCCESS;
}

CUresult Memory::registerHost(void *pointer, size_t bytes) {
  std::lock_guard lock(mutex);
  uintptr_t start = asNumber(pointer);
  auto next = ranges.lower_bound(start);
  if (next != ranges.end() && next->first < start + bytes)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (next != ranges.begin() && std::prev(next)->first + std::prev(next)->second.bytes > start)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  ranges[start] = {bytes, Kind::Registered};
  return CUDA_SUCCESS;
}

CUresult Memory::unregisterHost(void *pointer) {
  std::lock_guard lock(mutex);
  auto found = ranges.find(asNumber(pointer));
  if (found == ranges.end() || found->second.kind != Kind::Registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  ranges.erase(found);
  return CUDA_SUCCESS;
}

uint64_t Memory::freeBytes() {
  std::lock_guard lock(mutex);
  return Settings::get().memory - usedBytes;
}

Memory::Kind Memory::kindOf(const std::string &who, uintptr_t address, size_t bytes, CUdevice device) {
  std::lock_guard lock(mutex);
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin() || (--found, found->first + found->second.bytes <= address))
    complain(who + ": host memory that is neither pinned nor registered, or memory that is no longer there");
  Kind kind = found->second.kind;
  for (uintptr_t end = address + bytes; found->first + found->second.bytes < end;) {
    uintptr_t next = found->first + found->second.bytes;
    if (++found == ranges.end() || found->first != next || found->second.kind != kind)
      complain(who + ": goes beyond the end of its memory");
  }
  if ((found->second.devices >> device & 1) == 0)
    complain(who + ": memory to which cuMemSetAccess gave GPU " + std::to_string(device) + " no access");
  return kind;
}

std::string Memory::leftovers() {
  std::lock_guard lock(mutex);
  std::string text;
  auto add = [&](size_t count, const char *what) {
    if (count > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  size_t kinds[3] = {};
  for (const auto &[address, range] : ranges)
    ++kinds[static_cast<size_t>(range.kind)];
  add(kinds[0], "mappings");
  add(kinds[1], "blocks of pinned memory");
  add(kinds[2], "registered ranges");
  add(reserved.size(), "reserved addresses");
  add(physical.size(), "allocations");
  return text;
}

void Memory::open() {
  std::lock_guard lock(mutex);
  if (working++ == 0)
    setAccess(true);
}

void Memory::close() {
  std::lock_guard lock(mutex);
  if (--working == 0)
    setAccess(false);
}

void Memory::setAccess(bool allowed) {
  for (const auto &[address, range] : ranges)
    if (range.kind == Kind::Device && range.isAllowed())
      ::mprotect(asPointer(address), range.bytes, allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
}

} // namespace maestro::cuda::fake

#include "transport/shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // Linux 5.14
#endif

namespace maestro::transport {
namespace {

uint64_t wholePages(uint64_t bytes) {
  uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (std::max<uint64_t>(bytes, 1) + page - 1) / page * page;
}

Status outOfMemory(std::string_view what, uint64_t bytes, int error) {
  return Status::unavailable(std::string(what) + " of " + std::to_string(bytes) +
                             " bytes shared between ranks failed: " + std::strerror(error) +
                             "; free memory, or plan for less (fewer ranks, smaller micro-batches)");
}

} // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(uint64_t bytes, bool prefaulted) {
  uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t size = wholePages(bytes);
  void *base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return outOfMemory("mapping", size, errno);
  std::unique_ptr<SharedMemory> memory(new SharedMemory(static_cast<char *>(base), size));
  if (prefaulted && madvise(base, size, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL)
      return outOfMemory("prefaulting", size, errno);
    for (uint64_t offset = 0; offset < size; offset += page) // A kernel that cannot do it at once.
      *reinterpret_cast<volatile char *>(memory->base + offset) = 0;
  }
  return memory;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::createOpen(uint64_t bytes) {
  uint64_t size = wholePages(bytes);
  int file = memfd_create("maestro", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0)
    return outOfMemory("memfd_create", size, errno);
  void *base = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(size)) == 0 &&
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (base == MAP_FAILED) {
    Status failed = outOfMemory("mapping", size, errno);
    close(file);
    return failed;
  }
  return std::unique_ptr<SharedMemory>(new SharedMemory(static_cast<char *>(base), size, file));
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::map(int descriptor, uint64_t bytes) {
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (base == MAP_FAILED)
    return outOfMemory("mapping another process's memory", bytes, errno);
  return std::unique_ptr<SharedMemory>(new SharedMemory(static_cast<char *>(base), bytes));
}

SharedMemory::~SharedMemory() {
  munmap(base, size);
  if (file >= 0)
    close(file);
}

Result<void *> SharedMemory::allocate(uint64_t bytes, std::string_view purpose, uint64_t alignment) {
  used = std::min((used + alignment - 1) / alignment * alignment, size);
  uint64_t left = size - used;
  if (bytes > left || alignBlock(bytes) > left)
    return Status::internal("shared memory: '" + std::string(purpose) + "' needs " + std::to_string(bytes) +
                            " bytes and " + std::to_string(left) + " of " + std::to_string(size) + " are left after " +
                            std::to_string(allocated.size()) + " blocks; reserve more at creation");
  void *block = base + used;
  used += alignBlock(bytes);
  allocated.push_back({std::string(purpose), alignBlock(bytes)});
  return block;
}

Status SharedMemory::prefault() {
  if (used == 0 || madvise(base, used, MADV_POPULATE_WRITE) == 0)
    return {};
  if (errno != EINVAL)
    return outOfMemory("prefaulting", used, errno);
  uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (uint64_t offset = 0; offset < used; offset += page) // Reads only: others may be writing already.
    (void)*reinterpret_cast<volatile char *>(base + offset);
  return {};
}

} // namespace maestro::transport

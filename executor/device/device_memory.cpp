#include "executor/device/device_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace maestro::executor {
namespace {

constexpr uint64_t kBlockAlignment = 64;

uint64_t roundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

} // namespace

Result<Block> Block::map(uint64_t bytes, bool guarded, std::string_view purpose) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 47; // Of an address space.
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t guard = guarded ? page : 0, pages = roundUp(std::clamp<uint64_t>(bytes, 1, kMostBytes), page);
  void *mapping = bytes > kMostBytes ? MAP_FAILED
                                     : ::mmap(nullptr, pages + 2 * guard, guarded ? PROT_NONE : PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return Status::unavailable("cannot allocate " + std::to_string(bytes) + " bytes for " + std::string(purpose) +
                               ": " + std::strerror(bytes > kMostBytes ? ENOMEM : errno) +
                               "; free memory or plan with a smaller micro-batch");
  // No large pages: arenas are sized for the bounds and touched in part, and no step became faster with them.
  uint64_t before = guarded ? pages - roundUp(bytes, kBlockAlignment) : 0;
  Block block(static_cast<std::byte *>(mapping) + guard + before);
  block.mapping = mapping;
  block.size = bytes;
  block.pages = pages;
  block.guard = guard;
  return block;
}

Block::~Block() {
  if (mapping)
    ::munmap(mapping, pages + 2 * guard);
}

void Block::setAccess(bool allowed) const {
  if (guard > 0)
    ::mprotect(static_cast<std::byte *>(mapping) + guard, pages, allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
}

Result<uint32_t> DeviceMemory::allocate(uint64_t bytes, std::string_view purpose) {
  MAESTRO_ASSIGN(Block block, Block::map(bytes, hidden, purpose));
  std::lock_guard lock(mutex);
  block.setAccess(working > 0);
  blocks.push_back(std::move(block));
  return static_cast<uint32_t>(blocks.size());
}

uint32_t DeviceMemory::adopt(const transport::Target &memory) {
  std::lock_guard lock(mutex);
  blocks.push_back(Block::borrow(memory));
  return static_cast<uint32_t>(blocks.size());
}

Status DeviceMemory::replaceScratch(uint64_t bytes) {
  MAESTRO_ASSIGN(Block block, Block::map(bytes, hidden, "kernels' scratch memory"));
  std::lock_guard lock(mutex);
  block.setAccess(working > 0);
  scratchBlock.emplace(std::move(block));
  return Status();
}

void DeviceMemory::reveal() {
  if (!hidden)
    return;
  std::lock_guard lock(mutex);
  if (working++ == 0)
    setAccess(true);
}

void DeviceMemory::hide() {
  if (!hidden)
    return;
  std::lock_guard lock(mutex);
  if (--working == 0)
    setAccess(false);
}

void DeviceMemory::setAccess(bool allowed) {
  for (const Block &block : blocks)
    block.setAccess(allowed);
  if (scratchBlock)
    scratchBlock->setAccess(allowed);
}

} // namespace maestro::executor

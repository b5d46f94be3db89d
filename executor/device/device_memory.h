// The blocks of memory that a CPU device gives out as addresses.
//
// Hidden memory is for tests: its pages are mapped without access but while reveal() has opened them, and pages without
// access lie before and behind every block, which ends at the one behind it. Who keeps a pointer and reads it from the
// host's side, or leaves a block, ends with a fault.
#pragma once

#include "base/status.h"
#include "transport/fabric.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace maestro::executor {

/// Anonymous memory: zeroed, aligned to 64 bytes, returned to the system at the end; or somebody else's, here or at the
/// end of a fabric.
class Block {
public:
  static Result<Block> map(uint64_t bytes, bool guarded, std::string_view purpose);
  static Block borrow(const transport::Target &memory) { return Block(memory); }

  Block(Block &&other) noexcept
      : data(other.data), far(other.far), mapping(std::exchange(other.mapping, nullptr)), size(other.size),
        pages(other.pages), guard(other.guard) {}
  Block &operator=(Block &&) = delete;
  ~Block();

  std::byte *get() const { return data; }
  bool isOwn() const { return mapping; }
  /// Of what is own.
  uint64_t bytes() const { return size; }
  /// Where it is reached by a fabric.
  const transport::Target &target() const { return far; }
  /// Of guarded blocks: whether their pages may be read and written.
  void setAccess(bool allowed) const;

private:
  explicit Block(std::byte *data) : data(data) {}
  explicit Block(const transport::Target &memory) : data(memory.memory), far(memory) {}
  std::byte *data; ///< Null where it is far.
  transport::Target far;
  void *mapping = nullptr;       ///< Guards included; null: borrowed.
  uint64_t size = 0;             ///< Of what is own.
  uint64_t pages = 0, guard = 0; ///< Bytes of the pages, and of a guard on each side.
};

/// Threads: the device's own call reveal() and hide(), the host's everything else.
class DeviceMemory {
public:
  explicit DeviceMemory(bool hidden) : hidden(hidden) { blocks.reserve(64); }

  /// The number of a new block, from 1.
  Result<uint32_t> allocate(uint64_t bytes, std::string_view purpose);
  uint32_t adopt(const transport::Target &memory);
  std::byte *block(uint32_t number) const { return blocks[number - 1].get(); }
  bool isFar(uint32_t number) const { return number > 0 && !blocks[number - 1].get(); }
  const transport::Target &farBlock(uint32_t number) const { return blocks[number - 1].target(); }
  /// Calls `what` with each block that was allocated, and not adopted.
  template <typename What> void forEachOwn(const What &what) const {
    for (const Block &block : blocks)
      if (block.isOwn())
        what(std::span<const std::byte>(block.get(), block.bytes()));
  }

  /// One more block, for kernels' scratch; replaces the one before, which nothing may use any longer.
  Status replaceScratch(uint64_t bytes);
  std::byte *scratch() const { return scratchBlock ? scratchBlock->get() : nullptr; }

  /// Before and after a thread of the device works; nothing where memory is not hidden.
  void reveal();
  void hide();

private:
  void setAccess(bool allowed);

  const bool hidden;
  std::mutex mutex; ///< Of what follows, where memory is hidden; the host alone changes the lists.
  int working = 0;  ///< Threads between reveal() and hide().
  std::vector<Block> blocks;
  std::optional<Block> scratchBlock;
};

} // namespace maestro::executor

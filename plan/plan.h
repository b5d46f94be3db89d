// A plan in memory: the bytes of one .mpl file, verified, and a view of its tables.
//
// A Plan that exists has passed the verifier, so readers of its tables check no index, enum value or
// size again. The tables are described in plan.fbs; include "plan/plan_generated.h" to read them.
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace maestro::plan {

namespace fb {
struct Plan;
}

/// "None" in index fields that allow it.
inline constexpr uint32_t kNone = 0xffffffffu;
/// Multiple of all buffers' offsets, and alignment of constants in the file and in memory.
inline constexpr size_t kAlignment = 64;
/// Quantities with such names are parts of the choice with which scheduling begins in each step
/// (wavefront::choiceParts): "schedule.headroom"; of the second one that it tries "schedule.2.headroom", and so on.
/// Readers leave out names that they do not know: what an older or newer planner found decides nothing.
inline constexpr char kHintPrefix[] = "schedule.";
/// Most dims of a tensor.
inline constexpr size_t kMaxRank = 8;
/// Bytes that a plan file stays under (FlatBuffers' offsets are 31 bits).
inline constexpr size_t kMaxPlanBytes = (size_t{1} << 31) - 1;
/// The versions of the format that this code writes; it reads every minor version of this major one.
inline constexpr uint32_t kVersionMajor = 1;
inline constexpr uint32_t kVersionMinor = 1;

/// Stable 64-bit hash of bytes: the same on every machine and in every version of Maestro, since
/// checkpoints store it. Little-endian 64-bit words, each mixed in by xor and multiplication (FNV-1a over
/// words), the length last, then a finaliser. Not cryptographic.
uint64_t hashBytes(std::span<const uint8_t> bytes);

class Plan {
public:
  /// Reads and verifies a file. It is read rather than mapped: bytes that change after they were verified
  /// could not be trusted. InvalidInput names the file and what is wrong with it.
  static Result<Plan> load(const std::string &path);

  /// Verifies a copy of `bytes`. `folder` is where relative paths of the plan start.
  static Result<Plan> fromBytes(std::span<const uint8_t> bytes, std::string folder = ".");

  const fb::Plan &operator*() const { return *root; }
  const fb::Plan *operator->() const { return root; }

  std::span<const uint8_t> bytes() const { return {storage.get(), size}; }
  /// hashBytes(bytes()): identifies a plan in checkpoints.
  uint64_t hash() const { return contentHash; }
  /// The plan for so many nodes less, with the same folder. InvalidInput where this one has none.
  Result<Plan> spare(uint32_t lostNodes) const;
  /// Where relative paths of the plan start; "." when it came from the current folder.
  const std::string &folder() const { return planFolder; }

private:
  struct Free {
    void operator()(uint8_t *bytes) const;
  };
  using Storage = std::unique_ptr<uint8_t[], Free>; ///< Aligned to kAlignment.

  Plan() = default;
  static Result<Storage> allocate(size_t size);
  static Result<Plan> fromStorage(Storage storage, size_t size, std::string folder);

  Storage storage;
  size_t size = 0;
  const fb::Plan *root = nullptr;
  uint64_t contentHash = 0;
  std::string planFolder;
};

} // namespace maestro::plan

// The file that keeps a shard's index: everything about its samples but their values, whichever fields are asked for.
//
//   "MSTINDEX"  version u32  fields u32  stamp: bytes u64, modified i64 (ns), hash u64 of both ends
//   bytes of the tar u64  samples u64  arrays u64
//   fields:   length, name
//   samples:  length, key; how many arrays, each
//               field, format u8, then by format
//               npy       element | 0x80 where in Fortran order u8, rank u8, sizes, bytes of its header,
//                         hash u32 of its header, offset
//               number    bytes u8, offset
//               damaged   bytes, offset
//   hash u64 of all before
//
// Little endian. Numbers without a type are LEB128; an offset is the difference to the one before, zigzag.
#pragma once

#include "base/status.h"
#include "executor/data/shard.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace maestro::data {

/// A kept index and what it is of.
struct KeptIndex {
  ShardStamp stamp;
  uint64_t tarBytes = 0;
  ShardIndex index;
};

std::vector<std::byte> encodeIndex(const KeptIndex &kept);

/// Everything in it lies within the tar and is as indexShard() makes it, whoever wrote it. InvalidInput where it is
/// damaged, or of another version.
Result<KeptIndex> decodeIndex(std::span<const std::byte> bytes);

} // namespace maestro::data

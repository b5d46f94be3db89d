// One hash for what files and checkpoints are recognised by.
#pragma once

#include <cstdint>
#include <span>

namespace maestro {

/// Stable 64-bit hash of bytes: the same on every machine and in every version of Maestro, since files store it.
/// Little-endian 64-bit words, each mixed in by xor and multiplication (FNV-1a over words), the length last, then a
/// finaliser. Not cryptographic.
uint64_t hashBytes(std::span<const uint8_t> bytes);

} // namespace maestro

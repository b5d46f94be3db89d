// What a post says about its payload; as it lies in memory and on the wire.
#pragma once

#include <cstdint>

namespace maestro::executor {

inline constexpr uint32_t kHeaderVersion = 1;

struct Header {
  uint32_t version = 0;
  uint32_t edge = 0;
  uint64_t sequence = 0;
  uint64_t step = 0;
  uint32_t epoch = 0; ///< Of the run: another one after each restart.
  uint32_t producer = 0;
  uint32_t microBatch = 0; ///< The consumer's.
  uint32_t post = 0;       ///< Its index among the producer's posts for the sequence.
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0; ///< Over the 56 bytes before.
};
static_assert(sizeof(Header) == 64);

uint64_t checksumOf(const Header &header);

} // namespace maestro::executor

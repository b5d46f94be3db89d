// Words for one rank to wait at, in memory that ranks share.
#pragma once

#include "transport/shared_memory.h"
#include "transport/word.h"

#include <string>

namespace maestro::executor {

/// `count` words with one place to sleep. Before ranks start.
inline Result<transport::Word *> makeWords(transport::SharedMemory &memory, const transport::Abort &abort,
                                           uint64_t count, const std::string &purpose) {
  MAESTRO_ASSIGN(transport::WaitPoint * point, abort.makeWaitPoint(memory, purpose));
  MAESTRO_ASSIGN(transport::Word * words, memory.make<transport::Word>(count, purpose));
  for (uint64_t i = 0; i < count; ++i)
    words[i].point = point;
  return words;
}

/// What makeWords() takes of the memory.
constexpr uint64_t wordBytes(uint64_t count) { return sizeof(transport::WaitPoint) + count * sizeof(transport::Word); }

} // namespace maestro::executor

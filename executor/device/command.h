// What stands in a CPU device's queue: one type per operation of Device, with addresses as pointers.
#pragma once

#include "executor/device/cpu_program.h"

#include <variant>

namespace maestro::executor {

class CommandQueue;

namespace command {

struct Transfer { ///< To or from host memory.
  std::byte *to = nullptr;
  const std::byte *from = nullptr;
  uint64_t bytes = 0;
};
struct Put {
  std::byte *to = nullptr;
  std::array<std::byte, Device::kMostPutBytes> bytes{};
  size_t count = 0;
};
struct Fill {
  std::byte *to = nullptr;
  uint64_t bytes = 0;
};
struct Copy {
  std::byte *to = nullptr;
  const std::byte *from = nullptr;
  Box box;
};
struct Send { ///< Over a fabric; each run counts at `taken` when it has left.
  transport::Target to;
  const std::byte *from = nullptr;
  Box box;
  transport::Word *taken = nullptr;
  uint64_t sent = 0; ///< Of the queue: runs with this command's.
};
struct SendBytes {
  transport::Target to;
  std::array<std::byte, Device::kMostPutBytes> bytes{};
  size_t count = 0;
};
struct Sum { ///< Pointers: the result, then the parts.
  uint32_t parts = 0;
  uint64_t floats = 0;
};
struct Launch { ///< Pointers: the regions' bases.
  const CpuProgram *program = nullptr;
  int32_t task = -1;
};
struct Await {
  CommandQueue *queue = nullptr;
  uint64_t count = 0;
};
struct AwaitWord {
  transport::Word *word = nullptr;
  uint64_t atLeast = 0;
  transport::WaitNote note;
};
struct Signal {
  transport::WordTarget word{nullptr, nullptr, {}};
  uint64_t more = 0;
};
struct Begin {
  Span *span = nullptr;
};
struct End {
  Span *span = nullptr;
};

} // namespace command

using Command = std::variant<command::Transfer, command::Put, command::Fill, command::Copy, command::Send,
                             command::SendBytes, command::Sum, command::Launch, command::Await, command::AwaitWord,
                             command::Signal, command::Begin, command::End>;

/// Whether it reads or writes memory that may be the device's.
bool touchesMemory(const Command &command);

} // namespace maestro::executor

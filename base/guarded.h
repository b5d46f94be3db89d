// Exceptions of the standard library, which this code does not use for its own errors, as a Status.
#pragma once

#include "base/status.h"

namespace maestro {

inline constexpr const char *kOutOfMemory = "out of memory; free memory, or plan with a smaller micro-batch";

/// Of the exception that is being handled.
Status exceptionStatus();

/// What `function` returns, a Status or a Result; Unavailable where it throws: memory, threads and
/// the like ran out. Where there is no memory for that either, the program's terminate handler must
/// do.
template <typename Function> auto guarded(Function &&function) -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    return exceptionStatus();
  }
}

} // namespace maestro

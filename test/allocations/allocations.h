// Counts every way to the heap. A program that calls allocations() gets this file's operator new, oneDNN's and other
// shared libraries' calls included.
#pragma once

#include <cstdint>

namespace maestro::test {

/// Calls of operator new so far, of all threads.
int64_t allocations();

/// The most bytes that operator new had given out and not got back, since the last call of this; about.
int64_t takePeakBytes();

} // namespace maestro::test

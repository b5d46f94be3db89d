// Dividing a range among threads. Parts are contiguous and every element is computed by the same
// instructions whichever thread it falls to, so results do not depend on the number of threads.
#pragma once

#include "kernels/cpu/openmp.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace maestro::kernels::cpu {

/// Elements below which starting other threads costs more than it saves.
inline constexpr int64_t kElementGrain = 16384;

/// Rows of `width` elements, each worth several passes, below which it does.
inline int64_t rowGrain(int64_t width) { return std::max<int64_t>(1, kElementGrain / 4 / std::max<int64_t>(width, 1)); }

/// Calls f(begin, end) for parts of [0, count), each of at least `grain`, on up to `threads` threads.
template <typename F> void parallelFor(int threads, int64_t count, int64_t grain, F f) {
  int64_t parts = std::min<int64_t>(threads, count / std::max<int64_t>(grain, 1));
  if (parts <= 1) {
    if (count > 0)
      f(int64_t(0), count);
    return;
  }
  inTeam(static_cast<int>(parts), [&] { // The runtime may give fewer threads than asked for.
    for (int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads())
      f(count * part / parts, count * (part + 1) / parts);
  });
}

/// Calls f(item, worker) for every item; whoever is free takes the next one. worker < threads.
template <typename F> void parallelItems(int threads, int64_t items, F f) {
  int team = static_cast<int>(std::min<int64_t>(threads, items));
  if (team <= 1) {
    for (int64_t item = 0; item < items; ++item)
      f(item, 0);
    return;
  }
  std::atomic<int64_t> next = 0;
  inTeam(team, [&] {
    for (int64_t item = next++; item < items; item = next++)
      f(item, omp_get_thread_num());
  });
}

} // namespace maestro::kernels::cpu

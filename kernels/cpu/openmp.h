// The OpenMP runtime that oneDNN was linked with (libgomp), called by name instead of by pragma: this library and
// oneDNN then share one pool of threads whichever compiler builds this. clang's pragmas would bring a second runtime
// and a second pool.
#pragma once

extern "C" {
// Of the OpenMP API, which clang has no header for unless its own runtime is installed.
int omp_get_thread_num();
int omp_get_num_threads();
int omp_get_max_threads();
void omp_set_num_threads(int threads);

/// Calls body(data) on each thread of a team of at most `threads`, and returns when all are done (what g++ makes of a
/// parallel region: "The libgomp ABI", GNU Offloading and Multi Processing Runtime Library manual).
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
}

namespace maestro::kernels::cpu {

/// Calls f() on each thread of a team of at most `threads`; f must not throw.
template <typename F> void inTeam(int threads, F f) {
  GOMP_parallel([](void *data) { (*static_cast<F *>(data))(); }, &f, static_cast<unsigned>(threads), 0);
}

} // namespace maestro::kernels::cpu

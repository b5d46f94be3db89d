// Running one grid of a kernel on the host, for tests and for a driver without a GPU.
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace maestro::kernels::cuda::host {

/// A kernel compiled for the host.
struct KernelEntry {
  const char *name;
  size_t paramsBytes;              ///< Of its one parameter, a struct by value.
  void (*run)(const void *params); ///< One thread of one block.
};

/// Every kernel of every family; the names are those in the fatbin.
std::span<const std::span<const KernelEntry>> kernelTables();
/// Null: no such kernel.
const KernelEntry *findKernel(std::string_view name);

/// In which order the threads of a warp, and the warps of a block, run between two barriers.
enum class ThreadOrder { Forward, Reverse };

/// The place of a barrier in the source.
struct BarrierSite {
  std::string file;
  unsigned line = 0;
  auto operator<=>(const BarrierSite &) const = default;
};

/// What a test asks of the grids that its thread runs.
struct Options {
  ThreadOrder order = ThreadOrder::Forward;
  std::optional<BarrierSite> omitted;        ///< Threads pass this barrier without waiting.
  std::set<BarrierSite> *barriers = nullptr; ///< Where set, the barriers that were met are added.
};
Options &options();

struct Shape {
  unsigned x = 1, y = 1, z = 1;
};

/// Runs every block of the grid, one after the other. Internal when threads of a block wait for each other at different
/// places, or some end while others wait: what a GPU would hang at, or leave undefined.
Status runGrid(const KernelEntry &kernel, Shape grid, unsigned threads, size_t sharedBytes, const void *params);

/// The index of the calling thread among those of the grid that runs, for kernels that are no CUDA source.
uint64_t threadInGrid();

} // namespace maestro::kernels::cuda::host

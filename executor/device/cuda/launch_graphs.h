// Graphs of programs' launches: a program of many small calls is recorded once for the addresses that it works on, and
// then launched whole, which costs the host one call instead of one a kernel.
#pragma once

#include "cuda/context.h"

#include <memory>
#include <set>
#include <span>
#include <vector>

namespace maestro::executor {

/// Which programs become graphs; MAESTRO_CUDA_GRAPHS says otherwise than by their calls: always, never.
enum class GraphMode : uint8_t { ByCalls, Always, Never };
GraphMode graphModeFromEnvironment();

/// A device's graphs: programs may outlive it.
class GraphPool {
public:
  explicit GraphPool(const cuda::Context &context) : context(&context) {}
  void add(CUgraphExec graph) { graphs.insert(graph); }
  void drop(CUgraphExec graph);
  /// Of the device, when nothing runs any more.
  void close();

private:
  const cuda::Context *context; ///< Null once it is closed.
  std::set<CUgraphExec> graphs;
};

/// One program's graphs. Made with the program; hot calls allocate nothing.
class LaunchGraphs {
public:
  /// A program's regions lie at one of so many sets of addresses; further sets are launched call by call.
  static constexpr size_t kMaxVariants = 16;
  /// A program becomes graphs where it has at least so many calls, and one touches at most so many bytes in the mean:
  /// what a GPU moves while a launch is prepared.
  static constexpr size_t kMinCalls = 4;
  static constexpr uint64_t kMaxMeanBytes = uint64_t{16} << 20;

  /// `bytes`: of all calls' operands.
  LaunchGraphs(const cuda::Context &context, std::shared_ptr<GraphPool> pool, GraphMode mode, size_t calls,
               uint64_t bytes, size_t regions);
  ~LaunchGraphs();
  LaunchGraphs(const LaunchGraphs &) = delete;
  LaunchGraphs &operator=(const LaunchGraphs &) = delete;

  enum class Way : uint8_t { CallByCall, Record, Replay };
  /// How to launch on these addresses; recorded when they come for the second time.
  Way next(std::span<const CUdeviceptr> bases);
  /// Records what `enqueue(stream)` puts on a stream that runs nothing, for the addresses that next() was asked for
  /// last. A graph that cannot be recorded is none, for good: false.
  template <typename Enqueue> bool record(CUstream recorder, const Enqueue &enqueue) {
    if (!begin(recorder))
      return false;
    return end(recorder, enqueue(recorder));
  }
  Status launch(CUstream stream) const;

private:
  struct Variant {
    std::vector<CUdeviceptr> bases;
    CUgraphExec graph = nullptr;
    bool isFailed = false;
  };
  bool begin(CUstream recorder);
  bool end(CUstream recorder, Status enqueued);

  const cuda::Context &context;
  std::shared_ptr<GraphPool> pool;
  bool isWanted;
  size_t regions;
  std::vector<Variant> variants; ///< The first `used`.
  size_t used = 0, current = 0;
};

} // namespace maestro::executor

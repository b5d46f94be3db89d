// What callers hold by handle: streams, events, modules. An unknown handle is a complaint.
#pragma once

#include "test/cuda/fake/stream.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace maestro::cuda::fake {

template <typename T> class Table {
public:
  T *add(std::unique_ptr<T> object) {
    std::lock_guard lock(mutex);
    T *handle = object.get();
    held.emplace(handle, std::move(object));
    return handle;
  }
  T &require(T *handle, const char *who);
  void remove(T *handle, const char *who);
  size_t size() const { return held.size(); }

private:
  std::mutex mutex;
  std::unordered_map<T *, std::unique_ptr<T>> held;
};

struct Objects {
  static Objects &get();
  /// The current context's device.
  static CUdevice requireContext(const char *who);
  std::string leftovers() const;

  std::mutex mutex; ///< Of the contexts' counts.
  Table<CUstream_st> streams;
  Table<CUevent_st> events;
  Table<int> modules;
  Table<CUgraph_st> graphs;
  Table<CUgraphExec_st> graphExecs;
  std::atomic<uint64_t> graphLaunches{0};
  std::atomic<uint64_t> streamsMade{0};
};

} // namespace maestro::cuda::fake

// Runs ranks as threads or as forked processes, on memory that they share, for tests.
#pragma once

#include "transport/abort.h"
#include "transport/shared_memory.h"

#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport::test {

/// Mapped: threads each of which maps the others' segments, as processes do that were not forked from one another.
/// Networked: threads that share no segment with each other, but a network.
enum class RankKind { Threads, Processes, Mapped, Networked };

/// What the ranks of one test share. Make everything in it before run().
class World {
public:
  explicit World(uint32_t ranks, uint64_t bytes = 64 << 20);

  /// Runs `body(rank)` for every rank; returns the cause of the first failure, which has stopped the others too. No
  /// rank ends before all have: their devices may still write to each other. A process that dies is a failure.
  Status run(RankKind kind, const std::function<Status(uint32_t)> &body);

  SharedMemory &memory() const { return *shared; }
  const Abort &abort() const { return stop; }
  uint32_t ranks() const { return count; }
  /// The mappings in which ranks meet.
  std::vector<std::span<std::byte>> mappings() const {
    std::vector<std::span<std::byte>> all = {shared->span()};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }
  void addMapping(std::span<std::byte> mapping) { others.push_back(mapping); }
  /// Zeros that all ranks see.
  template <typename T> T *make(uint64_t elements) { return *shared->make<T>(elements, "test"); }

private:
  Status runThreads(const std::function<Status(uint32_t)> &body);
  Status runProcesses(const std::function<Status(uint32_t)> &body);
  void runOne(uint32_t rank, const std::function<Status(uint32_t)> &body);

  uint32_t count;
  std::unique_ptr<SharedMemory> shared;
  std::vector<std::span<std::byte>> others;
  Abort stop;
  std::atomic<uint32_t> *ended;
};

inline const char *nameOf(RankKind kind) {
  constexpr const char *kNames[] = {"Threads", "Processes", "Mapped", "Networked"};
  return kNames[static_cast<size_t>(kind)];
}
std::ostream &operator<<(std::ostream &stream, RankKind kind);

} // namespace maestro::transport::test

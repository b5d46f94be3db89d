// Memory of this process from which a network writes, and what the network made of it when it was registered: each
// piece when something is first written from it.
#pragma once

#include "base/status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace maestro::transport {

/// `Region` is what the network knows of registered memory; false where there is none yet. Pieces may share pages, of
/// which each has all.
///
/// Threads: any.
template <typename Region> class Sources {
public:
  void add(std::span<const std::byte> memory, Region region = {}) {
    std::lock_guard lock(mutex);
    auto behind = std::find_if(sources.begin(), sources.end(), [&](const Source &source) {
      return std::pair(source.memory.data(), source.memory.size()) > std::pair(memory.data(), memory.size());
    });
    sources.insert(behind, {memory, std::move(region)});
  }
  void remove(std::span<const std::byte> memory) {
    std::lock_guard lock(mutex);
    auto found = std::find_if(sources.begin(), sources.end(), [&](const Source &source) {
      return source.memory.data() == memory.data() && source.memory.size() == memory.size();
    });
    if (found != sources.end())
      sources.erase(found);
  }
  template <typename Visit> void forEach(const Visit &visit) {
    std::lock_guard lock(mutex);
    for (Source &source : sources)
      visit(source.region);
  }
  void clear() {
    std::lock_guard lock(mutex);
    sources.clear();
  }

  /// What `read` says of the region that has the bytes, which `enroll` makes of the whole piece where it has not been
  /// made. Internal where the memory was not added.
  template <typename Enroll, typename Read>
  auto find(std::span<const std::byte> bytes, const Enroll &enroll, const Read &read)
      -> Result<decltype(read(std::declval<const Region &>()))> {
    std::lock_guard lock(mutex); // Rarely two at once.
    auto next = above(bytes.data());
    if (next == sources.begin() || bytes.data() + bytes.size() > end(*(next - 1)))
      return Status::internal("a write from memory that was not made known");
    Source &source = *(next - 1);
    if (!source.region) {
      MAESTRO_ASSIGN(source.region, enroll(source.memory));
    }
    return read(std::as_const(source.region));
  }

private:
  struct Source {
    std::span<const std::byte> memory;
    Region region;
  };
  static const std::byte *end(const Source &source) { return source.memory.data() + source.memory.size(); }
  typename std::vector<Source>::iterator above(const std::byte *at) {
    return std::upper_bound(sources.begin(), sources.end(), at,
                            [](const std::byte *at, const Source &source) { return at < source.memory.data(); });
  }

  std::mutex mutex;
  std::vector<Source> sources; ///< By address; of those that begin together the longest is last, and so found.
};

} // namespace maestro::transport

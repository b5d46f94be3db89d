// What --data may name: shards (WebDataset), files of tokens, folders of arrays.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::data {

/// Files of one kind, in the order in which they are read.
struct DataFiles {
  enum class Kind : uint8_t { Shards, Tokens, Arrays } kind = Kind::Shards;
  std::vector<std::string> paths; ///< Of Arrays: folders.
  /// Sources of a mixture: so many of the paths each, and their weight. Empty: all are one source.
  struct Source {
    size_t paths = 0;
    double weight = 1;
  };
  std::vector<Source> mixture = {};
};

/// "a shard", for messages.
std::string_view describe(DataFiles::Kind kind);

/// What patterns name: `wiki.bin`, or `wiki.bin=0.7` where sources are mixed. InvalidInput where they match nothing, or
/// files of several kinds.
Result<DataFiles> findData(std::span<const std::string> patterns);

} // namespace maestro::data

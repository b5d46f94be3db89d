// Where the indexes of shards are kept, so that each is made once.
//
// With a folder (--cache): `<folder>/<shard's name>-<hash of its path>.index`, or, where it is the shards' own folder,
// `<shard>.index`; what is missing there is made. Without one nothing is written. An index that lies beside its shard
// is used either way. Of processes that want the same one, one makes it and the others wait.
#pragma once

#include "base/status.h"
#include "executor/data/shard.h"

#include <optional>
#include <string>

namespace maestro::data {

/// An index, and the file that keeps it.
struct StoredIndex {
  std::string path;
  ShardIndex index;
};

class IndexStore {
public:
  /// Keeps none.
  IndexStore() = default;
  /// Makes the folder where it is missing; "": keeps none. What it costs that there is none is said once, where
  /// `isShared`: several processes read the shards.
  static Result<IndexStore> open(const std::string &folder, bool isShared = false);

  /// The index of the shard as it is now; it is unpacked where its index is made. Nothing where none is kept, and none
  /// can be.
  Result<std::optional<StoredIndex>> find(ShardFile &shard) const;
  /// Whether missing ones are made.
  bool isMaking() const { return !folder.empty(); }

private:
  std::string folder;
  bool isShared = false;
};

} // namespace maestro::data

#include "executor/data/data_identity.h"

#include "base/system_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace maestro::data {
namespace {

std::string fileName(const ShardIdentity &shard) { return std::filesystem::path(shard.path).filename().string(); }

bool isSame(const ShardIdentity &a, const ShardIdentity &b) {
  return a.bytes == b.bytes && a.weight == b.weight && fileName(a) == fileName(b);
}

std::string describe(const ShardIdentity &shard) {
  return fmt::format("'{}' ({} bytes{})", shard.path, shard.bytes,
                     shard.weight > 0 ? fmt::format(", weight {}", shard.weight) : "");
}

std::string source(const DataIdentity &data) {
  return data.synthetic ? "synthetic samples (no --data)" : fmt::format("{} shards", data.shards.size());
}

std::string order(const DataIdentity &data) { return data.shuffled ? "--shuffle" : "no --shuffle"; }

} // namespace

namespace {
/// The files of a path: itself, or a folder's arrays.
std::vector<std::string> filesOf(const std::string &path) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".npy")
      files.push_back(entry->path().string());
  std::sort(files.begin(), files.end());
  return files.empty() ? std::vector{path} : files;
}
} // namespace

Result<DataIdentity> identify(const DataFiles &files, bool shuffled) {
  DataIdentity data;
  data.shuffled = shuffled;
  auto source = files.mixture.begin();
  size_t left = files.mixture.empty() ? 0 : source->paths;
  for (const std::string &path : files.paths) {
    while (!files.mixture.empty() && left == 0)
      left = (++source)->paths;
    for (const std::string &file : filesOf(path)) {
      std::error_code error;
      uint64_t bytes = std::filesystem::file_size(file, error);
      if (error)
        return systemFailure("read", file, error.value());
      data.shards.push_back({file, bytes, files.mixture.empty() ? 0 : source->weight});
    }
    left -= left > 0 ? 1 : 0;
  }
  return data;
}

std::string differenceOf(const DataIdentity &before, const DataIdentity &now) {
  if (before.synthetic != now.synthetic)
    return fmt::format("{} then, {} now", source(before), source(now));
  if (before.shuffled != now.shuffled)
    return fmt::format("{} then, {} now", order(before), order(now));
  for (size_t i = 0; i < std::min(before.shards.size(), now.shards.size()); ++i)
    if (!isSame(before.shards[i], now.shards[i]))
      return fmt::format("shard {} was {}, and is {}", i, describe(before.shards[i]), describe(now.shards[i]));
  if (before.shards.size() != now.shards.size())
    return fmt::format("{} then, {} now", source(before), source(now));
  return "";
}

bool beginAlike(const DataIdentity &before, const DataIdentity &now, uint64_t count) {
  return count <= before.shards.size() && count <= now.shards.size() &&
         std::equal(before.shards.begin(), before.shards.begin() + static_cast<ptrdiff_t>(count), now.shards.begin(),
                    isSame);
}

} // namespace maestro::data

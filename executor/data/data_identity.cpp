#include "executor/data/data_identity.h"

#include "base/system_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace maestro::data {
namespace {

std::string fileName(const ShardIdentity &shard) { return std::filesystem::path(shard.path).filename().string(); }

bool isSame(const ShardIdentity &a, const ShardIdentity &b) { return a.bytes == b.bytes && fileName(a) == fileName(b); }

std::string describe(const ShardIdentity &shard) { return fmt::format("'{}' ({} bytes)", shard.path, shard.bytes); }

std::string source(const DataIdentity &data) {
  return data.synthetic ? "synthetic samples (no --data)" : fmt::format("{} shards", data.shards.size());
}

std::string order(const DataIdentity &data) { return data.shuffled ? "--shuffle" : "no --shuffle"; }

} // namespace

Result<DataIdentity> identify(std::span<const std::string> shards, bool shuffled) {
  DataIdentity data;
  data.shuffled = shuffled;
  std::vector<std::string> files;
  for (const std::string &path : shards) {
    std::error_code error;
    size_t before = files.size();
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
      if (entry->path().extension() == ".npy")
        files.push_back(entry->path().string());
    std::sort(files.begin() + static_cast<ptrdiff_t>(before), files.end());
    if (files.size() == before)
      files.push_back(path);
  }
  for (const std::string &path : files) {
    std::error_code error;
    uint64_t bytes = std::filesystem::file_size(path, error);
    if (error)
      return systemFailure("read", path, error.value());
    data.shards.push_back({path, bytes});
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

#include "executor/data/data_files.h"

#include "executor/data/shard_pattern.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

namespace maestro::data {
namespace {

bool hasArrays(const std::string &path) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".npy")
      return true;
  return false;
}

/// "wiki.bin=0.7" in its parts. A file may have that name, too.
std::pair<std::string, std::optional<double>> splitWeight(const std::string &text) {
  size_t equals = text.rfind('=');
  std::error_code error;
  if (equals == std::string::npos || std::filesystem::exists(text, error))
    return {text, std::nullopt};
  double weight = 0;
  const char *end = text.data() + text.size();
  auto [stop, failure] = std::from_chars(text.data() + equals + 1, end, weight);
  bool isWeight = failure == std::errc() && stop == end && std::isfinite(weight) && weight > 0;
  return isWeight ? std::pair(text.substr(0, equals), std::optional(weight)) : std::pair(text, std::optional<double>());
}

} // namespace

std::string_view describe(DataFiles::Kind kind) {
  return kind == DataFiles::Kind::Shards   ? "a shard"
         : kind == DataFiles::Kind::Tokens ? "a file of tokens"
                                           : "a folder of arrays";
}

Result<DataFiles> findData(std::span<const std::string> patterns) {
  DataFiles found;
  auto add = [&](const std::string &path, DataFiles::Kind kind) {
    if (!found.paths.empty() && kind != found.kind)
      return Status::invalidInput(fmt::format("'{}' is {}, and '{}' {} (--data); give data of one kind",
                                              found.paths.front(), describe(found.kind), path, describe(kind)));
    found.kind = kind;
    found.paths.push_back(path);
    return Status();
  };
  for (const std::string &text : patterns) {
    auto [pattern, weight] = splitWeight(text);
    size_t before = found.paths.size();
    if (hasArrays(pattern)) {
      MAESTRO_TRY(add(pattern, DataFiles::Kind::Arrays));
    } else {
      MAESTRO_ASSIGN(std::vector<std::string> files, expandShardPatterns(std::span(&pattern, 1)));
      for (const std::string &file : files)
        MAESTRO_TRY(add(file, file.ends_with(".bin") ? DataFiles::Kind::Tokens : DataFiles::Kind::Shards));
    }
    if (weight)
      found.mixture.push_back({found.paths.size() - before, *weight});
  }
  if (!found.mixture.empty() && found.mixture.size() < patterns.size())
    return Status::invalidInput("some of --data have weights and some have none; give each one, path=weight");
  return found;
}

} // namespace maestro::data

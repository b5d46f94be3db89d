#include "executor/data/shard_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <glob.h>

namespace maestro::data {
namespace {

constexpr size_t kMaxShards = 1'000'000;

/// "000..012" as its numbers; false when the text is no range.
bool expandRange(std::string_view text, std::vector<std::string> &items, Status &status) {
  size_t dots = text.find("..");
  if (dots == std::string_view::npos)
    return false;
  std::string_view first = text.substr(0, dots), last = text.substr(dots + 2);
  uint64_t from = 0, to = 0;
  auto parse = [](std::string_view digits, uint64_t &value) {
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return !digits.empty() && error == std::errc() && end == digits.data() + digits.size();
  };
  if (!parse(first, from) || !parse(last, to))
    return false;
  if (from > to || to - from >= kMaxShards) {
    status =
        Status::invalidInput(fmt::format("range '{{{}}}' counts down or has more than {} shards", text, kMaxShards));
    return true;
  }
  size_t width = first.size() > 1 && first[0] == '0' ? first.size() : 1;
  for (uint64_t i = from; i <= to; ++i)
    items.push_back(fmt::format("{:0{}}", i, width));
  return true;
}

void splitCommas(std::string_view text, std::vector<std::string> &items) {
  for (size_t comma; (comma = text.find(',')) != std::string_view::npos; text.remove_prefix(comma + 1))
    items.emplace_back(text.substr(0, comma));
  items.emplace_back(text);
}

/// Appends the files that a pattern without braces stands for.
Status expandGlob(const std::string &pattern, std::vector<std::string> &files) {
  if (pattern.find_first_of("*?[") == std::string::npos) {
    files.push_back(pattern);
    return {};
  }
  glob_t found{};
  int outcome = glob(pattern.c_str(), 0, nullptr, &found);
  for (size_t i = 0; outcome == 0 && i < found.gl_pathc; ++i)
    if (std::string path = found.gl_pathv[i]; !path.ends_with(".index")) // Kept beside shards.
      files.push_back(std::move(path));
  globfree(&found);
  if (outcome == GLOB_NOMATCH)
    return Status::invalidInput(fmt::format("no file matches '{}' (--data)", pattern));
  if (outcome != 0)
    return Status::unavailable(fmt::format("cannot read the folder of '{}' (--data)", pattern));
  return {};
}

Status checkIsFile(const std::string &path) {
  std::error_code error;
  auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::directory)
    return Status::invalidInput(fmt::format("'{}' is a folder; name the shards in it: --data '{}/*.tar'", path, path));
  if (type == std::filesystem::file_type::not_found)
    return Status::invalidInput(fmt::format("shard '{}' does not exist (--data)", path));
  if (type != std::filesystem::file_type::regular)
    return Status::invalidInput(fmt::format("shard '{}' is not a regular file (--data)", path));
  return {};
}
} // namespace

Result<std::vector<std::string>> expandBraces(const std::string &pattern) {
  std::vector<std::string> pending = {pattern}, done;
  // The first brace of each text is replaced; what it yields waits in order before what followed.
  while (!pending.empty()) {
    std::string text = std::move(pending.back());
    pending.pop_back();
    size_t open = text.find('{');
    size_t close = text.find('}', open == std::string::npos ? 0 : open);
    if (open == std::string::npos) {
      done.push_back(std::move(text));
      continue;
    }
    if (close == std::string::npos)
      return Status::invalidInput(fmt::format("'{}' has a '{{' without '}}' (--data)", pattern));
    std::string inside = text.substr(open + 1, close - open - 1);
    std::vector<std::string> items;
    Status status;
    if (!expandRange(inside, items, status))
      splitCommas(inside, items);
    MAESTRO_TRY(std::move(status));
    if (items.size() + pending.size() + done.size() > kMaxShards)
      return Status::invalidInput(fmt::format("'{}' stands for more than {} shards (--data)", pattern, kMaxShards));
    for (auto item = items.rbegin(); item != items.rend(); ++item)
      pending.push_back(text.substr(0, open) + *item + text.substr(close + 1));
  }
  return done;
}

Result<std::vector<std::string>> expandShardPatterns(std::span<const std::string> patterns) {
  std::vector<std::string> files;
  for (const std::string &pattern : patterns) {
    // A file whose name has braces is itself.
    std::error_code error;
    if (std::filesystem::is_regular_file(pattern, error)) {
      files.push_back(pattern);
      continue;
    }
    MAESTRO_ASSIGN(std::vector<std::string> globs, expandBraces(pattern));
    for (const std::string &glob : globs)
      MAESTRO_TRY(expandGlob(glob, files));
  }
  if (files.empty())
    return Status::invalidInput("no shards were named (--data)");
  for (const std::string &file : files)
    MAESTRO_TRY(checkIsFile(file));
  return files;
}

} // namespace maestro::data

#include "executor/checkpoint/directory.h"

#include "base/log.h"
#include "executor/checkpoint/file_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace maestro::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kHiddenPrefix = ".checkpoint-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kState = "state.json";

std::string partialName(uint64_t step) {
  return fmt::format(".{}{}", checkpointName(step), kPartial);
}

/// The step of "checkpoint-000100"; nothing for other names.
std::optional<uint64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kPrefix))
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  uint64_t step = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (name.empty() || error != std::errc() || end != name.data() + name.size())
    return std::nullopt;
  return step;
}

/// What a killed run left: unfinished folders, or a replaced checkpoint under the unfinished one's
/// name.
void removeLeftovers(const std::string &outFolder) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry &entry : fs::directory_iterator(outFolder, error)) {
    std::string name = entry.path().filename();
    if (name.starts_with(kHiddenPrefix) && name.ends_with(kPartial))
      leftovers.push_back(entry.path());
  }
  for (const fs::path &leftover : leftovers)
    fs::remove_all(leftover, error);
}

/// Puts `partial` in the place of `final`. An older folder there changes places with it, so that at
/// every moment one of the two is whole; file systems that cannot exchange names lose the older one
/// first.
Status putInPlace(const std::string &partial, const std::string &final) {
  std::error_code error;
  if (fs::exists(final, error)) {
    if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) {
      fs::remove_all(partial, error);
      return {};
    }
    fs::remove_all(final, error);
  }
  fs::rename(partial, final, error);
  return error ? systemFailure("rename a checkpoint to", final, error.value()) : Status();
}

Result<std::map<std::string, uint64_t>> listFiles(const std::string &folder) {
  std::map<std::string, uint64_t> files;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error))
    files.emplace(entry.path().filename(), entry.file_size(error));
  if (error)
    return systemFailure("read", folder, error.value());
  return files;
}
} // namespace

std::string checkpointName(uint64_t step) { return fmt::format("{}{:06}", kPrefix, step); }

PendingCheckpoint::PendingCheckpoint(std::string folder, uint64_t step)
    : outFolder(std::move(folder)), partial(outFolder + "/" + partialName(step)),
      final(outFolder + "/" + checkpointName(step)), step(step) {}

PendingCheckpoint::PendingCheckpoint(PendingCheckpoint &&other) noexcept
    : outFolder(std::move(other.outFolder)), partial(std::move(other.partial)),
      final(std::move(other.final)), step(other.step),
      committed(std::exchange(other.committed, true)) {}

PendingCheckpoint::~PendingCheckpoint() {
  std::error_code error;
  if (!committed)
    fs::remove_all(partial, error);
}

Result<PendingCheckpoint> PendingCheckpoint::begin(const std::string &outFolder, uint64_t step) {
  std::error_code error;
  fs::create_directories(outFolder, error);
  if (error)
    return systemFailure("make folder", outFolder, error.value());
  removeLeftovers(outFolder);
  PendingCheckpoint pending(outFolder, step);
  if (!fs::create_directory(pending.partial, error))
    return systemFailure("make folder", pending.partial, error ? error.value() : EEXIST);
  return pending;
}

Status PendingCheckpoint::commit(TrainingState state) {
  state.step = step;
  MAESTRO_ASSIGN(auto files, listFiles(partial));
  MAESTRO_ASSIGN(FileWriter writer, FileWriter::create(file(std::string(kState))));
  MAESTRO_TRY(writer.append(formatState(state, files)));
  MAESTRO_TRY(writer.finish());
  MAESTRO_TRY(syncFolder(partial));
  MAESTRO_TRY(putInPlace(partial, final));
  committed = true;
  return syncFolder(outFolder);
}

Result<FoundCheckpoint> openCheckpoint(const std::string &path) {
  std::ifstream stream(path + "/" + std::string(kState), std::ios::binary);
  if (!stream)
    return Status::invalidInput(fmt::format("'{}' has no state.json that can be read", path));
  std::stringstream text;
  text << stream.rdbuf();
  FoundCheckpoint found;
  found.path = path;
  auto state = parseState(text.str(), found.files);
  if (!state)
    return std::move(state).takeStatus().withContext(fmt::format("checkpoint '{}'", path));
  found.state = *std::move(state);
  for (const auto &[name, bytes] : found.files) {
    std::error_code error;
    uint64_t there = fs::file_size(path + "/" + name, error);
    if (error || there != bytes)
      return Status::invalidInput(
          fmt::format("checkpoint '{}' is not whole: '{}' {}, state.json says {} bytes", path, name,
                      error ? "is missing" : fmt::format("has {} bytes", there), bytes));
  }
  return found;
}

Result<std::optional<FoundCheckpoint>> findNewestCheckpoint(const std::string &outFolder) {
  std::vector<uint64_t> steps;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(outFolder, error))
    if (std::optional<uint64_t> step = stepOf(entry.path().filename().string()))
      steps.push_back(*step);
  if (error)
    return Status::invalidInput(
        fmt::format("cannot read the run's folder '{}': {}", outFolder, error.message()));
  std::sort(steps.rbegin(), steps.rend());
  for (uint64_t step : steps) {
    Result<FoundCheckpoint> found = openCheckpoint(outFolder + "/" + checkpointName(step));
    if (found && found->state.step == step)
      return std::optional(*std::move(found));
    if (found)
      found = Status::invalidInput(fmt::format("checkpoint '{}': state.json is of step {}", found->path, found->state.step));
    logWarning(fmt::format("passed over: {}", found.status().message()));
  }
  return std::optional<FoundCheckpoint>();
}

} // namespace maestro::checkpoint

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
#include <sys/file.h>
#include <unistd.h>
#include <vector>

namespace maestro::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kHiddenPrefix = ".checkpoint-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kRemoved = ".removed";
constexpr std::string_view kState = "state.json";

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

/// A folder's entries. Nothing is thrown, also where reading on fails.
template <typename Visit> std::error_code forEachEntry(const std::string &folder, Visit visit) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    visit(*entry);
  return error;
}

/// The step of ".checkpoint-000100.partial"; nothing for other names.
std::optional<uint64_t> partialStepOf(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kPartial))
    return std::nullopt;
  return stepOf(name.substr(1, name.size() - 1 - kPartial.size()));
}

bool isWhole(const std::string &path, uint64_t step) {
  Result<FoundCheckpoint> found = openCheckpoint(path);
  return found && found->state.step == step;
}

/// Puts `partial` in the place of `final`. An older folder there changes places with it, so that at
/// every moment one of the two is whole, and goes when the exchange is on disk. File systems that
/// cannot exchange names lose the older one first, when the new one is on disk under its hidden
/// name.
Status putInPlace(const std::string &partial, const std::string &final, const std::string &outFolder) {
  std::error_code error;
  if (fs::exists(final, error)) {
    if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) {
      MAESTRO_TRY(syncFolder(outFolder));
      fs::remove_all(partial, error);
      return {};
    }
    MAESTRO_TRY(syncFolder(outFolder));
    fs::remove_all(final, error);
  }
  fs::rename(partial, final, error);
  return error ? systemFailure("rename a checkpoint to", final, error.value()) : syncFolder(outFolder);
}

Result<std::map<std::string, uint64_t>> listFiles(const std::string &folder) {
  std::map<std::string, uint64_t> files;
  std::error_code sizeError;
  std::error_code error = forEachEntry(folder, [&](const fs::directory_entry &entry) {
    files.emplace(entry.path().filename(), entry.file_size(sizeError));
  });
  if (error || sizeError)
    return systemFailure("read", folder, error ? error.value() : sizeError.value());
  return files;
}

std::string hiddenName(uint64_t step, std::string_view suffix) {
  return fmt::format(".{}{}", checkpointName(step), suffix);
}

struct Candidate {
  uint64_t step;
  std::string name;
};

/// All that may be checkpoints, the newest first; of one step the one in place first.
Result<std::vector<Candidate>> candidates(const std::string &outFolder) {
  std::vector<Candidate> list;
  std::error_code error = forEachEntry(outFolder, [&](const fs::directory_entry &entry) {
    std::string name = entry.path().filename();
    std::optional<uint64_t> step = stepOf(name);
    if (!step)
      step = partialStepOf(name);
    if (step)
      list.push_back({*step, std::move(name)});
  });
  if (error)
    return Status::invalidInput(fmt::format("cannot read the run's folder '{}': {}", outFolder, error.message()));
  std::sort(list.begin(), list.end(), [](const Candidate &a, const Candidate &b) {
    return a.step != b.step ? a.step > b.step : a.name > b.name; // '.' comes before 'c'.
  });
  return list;
}

/// A shared lock on a checkpoint's folder until the last copy goes; processes that are forked off
/// hold it, too. Null on file systems that have no locks.
std::shared_ptr<void> holdForReading(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return nullptr;
  ::flock(fd, LOCK_SH | LOCK_NB);
  return std::shared_ptr<void>(nullptr, [fd](void *) { ::close(fd); });
}
} // namespace

/// What a killed run left: a replaced checkpoint, or one that is written, under the hidden name;
/// what is removed.
void removeLeftovers(const std::string &outFolder) {
  std::vector<std::string> names;
  forEachEntry(outFolder, [&](const fs::directory_entry &entry) {
    std::string name = entry.path().filename();
    if (name.starts_with(kHiddenPrefix) && (name.ends_with(kPartial) || name.ends_with(kRemoved)))
      names.push_back(std::move(name));
  });
  for (const std::string &name : names) {
    std::error_code error;
    std::string hidden = outFolder + "/" + name;
    std::optional<uint64_t> step = partialStepOf(name);
    std::string final = outFolder + "/" + (step ? checkpointName(*step) : "");
    bool isTheOnlyOne = step && isWhole(hidden, *step) && !isWhole(final, *step);
    if (!isTheOnlyOne || !putInPlace(hidden, final, outFolder).isOk())
      fs::remove_all(hidden, error);
  }
}

Status removeCheckpoint(const std::string &outFolder, uint64_t step) {
  std::string path = outFolder + "/" + checkpointName(step), hidden = outFolder + "/" + hiddenName(step, kRemoved);
  std::error_code error;
  fs::remove_all(hidden, error);
  fs::rename(path, hidden, error);
  if (error)
    return systemFailure("remove", path, error.value());
  fs::remove_all(hidden, error);
  return error ? systemFailure("remove", path, error.value()) : Status();
}

Result<std::vector<uint64_t>> checkpointSteps(const std::string &outFolder) {
  std::vector<uint64_t> steps;
  std::error_code error = forEachEntry(outFolder, [&](const fs::directory_entry &entry) {
    if (std::optional<uint64_t> step = stepOf(entry.path().filename().string()))
      steps.push_back(*step);
  });
  if (error)
    return systemFailure("read", outFolder, error.value());
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpointName(uint64_t step) { return fmt::format("{}{:06}", kPrefix, step); }

std::string PendingCheckpoint::folderOf(const std::string &outFolder, uint64_t step) {
  return outFolder + "/" + hiddenName(step, kPartial);
}

PendingCheckpoint::PendingCheckpoint(std::string folder, uint64_t step)
    : outFolder(std::move(folder)), partial(folderOf(outFolder, step)), final(outFolder + "/" + checkpointName(step)),
      step(step) {}

PendingCheckpoint::PendingCheckpoint(PendingCheckpoint &&other) noexcept
    : outFolder(std::move(other.outFolder)), partial(std::move(other.partial)), final(std::move(other.final)),
      step(other.step), committed(std::exchange(other.committed, true)) {}

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
  MAESTRO_TRY(writeText(file(std::string(kState)), formatState(state, files)));
  MAESTRO_TRY(syncFolder(partial));
  committed = true; // From here on what is left behind is whole.
  return putInPlace(partial, final, outFolder);
}

Result<FoundCheckpoint> openCheckpoint(const std::string &path) {
  std::optional<std::string> text = readFile(path + "/" + std::string(kState));
  if (!text)
    return Status::invalidInput(fmt::format("'{}' has no state.json that can be read", path));
  FoundCheckpoint found;
  found.path = path;
  auto state = parseState(*text, found.files);
  if (!state)
    return std::move(state).takeStatus().withContext(fmt::format("checkpoint '{}'", path));
  found.state = *std::move(state);
  for (const auto &[name, bytes] : found.files) {
    std::error_code error;
    uint64_t there = fs::file_size(path + "/" + name, error);
    if (error || there != bytes)
      return Status::invalidInput(fmt::format("checkpoint '{}' is not whole: '{}' {}, state.json says {} bytes", path,
                                              name, error ? "is missing" : fmt::format("has {} bytes", there), bytes));
  }
  return found;
}

bool isBeingRead(const std::string &outFolder, uint64_t step) {
  int fd = ::open((outFolder + "/" + checkpointName(step)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return false;
  bool isRead = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return isRead;
}

namespace {
Result<std::optional<FoundCheckpoint>> findNewestCheckpoint(const std::string &outFolder, const std::string &run,
                                                            Access access, int attemptsLeft) {
  MAESTRO_ASSIGN(std::vector<Candidate> list, candidates(outFolder));
  for (const auto &[step, name] : list) {
    bool isHidden = name.starts_with('.');
    if (isHidden && access == Access::Reads)
      continue; // Its name is about to change.
    std::string path = outFolder + "/" + name;
    std::shared_ptr<void> reading = access == Access::Reads ? holdForReading(path) : nullptr;
    Result<FoundCheckpoint> found = openCheckpoint(path);
    if (!found && isHidden)
      continue; // Was being written.
    if (std::error_code error; !found && access == Access::Reads && !fs::exists(path, error) && attemptsLeft > 0)
      return findNewestCheckpoint(outFolder, run, access, attemptsLeft - 1); // Removed meanwhile: there are newer ones.
    if (found && found->state.step != step)
      found = Status::invalidInput(
          fmt::format("checkpoint '{}': state.json is of step {}", found->path, found->state.step));
    if (found && !run.empty() && !found->state.run.empty() && found->state.run != run)
      found = Status::invalidInput(fmt::format("checkpoint '{}' is of an older run in this folder", found->path));
    if (found) {
      found->reading = std::move(reading);
      return std::optional(*std::move(found));
    }
    logWarning(fmt::format("passed over: {}", found.status().message()));
  }
  return std::optional<FoundCheckpoint>();
}
} // namespace

Result<std::optional<FoundCheckpoint>> findNewestCheckpoint(const std::string &outFolder, const std::string &run,
                                                            Access access) {
  constexpr int kAttempts = 10; // A run removes old checkpoints slower than their names are read.
  return findNewestCheckpoint(outFolder, run, access, kAttempts);
}

} // namespace maestro::checkpoint

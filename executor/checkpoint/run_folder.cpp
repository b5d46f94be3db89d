#include "executor/checkpoint/run_folder.h"

#include "base/log.h"
#include "executor/checkpoint/file_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

namespace maestro::checkpoint {
namespace {

std::string drawName() {
  uint64_t name = 0;
  while (::getrandom(&name, sizeof name, 0) < 0 && errno == EINTR)
    ;
  return fmt::format("{:016x}", name);
}

std::string bestLink(const std::string &folder) { return folder + "/best"; }

/// What of a run is in a folder, for messages; empty where there is nothing.
Result<std::string> describeResults(const std::string &folder) {
  MAESTRO_ASSIGN(std::vector<uint64_t> steps, checkpointSteps(folder));
  std::error_code error;
  if (!steps.empty())
    return fmt::format("{}{}", steps.size() > 1 ? "checkpoints up to " : "", checkpointName(steps.back()));
  return std::string(std::filesystem::exists(folder + "/metrics.jsonl", error) ? "metrics.jsonl" : "");
}

} // namespace

Result<std::string> readRunName(const std::string &folder) {
  std::optional<std::string> text = readFile(folder + "/run.json");
  return text ? parseRunName(*text) : Result<std::string>(std::string());
}

Result<std::unique_ptr<RunFolder>> RunFolder::open(const std::string &path, Start start) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return Status::invalidInput(fmt::format("--out {}: {}", path, error.message()));
  std::unique_ptr<RunFolder> folder(new RunFolder(path));
  MAESTRO_TRY(folder->lock());
  MAESTRO_TRY(folder->findStart(start));
  return folder;
}

RunFolder::~RunFolder() { leaveLock(); }

void RunFolder::leaveLock() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

/// The kernel gives the lock back when the process ends, however it ends.
Status RunFolder::lock() {
  fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return Status::invalidInput(fmt::format("--out {}: {}", folder, std::strerror(errno)));
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0)
    return Status();
  if (errno == EWOULDBLOCK)
    return Status::invalidInput(
        fmt::format("--out {}: another maestro-run writes there; wait for its end, or give another folder", folder));
  logWarning(fmt::format("--out {}: this file system has no locks ({}); start no other run there", folder,
                         std::strerror(errno)));
  return Status();
}

Status RunFolder::findStart(Start start) {
  MAESTRO_ASSIGN(std::string results, describeResults(folder));
  if (start == Start::Fresh && !results.empty())
    return Status::invalidInput(fmt::format("--out {} holds results of a run already ({}); go on "
                                            "with it by --resume, or replace it by --overwrite",
                                            folder, results));
  name = drawName();
  if (start == Start::Fresh || start == Start::Replace)
    return Status();
  MAESTRO_ASSIGN(std::string last, readRunName(folder));
  MAESTRO_ASSIGN(checkpoint, findNewestCheckpoint(folder, last));
  if (checkpoint) {
    name = !last.empty() ? last : !checkpoint->state.run.empty() ? checkpoint->state.run : name;
    isClaimed = !last.empty();
    return Status();
  }
  MAESTRO_ASSIGN(std::vector<uint64_t> steps, checkpointSteps(folder));
  if (!steps.empty() && start != Start::GoOn)
    return Status::invalidInput(fmt::format(
        "--resume: {} holds {}, but no whole checkpoint of its last run; begin anew by --overwrite", folder, results));
  if (start == Start::Resume)
    return Status::invalidInput(
        fmt::format("--resume: {} holds no checkpoint; start without --resume, or by --resume=auto", folder));
  logInfo(fmt::format("{}: {} holds no checkpoint{}; starting from the beginning",
                      start == Start::GoOn ? "restart" : "--resume=auto", folder,
                      start == Start::GoOn ? " of this run" : ""));
  return Status();
}

Status RunFolder::claim() {
  if (isClaimed)
    return Status();
  std::string target = folder + "/run.json", partial = target + ".partial";
  MAESTRO_TRY(writeText(partial, formatRunName(name)));
  if (std::rename(partial.c_str(), target.c_str()) != 0)
    return systemFailure("write", target, errno);
  MAESTRO_TRY(syncFolder(folder));
  isClaimed = true;
  if (checkpoint)
    return Status();
  removeLeftovers(folder);
  std::remove(bestLink(folder).c_str());
  MAESTRO_ASSIGN(std::vector<uint64_t> steps, checkpointSteps(folder));
  for (uint64_t step : steps)
    MAESTRO_TRY(removeCheckpoint(folder, step));
  return Status();
}

Status RunFolder::keepNewest(uint64_t count, uint64_t best) const {
  MAESTRO_ASSIGN(std::vector<uint64_t> steps, checkpointSteps(folder));
  for (size_t i = 0; i + count < steps.size(); ++i)
    if (steps[i] != best && !isBeingRead(folder, steps[i]))
      MAESTRO_TRY(removeCheckpoint(folder, steps[i]));
  return Status();
}

Status RunFolder::markBest(uint64_t step) const {
  std::string link = bestLink(folder), partial = link + ".partial";
  std::error_code error;
  std::filesystem::remove(partial, error);
  std::filesystem::create_directory_symlink(checkpointName(step), partial, error);
  if (!error)
    std::filesystem::rename(partial, link, error);
  return error ? systemFailure("link", link, error.value()) : syncFolder(folder);
}

} // namespace maestro::checkpoint

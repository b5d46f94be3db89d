#include "executor/core/process_group.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace maestro::executor {

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::fork(World &world, uint32_t ranks) {
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(world, ranks));
  group->ownRank = world.root();
  pid_t parent = ::getpid();
  std::signal(SIGCHLD, SIG_DFL); // Ignored, as some launchers leave it, it would make children
                                 // vanish before they are asked for.
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == world.root())
      continue;
    pid_t pid = ::fork();
    if (pid < 0) {
      world.abort().raise(transport::Abort::kSupervisor, "a rank could not be started");
      return Status::unavailable(fmt::format("cannot start a process for rank {}: {}", rank, std::strerror(errno)));
    }
    if (pid == 0) {
      ::prctl(PR_SET_NAME, fmt::format("rank {}", rank).c_str()); // For ps and top.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);                         // Without the root nobody would end this one.
      if (::getppid() != parent)
        ::_exit(2);
      std::signal(SIGINT, SIG_IGN); // The root ends the job after its step, for all.
      std::signal(SIGTERM, SIG_IGN);
      group->ownRank = rank;
      group->children.clear();
      return group;
    }
    group->children.push_back({pid, rank});
  }
  return group;
}

void ProcessGroup::leave(const Status &status) {
  std::fflush(nullptr);
  ::_exit(status.exitStatus());
}

void ProcessGroup::supervise() {
  if (!children.empty())
    supervisor = std::thread([this] { watch(); });
}

/// Takes note of those that have ended; false when none is left.
bool ProcessGroup::reap(bool isEnding) {
  for (size_t i = 0; i < children.size();) {
    int status = 0;
    pid_t ended = ::waitpid(children[i].pid, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno != ECHILD)) {
      ++i;
      continue;
    }
    if (ended < 0) // Gone, and nobody will ever tell how.
      status = 0;
    uint32_t rank = children[i].rank;
    pid_t pid = children[i].pid;
    children.erase(children.begin() + static_cast<ptrdiff_t>(i));
    bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (!failed || isEnding || world.abort().isRaised())
      continue;
    world.raise(rank, Status::unavailable(
                          WIFSIGNALED(status)
                              ? fmt::format("its process ({}) was killed by signal {} ({})", pid, WTERMSIG(status),
                                            ::strsignal(WTERMSIG(status)))
                              : fmt::format("its process ({}) ended with status {}", pid, WEXITSTATUS(status))));
  }
  return !children.empty();
}

void ProcessGroup::watch() {
  while (!ending && reap(false))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void ProcessGroup::awaitOthers() {
  if (supervisor.joinable())
    supervisor.join();
}

ProcessGroup::~ProcessGroup() {
  if (!isRoot())
    return;
  ending = true;
  if (supervisor.joinable())
    supervisor.join();
  world.abort().raise(transport::Abort::kSupervisor, "the run has ended");
  constexpr int kPatienceMs = 1000, kEveryMs = 5;
  for (int waited = 0; reap(true) && waited < kPatienceMs; waited += kEveryMs)
    std::this_thread::sleep_for(std::chrono::milliseconds(kEveryMs));
  for (const Child &child : children) {
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
  }
}

} // namespace maestro::executor

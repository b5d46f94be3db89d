#include "tools/restarts.h"

#include "base/log.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace maestro {
namespace {

using Clock = std::chrono::steady_clock;

/// A stopped process holds up the others, which end without it after some seconds; so does this.
constexpr auto kStoppedPatience = std::chrono::seconds(6);
constexpr auto kLookEvery = std::chrono::milliseconds(20);

std::atomic<pid_t> child{0};
std::atomic<bool> isAskedToStop{false};

void passOn(int signal) {
  isAskedToStop = true;
  if (pid_t pid = child.load(); pid > 0)
    ::kill(pid, signal);
}

/// Waits for the process to end; ends it where it stays stopped.
int awaitEnd(pid_t pid) {
  std::optional<Clock::time_point> stoppedSince;
  while (true) {
    int status = 0;
    pid_t changed = ::waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (changed < 0 && errno != EINTR)
      return 2 << 8; // Gone, and nobody will ever tell how.
    if (changed == pid && WIFSTOPPED(status)) {
      stoppedSince = Clock::now();
    } else if (changed == pid && WIFCONTINUED(status)) {
      stoppedSince.reset();
    } else if (changed == pid) {
      return status;
    }
    if (stoppedSince && Clock::now() - *stoppedSince > kStoppedPatience) {
      ::kill(pid, SIGKILL);
      stoppedSince.reset();
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

} // namespace

int runWithRestarts(uint32_t most, const std::function<int(bool isRestart)> &run) {
  pid_t self = ::getpid();
  for (int signal : {SIGINT, SIGTERM})
    std::signal(signal, passOn);
  std::signal(SIGCHLD, SIG_DFL);
  for (uint32_t restarts = 0;; ++restarts) {
    pid_t pid = ::fork();
    if (pid < 0) {
      logError(fmt::format("cannot start a process: {}", std::strerror(errno)));
      return 2;
    }
    if (pid == 0) {
      ::setpgid(0, 0);                    // A terminal's Ctrl-C, and a launcher's signals, come once, from here.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL); // Without this process nobody would end it.
      if (::getppid() != self)
        ::_exit(2);
      int status = run(restarts > 0);
      std::fflush(nullptr);
      ::_exit(status);
    }
    child = pid;
    int status = awaitEnd(pid);
    child = 0;
    bool failed = WIFSIGNALED(status) || WEXITSTATUS(status) == 2;
    std::string how = WIFSIGNALED(status)
                          ? fmt::format("was ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)))
                          : fmt::format("ended with status {}", WEXITSTATUS(status));
    if (!failed || isAskedToStop || restarts == most) {
      if (WIFSIGNALED(status))
        logError(fmt::format("the run {}", how));
      return WIFSIGNALED(status) ? 2 : WEXITSTATUS(status);
    }
    logWarning(
        fmt::format("the run {}; it goes on from its last checkpoint (restart {} of {})", how, restarts + 1, most));
  }
}

} // namespace maestro

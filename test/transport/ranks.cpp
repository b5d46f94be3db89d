#include "test/transport/ranks.h"

#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace maestro::transport::test {

World::World(uint32_t ranks, uint64_t bytes)
    : count(ranks), shared(std::move(*SharedMemory::create(bytes))), stop(*Abort::create(*shared, ranks)),
      ended(make<std::atomic<uint32_t>>(1)) {}

Status World::run(RankKind kind, const std::function<Status(uint32_t)> &body) {
  *ended = 0;
  return kind == RankKind::Processes ? runProcesses(body) : runThreads(body);
}

void World::runOne(uint32_t rank, const std::function<Status(uint32_t)> &body) {
  if (Status status = body(rank); !status.isOk() && !stop.isRaised())
    stop.raise(rank, status);
  ++*ended;
  while (*ended < count && !stop.isRaised())
    usleep(100);
}

Status World::runThreads(const std::function<Status(uint32_t)> &body) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] { runOne(rank, body); });
  for (std::thread &thread : threads)
    thread.join();
  return stop.status();
}

Status World::runProcesses(const std::function<Status(uint32_t)> &body) {
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < count; ++rank) {
    pid_t child = fork();
    if (child == 0) {
      runOne(rank, body);
      _exit(0);
    }
    children.push_back(child);
  }
  for (uint32_t left = count; left > 0; --left) {
    int status = 0;
    pid_t child = waitpid(-1, &status, 0);
    for (uint32_t rank = 0; rank < count; ++rank)
      if (children[rank] == child && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        stop.raise(rank,
                   WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status)) : "its process failed");
  }
  return stop.status();
}

std::ostream &operator<<(std::ostream &stream, RankKind kind) { return stream << nameOf(kind); }

} // namespace maestro::transport::test

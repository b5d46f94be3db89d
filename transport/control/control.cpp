#include "transport/control/control.h"

#include "base/log.h"
#include "transport/control/connection.h"
#include "transport/control/meeting.h"
#include "transport/rank_range.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace maestro::transport {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookEvery = std::chrono::milliseconds(20); ///< For an end that was raised here.
/// After the cause is known, whatever does not end by itself is ended.
constexpr auto kEndPatience = std::chrono::seconds(5);
constexpr auto kCausePatience = std::chrono::seconds(1);

using Bytes = Control::Bytes;

/// A question that is under way, or whose answer waits for its caller.
struct Round {
  std::vector<Bytes> records; ///< In process 0 everybody's; elsewhere the answer.
  uint32_t given = 0;
  bool isWhole = false;
};

/// Another process, as this one is connected to it: process 0 to all, the others to process 0.
struct Member {
  std::optional<Connection> connection;
  std::string name;
  Clock::time_point lastSeen;
  uint64_t rounds = 0; ///< Records that it gave.
  PeerClock clock;
};

class Implementation : public Control {
public:
  Implementation(const ControlOptions &options, Meeting met)
      : options(options), seat(met.seat), ownAddress(std::move(met.address)), names(std::move(met.names)) {
    for (size_t m = 0; m < met.connections.size(); ++m) {
      Member &member = members.emplace_back();
      member.connection = std::move(met.connections[m]);
      member.name = names[m];
      member.lastSeen = Clock::now();
    }
    thread = std::thread([this] { serve(); });
  }
  ~Implementation() override {
    stopping = true;
    if (thread.joinable())
      thread.join();
  }

  uint32_t process() const override { return seat.process; }
  uint32_t processes() const override { return seat.processes; }
  uint32_t lostMachines() const override { return seat.lostMachines; }
  const std::string &address() const override { return ownAddress; }
  std::string nameOf(uint32_t process) const override {
    return process < names.size() ? names[process] : "process " + std::to_string(process);
  }

  Result<Bytes> ask(std::span<const std::byte> own, const Answer &answer) override {
    std::unique_lock lock(mutex);
    uint64_t number = ownRounds++;
    if (process() == 0) {
      take(0, number, Bytes(own.begin(), own.end()));
    } else if (members[0].connection) {
      members[0].connection->send(MessageKind::Record, own);
    }
    changed.wait(lock, [&] { return rounds[number].isWhole || !failure.isOk(); });
    if (!rounds[number].isWhole)
      return Status(failure.code(), std::string(failure.message()));
    std::vector<Bytes> records = std::move(rounds[number].records);
    rounds.erase(number);
    if (process() != 0)
      return std::move(records.front());
    lock.unlock(); // Signs of life go on.
    Bytes ownAnswer = answer(records, 0);
    for (uint32_t p = 1; p < members.size(); ++p) {
      Bytes bytes = answer(records, p);
      lock.lock();
      if (members[p].connection)
        members[p].connection->send(MessageKind::Answer, bytes);
      lock.unlock();
    }
    return ownAnswer;
  }

  void watch(const Abort &own, uint32_t ranks, ControlHooks wanted) override {
    std::lock_guard lock(mutex);
    abort = &own;
    rankCount = ranks;
    hooks = std::move(wanted);
    if (!failure.isOk())
      stopHere(failedRank, failure);
  }

  void finish() override {
    std::lock_guard lock(mutex);
    for (Member &member : members)
      if (member.connection)
        member.connection->send(MessageKind::Finish, {});
  }

  Status causeOfEnd(Status own) override {
    std::unique_lock lock(mutex);
    // Process 0's is the first; what another has raised goes there and comes back.
    changed.wait_for(lock, kCausePatience, [&] { return isSettled || leaving; });
    return failure.isOk() ? std::move(own) : Status(failure.code(), std::string(failure.message()));
  }

  int64_t clockAheadNs() const override {
    std::lock_guard lock(mutex);
    return process() == 0 ? 0 : members[0].clock.aheadNs();
  }

  Status leave() override {
    {
      std::lock_guard lock(mutex);
      isLastRound = true;
    }
    MAESTRO_TRY(meetAgain());
    std::unique_lock lock(mutex);
    leaving = true;
    // Process 0 goes last: what it has sent is read by then.
    auto areGone = [&] {
      return std::none_of(members.begin(), members.end(),
                          [](const Member &member) { return member.connection.has_value(); });
    };
    if (process() == 0)
      changed.wait_for(lock, kEndPatience, areGone);
    return Status();
  }

private:
  // ---- the control's thread

  void serve() {
    ::prctl(PR_SET_NAME, "control");
    while (!stopping) {
      std::vector<pollfd> waits;
      {
        std::lock_guard lock(mutex);
        for (const Member &member : members)
          if (member.connection)
            waits.push_back({member.connection->descriptor(),
                             static_cast<short>(POLLIN | (member.connection->hasUnsent() ? POLLOUT : 0)), 0});
      }
      (void)::poll(waits.data(), waits.size(), static_cast<int>(kLookEvery.count()));
      std::lock_guard lock(mutex);
      for (size_t m = 0; m < members.size(); ++m)
        if (members[m].connection)
          listen(m);
      lookAround();
      changed.notify_all();
    }
  }

  /// A member's place is its process's number in process 0, and 0, process 0's, elsewhere.
  void listen(size_t m) {
    Member &member = members[m];
    Status status = member.connection->flush();
    Status received = member.connection->receive();
    if (status.isOk())
      status = std::move(received);
    while (member.connection) {
      auto frame = member.connection->next(kMostFrameBytes);
      if (!frame) {
        status = std::move(frame).takeStatus();
        break;
      }
      if (!*frame)
        break;
      member.lastSeen = Clock::now();
      if (Status handled = handle(m, (*frame)->kind, std::move((*frame)->body)); !handled.isOk()) {
        status = std::move(handled);
        break;
      }
    }
    if (!status.isOk())
      lose(m, std::string(status.message()));
  }

  Status handle(size_t m, MessageKind kind, std::vector<std::byte> body) {
    auto from = static_cast<uint32_t>(m);
    if (kind == MessageKind::Beat) {
      MAESTRO_ASSIGN(Beat beat, decodeBeat(body));
      members[m].clock.received(beat.stamps, nowNs());
      if (process() == 0 && hooks.onBeat)
        hooks.onBeat(from, beat.ranks);
      return Status();
    }
    if (kind == MessageKind::Stop) {
      MAESTRO_ASSIGN(Stop stop, decodeStop(body));
      Status cause(stop.code >= 1 && stop.code <= 4 ? static_cast<StatusCode>(stop.code) : StatusCode::Unavailable,
                   stop.text);
      if (process() != 0) // Which knows the first cause.
        settle(stop.rank, std::move(cause));
      else
        end(stop.rank, named(stop.rank, cause));
      return Status();
    }
    if (kind == MessageKind::Finish) {
      for (size_t other = 0; process() == 0 && other < members.size(); ++other)
        if (other != m && members[other].connection)
          members[other].connection->send(MessageKind::Finish, {});
      if (hooks.onFinish)
        hooks.onFinish();
      return Status();
    }
    if (kind == MessageKind::Record && process() == 0) {
      take(from, members[m].rounds++, std::move(body));
      return Status();
    }
    if (kind == MessageKind::Answer && process() != 0) {
      Round &round = rounds[members[m].rounds++];
      round.records.push_back(std::move(body));
      round.isWhole = true;
      return Status();
    }
    return Status::invalidInput("it sent a message of kind " + std::to_string(static_cast<int>(kind)));
  }

  /// In process 0: a record of a round.
  void take(uint32_t from, uint64_t number, Bytes record) {
    Round &round = rounds[number];
    round.records.resize(processes());
    round.records[from] = std::move(record); // One a process: a member's rounds are counted.
    round.isWhole = ++round.given == processes();
  }

  void lose(size_t m, const std::string &why) {
    std::string name = members[m].name;
    members[m].connection.reset();
    if (isLastRound && members[m].rounds == ownRounds) // It has said, or heard, all.
      return;
    if (leaving || !failure.isOk())
      return;
    uint32_t rank = rankCount ? ranksOf(static_cast<uint32_t>(m), processes(), rankCount).first : 0;
    end(rank, Status::unavailable(name + " has gone: " + why));
  }

  void beatAll(std::span<const std::byte> ranks) {
    for (Member &member : members)
      if (member.connection)
        member.connection->send(MessageKind::Beat, encode(Beat{member.clock.stamps(nowNs()), ranks}));
  }

  void lookAround() {
    auto now = Clock::now();
    bool wasHeldUp = now - std::exchange(lastLook, now) > std::chrono::seconds(1); // Others' words wait to be read.
    if (now - lastBeat >= kBeatEvery) {
      lastBeat = now;
      beatAll(hooks.beat && process() != 0 ? hooks.beat() : std::vector<std::byte>());
    }
    for (size_t m = 0; m < members.size(); ++m) {
      Member &member = members[m];
      if (wasHeldUp)
        member.lastSeen = std::max(member.lastSeen, now - options.silence / 2);
      if (member.connection && now - member.lastSeen > options.silence && !leaving && failure.isOk())
        end(rankCount ? ranksOf(static_cast<uint32_t>(m), processes(), rankCount).first : 0,
            Status::unavailable(member.name + " shows no sign of life for " +
                                std::to_string(options.silence.count() / 1000) +
                                " s: it was stopped, or its network is gone"));
    }
    if (abort && abort->isRaised() && failure.isOk() && !leaving)
      end(abort->rank(), process() == 0 ? named(abort->rank(), hooks.cause()) : hooks.cause());
    if (!failure.isOk() && !leaving && now - endedAt > kEndPatience) {
      logError(std::string(failure.message()) + "; this process did not end by itself");
      ::_exit(2);
    }
  }

  /// The job ends: process 0 tells all, the others tell process 0. The first cause stays.
  void end(uint32_t rank, Status cause) {
    if (!failure.isOk() || leaving)
      return;
    Stop stop{rank, static_cast<uint32_t>(cause.code()), std::string(cause.message())};
    note(rank, std::move(cause));
    isSettled = process() == 0;
    for (Member &member : members)
      if (member.connection)
        member.connection->send(MessageKind::Stop, encode(stop));
    stopHere(rank, failure);
  }

  /// By process 0, which knows them: with whose rank it is.
  Status named(uint32_t rank, const Status &cause) const {
    if (rank >= rankCount)
      return Status(cause.code(), std::string(cause.message()));
    uint32_t p = 0;
    while (!ranksOf(p, processes(), rankCount).has(rank))
      ++p;
    return Status(cause.code(),
                  "rank " + std::to_string(rank) + " of " + nameOf(p) + ": " + std::string(cause.message()));
  }

  void note(uint32_t rank, Status cause) {
    endedAt = failure.isOk() ? Clock::now() : endedAt;
    failure = std::move(cause);
    failedRank = rank;
  }

  /// Process 0 has said what the job's first cause is.
  void settle(uint32_t rank, Status cause) {
    if (isSettled || leaving)
      return;
    isSettled = true;
    note(rank, std::move(cause));
    stopHere(rank, failure);
  }

  void stopHere(uint32_t rank, const Status &cause) {
    if (abort && hooks.onStop && !abort->isRaised())
      hooks.onStop(rank, cause);
  }

  const ControlOptions options;
  const Seat seat;
  const std::string ownAddress;
  const std::vector<std::string> names; ///< By process, as far as known.

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Member> members;
  std::map<uint64_t, Round> rounds;
  uint64_t ownRounds = 0;
  const Abort *abort = nullptr;
  uint32_t rankCount = 0, failedRank = 0;
  ControlHooks hooks;
  Status failure;         ///< Why the job ends.
  bool isSettled = false; ///< And it is the same in all processes.
  bool leaving = false, isLastRound = false;
  Clock::time_point lastBeat, lastLook = Clock::now(), endedAt;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

} // namespace

Result<std::unique_ptr<Control>> Control::meet(const ControlOptions &options) {
  MAESTRO_ASSIGN(Meeting met, meetOthers(options));
  return std::unique_ptr<Control>(std::make_unique<Implementation>(options, std::move(met)));
}

} // namespace maestro::transport

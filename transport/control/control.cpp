#include "transport/control/control.h"

#include "base/log.h"
#include "transport/control/connection.h"
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
constexpr auto kBeatEvery = std::chrono::milliseconds(250);
constexpr auto kLookEvery = std::chrono::milliseconds(20); ///< For an end that was raised here.
constexpr auto kGreetingPatience = std::chrono::seconds(5);
constexpr size_t kMostStrangers = 256; ///< Connections that have not proven anything; more wait in the system's queue.
/// After the cause is known, whatever does not end by itself is ended.
constexpr auto kEndPatience = std::chrono::seconds(5);
constexpr auto kCausePatience = std::chrono::seconds(1);
constexpr auto kRefusalPatience = std::chrono::seconds(2);
/// Between attempts to meet whoever listens at process 0's address.
constexpr auto kRetryEvery = std::chrono::milliseconds(100);

std::string hostName() {
  char name[256] = "";
  (void)::gethostname(name, sizeof name - 1);
  return name;
}

using Records = std::vector<std::vector<std::byte>>;

/// A gather that is under way, or whose result waits for its caller.
struct Round {
  Records records;
  std::vector<bool> given;
  bool isWhole = false;
};

/// Another process, as this one is connected to it: process 0 to all, the others to process 0.
struct Member {
  std::optional<Connection> connection;
  std::string name;
  Clock::time_point lastSeen;
  uint64_t rounds = 0; ///< Records that it gave.
  PeerClock clock;
  bool isRefused = false; ///< And knows why.
};

class Implementation : public Control {
public:
  explicit Implementation(const ControlOptions &options) : options(options) {}
  ~Implementation() override {
    stopping = true;
    if (thread.joinable())
      thread.join();
  }

  Status meet() {
    const Launch &launch = options.launch;
    MAESTRO_TRY(launch.process == 0 ? gatherMembers() : join());
    for (Member &member : members)
      member.lastSeen = Clock::now();
    thread = std::thread([this] { serve(); });
    return Status();
  }

  uint32_t process() const override { return options.launch.process; }
  uint32_t processes() const override { return options.launch.processes; }
  const std::string &address() const override { return ownAddress; }
  std::string nameOf(uint32_t process) const override {
    return process < names.size() ? names[process] : "process " + std::to_string(process);
  }

  Result<Records> gather(std::span<const std::byte> own) override {
    std::unique_lock lock(mutex);
    uint64_t number = ownRounds++;
    std::vector<std::byte> record(own.begin(), own.end());
    if (process() == 0) {
      take(0, number, std::move(record));
    } else if (members[0].connection) {
      members[0].connection->send(MessageKind::Record, own);
    }
    changed.wait(lock, [&] { return rounds[number].isWhole || !failure.isOk(); });
    if (!rounds[number].isWhole)
      return Status(failure.code(), std::string(failure.message()));
    Records records = std::move(rounds[number].records);
    rounds.erase(number);
    return records;
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
    MAESTRO_ASSIGN(Records records, gather({}));
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
  // ---- meeting

  Introduction introduction() const {
    Introduction own;
    own.process = process();
    own.processes = processes();
    own.pid = static_cast<uint32_t>(::getpid());
    own.host = hostName();
    own.version = options.version;
    own.plan = options.plan;
    own.flags = options.flags;
    return own;
  }

  static std::string nameOf(const Introduction &who) {
    return "process " + std::to_string(who.process) + " (" + who.host + ", pid " + std::to_string(who.pid) + ")";
  }

  Status checkSecrecy(const std::string &address) const {
    if (!options.secret.empty() || isLoopback(address))
      return Status();
    return Status::invalidInput("processes meet at " + address +
                                ", which others reach, too, and the job has no secret: set MAESTRO_JOB_SECRET_FILE (or "
                                "MAESTRO_JOB_SECRET) alike for all of them");
  }

  /// Where process 0 listens.
  Result<std::string> chooseAddress() const {
    if (!options.interface.empty())
      return addressOfInterface(options.interface);
    MAESTRO_ASSIGN(std::vector<std::string> addresses, resolve(options.launch.host));
    auto own = std::find_if(addresses.begin(), addresses.end(), isOwnAddress);
    if (own == addresses.end())
      return Status::invalidInput("processes meet at " + options.launch.host + " (" + options.launch.engine +
                                  "), which is not an address of this machine, where process 0 is; name the interface "
                                  "that they reach with MAESTRO_INTERFACE");
    return *own;
  }

  /// A connection that has not yet proven who it is.
  struct Stranger {
    Connection connection;
    Nonce challenge;
    Clock::time_point since;
  };

  Status gatherMembers() {
    MAESTRO_ASSIGN(ownAddress, chooseAddress());
    MAESTRO_TRY(checkSecrecy(ownAddress));
    MAESTRO_ASSIGN(listener, listenAt(ownAddress, options.launch.port));
    members.resize(processes());
    names.resize(processes());
    names[0] = nameOf(introduction());
    auto deadline = Clock::now() + options.patience;
    std::vector<Stranger> strangers;
    std::string refusal;
    StatusCode refusalCode = StatusCode::InvalidInput;
    // Those that come after it was refused are told why, too.
    auto isOver = [&] { return !refusal.empty() && Clock::now() > refused + kRefusalPatience; };
    while (missing() > 0 && !isOver()) {
      if (options.isStopped())
        return Status::interrupted("interrupted while " + missingText() + " had not come");
      forgetThoseWhoLeft();
      if (Clock::now() >= deadline && refusal.empty())
        refused = Clock::now(), refusalCode = StatusCode::Unavailable,
        refusal = "after " + std::to_string(options.patience.count() / 1000) + " s " + missingText() + " of " +
                  std::to_string(processes()) + " have not come to " + ownAddress + ":" +
                  std::to_string(options.launch.port);
      if (auto now = Clock::now(); now - lastBeat >= kBeatEvery) { // Those who wait see that they wait for somebody.
        lastBeat = now;
        beatAll({});
      }
      awaitStrangers(strangers);
      accept(strangers);
      for (size_t i = 0; i < strangers.size();)
        if (greet(strangers[i], refusal))
          strangers.erase(strangers.begin() + static_cast<ptrdiff_t>(i));
        else
          ++i;
    }
    listener = Descriptor(); // Who comes now is of another attempt, and tries again.
    return refusal.empty() ? Status() : refuseAll(refusal, refusalCode);
  }

  /// Those that were let in hear why it was for nothing, and have read it when this returns.
  Status refuseAll(const std::string &reason, StatusCode code) {
    std::vector<std::byte> stop = encode(Stop{0, static_cast<uint32_t>(code), reason});
    for (Member &member : members)
      if (member.connection)
        member.connection->send(MessageKind::Stop, stop);
    for (auto began = Clock::now(); Clock::now() < began + kRefusalPatience;
         std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
      for (Member &member : members)
        if (member.connection && !member.connection->receive().isOk())
          member.connection.reset();
      if (std::none_of(members.begin(), members.end(),
                       [](const Member &member) { return member.connection.has_value(); }))
        break;
    }
    return Status(code, reason);
  }

  /// One that left before all had come may come again.
  void forgetThoseWhoLeft() {
    for (Member &member : members)
      if (member.connection && !member.connection->receive().isOk())
        member.connection.reset();
  }

  size_t missing() const {
    return static_cast<size_t>(std::count_if(members.begin() + 1, members.end(), [](const Member &member) {
      return !member.connection && !member.isRefused;
    }));
  }

  std::string missingText() const {
    constexpr size_t kMostNamed = 8;
    std::string text = missing() == 1 ? "process " : "processes ";
    size_t named = 0;
    for (uint32_t p = 1; p < members.size(); ++p)
      if (!members[p].connection && ++named <= kMostNamed)
        text += (named > 1 ? ", " : "") + std::to_string(p);
    return text + (named > kMostNamed ? " and " + std::to_string(named - kMostNamed) + " more" : "");
  }

  void awaitStrangers(const std::vector<Stranger> &strangers) const {
    std::vector<pollfd> waits;
    if (strangers.size() < kMostStrangers)
      waits.push_back({listener.get(), POLLIN, 0});
    for (const Stranger &stranger : strangers)
      waits.push_back({stranger.connection.descriptor(), POLLIN, 0});
    (void)::poll(waits.data(), waits.size(), 100);
  }

  void accept(std::vector<Stranger> &strangers) {
    while (strangers.size() < kMostStrangers) {
      Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.get() < 0)
        return;
      auto nonce = makeNonce();
      if (!nonce)
        return;
      strangers.push_back({Connection(std::move(socket)), *nonce, Clock::now()});
      strangers.back().connection.send(MessageKind::Challenge, encode(Challenge{kControlProtocol, *nonce}));
    }
  }

  /// True when there is nothing left to do with the stranger: it is let in, or gone.
  bool greet(Stranger &stranger, std::string &refusal) {
    Status alive = stranger.connection.receive();
    auto frame = stranger.connection.next(kMostGreetingBytes);
    if (!frame)
      return turnAway(stranger, frame.status().message());
    if (!*frame) {
      if (!alive.isOk())
        return turnAway(stranger, "it left before it said who it is");
      return Clock::now() - stranger.since > kGreetingPatience ? turnAway(stranger, "it did not say who it is") : false;
    }
    if ((*frame)->kind != MessageKind::Introduction)
      return turnAway(stranger, "it began with another message");
    auto introduced = decodeIntroduction((*frame)->body);
    if (!introduced)
      return turnAway(stranger, introduced.status().message());
    if (!isSame(introduced->proof, proofOf(*introduced, stranger.challenge, options.secret))) {
      answer(stranger, *introduced, "it does not know the job's secret");
      return turnAway(stranger, "it does not know the job's secret (it calls itself " + nameOf(*introduced) + ")");
    }
    if (refusal.empty()) {
      refusal = mismatch(*introduced);
      refused = Clock::now();
    }
    answer(stranger, *introduced, refusal);
    if (!refusal.empty()) {
      if (introduced->process < members.size())
        members[introduced->process].isRefused = true;
      return true;
    }
    Member &member = members[introduced->process];
    member.connection = std::move(stranger.connection);
    member.name = names[introduced->process] = nameOf(*introduced);
    member.lastSeen = Clock::now();
    return true;
  }

  void answer(Stranger &stranger, const Introduction &to, const std::string &reason) const {
    Verdict verdict{reason.empty(), reason, {}};
    verdict.proof = proofOf(verdict, to, stranger.challenge, options.secret);
    stranger.connection.send(MessageKind::Verdict, encode(verdict));
  }

  static bool turnAway(const Stranger &stranger, std::string_view why) {
    logWarning("a connection from " + stranger.connection.peerAddress() + " was turned away: " + std::string(why));
    return true;
  }

  /// What does not fit together with this process; empty: all does.
  std::string mismatch(const Introduction &other) const {
    Introduction own = introduction();
    std::string who = nameOf(other);
    auto differs = [&](const char *what, const std::string &theirs, const std::string &ours) {
      return who + " has " + what + " " + theirs + ", and process 0 (" + own.host + ") " + ours;
    };
    if (other.version != own.version)
      return differs("Maestro", other.version, own.version);
    if (other.processes != own.processes)
      return differs("a job of", std::to_string(other.processes) + " processes", std::to_string(own.processes));
    if (other.plan != own.plan)
      return differs("the plan", other.plan, own.plan) + "; give all of them the same file";
    if (other.flags != own.flags)
      return differs("the flags", "'" + other.flags + "'", "'" + own.flags + "'");
    if (other.process == 0 || other.process >= own.processes)
      return who + " has a number that is not one of 1 to " + std::to_string(own.processes - 1);
    if (members[other.process].connection)
      return who + " has the number of " + names[other.process] + ": are there two jobs at one address?";
    return "";
  }

  Status join() {
    const Launch &launch = options.launch;
    auto deadline = Clock::now() + options.patience;
    if (auto addresses = resolve(launch.host); addresses && !addresses->empty()) // Else it may be known later.
      MAESTRO_TRY(checkSecrecy(addresses->front()));
    // Whoever listens there may be about to end: process 0 of an attempt that has failed.
    while (true) {
      MAESTRO_ASSIGN(Connection connection, connectTo(launch.host, launch.port, deadline, options.isStopped));
      Status status = introduceTo(std::move(connection));
      if (status.code() != StatusCode::Unavailable || Clock::now() >= deadline || options.isStopped())
        return status;
      std::this_thread::sleep_for(kRetryEvery);
    }
  }

  /// Unavailable where the other side says nothing, or leaves.
  Status introduceTo(Connection connection) {
    const Launch &launch = options.launch;
    MAESTRO_TRY(checkSecrecy(connection.peerAddress()));
    ownAddress = connection.localAddress();
    if (!options.interface.empty()) {
      MAESTRO_ASSIGN(ownAddress, addressOfInterface(options.interface));
    }
    std::string there = "process 0 at " + connection.peerAddress() + ":" + std::to_string(launch.port);
    auto expect = [&](MessageKind kind) -> Result<std::vector<std::byte>> {
      auto frame = connection.await(kMostGreetingBytes, Clock::now() + kGreetingPatience);
      if (!frame)
        return std::move(frame).takeStatus().withContext(there);
      if (frame->kind != kind)
        return Status::invalidInput(there + " sent another message than expected: is it a maestro-run?");
      return std::move(frame->body);
    };
    MAESTRO_ASSIGN(std::vector<std::byte> body, expect(MessageKind::Challenge));
    MAESTRO_ASSIGN(Challenge challenge, decodeChallenge(body));
    Introduction own = introduction();
    MAESTRO_ASSIGN(own.nonce, makeNonce());
    own.proof = proofOf(own, challenge.nonce, options.secret);
    connection.send(MessageKind::Introduction, encode(own));
    MAESTRO_ASSIGN(body, expect(MessageKind::Verdict));
    MAESTRO_ASSIGN(Verdict verdict, decodeVerdict(body));
    if (!isSame(verdict.proof, proofOf(verdict, own, challenge.nonce, options.secret)))
      return Status::invalidInput(there + " does not know this job's secret, or this process has another one");
    if (!verdict.welcome)
      return Status::invalidInput(verdict.reason);
    members.resize(1);
    members[0].connection = std::move(connection);
    members[0].lastSeen = Clock::now();
    members[0].name = "process 0 (" + launch.host + ")";
    names = {members[0].name};
    return Status();
  }

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
    if (kind == MessageKind::Records && process() != 0) {
      Round &round = rounds[members[m].rounds++];
      MAESTRO_ASSIGN(round.records, decodeRecords(body));
      round.isWhole = round.records.size() == processes();
      return round.isWhole ? Status() : Status::invalidInput("it sent records of another number of processes");
    }
    return Status::invalidInput("it sent a message of kind " + std::to_string(static_cast<int>(kind)));
  }

  /// In process 0: a record of a round, and the round's end.
  void take(uint32_t from, uint64_t number, std::vector<std::byte> record) {
    Round &round = rounds[number];
    round.records.resize(processes());
    round.given.resize(processes());
    round.records[from] = std::move(record);
    round.given[from] = true;
    round.isWhole = std::all_of(round.given.begin(), round.given.end(), [](bool given) { return given; });
    if (!round.isWhole)
      return;
    std::vector<std::byte> all = encodeRecords(round.records);
    for (Member &member : members)
      if (member.connection)
        member.connection->send(MessageKind::Records, all);
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
  std::string ownAddress;
  Descriptor listener;
  Clock::time_point refused;      ///< When the job was.
  std::vector<std::string> names; ///< By process, as far as known.

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
  auto control = std::make_unique<Implementation>(options);
  MAESTRO_TRY(control->meet());
  return std::unique_ptr<Control>(std::move(control));
}

} // namespace maestro::transport

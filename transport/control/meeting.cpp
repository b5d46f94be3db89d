#include "transport/control/meeting.h"

#include "base/host_name.h"
#include "base/log.h"
#include "transport/control/messages.h"
#include "transport/control/seating.h"

#include <algorithm>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace maestro::transport {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kGreetingPatience = std::chrono::seconds(5);
constexpr size_t kMostStrangers = 256; ///< Connections that have not proven anything; more wait in the system's queue.
constexpr auto kRefusalPatience = std::chrono::seconds(2);
/// Between attempts to meet whoever listens at process 0's address.
constexpr auto kRetryEvery = std::chrono::milliseconds(100);

/// Another process that has proven who it is.
struct Participant {
  std::optional<Connection> connection;
  Introduction who;
  bool isRefused = false; ///< And knows why.
};

class Meeter {
public:
  explicit Meeter(const ControlOptions &options) : options(options) {}

  Result<Meeting> meet() {
    MAESTRO_TRY(options.launch.process == 0 ? gatherMembers() : join());
    Meeting met{{}, std::move(names), seat, std::move(ownAddress)};
    for (Participant &member : members)
      met.connections.push_back(std::move(member.connection));
    return met;
  }

private:
  Introduction introduction() const {
    Introduction own;
    own.process = options.launch.process;
    own.processes = options.launch.processes;
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
    members.resize(options.launch.processes);
    members[0].who = introduction();
    auto began = Clock::now(), deadline = began + options.patience;
    std::vector<Stranger> strangers;
    std::string refusal;
    StatusCode refusalCode = StatusCode::InvalidInput;
    // Those that come after it was refused are told why, too.
    auto isOver = [&] { return !refusal.empty() && Clock::now() > refused + kRefusalPatience; };
    Seating seating;
    while (missing() > 0 && !isOver()) {
      if (options.isStopped())
        return Status::interrupted("interrupted while " + missingText() + " had not come");
      forgetThoseWhoLeft();
      if (refusal.empty() && Clock::now() > began + options.spares.patience)
        if (seating = seatWholeMachines(options.spares, hosts()); !seating.processes.empty())
          break;
      if (Clock::now() >= deadline && refusal.empty())
        refused = Clock::now(), refusalCode = StatusCode::Unavailable,
        refusal = "after " + std::to_string(options.patience.count() / 1000) + " s " + missingText() + " of " +
                  std::to_string(options.launch.processes) + " have not come to " + ownAddress + ":" +
                  std::to_string(options.launch.port);
      if (auto now = Clock::now(); now - lastBeat >= kBeatEvery) { // Those who wait see that they wait for somebody.
        lastBeat = now;
        for (Participant &member : members)
          if (member.connection)
            member.connection->send(MessageKind::Beat, encode(Beat{}));
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
    if (!refusal.empty())
      return refuseAll(refusal, refusalCode);
    seat.lostMachines = seating.lostMachines;
    for (uint32_t p = 0; seat.lostMachines == 0 && p < members.size(); ++p)
      seating.processes.push_back(p);
    assignSeats(seating.processes);
    return Status();
  }

  /// By process; empty: it has not come.
  std::vector<std::string> hosts() const {
    std::vector<std::string> all;
    for (const Participant &member : members)
      all.push_back(member.connection || all.empty() ? member.who.host : ""); // The first is this process.
    return all;
  }

  /// Tells all that have come, in the order in which they are numbered from now on; others are dismissed.
  void assignSeats(const std::vector<uint32_t> &seated) {
    std::vector<Participant> rest = std::exchange(members, {});
    names.clear();
    for (uint32_t old : seated) {
      Participant &member = members.emplace_back(std::move(rest[old]));
      member.who.process = static_cast<uint32_t>(members.size() - 1);
      names.push_back(nameOf(member.who));
      if (member.connection)
        member.connection->send(MessageKind::Seat, encode(Seat{member.who.process, static_cast<uint32_t>(seated.size()),
                                                               seat.lostMachines}));
    }
    seat.processes = static_cast<uint32_t>(members.size());
    for (Participant &member : rest)
      if (member.connection)
        member.connection->send(MessageKind::Seat, encode(Seat{}));
  }

  /// Those that were let in hear why it was for nothing, and have read it when this returns.
  Status refuseAll(const std::string &reason, StatusCode code) {
    std::vector<std::byte> stop = encode(Stop{0, static_cast<uint32_t>(code), reason});
    for (Participant &member : members)
      if (member.connection)
        member.connection->send(MessageKind::Stop, stop);
    for (auto began = Clock::now(); Clock::now() < began + kRefusalPatience;
         std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
      for (Participant &member : members)
        if (member.connection && !member.connection->receive().isOk())
          member.connection.reset();
      if (std::none_of(members.begin(), members.end(),
                       [](const Participant &member) { return member.connection.has_value(); }))
        break;
    }
    return Status(code, reason);
  }

  /// One that left before all had come may come again.
  void forgetThoseWhoLeft() {
    for (Participant &member : members)
      if (member.connection && !member.connection->receive().isOk())
        member.connection.reset();
  }

  size_t missing() const {
    return static_cast<size_t>(std::count_if(members.begin() + 1, members.end(), [](const Participant &member) {
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
    Participant &member = members[introduced->process];
    member.connection = std::move(stranger.connection);
    member.who = std::move(*introduced);
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
      return who + " has the number of " + nameOf(members[other.process].who) + ": are there two jobs at one address?";
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
    MAESTRO_TRY(takeSeat(connection, there));
    members.resize(1);
    members[0].connection = std::move(connection);
    names = {"process 0 (" + launch.host + ")"};
    return Status();
  }

  /// Waits for the others.
  Status takeSeat(Connection &connection, const std::string &there) {
    auto deadline = Clock::now() + options.patience + kGreetingPatience;
    while (true) {
      auto frame = connection.await(kMostGreetingBytes, std::min(deadline, Clock::now() + options.silence));
      if (!frame)
        return std::move(frame).takeStatus().withContext(there);
      if (frame->kind == MessageKind::Stop) {
        MAESTRO_ASSIGN(Stop stop, decodeStop(frame->body));
        return Status(static_cast<StatusCode>(stop.code), stop.text);
      }
      if (frame->kind == MessageKind::Seat) {
        MAESTRO_ASSIGN(seat, decodeSeat(frame->body));
        return seat.processes > 0
                   ? Status()
                   : Status::interrupted("the job goes on without this machine, of which not all processes have come");
      }
      if (options.isStopped())
        return Status::interrupted("interrupted while others had not come");
    }
  }

  const ControlOptions &options;
  std::string ownAddress;
  Descriptor listener;
  std::vector<Participant> members;
  std::vector<std::string> names;
  Seat seat;
  Clock::time_point refused, lastBeat; ///< When the job was; when the others heard last of this process.
};

} // namespace

Result<Meeting> meetOthers(const ControlOptions &options) { return Meeter(options).meet(); }

} // namespace maestro::transport

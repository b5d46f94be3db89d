// How processes of a job meet, tell each other things, and end together: each a thread here, on loopback.
#include "transport/control/connection.h"
#include "transport/control/control.h"
#include "transport/control/messages.h"
#include "transport/control/progress_record.h"
#include "transport/control/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <netinet/in.h>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace maestro::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

Environment environmentOf(const std::map<std::string, std::string> &variables) {
  return [variables](const char *name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::string causeOf(const std::map<std::string, std::string> &variables) {
  return std::string(detectLaunch(environmentOf(variables)).status().message());
}

TEST(Launch, AloneWithoutALauncher) {
  EXPECT_FALSE(*detectLaunch(environmentOf({})));
  EXPECT_FALSE(*detectLaunch(environmentOf({{"RANK", "0"}}))) << "a variable of something else";
  EXPECT_FALSE(*detectLaunch(
      environmentOf({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}})));
}

TEST(Launch, TorchrunsAndKubernetesVariables) {
  std::map<std::string, std::string> variables = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "job-0.job"}, {"MASTER_PORT", "29500"}};
  Launch launch = **detectLaunch(environmentOf(variables));
  EXPECT_EQ(launch.process, 3u);
  EXPECT_EQ(launch.processes, 8u);
  EXPECT_EQ(launch.host, "job-0.job");
  EXPECT_EQ(launch.port, 29500);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ((*detectLaunch(environmentOf(variables)))->port, 29501) << "the agent has the port itself";
}

TEST(Launch, MpirunsVariables) {
  for (auto [process, processes] :
       {std::pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), {"PMI_RANK", "PMI_SIZE"}}) {
    std::map<std::string, std::string> variables = {{process, "1"}, {processes, "4"}};
    EXPECT_THAT(causeOf(variables), HasSubstr("nothing says where these processes meet"));
    EXPECT_THAT(causeOf(variables), HasSubstr("libpmix2"));
    variables[processes] = "2";
    variables[process] = "0";
    EXPECT_THAT(causeOf(variables), HasSubstr(std::string(processes) + "=2"));
    variables = {{process, "0"}, {processes, "1"}};
    EXPECT_FALSE(*detectLaunch(environmentOf(variables))) << "alone";
    variables = {{process, "1"}, {processes, "4"}};
    variables["MASTER_ADDR"] = "node1";
    EXPECT_THAT(causeOf(variables), HasSubstr("MASTER_PORT is not set"));
    variables["MASTER_PORT"] = "29500";
    EXPECT_EQ((*detectLaunch(environmentOf(variables)))->process, 1u);
  }
}

TEST(Launch, SlurmsVariables) {
  Launch launch = **detectLaunch(environmentOf({{"SLURM_PROCID", "5"},
                                                {"SLURM_NTASKS", "16"},
                                                {"SLURM_STEP_NODELIST", "gpu[003-004]"},
                                                {"SLURM_JOB_ID", "4711"},
                                                {"SLURM_STEP_ID", "2"}}));
  EXPECT_EQ(launch.process, 5u);
  EXPECT_EQ(launch.host, "gpu003");
  EXPECT_EQ(launch.port, 20000 + (4711 * 101 + 2) % 12000);
}

TEST(Launch, NodeLists) {
  for (auto [list, first] : std::map<std::string, std::string>{{"a", "a"},
                                                               {"a,b", "a"},
                                                               {"gpu[003-005,9],login", "gpu003"},
                                                               {"gpu[7]", "gpu7"},
                                                               {"r[1-2]n-ib,x", "r1n-ib"}})
    EXPECT_EQ(*firstHost(list), first);
  EXPECT_FALSE(firstHost(""));
  EXPECT_FALSE(firstHost("gpu[003"));
  EXPECT_FALSE(firstHost(",b"));
}

TEST(Launch, WrongVariablesAreNamed) {
  std::map<std::string, std::string> good = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  auto with = [&](const char *name, const char *value) {
    auto changed = good;
    changed[name] = value;
    return causeOf(changed);
  };
  EXPECT_THAT(with("RANK", "8"), HasSubstr("RANK='8' is not a number from 0 to 7"));
  EXPECT_THAT(with("RANK", "-1"), HasSubstr("RANK='-1'"));
  EXPECT_THAT(with("WORLD_SIZE", "8x"), HasSubstr("WORLD_SIZE='8x'"));
  EXPECT_THAT(with("WORLD_SIZE", "99999999999"), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(with("MASTER_PORT", "0"), HasSubstr("MASTER_PORT='0'"));
  EXPECT_THAT(with("MASTER_ADDR", ""), HasSubstr("MASTER_ADDR is not set"));
}

TEST(Secret, ComesFromAFileThatOthersCannotReadOrAVariable) {
  std::string path = testing::TempDir() + "secret-" + std::to_string(::getpid());
  auto find = [&](const std::map<std::string, std::string> &variables) { return findSecret(environmentOf(variables)); };
  auto message = [&](const std::map<std::string, std::string> &variables) {
    return std::string(find(variables).status().message());
  };
  EXPECT_EQ(*find({}), "");
  EXPECT_EQ(*find({{"MAESTRO_JOB_SECRET", "0123456789abcdef"}}), "0123456789abcdef");
  EXPECT_THAT(message({{"MAESTRO_JOB_SECRET", "short"}}), HasSubstr("5 bytes; at least 16"));
  EXPECT_THAT(message({{"MAESTRO_JOB_SECRET_FILE", path}}), HasSubstr("No such file"));
  std::ofstream(path) << "0123456789abcdef0\n";
  ::chmod(path.c_str(), 0640);
  EXPECT_THAT(message({{"MAESTRO_JOB_SECRET_FILE", path}}), HasSubstr("chmod 600"));
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(*find({{"MAESTRO_JOB_SECRET_FILE", path}}), "0123456789abcdef0");
  EXPECT_THAT(message({{"MAESTRO_JOB_SECRET_FILE", testing::TempDir()}}), HasSubstr("not a file"));
  std::filesystem::remove(path);
}

TEST(Secret, ProofsAreHmacSha256) { // RFC 4231, test case 2.
  std::string text = "what do ya want for nothing?";
  Proof proof = prove("Jefe", std::as_bytes(std::span(text)));
  EXPECT_EQ(proof[0], std::byte{0x5b});
  EXPECT_EQ(proof[1], std::byte{0xdc});
  EXPECT_EQ(proof[31], std::byte{0x43});
  EXPECT_TRUE(isSame(proof, proof));
  EXPECT_FALSE(isSame(proof, prove("jefe", std::as_bytes(std::span(text)))));
}

uint16_t freePort() {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  (void)::bind(socket.get(), reinterpret_cast<sockaddr *>(&address), length);
  (void)::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &length);
  return ntohs(address.sin_port);
}

/// A process's part of a job with an abort of its own.
struct Part {
  Part(Control &control, uint32_t ranks)
      : memory(std::move(*SharedMemory::create(1 << 20))), abort(*Abort::create(*memory, ranks)) {
    ControlHooks hooks;
    hooks.cause = [this] { return Status::unavailable(std::string(abort.text())); };
    hooks.onStop = [this](uint32_t rank, const Status &cause) { abort.raise(rank, cause); };
    control.watch(abort, ranks, std::move(hooks));
  }
  bool waits(std::chrono::milliseconds most) const {
    for (auto waited = 0ms; waited < most && !abort.isRaised(); waited += 5ms)
      std::this_thread::sleep_for(5ms);
    return abort.isRaised();
  }
  std::unique_ptr<SharedMemory> memory;
  Abort abort;
};

class ControlTest : public testing::Test {
protected:
  ControlOptions options(uint32_t process, uint32_t processes) {
    ControlOptions options;
    options.launch = {"a test", process, processes, "127.0.0.1", port};
    options.version = "1";
    options.plan = "abcd";
    options.patience = 3s;
    options.silence = 2s;
    return options;
  }
  using Change = std::function<void(uint32_t, ControlOptions &)>;
  using Body = std::function<Status(uint32_t, Control &, std::unique_ptr<Part> &)>;
  /// What each process came to; those whose options `change` takes away do not come.
  std::vector<std::string> run(uint32_t processes, const Change &change, const Body &body) {
    std::vector<std::string> causes(processes);
    std::vector<std::thread> threads;
    for (uint32_t p = 0; p < processes; ++p)
      threads.emplace_back([&, p] {
        ControlOptions own = options(p, processes);
        change(p, own);
        if (own.launch.processes == 0)
          return;
        std::unique_ptr<Part> part; // Outlives the control, whose thread looks at it.
        auto control = Control::meet(own);
        Status status = control ? body(p, **control, part) : std::move(control).takeStatus();
        causes[p] = status.isOk() ? "" : std::string(status.message());
      });
    for (std::thread &thread : threads)
      thread.join();
    return causes;
  }
  static void unchanged(uint32_t, ControlOptions &) {}
  static Status leave(uint32_t, Control &control, std::unique_ptr<Part> &) { return control.leave(); }

  uint16_t port = freePort();
};

TEST_F(ControlTest, EverybodyIsAnsweredFromEverybodysRecords) {
  for (uint32_t processes : {2u, 5u, 16u}) {
    port = freePort();
    auto recordOf = [](uint32_t p, uint32_t round) {
      return std::vector<std::byte>(p * 1000 + round, static_cast<std::byte>(p));
    };
    auto causes = run(processes, unchanged, [&](uint32_t p, Control &control, std::unique_ptr<Part> &) -> Status {
      for (uint32_t round = 0; round < 20; ++round) {
        // Each has its neighbour's record, and then its own number.
        MAESTRO_ASSIGN(auto told, control.ask(recordOf(p, round), [&](const auto &records, uint32_t of) {
          auto answer = records[(of + 1) % processes];
          answer.push_back(static_cast<std::byte>(of));
          return answer;
        }));
        auto expected = recordOf((p + 1) % processes, round);
        expected.push_back(static_cast<std::byte>(p));
        if (told != expected)
          return Status::internal("another answer");
      }
      return control.leave();
    });
    EXPECT_THAT(causes, testing::Each(""));
  }
}

TEST_F(ControlTest, WhatDoesNotFitTogetherIsNamedToBoth) {
  auto causes = [&](const Change &change) {
    port = freePort();
    return run(3, change, leave);
  };
  EXPECT_THAT(causes([](uint32_t p, ControlOptions &own) { own.plan = p == 2 ? "ffff" : own.plan; }),
              testing::Each(AllOf(HasSubstr("process 2 ("), HasSubstr("the plan ffff, and process 0"))));
  EXPECT_THAT(causes([](uint32_t p, ControlOptions &own) { own.version = p == 1 ? "2" : own.version; })[1],
              HasSubstr("Maestro 2"));
  EXPECT_THAT(causes([](uint32_t p, ControlOptions &own) { own.flags = p == 1 ? "seed=3" : "seed=4"; })[0],
              HasSubstr("the flags 'seed=3'"));
  EXPECT_THAT(causes([](uint32_t p, ControlOptions &own) { own.launch.processes = p == 1 ? 4 : 3; })[1],
              HasSubstr("a job of 4 processes"));
  EXPECT_THAT(causes([](uint32_t p, ControlOptions &own) { own.launch.process = p == 2 ? 1 : p; })[0],
              HasSubstr("two jobs at one address"));
}

TEST_F(ControlTest, WhoIsMissingIsNamed) {
  auto causes = run(
      4, [](uint32_t p, ControlOptions &own) { own.launch.processes = p == 1 || p == 3 ? 0 : 4; }, leave);
  EXPECT_THAT(causes[0], HasSubstr("after 3 s processes 1, 3 of 4 have not come"));
  EXPECT_EQ(causes[2], causes[0]);
}

TEST_F(ControlTest, StrangersAreTurnedAwayAndHarmNobody) {
  const std::string secret = "0123456789abcdef";
  std::atomic<bool> done{false};
  std::vector<std::thread> strangers;
  auto connect = [&] {
    return connectTo("127.0.0.1", port, std::chrono::steady_clock::now() + 3s, [] { return false; });
  };
  strangers.emplace_back([&] { // Noise.
    if (auto noise = connect())
      noise->send(static_cast<MessageKind>(200), std::vector<std::byte>(3000));
  });
  strangers.emplace_back([&] { // Too much of it.
    if (auto noise = connect())
      noise->send(MessageKind::Introduction, std::vector<std::byte>(size_t{1} << 20));
  });
  strangers.emplace_back([&] { // Says nothing, and stays.
    auto silent = connect();
    while (!done)
      std::this_thread::sleep_for(10ms);
  });
  strangers.emplace_back([&] { // Leaves at once.
    (void)connect();
  });
  std::string other;
  strangers.emplace_back([&] { // Of another job.
    ControlOptions own = options(1, 2);
    own.secret = "another secret!!";
    other = Control::meet(own).status().message();
  });
  auto causes = run(
      2,
      [&](uint32_t p, ControlOptions &own) {
        own.secret = secret;
        if (p == 1)
          std::this_thread::sleep_for(500ms);
      },
      leave);
  done = true;
  for (std::thread &stranger : strangers)
    stranger.join();
  EXPECT_THAT(causes, testing::Each(""));
  EXPECT_THAT(other, HasSubstr("secret"));
}

TEST_F(ControlTest, ReplayedProofsAreWrong) {
  Introduction who;
  who.process = 1;
  Nonce first{}, second{};
  second[0] = std::byte{1};
  EXPECT_FALSE(isSame(proofOf(who, first, "0123456789abcdef"), proofOf(who, second, "0123456789abcdef")));
  Introduction changed = who;
  changed.plan = "another";
  EXPECT_FALSE(isSame(proofOf(who, first, "0123456789abcdef"), proofOf(changed, first, "0123456789abcdef")));
}

TEST_F(ControlTest, WithoutASecretOnlyLoopbackIsMet) {
  ControlOptions own = options(0, 2);
  own.interface = "eth0";
  auto address = addressOfInterface("eth0");
  if (!address)
    GTEST_SKIP() << "there is no eth0";
  EXPECT_THAT(std::string(Control::meet(own).status().message()), HasSubstr("MAESTRO_JOB_SECRET_FILE"));
}

TEST_F(ControlTest, UnknownInterfacesAndPortsAreNamed) {
  ControlOptions own = options(0, 2);
  own.interface = "nosuch0";
  EXPECT_THAT(std::string(Control::meet(own).status().message()),
              AllOf(HasSubstr("MAESTRO_INTERFACE='nosuch0'"), HasSubstr("lo (127.0.0.1)")));
  auto taken = listenAt("127.0.0.1", port);
  ASSERT_TRUE(taken.isOk());
  EXPECT_THAT(std::string(Control::meet(options(0, 2)).status().message()), HasSubstr("is another job there"));
}

TEST_F(ControlTest, OneCauseEndsAll) {
  for (uint32_t culprit : {0u, 2u}) {
    port = freePort();
    auto causes = run(4, unchanged, [&](uint32_t p, Control &control, std::unique_ptr<Part> &part) -> Status {
      part = std::make_unique<Part>(control, 8);
      MAESTRO_TRY(control.meetAgain());
      if (p == culprit)
        part->abort.raise(2 * culprit, "lost its mind");
      if (!part->waits(2s))
        return Status::internal("nobody told it");
      Status cause = control.causeOfEnd(part->abort.status());
      std::this_thread::sleep_for(200ms); // The others hear of it, too.
      return cause;
    });
    std::string expected = "rank " + std::to_string(2 * culprit) + " of process " + std::to_string(culprit) + " (";
    EXPECT_THAT(causes, testing::Each(AllOf(HasSubstr(expected), HasSubstr("lost its mind"))));
  }
}

TEST_F(ControlTest, WhoGoesIsMissedAtOnce) {
  auto began = std::chrono::steady_clock::now();
  auto causes = run(3, unchanged, [&](uint32_t p, Control &control, std::unique_ptr<Part> &part) -> Status {
    part = std::make_unique<Part>(control, 3);
    MAESTRO_TRY(control.meetAgain());
    if (p == 1)
      return Status(); // Without a word.
    if (!part->waits(2s))
      return Status::internal("nobody told it");
    return control.causeOfEnd(part->abort.status());
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1500ms);
  EXPECT_THAT(causes[0], AllOf(HasSubstr("process 1 ("), HasSubstr("has gone")));
  EXPECT_EQ(causes[2], causes[0]);
}

TEST(PeerClocks, AreKnownToHalfOfTheFastestRoundTrip) {
  constexpr int64_t kAhead = 123'456'789'000, kBeat = 250'000'000;
  PeerClock here, there;
  int64_t now = 5'000;
  std::mt19937 random(3);
  for (int beat = 0; beat < 50; ++beat, now += kBeat) {
    int64_t there1 = 20'000 + static_cast<int64_t>(random() % 400'000),
            back = 20'000 + static_cast<int64_t>(random() % 400'000);
    ClockStamps sent = here.stamps(now);
    there.received(sent, now + there1 + kAhead);
    int64_t held = static_cast<int64_t>(random() % kBeat / 2);
    ClockStamps answer = there.stamps(now + there1 + held + kAhead);
    here.received(answer, now + there1 + held + back);
  }
  EXPECT_NEAR(static_cast<double>(here.aheadNs()), static_cast<double>(kAhead), 100'000);
  EXPECT_NEAR(static_cast<double>(there.aheadNs()), static_cast<double>(-kAhead), 100'000);
  // Whatever else comes.
  for (int64_t value : {std::numeric_limits<int64_t>::min(), int64_t{-1}, std::numeric_limits<int64_t>::max()})
    for (int64_t other : {std::numeric_limits<int64_t>::min(), int64_t{1}, std::numeric_limits<int64_t>::max()})
      here.received({value, other, value}, now);
}

TEST(ProgressRecords, TravelWithAges) {
  auto memory = std::move(*SharedMemory::create(1 << 20));
  Abort here = *Abort::create(*memory, 4), there = *Abort::create(*memory, 4);
  here.progress().report(2, LaneKind::Device, Activity::AwaitingArrivals, "teacher.hidden", 17);
  std::vector<std::byte> record = encodeProgress(here.progress(), {2, 4});
  ProgressReceiver receiver(there.progress());
  ASSERT_TRUE(receiver.enter({2, 4}, record).isOk());
  EXPECT_THAT(there.progress().describe(2, nowNs()), HasSubstr("awaits arrivals 'teacher.hidden' 17"));
  record.pop_back();
  EXPECT_FALSE(receiver.enter({2, 4}, record).isOk());
  EXPECT_FALSE(receiver.enter({1, 4}, record).isOk());
}

} // namespace
} // namespace maestro::transport

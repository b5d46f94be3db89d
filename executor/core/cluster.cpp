#include "executor/core/cluster.h"

#include "base/log.h"
#include "executor/core/cluster_fabric.h"
#include "plan/plan_generated.h"
#include "transport/control/secret.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace maestro::executor {
namespace {

/// For the first write to every other process.
constexpr auto kGreetingPatience = std::chrono::seconds(20);

/// What must be alike in all processes for them to compute one thing.
std::string flagsOf(const RunOptions &options) {
  return fmt::format(
      "data={} steps={} out={} resume={} save-every={} seed={} save-gradients={} self-check={} evaluate={} "
      "shuffle={} adapt={} sleep={} transport={} validate={} every={} keep-best={} stop={}",
      fmt::join(options.data, ","), options.steps.value_or(0), options.out, static_cast<int>(options.resume),
      options.saveEvery, options.seed ? std::to_string(*options.seed) : "plan", options.saveGradients,
      options.selfCheck, options.evaluate, options.shuffle, options.adapts, options.sleepScale,
      static_cast<int>(options.transport), fmt::join(options.validation.data, ","), options.validation.every,
      options.validation.keepBest, options.validation.stopAfterNoGain);
}

const char *variable(const char *name) { return std::getenv(name); }

} // namespace

Result<std::unique_ptr<Cluster>> Cluster::join(const plan::Plan &plan, const RunOptions &options,
                                               std::function<bool()> isStopped) {
  MAESTRO_ASSIGN(std::optional<transport::Launch> launch, transport::detectLaunch(variable));
  if (!launch && options.transport != TransportChoice::Auto)
    return Status::invalidInput("--transport is for jobs of several processes, and this one was started alone; "
                                "docs/cluster.md: how to start several");
  if (!launch)
    return std::unique_ptr<Cluster>();
  uint32_t ranks = plan->ranks()->size();
  if (launch->processes > ranks)
    return Status::invalidInput(
        fmt::format("{}: {} has started {} processes, and the plan has {} ranks; start at most as "
                    "many, or plan for more devices",
                    options.planPath, launch->engine, launch->processes, ranks));
  if (options.processes)
    return Status::invalidInput("--ranks processes is for one machine; here " + launch->engine +
                                " starts the processes");
  transport::ControlOptions control;
  control.launch = *launch;
  MAESTRO_ASSIGN(control.secret, transport::findSecret(variable));
  control.interface = variable("MAESTRO_INTERFACE") ? variable("MAESTRO_INTERFACE") : "";
  control.version = options.version;
  control.plan = fmt::format("{:016x}", plan.hash());
  control.flags = flagsOf(options);
  control.isStopped = std::move(isStopped);
  MAESTRO_ASSIGN(auto met, transport::Control::meet(control));
  return std::unique_ptr<Cluster>(new Cluster(std::move(met), ranks, options.transport));
}

Seating Cluster::seating(const World &world) const {
  Seating seating;
  seating.here = here();
  for (uint32_t p = 0; p < control->processes(); ++p)
    if (ranksOf(p).has(world.root()))
      seating.atRoot = ranksOf(p);
  seating.watches = control->process() == 0;
  return seating;
}

Status Cluster::connect(World &world) {
  hasTrainingRank = std::any_of(world.trainingRanks().begin(), world.trainingRanks().end(),
                                [&](uint32_t rank) { return here().has(rank); });
  watch(world);
  std::vector<transport::RankRange> ranksByProcess;
  for (uint32_t p = 0; p < control->processes(); ++p)
    ranksByProcess.push_back(ranksOf(p));
  MAESTRO_ASSIGN(ClusterFabric opened, openFabric(choice, *control, ranksByProcess, world.reach(), world.abort()));
  fabric = std::move(opened.fabric);
  world.connect(*fabric);
  MAESTRO_TRY(fabric->start());
  MAESTRO_TRY(greet(world));
  if (control->process() == 0)
    logInfo(fmt::format("{} processes have met: {}{}{}", control->processes(), fabric->name(),
                        opened.note.empty() ? "" : "; ", opened.note));
  return Status();
}

/// Every process counts once at every other one's first rank.
Status Cluster::greet(const World &world) {
  for (uint32_t p = 0; p < control->processes(); ++p)
    if (p != control->process())
      transport::signal(world.reach().target(world.greeting(ranksOf(p).first)), 1);
  const transport::Word &own = *world.reach().word(world.greeting(here().first));
  uint64_t others = control->processes() - 1;
  auto deadline = std::chrono::steady_clock::now() + kGreetingPatience;
  while (own.value.load() < others && !world.abort().isRaised()) {
    if (std::chrono::steady_clock::now() > deadline)
      return Status::unavailable(fmt::format("{}: of {} other processes {} have reached this one at {}", fabric->name(),
                                             others, own.value.load(), control->address()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return world.abort().status();
}

void Cluster::watch(World &world) {
  progress.emplace(world.abort().progress());
  transport::ControlHooks hooks;
  hooks.beat = [this, &world] { return transport::encodeProgress(world.abort().progress(), here()); };
  hooks.onBeat = [this](uint32_t process, std::span<const std::byte> beat) {
    if (!beat.empty())
      (void)progress->enter(ranksOf(process), beat);
  };
  hooks.cause = [&world] {
    int code = world.outcome().code.load();
    return Status(code ? static_cast<StatusCode>(code) : StatusCode::Unavailable, std::string(world.abort().text()));
  };
  hooks.onStop = [&world](uint32_t rank, const Status &cause) { world.raise(rank, cause); };
  hooks.onFinish = [this, &world] {
    finished = true;
    if (!hasTrainingRank) // Others end by themselves.
      world.abort().raise(transport::Abort::kSupervisor, "the run has ended");
  };
  control->watch(world.abort(), ranks, std::move(hooks));
}

Result<std::string> Cluster::decide(const World &world, const Result<std::string> &root) {
  std::vector<std::byte> own;
  if (isRoot(world)) {
    ByteWriter writer;
    writer.number(static_cast<uint32_t>(root ? StatusCode::Ok : root.status().code()));
    own = writer.text(root ? *root : root.status().message()).take();
  }
  MAESTRO_ASSIGN(auto records, control->gather(own));
  auto said = std::find_if(records.begin(), records.end(), [](const auto &record) { return !record.empty(); });
  if (said == records.end())
    return Status::internal("nobody has the root rank");
  ByteReader reader(*said);
  auto code = static_cast<StatusCode>(reader.number<uint32_t>());
  std::string text = reader.text();
  return code == StatusCode::Ok ? Result<std::string>(std::move(text)) : Result<std::string>(Status(code, text));
}

Status Cluster::leave() {
  fabric->awaitIdle();
  return control->leave();
}

} // namespace maestro::executor

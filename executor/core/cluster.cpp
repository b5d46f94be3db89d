#include "executor/core/cluster.h"

#include "base/host_name.h"
#include "base/log.h"
#include "executor/checkpoint/file_writer.h"
#include "executor/core/rank_device.h"
#include "plan/plan_generated.h"
#include "transport/control/secret.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
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

using Bytes = transport::Control::Bytes;

Bytes encode(const Result<std::string> &said) {
  ByteWriter writer;
  writer.number(static_cast<uint32_t>(said ? StatusCode::Ok : said.status().code()));
  return writer.text(said ? *said : std::string(said.status().message())).take();
}

Result<std::string> decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  auto code = static_cast<StatusCode>(reader.number<uint32_t>());
  std::string text = reader.text();
  return code == StatusCode::Ok ? Result<std::string>(std::move(text)) : Result<std::string>(Status(code, text));
}

transport::SpareMachines sparesOf(const plan::Plan &plan, const RunOptions &options) {
  transport::SpareMachines spares;
  if (options.isRestart && plan->spares())
    spares = {plan->machine()->nodes(), plan->spares()->size()};
  return spares;
}

} // namespace

Result<std::unique_ptr<Cluster>> Cluster::join(plan::Plan &plan, const RunOptions &options,
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
  control.spares = sparesOf(plan, options);
  MAESTRO_ASSIGN(control.secret, transport::findSecret(variable));
  control.interface = variable("MAESTRO_INTERFACE") ? variable("MAESTRO_INTERFACE") : "";
  control.version = options.version;
  control.plan = fmt::format("{:016x}", plan.hash());
  control.flags = flagsOf(options);
  control.isStopped = std::move(isStopped);
  MAESTRO_ASSIGN(auto met, transport::Control::meet(control));
  if (uint32_t lost = met->lostMachines()) {
    MAESTRO_ASSIGN(plan, plan.spare(lost));
    uint32_t nodes = plan->machine()->nodes();
    if (met->process() == 0)
      logWarning(fmt::format("{} of {} machines {} not come back: the job goes on with {}", lost, nodes + lost,
                             lost == 1 ? "has" : "have", nodes));
    ranks = plan->ranks()->size();
    if (met->processes() > ranks)
      return Status::invalidInput(fmt::format("{}: for {} nodes the plan has {} ranks, and {} processes are left",
                                              options.planPath, nodes, ranks, met->processes()));
  }
  return std::unique_ptr<Cluster>(new Cluster(std::move(met), ranks, options.transport));
}

Seats Cluster::seats() const {
  return {ranks, control->processes(), control->process(), /*isForked=*/false, /*watches=*/control->process() == 0};
}

Status Cluster::connect(const plan::Plan &plan, World &world) {
  hasTrainingRank = std::any_of(world.trainingRanks().begin(), world.trainingRanks().end(),
                                [&](uint32_t rank) { return here().has(rank); });
  watch(world);
  for (uint32_t rank : world.peersOf(here()))
    peers.emplace(processOf(rank), ranksOf(processOf(rank)));
  MAESTRO_ASSIGN(ClusterWays ways, openWays(choice, *control, peers, world, haveOwnMemory(plan)));
  fabric = std::move(ways.fabric);
  if (fabric) {
    world.connect(*fabric);
    MAESTRO_TRY(fabric->start());
  }
  MAESTRO_TRY(greet(world, ways.text));
  MAESTRO_ASSIGN(gpus, openGpuWays(choice, plan, *control, world, fabric.get()));
  ways.text += gpus.text;
  if (control->process() == 0)
    logInfo(fmt::format("{} processes have met: {}", control->processes(), ways.text));
  return Status();
}

/// Every process counts once at the first rank of each that it has to do with.
Status Cluster::greet(const World &world, const std::string &ways) {
  for (const auto &[process, ranks] : peers)
    transport::signal(world.reach().target(world.greeting(ranks.first)), 1);
  const transport::Word &own = *world.reach().word(world.greeting(here().first));
  uint64_t others = peers.size();
  auto deadline = std::chrono::steady_clock::now() + kGreetingPatience;
  while (own.value.load() < others && !world.abort().isRaised()) {
    if (std::chrono::steady_clock::now() > deadline)
      return Status::unavailable(
          fmt::format("{}: of {} processes that write to this one {} have reached this one at {}", ways, others,
                      own.value.load(), control->address()));
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
  Bytes own = isRoot(world) ? encode(root) : Bytes();
  MAESTRO_ASSIGN(Bytes said, control->askForAll(own, [](const std::vector<Bytes> &records) {
    auto found = std::find_if(records.begin(), records.end(), [](const Bytes &record) { return !record.empty(); });
    return found == records.end() ? encode(Status::internal("nobody has the root rank")) : *found;
  }));
  return decode(said);
}

Result<std::string> Cluster::judgeMachines(const Judge &judge) {
  MachineShare here = MachineShare::here({own});
  ByteWriter writer;
  writer.number(here.usableBytes).number(here.availableBytes).number(here.cores).text(hostName());
  MAESTRO_ASSIGN(Bytes said, control->askForAll(writer.take(), [&](const std::vector<Bytes> &records) {
    return encode(judge(machinesOf(records)));
  }));
  return decode(said);
}

std::vector<MachineShare> Cluster::machinesOf(const std::vector<Bytes> &records) const {
  std::vector<MachineShare> machines;
  std::map<std::string, size_t> numbers;
  for (uint32_t p = 0; p < records.size(); ++p) {
    ByteReader reader(records[p]);
    MachineShare share;
    share.usableBytes = reader.number<uint64_t>();
    share.availableBytes = reader.number<uint64_t>();
    share.cores = reader.number<uint32_t>();
    share.name = reader.text();
    auto [known, isNew] = numbers.emplace(share.name, machines.size());
    if (isNew)
      machines.push_back(share);
    MachineShare &machine = machines[known->second];
    machine.availableBytes = std::min(machine.availableBytes, share.availableBytes);
    machine.ranks.push_back(ranksOf(p));
  }
  return machines;
}

Status Cluster::checkIsShared(const World &world, const std::string &folder) {
  std::error_code error;
  std::string sign = folder + "/.shared";
  Status made;
  if (isRoot(world))
    made = checkpoint::writeText(sign, "This folder is looked for on all machines of a run.\n");
  MAESTRO_TRY(control->meetAgain());
  ByteWriter writer;
  writer.number<uint8_t>(std::filesystem::exists(sign, error));
  uint32_t root = processOf(world.root());
  MAESTRO_ASSIGN(Bytes said, control->askForAll(writer.take(), [&](const std::vector<Bytes> &records) {
    for (uint32_t p = 0; p < records.size(); ++p)
      if (ByteReader reader(records[p]); reader.number<uint8_t>() == 0)
        return encode(Status::invalidInput(
            fmt::format("--out {}: {} does not see there what {} has written; --out must be a folder "
                        "that all machines share",
                        folder, control->nameOf(p), control->nameOf(root))));
    return encode(std::string());
  }));
  if (isRoot(world))
    std::filesystem::remove(sign, error);
  MAESTRO_TRY(std::move(made));
  return decode(said).takeStatus();
}

std::string Cluster::nameOf(uint32_t rank) const {
  return fmt::format("rank {} of {}", rank, control->nameOf(processOf(rank)));
}

Status Cluster::leave() {
  if (fabric) {
    fabric->awaitIdle();
    if (std::string troubles = fabric->troubles(); !troubles.empty())
      logWarning(fmt::format("{}, {}: while this ran its counters of trouble have grown: {}; the run is right, and may "
                             "have been slower (docs/cluster.md)",
                             control->nameOf(control->process()), fabric->name(), troubles));
  }
  return control->leave();
}

} // namespace maestro::executor

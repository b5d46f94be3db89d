#include "planner/emit/emit_plan.h"

#include "planner/emit/emitter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace maestro::planner {

namespace fb = plan::fb;

Result<EmittedPlan> PlanEmitter::run() {
  declareSymbols();
  addComponents();
  addFields();
  MAESTRO_TRY(addParameters());
  addLosses();
  addTraining();
  addMachine();
  addSections();
  addEdges();
  findHolders();
  emitted.devices.resize(input.machine.devices);
  for (size_t s = 0; s < stages.size(); ++s)
    MAESTRO_TRY(addExecutable(s));
  addStations();
  MAESTRO_TRY(addGradientSums());
  addPrediction();
  addDecisions();
  addSources();
  plan.workload_hash = workloadHash();
  emitted.fits = true;
  for (uint32_t device = 0; device < input.machine.devices; ++device)
    emitted.fits &= emitted.devices[device].peakBytes <= input.machine.memoryBytes(device);
  emitted.tables = builder.take();
  return std::move(emitted);
}

/// Of all parameters, or of a group.
template <typename Table> static void describe(const OptimizerSpec &optimizer, Table &to) {
  constexpr fb::Optimizer kKinds[] = {fb::Optimizer::Sgd, fb::Optimizer::Adam, fb::Optimizer::AdamW,
                                      fb::Optimizer::Muon, fb::Optimizer::Adafactor}; // OptimizerSpec::Kind
  to.optimizer = kKinds[static_cast<size_t>(optimizer.kind)];
  to.lr = optimizer.lr;
  to.beta1 = optimizer.beta1;
  to.beta2 = optimizer.beta2;
  to.eps = optimizer.eps;
  to.momentum = optimizer.momentum;
  to.nesterov = optimizer.nesterov;
  to.iterations = static_cast<uint32_t>(optimizer.iterations);
  to.match_rms = optimizer.matchRms;
  to.beta2_decay = optimizer.beta2Decay;
  to.eps2 = optimizer.eps2;
  to.clip = optimizer.clip;
}

void PlanEmitter::addTraining() {
  const TrainSpec &train = input.workload->train;
  fb::TrainingT &training = *plan.training;
  training.global_batch = train.globalBatch;
  describe(train.optimizer, training);
  for (const OptimizerSpec &group : train.groups)
    describe(group, *training.groups.emplace_back(std::make_unique<fb::ParameterGroupT>()));
  training.ema_decay = train.emaDecay;
  training.clip_grad_norm = train.clipGradNorm.value_or(0);
  ScheduleSpec schedule = train.schedule.value_or(ScheduleSpec());
  training.decay = static_cast<fb::Decay>(schedule.decay); // In the same order.
  training.decay_steps = static_cast<uint64_t>(schedule.decaySteps);
  training.warmup_steps = static_cast<uint64_t>(schedule.warmupSteps);
  training.total_steps = static_cast<uint64_t>(schedule.totalSteps);
  training.min_lr = schedule.minLr;
  training.seed = train.seed;
  training.bad_steps = static_cast<uint32_t>(train.badSteps);
}

void PlanEmitter::addMachine() {
  const cost_models::Machine &machine = input.machine;
  plan.machine->name = input.machineName;
  std::vector<std::string> kinds;
  for (const cost_models::DeviceModel &kind : machine.kinds)
    if (std::find(kinds.begin(), kinds.end(), kind.kind) == kinds.end())
      kinds.push_back(kind.kind);
  plan.machine->device_kind = fmt::format("{}", fmt::join(kinds, "+"));
  plan.machine->devices = machine.devices;
  plan.machine->nodes = input.nodes;
  plan.machine->memory_bytes =
      std::min_element(machine.kinds.begin(), machine.kinds.end(), [](const auto &a, const auto &b) {
        return a.memoryBytes < b.memoryBytes;
      })->memoryBytes;
  for (const cost_models::LinkLevel &level : machine.links) {
    fb::LinkT &link = *plan.machine->links.emplace_back(std::make_unique<fb::LinkT>());
    link.name = level.name;
    link.spans = level.spans;
    link.bandwidth = level.bandwidth.value;
    link.latency = level.latency.value;
  }
  for (uint32_t device = 0; device < machine.devices; ++device) {
    if (device == 0 || machine.kindIndex(device) != machine.kindIndex(device - 1)) {
      fb::DeviceKindT &kind = *plan.machine->device_kinds.emplace_back(std::make_unique<fb::DeviceKindT>());
      kind.name = machine.device(device).name;
      kind.memory_bytes = machine.memoryBytes(device);
    }
    ++plan.machine->device_kinds.back()->devices;
  }
}

std::unique_ptr<fb::DecisionT> decisionTable(const Decision &decision) {
  auto table = std::make_unique<fb::DecisionT>();
  table->subject = decision.subject;
  table->choice = decision.choice;
  table->reason = decision.reason;
  table->is_default = decision.isDefault;
  return table;
}

void PlanEmitter::addDecisions() {
  for (const Decision &decision : input.decisions)
    plan.decisions.push_back(decisionTable(decision));
}

/// Equal for plans of the same workload, however they are laid out.
uint64_t PlanEmitter::workloadHash() const {
  std::string text;
  for (const auto &parameter : plan.parameters)
    text += fmt::format("{} {} {} {}\n", parameter->component, parameter->name, fmt::join(parameter->shape, ","),
                        parameter->trainable);
  for (const auto &loss : plan.losses)
    text += fmt::format("{} {} {}\n", loss->name, loss->weight, loss->term_weight);
  text += fmt::format("{} {}\n", plan.training->global_batch, static_cast<int>(plan.training->optimizer));
  for (size_t p = 0; p < plan.parameters.size(); ++p)
    if (uint32_t group = plan.parameters[p]->group; group > 0)
      text += fmt::format("{} {}\n", p, static_cast<int>(plan.training->groups[group - 1]->optimizer));
  if (plan.training->ema_decay > 0)
    text += "averages\n";
  return plan::hashBytes({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

const DeviceMemory &EmittedPlan::fullest() const {
  return *std::max_element(devices.begin(), devices.end(),
                           [](const DeviceMemory &a, const DeviceMemory &b) { return a.peakBytes < b.peakBytes; });
}

Result<EmittedPlan> emitPlan(const EmitInput &input) { return PlanEmitter(input).run(); }

} // namespace maestro::planner

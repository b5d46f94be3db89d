// One executable for each stage, and the memory that it takes.
#include "planner/emit/emitter.h"

#include "cost_models/collectives.h"
#include "cost_models/cpu_memory.h"
#include "passes/attributes.h"
#include "plan/dims.h"
#include "plan/sum_turns.h"
#include "planner/emit/host_memory.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

namespace maestro::planner {

namespace fb = plan::fb;

LoweringInput PlanEmitter::loweringInput(size_t index) const {
  const Stage &stage = stages[index];
  section::SectionOp op = stage.op;
  mlir::ModuleOp body = op.getBody();
  LoweringInput lowering;
  lowering.count = body.lookupSymbol<mlir::func::FuncOp>(attributes::kCountFunction);
  lowering.forward = body.lookupSymbol<mlir::func::FuncOp>(attributes::kForwardFunction);
  lowering.backward = body.lookupSymbol<mlir::func::FuncOp>(attributes::kBackwardFunction);
  lowering.weightGradient = body.lookupSymbol<mlir::func::FuncOp>(attributes::kWeightGradientFunction);
  lowering.evaluate = body.lookupSymbol<mlir::func::FuncOp>(attributes::kEvaluateFunction);
  std::map<std::string, SplitParameter> parts = splitParametersOf(body);
  for (uint32_t p = 0; p < input.graph->parameters.size(); ++p) {
    const GraphParameter &source = input.graph->parameters[p];
    bool present = llvm::is_contained(holders[p], index), owned = holders[p].front() == index;
    lowering.parameters.push_back({present, owned, source.fullName, source.dtype, source.shape, source.trainable,
                                   plan.parameters[p]->weight_decay, plan.parameters[p]->group});
    if (auto part = parts.find(source.fullName); part != parts.end()) {
      lowering.parameters.back().shape = part->second.shape;
      lowering.parameters.back().splitDim = part->second.dim;
    }
  }
  lowering.tensor = static_cast<uint32_t>(stage.layout->tensor);
  lowering.fields = fieldIndex;
  lowering.losses = lossIndex;
  lowering.limits = &stage.limits;
  lowering.training = plan.training.get();
  lowering.edges = edgeIndex;
  lowering.slots = stage.slots;
  lowering.depths = depths;
  lowering.devices = devicesOf(stage);
  lowering.machine = &input.machine;
  lowering.works = input.works.get();
  return lowering;
}

/// What works on a parameter as a whole cannot update parts of it.
Status PlanEmitter::checkUpdatesAreWhole(const LoweringInput &lowering) const {
  for (const ParameterSlot &parameter : lowering.parameters) {
    plan::GroupOptimizer optimizer = plan::optimizerOf(*plan.training, parameter.group);
    if (parameter.splitDim != plan::kNone && parameter.trainable && !optimizer.worksByElement())
      return Status::invalidInput(fmt::format(
          "{}: is split over {} devices, and {} updates it as a whole; plan with --pin '*.tensor=1', or name another "
          "optimizer for it in train.optimizer",
          parameter.name, lowering.tensor, fb::EnumNameOptimizer(optimizer.kind)));
  }
  return Status();
}

Status PlanEmitter::addExecutable(size_t index) {
  const Stage &stage = stages[index];
  LoweringInput lowering = loweringInput(index);
  MAESTRO_TRY(checkUpdatesAreWhole(lowering));
  auto executable = std::make_unique<fb::ExecutableT>();
  executable->name = stages[index].op.getName().str();
  executable->section = stage.section;
  executable->stage = stageNumber(stage);
  executable->samples = stage.limits.samples;
  MAESTRO_ASSIGN(LoweringReport report, lowerExecutable(lowering, builder, *executable));
  for (const std::string &edge : report.heldEdges)
    plan.edges[edgeIndex.at(edge)]->held_until_backward = true;
  emitted.reports.push_back(std::move(report));
  for (const auto &[name, value] : stage.limits.bounds) {
    auto bound = std::make_unique<fb::BoundT>();
    bound->symbol = builder.symbolIndex(name);
    bound->value = value;
    executable->bounds.push_back(std::move(bound));
  }
  for (const plan::Capacity::Area &own : stage.limits.capacity.areas) {
    auto area = std::make_unique<fb::AreaT>();
    area->rows = builder.symbolIndex(input.graph->dims[own.rows].name);
    area->padded = builder.symbolIndex(input.graph->dims[own.padded].name);
    area->value = own.value;
    executable->areas.push_back(std::move(area));
  }
  accountMemory(stage, *executable);
  predictUpdate(stage, *executable);
  plan.executables.push_back(std::move(executable));
  return Status();
}

void PlanEmitter::accountMemory(const Stage &stage, fb::ExecutableT &executable) {
  uint64_t bytes = 0, resident = 0;
  for (const auto &region : executable.regions) {
    uint64_t size = region->bytes * region->copies;
    bytes += size;
    bool perMicroBatch = region->kind == fb::RegionKind::Slot || region->kind == fb::RegionKind::Workspace ||
                         region->kind == fb::RegionKind::Channel;
    resident += perMicroBatch ? 0 : size;
  }
  // What a GPU's process takes before is kept off its memory (DeviceModel.kept).
  bool onCpu = input.machine.kinds.front().multiprocessors == 0;
  // An executable may run on any kind of the machine's devices.
  bool isNative = llvm::all_of(input.machine.kinds, [](const cost_models::DeviceModel &kind) {
    return kind.bf16Products == cost_models::Bf16Products::Native;
  });
  auto bf16 = isNative ? cost_models::Bf16Products::Native : cost_models::Bf16Products::Widened;
  HostBytes host;
  for (const DimSizes &sizes : stage.limits.largest) {
    std::vector<int64_t> values = exprsAt(sizes);
    HostBytes at =
        onCpu ? hostBytes(plan, executable, values, hostThreads(), bf16) : gpuBytes(plan, executable, values);
    host = {std::max(host.own, at.own), std::max(host.scratch, at.scratch), at.process};
  }
  executable.peak_bytes = host.all() + bytes;
  uint64_t staging = reductionBytes(stage);
  if (stage.layout->tensor > 1) // Two turns of what the others send.
    staging += 2 * kExchangeBytes * static_cast<uint64_t>(stage.layout->tensor - 1);
  for (size_t replica = 0; replica < stage.layout->replicas(); ++replica)
    for (uint32_t number : stage.layout->group(replica, executable.stage)) {
      DeviceMemory &device = emitted.devices[number];
      bool first = device.stations.empty(); // Stations of one device share its process, and its kernels' scratch.
      uint64_t scratch = std::max(host.scratch, device.scratchBytes);
      device.peakBytes += bytes + staging + host.own + (first ? host.process : 0) + scratch - device.scratchBytes;
      device.scratchBytes = scratch;
      device.residentBytes += resident;
      device.stations.push_back(executable.name);
    }
}

/// Staging of the sums of gradients that others hold, too: a block per set of holders.
uint64_t PlanEmitter::reductionBytes(const Stage &stage) const {
  size_t self = static_cast<size_t>(&stage - stages.data());
  std::map<std::vector<size_t>, uint64_t> elements;
  for (size_t p = 0; p < holders.size(); ++p)
    if (const GraphParameter &parameter = input.graph->parameters[p];
        parameter.trainable && llvm::is_contained(holders[p], self))
      elements[holders[p]] +=
          std::accumulate(parameter.shape.begin(), parameter.shape.end(), uint64_t{1}, std::multiplies<>());
  uint64_t bytes = 0;
  for (const auto &[set, count] : elements) {
    std::vector<uint32_t> degrees = sumDegrees(set);
    plan::SumStages sumStages(degrees);
    bytes += plan::sumTurns(count, sumStages, sumStagingBytes()).stagingBytes(sumStages.members());
  }
  return bytes;
}

uint64_t PlanEmitter::sumStagingBytes() const {
  return input.machine.stagingBytes > 0 ? input.machine.stagingBytes : plan::kSumStagingBytes;
}

/// Of the sum of what these stages hold.
std::vector<uint32_t> PlanEmitter::sumDegrees(const std::vector<size_t> &holding) const {
  std::vector<uint32_t> devices;
  for (size_t holder : holding) {
    std::vector<uint32_t> own = replicaDevices(stages[holder]);
    devices.insert(devices.end(), own.begin(), own.end());
  }
  return cost_models::sumDegrees(devices, input.machine);
}

/// The first of each replica: what the others hold of split tensors is added up at the same time.
std::vector<uint32_t> PlanEmitter::replicaDevices(const Stage &stage) const {
  std::vector<uint32_t> devices;
  for (size_t replica = 0; replica < stage.layout->replicas(); ++replica)
    devices.push_back(stage.layout->group(replica, stageNumber(stage)).front());
  return devices;
}

/// All of its replicas', in their order.
std::vector<uint32_t> PlanEmitter::devicesOf(const Stage &stage) const {
  std::vector<uint32_t> devices;
  for (size_t replica = 0; replica < stage.layout->replicas(); ++replica)
    for (uint32_t device : stage.layout->group(replica, stageNumber(stage)))
      devices.push_back(device);
  return devices;
}

int PlanEmitter::hostThreads() const {
  if (input.deviceThreads)
    return static_cast<int>(input.deviceThreads);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// Plan.exprs.
std::vector<int64_t> PlanEmitter::exprsAt(const DimSizes &sizes) const {
  std::vector<int64_t> symbols, values(plan.exprs.size());
  for (const auto &symbol : plan.symbols)
    symbols.push_back(sizes.at(symbol->name));
  plan::evaluateDefined(plan.exprs, symbols, values);
  return values;
}

} // namespace maestro::planner

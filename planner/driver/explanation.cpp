#include "planner/driver/explanation.h"

namespace maestro::planner {

namespace fb = plan::fb;

std::vector<Quantity> machineQuantities(const cost_models::Machine &machine, const ClusterSpec &cluster) {
  std::vector<Quantity> list;
  for (size_t kind = 0; kind < machine.kinds.size(); ++kind) {
    const cost_models::DeviceModel &device = machine.kinds[kind];
    std::string prefix = machine.kinds.size() == 1 ? "device." : "device " + device.kind + ".";
    bool isMeasured = kind < cluster.devices.size() && (cluster.devices[kind].ends_with(".yaml") || cluster.devices[kind].ends_with(".yml"));
    auto add = [&](const char *name, double value, const char *unit, const char *builtIn) {
      list.push_back({prefix + name, value, unit, isMeasured ? "measured by maestro-profile: " + cluster.devices[kind] : builtIn});
    };
    add("flops_per_second", device.rates.arithmetic.value, "FLOP/s",
        "built in: 100 GFLOP/s a thread in f32, as oneDNN's products were measured on servers with AVX-512");
    add("operand_bytes_per_second", device.rates.operands.value, "B/s",
        "assumed: 8 GB/s a thread, a core's share of a server socket's memory bandwidth");
    add("stream_bytes_per_second", device.rates.stream.value, "B/s", "assumed: 8 GB/s a thread; sums of gradients, norm and update run at it");
    add("call_seconds", device.rates.call.value, "s", "assumed, of every kernel call beside its work");
    add("channel_bytes_per_second", device.rates.channel.value, "B/s", "assumed: a copy by one core");
    add("wake_seconds", device.rates.wake.value, "s", "assumed: waking who waits");
  }
  for (const cost_models::LinkLevel &level : machine.links) {
    list.push_back({"link " + level.name + ".bytes_per_second", level.bandwidth.value, "B/s", "declared in the cluster file, per device and direction"});
    list.push_back({"link " + level.name + ".latency_seconds", level.latency.value, "s", "declared in the cluster file"});
  }
  return list;
}

void addExplanation(const Explanation &explanation, fb::PlanT &plan) {
  for (const Candidate &source : explanation.candidates) {
    fb::CandidateT &candidate = *plan.candidates.emplace_back(std::make_unique<fb::CandidateT>());
    candidate.kind = static_cast<fb::CandidateKind>(source.kind);
    candidate.subject = source.subject;
    candidate.choice = source.choice;
    candidate.step_seconds = source.stepSeconds;
    candidate.missing_bytes = source.missingBytes;
    candidate.in_file_order = source.inFileOrder;
    candidate.reason = source.reason;
  }
  for (const Limit &source : explanation.limits) {
    fb::LimitT &limit = *plan.limits.emplace_back(std::make_unique<fb::LimitT>());
    limit.kind = static_cast<fb::LimitKind>(source.kind);
    limit.place = source.place;
    limit.used = source.used;
    limit.limit = source.limit;
    limit.reason = source.reason;
  }
  for (const Quantity &source : explanation.quantities) {
    fb::QuantityT &quantity = *plan.quantities.emplace_back(std::make_unique<fb::QuantityT>());
    quantity.name = source.name;
    quantity.value = source.value;
    quantity.unit = source.unit;
    quantity.source = source.source;
  }
}

} // namespace maestro::planner

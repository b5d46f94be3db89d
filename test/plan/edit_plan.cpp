// Plans that the planner would never make, for tests of who reads them.
//
//   edit_plan PLAN OUT without-proof          no section asks for samples of equal length, as if padding never showed
//   edit_plan PLAN OUT unwritten-gradient     a call that writes a gradient of its own adds nothing to itself instead
//   edit_plan PLAN OUT zero_stage=3           and likewise context_parallel, expert_parallel: of all sections
#include "plan/builder.h"
#include "plan/plan.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace maestro::plan {
namespace {

uint32_t kernelOf(fb::PlanT &plan, std::string_view name) {
  for (uint32_t i = 0; i < plan.kernels.size(); ++i)
    if (plan.kernels[i] == name)
      return i;
  plan.kernels.emplace_back(name);
  return static_cast<uint32_t>(plan.kernels.size()) - 1;
}

Status removeProof(fb::PlanT &plan) {
  for (auto &symbol : plan.symbols)
    symbol->unpadded.clear();
  for (auto &section : plan.sections)
    section->unpadded.clear();
  return Status();
}

bool accumulates(const fb::PlanT &plan, const fb::CallT &call) {
  if (call.attributes == kNone)
    return false;
  for (const auto &item : plan.attribute_lists[call.attributes]->items)
    if (item->name == "accumulate" && item->ints == std::vector<int64_t>{1})
      return true;
  return false;
}

Status leaveGradientUnwritten(fb::PlanT &plan) {
  for (auto &executable : plan.executables)
    for (auto &program : executable->programs)
      for (auto &call : program->calls) {
        if (plan.kernels[call->kernel] != "reduce_sum" || call->outputs.size() != 1 || !accumulates(plan, *call))
          continue;
        call->kernel = kernelOf(plan, "add_into");
        call->inputs = call->outputs;
        call->attributes = kNone;
        return Status();
      }
  return Status::invalidInput("no call adds to a gradient");
}

Status setDegree(fb::PlanT &plan, std::string_view name, uint32_t value) {
  for (auto &section : plan.sections) {
    fb::LayoutT &layout = *section->layout;
    if (name == "zero_stage")
      layout.zero_stage = static_cast<decltype(layout.zero_stage)>(value);
    else if (name == "context_parallel")
      layout.context_parallel = value;
    else if (name == "expert_parallel")
      layout.expert_parallel = value;
    else
      return Status::invalidInput(fmt::format("there is no edit '{}'", name));
  }
  return Status();
}

Status edit(const std::string &from, const std::string &to, const std::string &what) {
  MAESTRO_ASSIGN(Plan plan, Plan::load(from));
  fb::PlanT tables;
  plan->UnPackTo(&tables);
  size_t equals = what.find('=');
  MAESTRO_TRY(what == "without-proof" ? removeProof(tables)
              : what == "unwritten-gradient"
                  ? leaveGradientUnwritten(tables)
                  : setDegree(tables, what.substr(0, equals), std::atoi(what.substr(equals + 1).c_str())));
  MAESTRO_ASSIGN(std::vector<uint8_t> bytes, finish(tables));
  return writePlan(bytes, to);
}

} // namespace
} // namespace maestro::plan

int main(int argc, char **argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: edit_plan PLAN OUT EDIT\n");
    return 1;
  }
  maestro::Status status = maestro::plan::edit(argv[1], argv[2], argv[3]);
  if (!status.isOk())
    fmt::print(stderr, "edit_plan: {}\n", status.message());
  return status.exitStatus();
}

// Makes a seed of `plan_run` from a plan: small, and by itself.
//
//   plan_seed PLAN.mpl SEED
//
// Values come from initializers instead of files, every rank has one thread, memory is not limited, and what people
// read is left out.
#include "base/dtype.h"
#include "base/log.h"
#include "plan/builder.h"
#include "plan/plan.h"

#include <cstdio>

using namespace maestro;
namespace fb = plan::fb;

static void reduce(fb::PlanT &plan) {
  plan.files.clear();
  for (auto &parameter : plan.parameters) {
    bool holdsFloats = isFloat(static_cast<DType>(parameter->dtype));
    if (parameter->source_file != plan::kNone)
      parameter->initializer = holdsFloats ? fb::Initializer::Uniform : fb::Initializer::Zeros;
    parameter->source_file = plan::kNone;
    parameter->source_offset = parameter->source_bytes = 0;
    parameter->initializer_scale = 0.1;
  }
  for (auto &rank : plan.ranks)
    rank->threads = 1;
  plan.machine->memory_bytes = 0;
  plan.machine->links.clear();
  plan.machine->device_kinds.clear();
  for (auto &executable : plan.executables) {
    executable->peak_bytes = uint64_t{1} << 40;
    for (auto &program : executable->programs)
      for (auto &call : program->calls)
        call->scope = plan::kNone;
  }
  plan.scopes.clear();
  plan.decisions.clear();
  plan.candidates.clear();
  plan.limits.clear();
  plan.quantities.clear();
  plan.step_samples.clear();
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  auto plan = plan::Plan::load(argv[1]);
  if (!plan) {
    logError(plan.status().message());
    return 1;
  }
  plan::PlanBuilder builder;
  (*plan)->UnPackTo(&builder.plan());
  reduce(builder.plan());
  auto bytes = builder.finish();
  Status status = bytes ? plan::writePlan(*bytes, argv[2]) : std::move(bytes).takeStatus();
  if (!status.isOk())
    logError(status.message());
  return status.exitStatus();
}

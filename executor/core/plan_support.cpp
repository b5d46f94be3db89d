#include "executor/core/plan_support.h"

#include "plan/plan_generated.h"

#include <fmt/format.h>

namespace maestro::executor {

namespace fb = plan::fb;

Status checkSupported(const plan::Plan &plan) {
  if (plan->version_minor() == 0 && plan->edges()->size() > 0)
    return Status::invalidInput(
        fmt::format("plan.edges: the plan has {} and format {}.0, which binds no memory to edges; make the "
                    "plan again with maestro-plan",
                    plan->edges()->size(), plan->version_major()));
  if (plan->communicators())
    for (uint32_t i = 0; i < plan->communicators()->size(); ++i)
      if (fb::MeshAxis axis = plan->communicators()->Get(i)->axis(); axis != fb::MeshAxis::Tensor)
        return Status::invalidInput(
            fmt::format("plan.communicators[{}].axis: {}; this executor runs collectives along the "
                        "tensor axis only; plan again without it",
                        i, fb::EnumNameMeshAxis(axis)));
  for (const fb::Executable *executable : *plan->executables())
    for (const fb::Program *program : *executable->programs())
      for (uint32_t c = 0; c < program->calls()->size(); ++c)
        if (fb::CallKind kind = program->calls()->Get(c)->kind(); kind > fb::CallKind::OwnPart)
          return Status::invalidInput(
              fmt::format("{}: call {} of {} is {}, which this executor does not implement; plan again without it",
                          executable->name()->string_view(), c, fb::EnumNameProgramKind(program->kind()),
                          fb::EnumNameCallKind(kind)));
  return Status();
}

} // namespace maestro::executor

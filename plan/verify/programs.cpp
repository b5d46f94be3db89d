// Programs of one executable: kinds, indices, expressions.
#include "plan/collectives.h"
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <array>
#include <vector>

namespace maestro::plan {
namespace {

Status checkDefined(const BoundedExecutable &executable, uint32_t expr, const Place &place) {
  MAESTRO_TRY(checkIndex(place, expr, "expressions", executable.dims.size()));
  if (executable.dims[expr] != DimTable::kUndefined)
    return {};
  return wrong(place, "has no value at the executable's bounds: {}",
               DimTable(executable.plan).explain(expr, executable.dims));
}

class ProgramCheck {
public:
  explicit ProgramCheck(const BoundedExecutable &executable)
      : executable(executable), listsSeen(executable.plan.attribute_lists()->size(), false) {}

  Status check(const fb::Program &program, const Place &place) {
    for (uint32_t i = 0; i < program.fields()->size(); ++i)
      MAESTRO_TRY(
          checkIndex(place.item("fields", i), program.fields()->Get(i), "fields", executable.plan.fields()->size()));
    MAESTRO_TRY(checkDefined(executable, program.flops(), place / "flops"));
    MAESTRO_TRY(checkDefined(executable, program.memory_bytes(), place / "memory_bytes"));
    for (uint32_t i = 0; program.cost() && i < program.cost()->size(); ++i)
      MAESTRO_TRY(checkCost(*program.cost()->Get(i), place.item("cost", i)));
    for (uint32_t i = 0; i < program.calls()->size(); ++i)
      MAESTRO_TRY(checkCall(*program.calls()->Get(i), program.kind(), place.item("calls", i)));
    return {};
  }

private:
  Status checkCost(const fb::CostTerm &term, const Place &place) {
    MAESTRO_TRY(executable.work.spend(place, 1 + size_t{term.symbols()->size()}));
    return checkCostTerm(place, term, executable.plan.symbols()->size());
  }

  Status checkCall(const fb::Call &call, fb::ProgramKind program, const Place &place) {
    const fb::Plan &plan = executable.plan;
    MAESTRO_TRY(checkIndex(place / "kernel", call.kernel(), "kernels", plan.kernels()->size()));
    MAESTRO_TRY(checkOperands(*call.inputs(), place, "inputs"));
    MAESTRO_TRY(checkOperands(*call.outputs(), place, "outputs"));
    if (call.scope() != kNone)
      MAESTRO_TRY(checkIndex(place / "scope", call.scope(), "scopes", plan.scopes()->size()));
    MAESTRO_TRY(checkEnum(place / "kind", call.kind()));
    MAESTRO_TRY(checkEnum(place / "axis", call.axis()));
    if (kindOf(plan, call) != fb::CallKind::Kernel)
      MAESTRO_TRY(checkCollective(call, program, place));
    if (call.attributes() == kNone)
      return {};
    MAESTRO_TRY(checkIndex(place / "attributes", call.attributes(), "attribute lists", plan.attribute_lists()->size()));
    return checkAttributes(call.attributes(), place);
  }

  /// Where all ranks of a station run the same programs in the same order. Count runs at the first, Prepare before
  /// there are others to meet.
  static bool meetsOthers(fb::ProgramKind program) {
    return program != fb::ProgramKind::Count && program != fb::ProgramKind::Prepare;
  }

  /// One tensor in, one out, alike; between ranks that there are. The sizes of a micro-batch's tensors are the
  /// executor's to check.
  Status checkCollective(const fb::Call &call, fb::ProgramKind program, const Place &place) const {
    fb::CallKind kind = kindOf(executable.plan, call);
    if ((call.kind() == fb::CallKind::Kernel) != (executable.plan.communicators() == nullptr))
      return wrong(place / "kind", "{}, of a call that is {}, in a plan {} communicators",
                   fb::EnumNameCallKind(call.kind()), fb::EnumNameCallKind(kind),
                   executable.plan.communicators() ? "with" : "without");
    const fb::Layout &layout = *executable.plan.sections()->Get(executable.table.section())->layout();
    uint32_t ranks = call.axis() == fb::MeshAxis::Tensor    ? layout.tensor_parallel()
                     : call.axis() == fb::MeshAxis::Context ? layout.context_parallel()
                                                            : layout.expert_parallel();
    if (ranks < 2)
      return wrong(place / "kernel", "a collective needs several ranks, and there is {} along the {} axis", ranks,
                   fb::EnumNameMeshAxis(call.axis()));
    if (!meetsOthers(program))
      return wrong(place / "kernel", "a {} program does not run at all ranks of a station at the same time",
                   fb::EnumNameProgramKind(program));
    auto type = [&](const flatbuffers::Vector<uint32_t> &buffers) { // kDTypeCount where there is not exactly one.
      return buffers.size() == 1 && buffers.Get(0) != kNone ? executable.buffer(buffers.Get(0)).dtype() : kDTypeCount;
    };
    auto from = type(*call.inputs()), to = type(*call.outputs());
    bool sums = kind == fb::CallKind::AllReduce || kind == fb::CallKind::ReduceScatter;
    if (from != to || from == kDTypeCount || (sums && from != static_cast<int>(DType::F32)))
      return wrong(place, "a collective has one input and one output of the same element type, sums of f32");
    if (kind == fb::CallKind::Permute)
      return checkInt(call.attributes(), "to", 0, ranks - 1, place);
    return kind == fb::CallKind::AllReduce ? Status() : checkParts(call, ranks, place);
  }

  /// `dim` and `count` of a tensor that is cut into the ranks' parts.
  Status checkParts(const fb::Call &call, uint32_t ranks, const Place &place) const {
    const auto &from = *executable.buffer(call.inputs()->Get(0)).shape(),
               &to = *executable.buffer(call.outputs()->Get(0)).shape();
    if (from.size() != to.size())
      return wrong(place, "the input has {} dims and the output {}", from.size(), to.size());
    MAESTRO_TRY(checkInt(call.attributes(), "dim", 0, static_cast<int64_t>(from.size()) - 1, place));
    return checkInt(call.attributes(), "count", ranks, ranks, place);
  }

  Status checkInt(uint32_t list, std::string_view name, int64_t least, int64_t most, const Place &call) const {
    if (list < executable.plan.attribute_lists()->size())
      MAESTRO_TRY(executable.work.spend(call, executable.plan.attribute_lists()->Get(list)->items()->size()));
    if (list < executable.plan.attribute_lists()->size())
      for (const fb::Attribute *item : *executable.plan.attribute_lists()->Get(list)->items())
        if (item->name()->string_view() == name && item->ints() && item->ints()->size() == 1 &&
            item->ints()->Get(0) >= least && item->ints()->Get(0) <= most)
          return {};
    return wrong(call / "attributes", "'{}' is not there, or not one integer in [{}, {}]", name, least, most);
  }

  Status checkOperands(const flatbuffers::Vector<uint32_t> &operands, const Place &call, const char *field) {
    MAESTRO_TRY(executable.work.spend(call / field, operands.size()));
    for (uint32_t i = 0; i < operands.size(); ++i)
      if (operands.Get(i) != kNone)
        MAESTRO_TRY(checkIndex(call.item(field, i), operands.Get(i), "buffers", executable.table.buffers()->size()));
    return {};
  }

  /// Each list once per executable: its expressions must have values at the bounds.
  Status checkAttributes(uint32_t list, const Place &call) {
    if (listsSeen[list])
      return {};
    listsSeen[list] = true;
    const auto &items = *executable.plan.attribute_lists()->Get(list)->items();
    MAESTRO_TRY(executable.work.spend(call / "attributes", items.size()));
    for (const fb::Attribute *item : items) {
      if (!item->exprs())
        continue;
      MAESTRO_TRY(executable.work.spend(call / "attributes", item->exprs()->size()));
      for (uint32_t expr : *item->exprs())
        MAESTRO_TRY(checkDefined(executable, expr, call / "attributes"));
    }
    return {};
  }

  const BoundedExecutable &executable;
  std::vector<bool> listsSeen;
};

} // namespace

Status verifyPrograms(const BoundedExecutable &executable) {
  std::array<bool, static_cast<size_t>(fb::ProgramKind::MAX) + 1> seen{};
  MAESTRO_TRY(executable.work.spend(executable.place, executable.plan.attribute_lists()->size()));
  ProgramCheck check(executable);
  for (uint32_t i = 0; i < executable.table.programs()->size(); ++i) {
    const fb::Program &program = *executable.table.programs()->Get(i);
    Place place = executable.place.item("programs", i);
    MAESTRO_TRY(checkEnum(place / "kind", program.kind()));
    bool &kindSeen = seen[static_cast<size_t>(program.kind())];
    if (kindSeen)
      return wrong(place / "kind", "an earlier program is of kind {}, too", fb::EnumNameProgramKind(program.kind()));
    kindSeen = true;
    MAESTRO_TRY(executable.work.spend(place / "fields", program.fields()->size()));
    MAESTRO_TRY(check.check(program, place));
  }
  bool hasBackward = seen[static_cast<size_t>(fb::ProgramKind::Backward)];
  bool trains = executable.plan.sections()->Get(executable.table.section())->trains();
  bool whole = executable.plan.sections()->Get(executable.table.section())->layout()->stages() == 1;
  if ((hasBackward && !trains) || (trains && whole && !hasBackward)) // A first stage may be all frozen.
    return wrong(executable.place / "programs", "there is {}Backward program, and sections[{}] {}",
                 hasBackward ? "a " : "no ", executable.table.section(), trains ? "trains" : "does not train");
  const fb::Layout &layout = *executable.plan.sections()->Get(executable.table.section())->layout();
  bool splits = layout.stages() - executable.table.stage() <= layout.split_backward();
  if (seen[static_cast<size_t>(fb::ProgramKind::WeightGradient)] && !(hasBackward && splits))
    return wrong(executable.place / "programs", "there is a WeightGradient program, and {}",
                 hasBackward
                     ? fmt::format("split_backward is {} of {} stages", layout.split_backward(), layout.stages())
                     : "no Backward program");
  if (executable.plan.version_minor() > 0 && !seen[static_cast<size_t>(fb::ProgramKind::Evaluate)])
    return wrong(executable.place / "programs", "there is no Evaluate program");
  if (hasBackward && !seen[static_cast<size_t>(fb::ProgramKind::Forward)])
    return wrong(executable.place / "programs", "there is a Backward program without a Forward program");
  return {};
}

} // namespace maestro::plan

// Programs read only bytes that were written, and write only where they may.
//
// What is written is a set of byte intervals per region, of all that buffers may take in any micro-batch
// (Buffer.bytes). Views on the same bytes (reshapes) need no special care then. That an interval is overwritten by
// another value before its last use cannot be seen here: the planner's own checks of its memory layout are for that.
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <algorithm>
#include <map>
#include <vector>

namespace maestro::plan {
namespace {

using Kind = fb::ProgramKind;
using Region = fb::RegionKind;

/// Disjoint intervals [begin, end), merged where they touch.
class Intervals {
public:
  void add(uint64_t begin, uint64_t end) {
    if (begin >= end)
      return;
    auto next = ends.upper_bound(begin);
    if (next != ends.begin() && std::prev(next)->second >= begin) {
      --next;
      begin = next->first;
    }
    while (next != ends.end() && next->first <= end) {
      end = std::max(end, next->second);
      next = ends.erase(next);
    }
    ends.emplace_hint(next, begin, end);
  }

  /// The first byte of [begin, end) that is missing; `end` when none is.
  uint64_t firstMissing(uint64_t begin, uint64_t end) const {
    auto next = ends.upper_bound(begin);
    if (begin >= end)
      return end;
    if (next == ends.begin())
      return begin;
    return std::min(end, std::max(begin, std::prev(next)->second));
  }

private:
  std::map<uint64_t, uint64_t> ends; ///< By begin.
};

using Written = std::vector<Intervals>; ///< By region.

/// Which programs may write a region.
bool mayWrite(Kind program, Region region) {
  bool perStep = program == Kind::Norm || program == Kind::Update || program == Kind::Prepare;
  switch (region) {
  case Region::Parameters:
    return program == Kind::Update || program == Kind::Prepare;
  case Region::Gradients:
    return program == Kind::Backward || program == Kind::WeightGradient || program == Kind::Update;
  case Region::OptimizerState:
    return program == Kind::Update;
  case Region::Constants:
  case Region::Channel: // Others write what arrives.
    return false;
  case Region::Slot:
    return !perStep; // Slots belong to micro-batches.
  default:
    return true;
  }
}

/// Tasks that find the slot as earlier ones of the same micro-batch left it.
bool isBehindForward(Kind program) { return program == Kind::Backward || program == Kind::WeightGradient; }

/// Whether the executor has written a binding's buffer before a program runs.
bool boundBefore(Kind program, fb::BindingKind binding) {
  switch (binding) {
  case fb::BindingKind::LossScale:
    return isBehindForward(program);
  case fb::BindingKind::HyperParameters:
    return program == Kind::Update;
  case fb::BindingKind::RandomState:
  case fb::BindingKind::SampleIds:
    return true;
  case fb::BindingKind::EdgeInput: // Later where it is held: see checkProgram().
    return program == Kind::Forward || program == Kind::Evaluate;
  case fb::BindingKind::EdgeGradientInput:
    return isBehindForward(program);
  default:
    return false; // Values, gradients, moments: see initial(). Fields: by program. The rest is read.
  }
}

struct Call {
  const fb::Call &table;
  const Place &place;
  Kind program;
};

class Dataflow {
public:
  /// Counted by verifyPrograms(): a mask per attribute list.
  explicit Dataflow(const BoundedExecutable &executable)
      : executable(executable), masks(executable.plan.attribute_lists()->size(), kUnread),
        added(executable.table.regions()->size()) {}

  Status check() {
    MAESTRO_TRY(executable.work.spend(executable.place, 8 * size_t{executable.plan.fields()->size()}));
    Written lasting = initial();
    Kind order[] = {Kind::Prepare,        Kind::Count, Kind::Forward, Kind::Backward,
                    Kind::WeightGradient, Kind::Norm,  Kind::Update,  Kind::Evaluate};
    Written slot;
    for (Kind kind : order)
      if (const fb::Program *program = executable.program(kind))
        MAESTRO_TRY(checkProgram(*program, lasting, slot));
    return checkGradients();
  }

private:
  static constexpr int64_t kUnread = -1;

  Region kindOf(uint32_t region) const { return executable.table.regions()->Get(region)->kind(); }
  uint64_t begin(uint32_t buffer) const { return executable.buffer(buffer).offset(); }
  uint64_t end(uint32_t buffer) const { return begin(buffer) + executable.buffer(buffer).bytes(); }

  void markWritten(Written &written, uint32_t buffer) const {
    written[executable.buffer(buffer).region()].add(begin(buffer), end(buffer));
  }

  /// What is there before any program: constants, loaded values; gradients and moments start at zero.
  Written initial() const {
    Written written(executable.table.regions()->size());
    for (uint32_t r = 0; r < written.size(); ++r)
      if (kindOf(r) == Region::Gradients || kindOf(r) == Region::OptimizerState)
        written[r].add(0, executable.table.regions()->Get(r)->bytes());
    for (uint32_t b = 0; b < executable.table.buffers()->size(); ++b)
      if (executable.buffer(b).constant())
        markWritten(written, b);
    for (const fb::Binding *binding : *executable.table.bindings())
      if (binding->kind() == fb::BindingKind::Value)
        markWritten(written, binding->buffer());
    return written;
  }

  void addFields(Written &written, const fb::Program &program) const {
    std::vector<bool> given(executable.plan.fields()->size(), false);
    for (uint32_t field : *program.fields())
      given[field] = true;
    for (const fb::Binding *binding : *executable.table.bindings())
      if (binding->kind() == fb::BindingKind::Field && given[binding->index()])
        markWritten(written, binding->buffer());
  }

  /// `lasting` is what earlier programs left in regions that outlive them, and gains what this one leaves;
  /// `slot` is what Forward leaves in the slot for Backward, and that for WeightGradient.
  Status checkProgram(const fb::Program &program, Written &lasting, Written &slot) {
    Kind kind = program.kind();
    Written written = lasting;
    for (uint32_t r = 0; r < written.size(); ++r)
      if (isBehindForward(kind) && kindOf(r) == Region::Slot)
        written[r] = slot[r];
    addFields(written, program);
    for (const fb::Binding *binding : *executable.table.bindings())
      if (boundBefore(kind, binding->kind()) || (isBehindForward(kind) && isHeld(*binding)))
        markWritten(written, binding->buffer());

    MAESTRO_TRY(checkCalls(program, written));
    MAESTRO_TRY(checkResults(kind, written));
    for (uint32_t r = 0; r < written.size(); ++r)
      if (kindOf(r) != Region::Slot && kindOf(r) != Region::Workspace && kindOf(r) != Region::Channel)
        lasting[r] = written[r];
    if (kind == Kind::Forward || kind == Kind::Backward)
      slot = std::move(written);
    return {};
  }

  bool isHeld(const fb::Binding &binding) const {
    return binding.kind() == fb::BindingKind::EdgeInput &&
           executable.plan.edges()->Get(binding.index())->held_until_backward();
  }

  Status checkCalls(const fb::Program &program, Written &written) {
    size_t number = 0;
    while (executable.table.programs()->Get(static_cast<uint32_t>(number)) != &program)
      ++number;
    Place place = executable.place.item("programs", number);
    for (uint32_t i = 0; i < program.calls()->size(); ++i) {
      Place callPlace = place.item("calls", i);
      MAESTRO_TRY(checkCall({*program.calls()->Get(i), callPlace, program.kind()}, written));
    }
    return {};
  }

  Status checkCall(const Call &call, Written &written) {
    const auto &inputs = *call.table.inputs(), &outputs = *call.table.outputs();
    for (uint32_t i = 0; i < inputs.size(); ++i)
      if (inputs.Get(i) != kNone)
        MAESTRO_TRY(checkRead(call, inputs.Get(i), call.place.item("inputs", i), written));
    int64_t accumulated = accumulateMask(call.table.attributes());
    for (uint32_t i = 0; i < outputs.size(); ++i) {
      if (outputs.Get(i) == kNone)
        continue;
      Place place = call.place.item("outputs", i);
      if (i < 63 && (accumulated >> i & 1))
        MAESTRO_TRY(checkRead(call, outputs.Get(i), place, written));
      Region region = executable.regionOf(outputs.Get(i)).kind();
      if (!mayWrite(call.program, region))
        return wrong(place, "buffers[{}] lies in a region of kind {}, which a {} program may not write", outputs.Get(i),
                     fb::EnumNameRegionKind(region), fb::EnumNameProgramKind(call.program));
    }
    MAESTRO_TRY(checkOverlaps(call));
    for (uint32_t output : outputs) {
      if (output == kNone)
        continue;
      markWritten(written, output);
      if (isBehindForward(call.program))
        markWritten(added, output);
    }
    return {};
  }

  /// A gradient that no task adds to would be zero, and its parameter never trained.
  Status checkGradients() const {
    if (!executable.program(Kind::Backward))
      return {};
    for (const fb::Binding *binding : *executable.table.bindings()) {
      uint32_t buffer = binding->buffer();
      if (binding->kind() != fb::BindingKind::Gradient ||
          added[executable.buffer(buffer).region()].firstMissing(begin(buffer), end(buffer)) >= end(buffer))
        continue;
      return wrong(executable.place / "programs",
                   "neither Backward nor WeightGradient writes buffers[{}], the gradient of "
                   "parameters[{}] ('{}')",
                   buffer, binding->index(),
                   executable.plan.parameters()->Get(binding->index())->name()->string_view());
    }
    return {};
  }

  Status checkRead(const Call &call, uint32_t buffer, const Place &place, const Written &written) const {
    uint32_t region = executable.buffer(buffer).region();
    uint64_t missing = written[region].firstMissing(begin(buffer), end(buffer));
    if (missing >= end(buffer))
      return {};
    return wrong(place, "buffers[{}] ({}) is read at byte {} of region {} ({}) before anything was written there",
                 buffer, executable.plan.kernels()->Get(call.table.kernel())->string_view(), missing, region,
                 fb::EnumNameRegionKind(kindOf(region)));
  }

  bool overlap(uint32_t a, uint32_t b) const {
    return executable.buffer(a).region() == executable.buffer(b).region() && begin(a) < end(b) && begin(b) < end(a) &&
           begin(a) < end(a) && begin(b) < end(b);
  }

  bool coincide(uint32_t a, uint32_t b) const {
    const fb::Buffer &first = executable.buffer(a), &second = executable.buffer(b);
    return begin(a) == begin(b) && end(a) == end(b) && first.dtype() == second.dtype() &&
           std::equal(first.shape()->begin(), first.shape()->end(), second.shape()->begin(), second.shape()->end());
  }

  /// A result may take an operand's place, exactly and in the same shape; results do not overlap each other. Which
  /// kernels can do that with which operand, they say when a call is prepared.
  Status checkOverlaps(const Call &call) const {
    const auto &inputs = *call.table.inputs(), &outputs = *call.table.outputs();
    MAESTRO_TRY(executable.work.spend(call.place, size_t{outputs.size()} * (inputs.size() + outputs.size())));
    for (uint32_t o = 0; o < outputs.size(); ++o) {
      uint32_t output = outputs.Get(o);
      if (output == kNone)
        continue;
      for (uint32_t input : inputs)
        if (input != kNone && overlap(input, output) && !coincide(input, output))
          return wrong(call.place.item("outputs", o),
                       "buffers[{}] overlaps the operand buffers[{}] in part, or has another shape", output, input);
      for (uint32_t other = 0; other < o; ++other)
        if (outputs.Get(other) != kNone && overlap(outputs.Get(other), output))
          return wrong(call.place.item("outputs", o), "buffers[{}] overlaps the result buffers[{}]", output,
                       outputs.Get(other));
    }
    return {};
  }

  /// The bit mask over outputs that a call adds to instead of overwriting them.
  int64_t accumulateMask(uint32_t list) {
    if (list == kNone)
      return 0;
    if (masks[list] == kUnread) {
      masks[list] = 0;
      for (const fb::Attribute *item : *executable.plan.attribute_lists()->Get(list)->items())
        if (item->name()->string_view() == "accumulate" && item->ints() && item->ints()->size() == 1)
          masks[list] = item->ints()->Get(0) & INT64_MAX;
    }
    return masks[list];
  }

  /// What the executor reads after a program must have been written by it.
  Status checkResults(Kind kind, const Written &written) const {
    for (uint32_t i = 0; i < executable.table.bindings()->size(); ++i) {
      const fb::Binding &binding = *executable.table.bindings()->Get(i);
      bool forward = kind == Kind::Forward || kind == Kind::Evaluate;
      bool hasLosses = kind == Kind::Evaluate || kind == Kind::Backward ||
                       (kind == Kind::Forward && !executable.program(Kind::Backward));
      bool isRead = (binding.kind() == fb::BindingKind::LossSum && hasLosses) ||
                    (binding.kind() == fb::BindingKind::EdgeOutput && forward) ||
                    (binding.kind() == fb::BindingKind::EdgeGradientOutput && kind == Kind::Backward) ||
                    (binding.kind() == fb::BindingKind::LossCount && kind == Kind::Count) ||
                    (binding.kind() == fb::BindingKind::NormSquares && kind == Kind::Norm);
      uint32_t buffer = binding.buffer();
      const Intervals &region = written[executable.buffer(buffer).region()];
      if (isRead && region.firstMissing(begin(buffer), end(buffer)) < end(buffer))
        return wrong(executable.place.item("bindings", i), "the {} program does not write buffers[{}], the {}",
                     fb::EnumNameProgramKind(kind), buffer, fb::EnumNameBindingKind(binding.kind()));
    }
    return {};
  }

  const BoundedExecutable &executable;
  std::vector<int64_t> masks; ///< By attribute list.
  Written added;              ///< By Backward and WeightGradient.
};

} // namespace

Status verifyDataflow(const BoundedExecutable &executable) { return Dataflow(executable).check(); }

} // namespace maestro::plan

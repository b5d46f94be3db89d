#include "test/fuzz/plan_mutator.h"

#include "base/dtype.h"
#include "kernels/signature_checker.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace maestro::fuzz {
namespace {

namespace fb = plan::fb;
using plan::kNone;

/// What a number in a plan means, which says what else it may be.
enum class Meaning : uint8_t { Expr, Buffer, Index, Bytes, Count, Value };

/// A place for a number.
struct Slot {
  Meaning meaning;
  uint64_t limit; ///< Of an index or an enum: how many there are.
  std::function<uint64_t()> get;
  std::function<void(uint64_t)> set;
};

class PlanMutator {
public:
  PlanMutator(fb::PlanT &plan, std::mt19937 &random) : plan(plan), random(random) {}

  void change() {
    switch (below(8)) {
    case 0:
      return changeList();
    case 1:
      return deriveExpr();
    case 2:
      return changeExpr();
    case 3:
      return changeCall();
    case 4:
      return moveBuffer();
    default:
      return changeNumber();
    }
  }

private:
  size_t below(size_t limit) { return limit ? random() % limit : 0; }
  bool chance(size_t outOf) { return below(outOf) == 0; }
  template <typename List> auto &pick(List &list) { return list[below(list.size())]; }

  // ---- numbers
  // --------------------------------------------------------------------------------------------------------

  template <typename T> void add(Meaning meaning, T &place, uint64_t limit = 0) {
    slots.push_back({meaning, limit, [&place] { return static_cast<uint64_t>(place); },
                     [&place](uint64_t value) { place = static_cast<T>(value); }});
  }
  void add(double &place) {
    slots.push_back({Meaning::Value, 0, [&place] { return static_cast<uint64_t>(static_cast<int64_t>(place)); },
                     [&place](uint64_t value) { place = static_cast<double>(static_cast<int64_t>(value)); }});
  }
  template <typename T> void addEnum(T &place) { add(Meaning::Index, place, static_cast<uint64_t>(T::MAX) + 1); }
  void addDType(uint8_t &place) { add(Meaning::Index, place, kDTypeCount); }
  void addFlag(bool &place) { add(Meaning::Index, place, 2); }
  void addExprs(std::vector<uint32_t> &list) {
    for (uint32_t &expr : list)
      add(Meaning::Expr, expr, plan.exprs.size());
  }
  void addIndices(std::vector<uint32_t> &list, size_t limit) {
    for (uint32_t &index : list)
      add(Meaning::Index, index, limit);
  }

  void collectData() {
    for (auto &symbol : plan.symbols) {
      addEnum(symbol->combine);
      add(Meaning::Count, symbol->sample_max);
      add(Meaning::Count, symbol->multiple_of);
    }
    for (auto &field : plan.fields) {
      addDType(field->dtype);
      addExprs(field->shape);
      add(field->pad);
      add(Meaning::Count, field->index_limit);
      add(Meaning::Value, field->ignore_index);
      addFlag(field->has_ignore_index);
      addFlag(field->optional);
      addFlag(field->own_positions);
    }
    for (auto &component : plan.components)
      addFlag(component->frozen);
    for (auto &parameter : plan.parameters) {
      add(Meaning::Index, parameter->component, plan.components.size());
      addEnum(parameter->kind);
      for (int64_t &dim : parameter->shape)
        add(Meaning::Count, dim);
      addDType(parameter->dtype);
      addFlag(parameter->trainable);
      addDType(parameter->source_dtype);
      addFlag(parameter->source_transposed);
      addEnum(parameter->initializer);
    }
    for (auto &list : plan.attribute_lists)
      for (auto &attribute : list->items) {
        for (int64_t &value : attribute->ints)
          add(Meaning::Count, value);
        addExprs(attribute->exprs);
      }
  }

  void collectExecutable(fb::ExecutableT &executable) {
    for (auto &region : executable.regions) {
      addEnum(region->kind);
      add(Meaning::Bytes, region->bytes);
      add(Meaning::Count, region->copies);
      add(Meaning::Index, region->edge, plan.edges.size());
      addFlag(region->gradient);
    }
    for (auto &buffer : executable.buffers) {
      addDType(buffer->dtype);
      addExprs(buffer->shape);
      add(Meaning::Index, buffer->region, executable.regions.size());
      add(Meaning::Bytes, buffer->offset);
      add(Meaning::Bytes, buffer->bytes);
    }
    for (auto &program : executable.programs) {
      addEnum(program->kind);
      addIndices(program->fields, plan.fields.size());
      for (auto &call : program->calls) {
        add(Meaning::Index, call->kernel, plan.kernels.size());
        add(Meaning::Index, call->attributes, plan.attribute_lists.size());
        for (auto *list : {&call->inputs, &call->outputs})
          for (uint32_t &buffer : *list)
            add(Meaning::Buffer, buffer, executable.buffers.size());
      }
    }
    for (auto &binding : executable.bindings) {
      addEnum(binding->kind);
      add(Meaning::Index, binding->index, 4);
      add(Meaning::Buffer, binding->buffer, executable.buffers.size());
      add(Meaning::Index, binding->split_dim, 3);
    }
    for (auto &bound : executable.bounds)
      add(Meaning::Count, bound->value);
    for (auto &area : executable.areas)
      add(Meaning::Count, area->value);
    add(Meaning::Count, executable.samples);
    add(Meaning::Index, executable.section, plan.sections.size());
    add(Meaning::Index, executable.stage, 2);
  }

  void collectPlaces() {
    for (auto &section : plan.sections) {
      addFlag(section->trains);
      add(Meaning::Count, section->micro_batch_samples);
      add(Meaning::Count, section->layout->data_parallel);
      add(Meaning::Count, section->layout->stages);
      add(Meaning::Count, section->layout->tensor_parallel);
      add(Meaning::Count, section->layout->split_backward);
      addIndices(section->active, plan.symbols.size());
    }
    for (auto &edge : plan.edges) {
      add(Meaning::Index, edge->producer, plan.sections.size());
      add(Meaning::Index, edge->consumer, plan.sections.size());
      add(Meaning::Index, edge->producer_stage, 2);
      add(Meaning::Index, edge->consumer_stage, 2);
      addDType(edge->dtype);
      addExprs(edge->shape);
      addFlag(edge->carries_gradient);
      addFlag(edge->held_until_backward);
    }
    for (auto &station : plan.stations) {
      add(Meaning::Index, station->executable, plan.executables.size());
      add(Meaning::Index, station->replica, 2);
      addIndices(station->ranks, plan.ranks.size());
    }
    for (auto &sum : plan.gradient_sums) {
      addIndices(sum->parameters, plan.parameters.size());
      addIndices(sum->stations, plan.stations.size());
    }
    for (auto &loss : plan.losses)
      add(loss->weight);
    add(Meaning::Count, plan.training->global_batch);
    addEnum(plan.training->optimizer);
    add(plan.training->momentum);
    add(plan.training->clip_grad_norm);
    add(Meaning::Index, plan.version_minor, 2);
  }

  void collect() {
    slots.clear();
    collectData();
    for (auto &executable : plan.executables)
      collectExecutable(*executable);
    collectPlaces();
  }

  uint64_t other(const Slot &slot) {
    uint64_t old = slot.get();
    switch (slot.meaning) {
    case Meaning::Expr:
    case Meaning::Buffer:
    case Meaning::Index:
      return chance(16) ? kNone : chance(4) ? old + 1 - 2 * below(2) : below(slot.limit);
    case Meaning::Bytes: {
      const uint64_t bytes[] = {old + 64, old - 64, old * 2, old / 2, old + 8, 0, 64, old + 4096, uint64_t{1} << 62};
      return chance(4) ? pick(slots).get() / 64 * 64 : bytes[below(std::size(bytes))];
    }
    default: {
      const uint64_t counts[] = {old + 1, old - 1, old * 2, old / 2, 0, 1, 2, 8, uint64_t{1} << 31, ~uint64_t{0}};
      return chance(4) ? below(16) : counts[below(std::size(counts))];
    }
    }
  }

  void changeNumber() {
    collect();
    Slot &slot = pick(slots);
    slot.set(other(slot));
  }

  // ---- expressions
  // ----------------------------------------------------------------------------------------------------

  uint32_t append(fb::DimOp op, int64_t a, int64_t b) {
    plan.exprs.emplace_back(op, a, b);
    return static_cast<uint32_t>(plan.exprs.size() - 1);
  }

  /// Something that often equals the expression at the bounds, and not below.
  uint32_t derived(uint32_t expr) {
    int64_t e = expr, small = append(fb::DimOp::Constant, 1 + static_cast<int64_t>(below(chance(2) ? 4 : 64)), 0);
    switch (below(6)) {
    case 0:
      return append(fb::DimOp::Min, e, small);
    case 1:
      return append(fb::DimOp::Max, e, small);
    case 2:
      return append(fb::DimOp::Mod, e, small);
    case 3: {
      uint32_t rest = append(fb::DimOp::Mod, e, small);
      return append(fb::DimOp::Add, e, rest);
    }
    case 4: {
      uint32_t quotient = append(fb::DimOp::FloorDiv, e, small);
      return append(fb::DimOp::Mul, quotient, small);
    }
    default: {
      uint32_t least = append(fb::DimOp::Min, e, small), minus = append(fb::DimOp::Constant, -1, 0);
      uint32_t negative = append(fb::DimOp::Mul, least, minus), sum = append(fb::DimOp::Add, e, negative);
      return append(fb::DimOp::Add, sum, small);
    }
    }
  }

  /// In one place, or wherever it is used.
  void deriveExpr() {
    collect();
    std::vector<Slot *> uses;
    for (Slot &slot : slots)
      if (slot.meaning == Meaning::Expr)
        uses.push_back(&slot);
    if (uses.empty() || plan.exprs.size() > 4096)
      return;
    auto old = static_cast<uint32_t>(pick(uses)->get());
    if (old >= plan.exprs.size())
      return;
    uint32_t fresh = derived(old);
    bool everywhere = chance(2);
    std::shuffle(uses.begin(), uses.end(), random);
    for (Slot *use : uses)
      if (use->get() == old) {
        use->set(fresh);
        if (!everywhere)
          return;
      }
  }

  void changeExpr() {
    if (plan.exprs.empty())
      return;
    size_t at = below(plan.exprs.size());
    fb::DimExpr old = plan.exprs[at];
    auto op = chance(3) ? static_cast<fb::DimOp>(below(9)) : old.op();
    int64_t a = old.a(), b = old.b();
    if (op == fb::DimOp::Constant)
      a = chance(2) ? static_cast<int64_t>(below(32)) : a + 1 - 2 * static_cast<int64_t>(below(2));
    else if (op == fb::DimOp::Symbol)
      a = static_cast<int64_t>(below(plan.symbols.size()));
    else if (chance(2))
      a = static_cast<int64_t>(below(at));
    else
      b = static_cast<int64_t>(below(at));
    plan.exprs[at] = fb::DimExpr(op, a, b);
  }

  // ---- lists
  // ----------------------------------------------------------------------------------------------------------

  template <typename T> void addList(std::vector<std::unique_ptr<T>> &list) {
    if (!list.empty())
      lists.push_back([this, &list] {
        size_t at = below(list.size());
        switch (below(4)) {
        case 0:
          list.erase(list.begin() + static_cast<ptrdiff_t>(at));
          return;
        case 1:
          std::swap(list[at], list[below(list.size())]);
          return;
        case 2:
          list.insert(list.begin() + static_cast<ptrdiff_t>(at), std::make_unique<T>(*list[at]));
          return;
        default:
          list.push_back(std::make_unique<T>(*list[at]));
        }
      });
  }
  void addList(std::vector<uint32_t> &list, size_t limit) {
    lists.push_back([this, &list, limit] {
      if (list.empty() || chance(3))
        list.insert(list.begin() + static_cast<ptrdiff_t>(below(list.size() + 1)), static_cast<uint32_t>(below(limit)));
      else if (chance(2))
        list.erase(list.begin() + static_cast<ptrdiff_t>(below(list.size())));
      else
        std::swap(pick(list), pick(list));
    });
  }

  void changeList() {
    lists.clear();
    addList(plan.fields);
    addList(plan.parameters);
    addList(plan.edges);
    addList(plan.stations);
    addList(plan.ranks);
    addList(plan.losses);
    addList(plan.gradient_sums);
    addList(plan.sections);
    addList(plan.executables);
    for (auto &list : plan.attribute_lists)
      addList(list->items);
    for (auto &field : plan.fields)
      addList(field->shape, plan.exprs.size());
    for (auto &edge : plan.edges)
      addList(edge->shape, plan.exprs.size());
    for (auto &executable : plan.executables) {
      addList(executable->regions);
      addList(executable->buffers);
      addList(executable->programs);
      addList(executable->bindings);
      addList(executable->bounds);
      addList(executable->areas);
      for (auto &program : executable->programs) {
        addList(program->calls);
        addList(program->fields, plan.fields.size());
      }
      if (!executable->buffers.empty())
        addList(pick(executable->buffers)->shape, plan.exprs.size());
    }
    if (!lists.empty())
      pick(lists)();
  }

  // ---- calls and memory
  // -----------------------------------------------------------------------------------------------

  fb::ExecutableT *someExecutable() {
    if (plan.executables.empty())
      return nullptr;
    fb::ExecutableT *executable = pick(plan.executables).get();
    return executable->buffers.empty() ? nullptr : executable;
  }

  static const std::vector<std::string> &kernelNames() {
    static const std::vector<std::string> names = [] {
      std::vector<std::string> list = {"all_reduce", "all_gather", "own_part"};
      for (auto rules :
           {kernels::elementwiseRules(), kernels::movementRules(), kernels::productRules(), kernels::trainingRules()})
        for (const kernels::SignatureRule &rule : rules)
          list.emplace_back(rule.name);
      return list;
    }();
    return names;
  }

  uint32_t kernel(const std::string &name) {
    auto found = std::find(plan.kernels.begin(), plan.kernels.end(), name);
    if (found == plan.kernels.end())
      found = plan.kernels.insert(plan.kernels.end(), name);
    return static_cast<uint32_t>(found - plan.kernels.begin());
  }

  /// Another buffer, most often one of the same type.
  uint32_t likeBuffer(const fb::ExecutableT &executable, uint32_t old) {
    if (old >= executable.buffers.size() || chance(4))
      return static_cast<uint32_t>(below(executable.buffers.size()));
    const fb::BufferT &model = *executable.buffers[old];
    std::vector<uint32_t> alike;
    for (uint32_t b = 0; b < executable.buffers.size(); ++b)
      if (executable.buffers[b]->dtype == model.dtype && executable.buffers[b]->shape == model.shape)
        alike.push_back(b);
    return pick(alike);
  }

  void changeCall() {
    fb::ExecutableT *executable = someExecutable();
    if (!executable || executable->programs.empty())
      return;
    fb::ProgramT &program = *pick(executable->programs);
    if (program.calls.empty() || chance(8)) { // One from anywhere.
      fb::ProgramT &from = *pick(executable->programs);
      if (!from.calls.empty())
        program.calls.insert(program.calls.begin() + static_cast<ptrdiff_t>(below(program.calls.size() + 1)),
                             std::make_unique<fb::CallT>(*pick(from.calls)));
      return;
    }
    fb::CallT &call = *pick(program.calls);
    if (chance(5))
      call.kernel = kernel(pick(kernelNames()));
    if (chance(20))
      call.kind = static_cast<fb::CallKind>(below(static_cast<size_t>(fb::CallKind::MAX) + 2));
    auto &operands = chance(2) ? call.inputs : call.outputs;
    if (!operands.empty())
      pick(operands) = likeBuffer(*executable, pick(operands));
  }

  /// Where another one lies, or larger.
  void moveBuffer() {
    fb::ExecutableT *executable = someExecutable();
    if (!executable)
      return;
    fb::BufferT &buffer = *pick(executable->buffers), &target = *pick(executable->buffers);
    if (chance(2)) {
      buffer.region = target.region;
      buffer.offset = target.offset + 64 * below(chance(2) ? 1 : 4);
    }
    if (chance(2))
      buffer.bytes += 64 * below(4);
    if (buffer.region < executable->regions.size()) { // Room for it.
      fb::RegionT &region = *executable->regions[buffer.region];
      uint64_t end = buffer.offset + buffer.bytes;
      if (end < uint64_t{1} << 20)
        region.bytes = std::max(region.bytes, (end + 63) / 64 * 64);
    }
  }

  fb::PlanT &plan;
  std::mt19937 &random;
  std::vector<Slot> slots;
  std::vector<std::function<void()>> lists;
};

} // namespace

size_t mutatePlan(uint8_t *bytes, size_t size, size_t most, std::mt19937 &random) {
  flatbuffers::Verifier verifier(bytes, size, 16, 100'000);
  if (size < 16 || size > size_t{1} << 20 || !fb::VerifyPlanBuffer(verifier))
    return 0;
  fb::PlanT plan;
  fb::GetPlan(bytes)->UnPackTo(&plan);
  PlanMutator mutator(plan, random);
  for (unsigned i = 0, count = random() % 2 ? 1 : 1 + random() % 4; i < count; ++i)
    mutator.change();
  flatbuffers::FlatBufferBuilder packed(size);
  fb::FinishPlanBuffer(packed, fb::Plan::Pack(packed, &plan));
  if (packed.GetSize() > most)
    return 0;
  std::memcpy(bytes, packed.GetBufferPointer(), packed.GetSize());
  return packed.GetSize();
}

} // namespace maestro::fuzz

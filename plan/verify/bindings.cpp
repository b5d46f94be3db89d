// Bindings: what the executor writes into and reads from buffers.
#include "plan/parameter_groups.h"
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace maestro::plan {
namespace {

using Kind = fb::BindingKind;
using BoundBuffers = std::map<std::pair<Kind, uint32_t>, uint32_t>;

constexpr unsigned bit(fb::RegionKind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr unsigned kSlot = bit(fb::RegionKind::Slot), kStep = bit(fb::RegionKind::Step);

/// Where a bound buffer may lie.
unsigned allowedRegions(Kind kind) {
  switch (kind) {
  case Kind::Field:
  case Kind::LossSum:
    return kSlot;
  case Kind::LossScale:
  case Kind::HyperParameters:
  case Kind::NormSquares:
    return kStep;
  case Kind::Value:
    return bit(fb::RegionKind::Parameters);
  case Kind::Gradient:
    return bit(fb::RegionKind::Gradients);
  case Kind::Moment1:
  case Kind::Moment2:
  case Kind::Average:
    return bit(fb::RegionKind::OptimizerState);
  case Kind::EdgeInput:
  case Kind::EdgeGradientInput:
    return bit(fb::RegionKind::Channel);
  case Kind::EdgeOutput:
  case Kind::EdgeGradientOutput:
    return kSlot | bit(fb::RegionKind::Workspace);
  default:
    return kSlot | kStep;
  }
}

/// The executor only reads these; several may be the same bytes.
bool isSent(Kind kind) { return kind == Kind::EdgeOutput || kind == Kind::EdgeGradientOutput; }

struct IndexedTable {
  const char *name;
  size_t size;
};

/// What a binding's index refers to.
IndexedTable indexedTable(const fb::Plan &plan, Kind kind) {
  switch (kind) {
  case Kind::Field:
    return {"fields", plan.fields()->size()};
  case Kind::LossSum:
  case Kind::LossCount:
  case Kind::LossScale:
    return {"losses", plan.losses()->size()};
  case Kind::Value:
  case Kind::Gradient:
  case Kind::Moment1:
  case Kind::Moment2:
  case Kind::Average:
    return {"parameters", plan.parameters()->size()};
  case Kind::EdgeInput:
  case Kind::EdgeOutput:
  case Kind::EdgeGradientInput:
  case Kind::EdgeGradientOutput:
    return {"edges", plan.edges()->size()};
  case Kind::NormSquares:
    return {"kinds of NormSquares", 2};
  case Kind::HyperParameters:
    return {"training's groups and itself", groupCount(*plan.training())};
  default:
    return {"bindings of this kind", 1};
  }
}

DType expectedDType(const fb::Plan &plan, const fb::Binding &binding, DType actual) {
  switch (binding.kind()) {
  case Kind::Field:
    return static_cast<DType>(plan.fields()->Get(binding.index())->dtype());
  case Kind::NormSquares:
    return DType::F64;
  case Kind::EdgeInput:
  case Kind::EdgeOutput:
  case Kind::EdgeGradientInput:
  case Kind::EdgeGradientOutput:
    return static_cast<DType>(plan.edges()->Get(binding.index())->dtype());
  case Kind::RandomState:
  case Kind::SampleIds:
    return DType::I64;
  case Kind::Value: {
    const fb::Parameter &parameter = *plan.parameters()->Get(binding.index());
    auto dtype = static_cast<DType>(parameter.dtype());
    bool mayBeNarrow =
        plan.components()->Get(parameter.component())->frozen() && (actual == dtype || actual == DType::BF16);
    return !isFloat(dtype) ? dtype : mayBeNarrow ? actual : DType::F32;
  }
  default:
    return DType::F32;
  }
}

class BindingCheck {
public:
  explicit BindingCheck(const BoundedExecutable &executable) : executable(executable) {}

  Status checkAll() {
    for (uint32_t i = 0; i < executable.table.bindings()->size(); ++i)
      MAESTRO_TRY(check(*executable.table.bindings()->Get(i), executable.place.item("bindings", i)));
    MAESTRO_TRY(checkFields());
    MAESTRO_TRY(checkParameters());
    MAESTRO_TRY(checkEdges());
    MAESTRO_TRY(checkDisjoint());
    return checkPrograms();
  }

private:
  Status check(const fb::Binding &binding, const Place &place) {
    MAESTRO_TRY(checkEnum(place / "kind", binding.kind()));
    IndexedTable table = indexedTable(executable.plan, binding.kind());
    MAESTRO_TRY(checkIndex(place / "index", binding.index(), table.name, table.size));
    MAESTRO_TRY(checkIndex(place / "buffer", binding.buffer(), "buffers", executable.table.buffers()->size()));
    MAESTRO_TRY(checkSplit(binding, place / "split_dim"));
    if (!bound.insert({{binding.kind(), binding.index()}, binding.buffer()}).second)
      return wrong(place, "an earlier binding is of kind {} and index {}, too", fb::EnumNameBindingKind(binding.kind()),
                   binding.index());
    fb::RegionKind region = executable.regionOf(binding.buffer()).kind();
    if (!(allowedRegions(binding.kind()) & bit(region)))
      return wrong(place / "buffer", "buffers[{}] lies in a region of kind {}, where no {} may be", binding.buffer(),
                   fb::EnumNameRegionKind(region), fb::EnumNameBindingKind(binding.kind()));
    auto actual = static_cast<DType>(executable.buffer(binding.buffer()).dtype());
    DType expected = expectedDType(executable.plan, binding, actual);
    if (actual != expected)
      return wrong(place / "buffer", "buffers[{}] has elements of type {}, and a {} needs {}", binding.buffer(),
                   name(actual), fb::EnumNameBindingKind(binding.kind()), name(expected));
    return checkShape(binding, place);
  }

  /// Of each of its stations.
  uint32_t ranks() const {
    return executable.plan.sections()->Get(executable.table.section())->layout()->tensor_parallel();
  }

  /// Equal parts of a dim that is there, and the same for a parameter's value, gradient and moments.
  Status checkSplit(const fb::Binding &binding, const Place &place) {
    bool ofParameter = isOfParameter(binding.kind());
    if (ofParameter) {
      auto [found, isNew] = splitDims.try_emplace(binding.index(), binding.split_dim());
      if (!isNew && found->second != binding.split_dim())
        return wrong(place, "is not that of an earlier binding of parameters[{}]", binding.index());
    }
    if (binding.split_dim() == kNone)
      return {};
    if (!ofParameter)
      return wrong(place, "a {} is never split", fb::EnumNameBindingKind(binding.kind()));
    const auto &shape = *executable.plan.parameters()->Get(binding.index())->shape();
    MAESTRO_TRY(checkIndex(place, binding.split_dim(), "the parameter's dims", shape.size()));
    if (shape.Get(binding.split_dim()) % ranks() != 0)
      return wrong(place, "{} elements cannot be split over {} ranks", shape.Get(binding.split_dim()), ranks());
    return {};
  }

  /// So many, whatever the micro-batch.
  Status checkElements(const fb::Binding &binding, const Place &place, uint64_t expected) const {
    const fb::Buffer &buffer = executable.buffer(binding.buffer());
    if (!isFixed(executable.plan, *buffer.shape()))
      return wrong(place / "buffer", "buffers[{}] has no fixed shape, as a {} needs", binding.buffer(),
                   fb::EnumNameBindingKind(binding.kind()));
    uint64_t elements = buffer.bytes() / byteSize(static_cast<DType>(buffer.dtype())); // Exactly: see buffers.cpp.
    if (elements == expected)
      return {};
    return wrong(place / "buffer", "buffers[{}] has {} elements, and {} needs {}", binding.buffer(), elements,
                 fb::EnumNameBindingKind(binding.kind()), expected);
  }

  /// One dim, a symbol that sums over samples: it grows with them.
  Status checkSampleIds(const fb::Binding &binding, const Place &place) const {
    const fb::Buffer &buffer = executable.buffer(binding.buffer());
    const fb::DimExpr *dim =
        buffer.shape()->size() == 1 ? executable.plan.exprs()->Get(buffer.shape()->Get(0)) : nullptr;
    if (!dim || dim->op() != fb::DimOp::Symbol ||
        executable.plan.symbols()->Get(static_cast<uint32_t>(dim->a()))->combine() != fb::Combine::Sum)
      return wrong(place / "buffer", "buffers[{}] is not of one dim that is a symbol and sums over samples",
                   binding.buffer());
    int64_t most = executable.dims[buffer.shape()->Get(0)];
    return most >= executable.table.samples()
               ? Status()
               : wrong(place / "buffer", "buffers[{}] has {} elements at the bounds, and SampleIds needs {}",
                       binding.buffer(), most, executable.table.samples());
  }

  Status checkShape(const fb::Binding &binding, const Place &place) const {
    switch (binding.kind()) {
    case Kind::Field:
      return checkSameShape(binding, place, "fields", *executable.plan.fields()->Get(binding.index())->shape());
    case Kind::EdgeInput:
    case Kind::EdgeOutput:
    case Kind::EdgeGradientInput:
    case Kind::EdgeGradientOutput:
      return checkSameShape(binding, place, "edges", *executable.plan.edges()->Get(binding.index())->shape());
    case Kind::HyperParameters:
      return checkElements(binding, place, 8);
    case Kind::RandomState:
      return checkElements(binding, place, 2);
    case Kind::SampleIds:
      return checkSampleIds(binding, place);
    case Kind::Value:
    case Kind::Gradient:
    case Kind::Moment1:
    case Kind::Moment2:
    case Kind::Average:
      return checkParameterElements(binding, place);
    default:
      return checkElements(binding, place, 1);
    }
  }

  Status checkParameterElements(const fb::Binding &binding, const Place &place) const {
    const fb::Parameter &parameter = *executable.plan.parameters()->Get(binding.index());
    uint64_t elements;
    MAESTRO_TRY(countElements(place, *parameter.shape(), elements)); // Its product does not overflow.
    if (binding.kind() == Kind::Moment1 || binding.kind() == Kind::Moment2) {
      GroupOptimizer optimizer = optimizerOf(*executable.plan.training(), parameter.group());
      if (binding.split_dim() != kNone && !optimizer.worksByElement())
        return wrong(place / "split_dim", "parameters[{}] is updated by {} as a whole, and not in parts",
                     binding.index(), fb::EnumNameOptimizer(optimizer.kind));
      auto shape = optimizer.momentShape(binding.kind(), shapeOf(parameter));
      if (!shape)
        return wrong(place / "kind", "parameters[{}] has a {}, which {} does not keep", binding.index(),
                     fb::EnumNameBindingKind(binding.kind()), fb::EnumNameOptimizer(optimizer.kind));
      elements = std::accumulate(shape->begin(), shape->end(), uint64_t{1},
                                 [](uint64_t product, int64_t dim) { return product * static_cast<uint64_t>(dim); });
    }
    return checkElements(binding, place, binding.split_dim() != kNone ? elements / ranks() : elements);
  }

  /// By the same expressions: equal for every micro-batch, not just at the bounds.
  Status checkSameShape(const fb::Binding &binding, const Place &place, const char *table,
                        const flatbuffers::Vector<uint32_t> &expected) const {
    const auto &buffer = *executable.buffer(binding.buffer()).shape();
    return std::equal(expected.begin(), expected.end(), buffer.begin(), buffer.end())
               ? Status()
               : wrong(place / "buffer", "buffers[{}] has not the shape of {}[{}]", binding.buffer(), table,
                       binding.index());
  }

  bool has(Kind kind, uint32_t index) const { return bound.count({kind, index}) != 0; }

  Status checkFields() const {
    for (uint32_t p = 0; p < executable.table.programs()->size(); ++p) {
      const fb::Program &program = *executable.table.programs()->Get(p);
      Place place = executable.place.item("programs", p);
      for (uint32_t i = 0; i < program.fields()->size(); ++i)
        if (!has(Kind::Field, program.fields()->Get(i)))
          return wrong(place.item("fields", i), "no binding says where fields[{}] goes", program.fields()->Get(i));
    }
    return {};
  }

  Status checkParameters() const {
    for (auto [key, buffer] : bound) {
      auto [kind, index] = key;
      if (kind == Kind::Value)
        MAESTRO_TRY(checkValue(index));
      else if (isOfParameter(kind) && !has(Kind::Value, index))
        return wrong(executable.place / "bindings", "parameters[{}] has a {} and no Value", index,
                     fb::EnumNameBindingKind(kind));
      else if (isOfParameter(kind) && !executable.plan.parameters()->Get(index)->trainable())
        return wrong(executable.place / "bindings", "parameters[{}] has a {} and is not trainable", index,
                     fb::EnumNameBindingKind(kind));
    }
    return {};
  }

  /// A trainable value that is here needs here what its optimizer works on.
  Status checkValue(uint32_t parameter) const {
    if (!executable.plan.parameters()->Get(parameter)->trainable())
      return {};
    uint32_t group = executable.plan.parameters()->Get(parameter)->group();
    GroupOptimizer optimizer = optimizerOf(*executable.plan.training(), group);
    auto needs = [&](Kind kind, bool needed) -> Status {
      if (!needed || has(kind, parameter))
        return {};
      return wrong(executable.place / "bindings", "the trainable parameters[{}] ('{}') has no {}", parameter,
                   executable.plan.parameters()->Get(parameter)->name()->string_view(), fb::EnumNameBindingKind(kind));
    };
    MAESTRO_TRY(needs(Kind::Gradient, executable.program(fb::ProgramKind::Backward) != nullptr));
    bool updates = executable.program(fb::ProgramKind::Update) != nullptr;
    if (updates && group > 0 && !has(Kind::HyperParameters, group)) // Of 0 see checkPrograms().
      return wrong(executable.place / "bindings",
                   "the trainable parameters[{}] ('{}') is of group {}, and that has no {}", parameter,
                   executable.plan.parameters()->Get(parameter)->name()->string_view(), group,
                   fb::EnumNameBindingKind(Kind::HyperParameters));
    const fb::Parameter &table = *executable.plan.parameters()->Get(parameter);
    for (Kind moment : {Kind::Moment1, Kind::Moment2})
      MAESTRO_TRY(needs(moment, updates && optimizer.momentShape(moment, shapeOf(table)).has_value()));
    return needs(Kind::Average, updates && executable.plan.training()->ema_decay() > 0);
  }

  /// An executable binds the ends of edges that are its own, all of them, the rings in regions of theirs.
  Status checkEdges() const {
    if (executable.plan.version_minor() == 0) // Format 1.0 named edges and bound nothing to them.
      return {};
    MAESTRO_TRY(executable.work.spend(executable.place, 8 * size_t{executable.plan.edges()->size()}));
    for (uint32_t i = 0; i < executable.plan.edges()->size(); ++i) {
      const fb::Edge &edge = *executable.plan.edges()->Get(i);
      bool produces = isAt(edge.producer(), edge.producer_stage()),
           consumes = isAt(edge.consumer(), edge.consumer_stage());
      MAESTRO_TRY(checkEnd(i, Kind::EdgeInput, consumes));
      MAESTRO_TRY(checkEnd(i, Kind::EdgeOutput, produces));
      MAESTRO_TRY(checkEnd(i, Kind::EdgeGradientInput, produces && edge.carries_gradient()));
      MAESTRO_TRY(checkEnd(i, Kind::EdgeGradientOutput, consumes && edge.carries_gradient()));
      if ((produces || consumes) && edge.carries_gradient() && !executable.program(fb::ProgramKind::Backward))
        return wrong(executable.place / "programs", "there is no Backward program, and edges[{}] carries a gradient",
                     i);
    }
    return {};
  }

  bool isAt(uint32_t section, uint32_t stage) const {
    return executable.table.section() == section && executable.table.stage() == stage;
  }

  Status checkEnd(uint32_t edge, Kind kind, bool expected) const {
    auto found = bound.find({kind, edge});
    if ((found != bound.end()) != expected)
      return wrong(executable.place / "bindings", "{} {} for edges[{}]", expected ? "there is no" : "there is a",
                   fb::EnumNameBindingKind(kind), edge);
    if (!expected || isSent(kind))
      return {};
    const fb::Region &region = executable.regionOf(found->second);
    if (uint64_t offset = executable.buffer(found->second).offset(); offset != 0)
      return wrong(executable.place / "bindings",
                   "the {} of edges[{}] begins at byte {} of its ring, and messages at 0",
                   fb::EnumNameBindingKind(kind), edge, offset);
    bool gradient = kind == Kind::EdgeGradientInput;
    if (region.edge() != edge || region.gradient() != gradient)
      return wrong(executable.place / "bindings", "the {} of edges[{}] lies in the ring of another end",
                   fb::EnumNameBindingKind(kind), edge);
    return {};
  }

  /// Two bindings on the same bytes would overwrite each other.
  Status checkDisjoint() const {
    struct Range {
      uint32_t region;
      uint64_t begin, end;
    };
    std::vector<Range> ranges;
    for (auto [key, index] : bound)
      if (const fb::Buffer &buffer = executable.buffer(index); buffer.bytes() > 0 && !isSent(key.first))
        ranges.push_back({buffer.region(), buffer.offset(), buffer.offset() + buffer.bytes()});
    std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
      return std::pair(a.region, a.begin) < std::pair(b.region, b.begin);
    });
    for (size_t i = 1; i < ranges.size(); ++i)
      if (ranges[i].region == ranges[i - 1].region && ranges[i].begin < ranges[i - 1].end)
        return wrong(executable.place / "bindings", "two of them overlap at byte {} of region {}", ranges[i].begin,
                     ranges[i].region);
    return {};
  }

  /// What the executor cannot run a program without.
  Status checkPrograms() const {
    auto needs = [&](fb::ProgramKind program, Kind kind) -> Status {
      if (!executable.program(program) || has(kind, 0))
        return {};
      return wrong(executable.place / "bindings", "there is a {} program and no {}", fb::EnumNameProgramKind(program),
                   fb::EnumNameBindingKind(kind));
    };
    MAESTRO_TRY(needs(fb::ProgramKind::Norm, Kind::NormSquares));
    MAESTRO_TRY(needs(fb::ProgramKind::Update, Kind::HyperParameters));
    bool clips = executable.plan.training()->clip_grad_norm() > 0;
    if (clips && executable.program(fb::ProgramKind::Update) && !executable.program(fb::ProgramKind::Norm))
      return wrong(executable.place / "programs", "training.clip_grad_norm is {}, and there is no Norm program",
                   executable.plan.training()->clip_grad_norm());
    return {};
  }

  const BoundedExecutable &executable;
  BoundBuffers bound;
  std::map<uint32_t, uint32_t> splitDims; ///< By parameter.
};

} // namespace

Status verifyBindings(const BoundedExecutable &executable) { return BindingCheck(executable).checkAll(); }

} // namespace maestro::plan

// Data fields, and parameters with the places where their values lie.
#include "plan/parameter_groups.h"
#include "plan/reserved_names.h"
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace maestro::plan {
namespace {

/// Of one sample's array.
constexpr uint64_t kMostSampleElements = uint64_t{1} << 40;

/// Constants and symbols; of one sample at most so much that no product of its sizes overflows.
Status verifyFieldShape(const fb::Field &field, const fb::Plan &plan, const Place &place) {
  const auto &shape = *field.shape();
  if (shape.size() == 0 || shape.size() > kMaxRank)
    return wrong(place / "shape", "{} dims are not in [1, {}]", shape.size(), kMaxRank);
  bool combinesRows = false;
  uint64_t elements = 1;
  for (uint32_t i = 0; i < shape.size(); ++i) {
    Place dim = place.item("shape", i);
    MAESTRO_TRY(checkIndex(dim, shape.Get(i), "expressions", plan.exprs()->size()));
    const fb::DimExpr &expr = *plan.exprs()->Get(shape.Get(i));
    if (expr.op() == fb::DimOp::Constant)
      MAESTRO_TRY(checkRange(dim, expr.a(), 0, int64_t{1} << 31));
    else if (expr.op() != fb::DimOp::Symbol)
      return wrong(dim, "exprs[{}] is neither a constant nor a symbol", shape.Get(i));
    const fb::Symbol *symbol =
        expr.op() == fb::DimOp::Symbol ? plan.symbols()->Get(static_cast<uint32_t>(expr.a())) : nullptr;
    combinesRows |= symbol && symbol->combine() == fb::Combine::Sum;
    auto most = static_cast<uint64_t>(symbol ? symbol->sample_max() : expr.a());
    if (most > 0 && elements > kMostSampleElements / most)
      return wrong(dim, "a sample of the largest sizes has more than {} elements", kMostSampleElements);
    elements *= std::max<uint64_t>(most, 1);
  }
  return combinesRows ? Status() : wrong(place / "shape", "no dim sums over the samples of a micro-batch");
}

/// Which of Plan.symbols the data's fields use.
std::vector<bool> symbolsInData(const fb::Plan &plan) {
  std::vector<bool> used(plan.symbols()->size(), false);
  for (const fb::Field *field : *plan.fields())
    for (uint32_t dim : *field->shape())
      if (!field->own_positions() && plan.exprs()->Get(dim)->op() == fb::DimOp::Symbol)
        used[static_cast<size_t>(plan.exprs()->Get(dim)->a())] = true;
  return used;
}

/// What is made from the sizes of other fields needs some in the data.
Status verifyOwnPositions(const fb::Field &own, const fb::Plan &plan, const std::vector<bool> &inData,
                          const Place &place) {
  if (own.index_limit() > 0 || own.pad() != 0 || own.optional())
    return wrong(place / "own_positions",
                 "such a field holds 1 and 0: index_limit {}, pad {} and optional {} must be 0", own.index_limit(),
                 own.pad(), own.optional());
  for (uint32_t i = 0; i < own.shape()->size(); ++i) {
    const fb::DimExpr &dim = *plan.exprs()->Get(own.shape()->Get(i));
    if (dim.op() == fb::DimOp::Symbol && !inData[static_cast<size_t>(dim.a())])
      return wrong(place.item("shape", i), "no field of the data has this symbol");
  }
  return {};
}

Status verifyMarks(const fb::Field &field, const fb::Plan &plan, const Place &place) {
  constexpr int64_t kMostPerRow = int64_t{1} << 20;
  constexpr uint32_t kMostMarks = 64;
  auto dtype = static_cast<DType>(field.dtype());
  if (field.marks() && field.marks()->size() > kMostMarks)
    return wrong(place / "marks", "{} are more than {}", field.marks()->size(), kMostMarks);
  for (uint32_t i = 0; field.marks() && i < field.marks()->size(); ++i) {
    const fb::Mark &mark = *field.marks()->Get(i);
    Place own = place.item("marks", i);
    MAESTRO_TRY(checkIndex(own / "symbol", mark.symbol(), "symbols", plan.symbols()->size()));
    if (plan.symbols()->Get(mark.symbol())->combine() != fb::Combine::Sum)
      return wrong(own / "symbol", "symbols[{}] does not sum over samples", mark.symbol());
    MAESTRO_TRY(checkRange(own / "per_row", mark.per_row(), 1, kMostPerRow));
    if (!isInteger(dtype) && dtype != DType::Bool)
      return wrong(own, "elements of {} have no marks", name(dtype));
  }
  return {};
}

Status verifyFields(const fb::Plan &plan, const Place &root, Work &work) {
  UniqueNames names;
  for (uint32_t i = 0; i < plan.fields()->size(); ++i) {
    const fb::Field &field = *plan.fields()->Get(i);
    Place place = root.item("fields", i);
    MAESTRO_TRY(checkName(place / "name", field.name(), work));
    MAESTRO_TRY(names.add(place / "name", field.name()));
    MAESTRO_TRY(checkDType(place / "dtype", field.dtype()));
    MAESTRO_TRY(verifyFieldShape(field, plan, place));
    MAESTRO_TRY(checkNumber(place / "pad", field.pad(), -HUGE_VAL));
    bool holdsIndices = isInteger(static_cast<DType>(field.dtype()));
    if (field.index_limit() < 0 || (field.index_limit() > 0 && !holdsIndices))
      return wrong(place / "index_limit", "{} needs to be at least 0, and 0 for elements that are not integers",
                   field.index_limit());
    MAESTRO_TRY(checkText(place / "synthetic", field.synthetic(), work));
    MAESTRO_TRY(verifyMarks(field, plan, place));
  }
  std::vector<bool> inData = symbolsInData(plan);
  for (uint32_t i = 0; i < plan.fields()->size(); ++i)
    if (plan.fields()->Get(i)->own_positions())
      MAESTRO_TRY(verifyOwnPositions(*plan.fields()->Get(i), plan, inData, root.item("fields", i)));
  return {};
}

/// Relative, and one way to write it: no empty part, no '.', and '..' at the start only, since models lie beside plans.
bool isPlainPath(std::string_view path) {
  bool isClimbing = true;
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find('/', begin), path.size());
    std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || (part == ".." && !isClimbing))
      return false;
    isClimbing = part == "..";
    begin = end + 1;
  }
  return !isClimbing;
}

Status verifyFiles(const fb::Plan &plan, const Place &root, Work &work) {
  for (uint32_t i = 0; i < plan.files()->size(); ++i) {
    const fb::SourceFile &file = *plan.files()->Get(i);
    Place place = root.item("files", i);
    MAESTRO_TRY(checkName(place / "path", file.path(), work));
    if (file.path()->Get(0) == '/')
      return wrong(place / "path", "'{}' is absolute, and must be relative to the plan", file.path()->string_view());
    if (!isPlainPath(file.path()->string_view()))
      return wrong(place / "path", "'{}' has an empty part, a '.', or a '..' that does not stand at its start",
                   file.path()->string_view());
  }
  return {};
}

Status verifyComponents(const fb::Plan &plan, const Place &root, Work &work) {
  UniqueNames names;
  for (uint32_t i = 0; i < plan.components()->size(); ++i) {
    const fb::Component &component = *plan.components()->Get(i);
    Place place = root.item("components", i);
    MAESTRO_TRY(checkFileName(place / "name", component.name(), work));
    if (component.name()->string_view() == kOptimizerFile)
      return wrong(place / "name", "'{}' is the name of the optimizer's file in checkpoints", kOptimizerFile);
    MAESTRO_TRY(names.add(place / "name", component.name()));
    MAESTRO_TRY(checkText(place / "model_path", component.model_path(), work));
    auto precision = static_cast<DType>(component.precision());
    if (precision != DType::F32 && precision != DType::BF16)
      return wrong(place / "precision", "{} is neither {} (f32) nor {} (bf16)", component.precision(),
                   static_cast<int>(DType::F32), static_cast<int>(DType::BF16));
    constexpr uint32_t kMaxPrefixes = 16;
    if (component.strip() && component.strip()->size() > kMaxPrefixes)
      return wrong(place / "strip", "{} prefixes exceed the limit of {}", component.strip()->size(), kMaxPrefixes);
    for (uint32_t p = 0; component.strip() && p < component.strip()->size(); ++p)
      MAESTRO_TRY(checkName(place.item("strip", p), component.strip()->Get(p), work));
  }
  return {};
}

/// The bytes of a parameter's value in the file or in the plan.
Status verifySource(const fb::Parameter &parameter, const fb::Plan &plan, const Place &place, uint64_t elements) {
  MAESTRO_TRY(checkDType(place / "source_dtype", parameter.source_dtype()));
  uint64_t valueBytes = elements * byteSize(static_cast<DType>(parameter.source_dtype()));
  if (parameter.source_transposed() && parameter.shape()->size() != 2)
    return wrong(place / "source_transposed", "the parameter has {} dims, and only 2 can be transposed",
                 parameter.shape()->size());
  MAESTRO_TRY(checkAligned(place / "inline_value", parameter.inline_value(), kAlignment));
  if (parameter.inline_value() && parameter.inline_value()->size() != valueBytes)
    return wrong(place / "inline_value", "{} bytes are not the {} of the shape", parameter.inline_value()->size(),
                 valueBytes);
  if (parameter.source_file() == kNone)
    return {};
  if (parameter.inline_value())
    return wrong(place / "inline_value", "the value lies in source_file, too");
  MAESTRO_TRY(checkIndex(place / "source_file", parameter.source_file(), "files", plan.files()->size()));
  uint64_t size = plan.files()->Get(parameter.source_file())->size();
  if (parameter.source_bytes() != valueBytes)
    return wrong(place / "source_bytes", "{} are not the {} of the shape", parameter.source_bytes(), valueBytes);
  if (parameter.source_offset() > size || parameter.source_bytes() > size - parameter.source_offset())
    return wrong(place / "source_offset", "{} + {} bytes exceed the {} of files[{}]", parameter.source_offset(),
                 parameter.source_bytes(), size, parameter.source_file());
  return {};
}

Status verifyTrainable(const fb::Parameter &parameter, const fb::Plan &plan, const Place &place) {
  if (!parameter.trainable())
    return {};
  if (!isFloat(static_cast<DType>(parameter.dtype())))
    return wrong(place / "trainable", "elements of type {} cannot be trained",
                 name(static_cast<DType>(parameter.dtype())));
  if (parameter.kind() != fb::ParameterKind::Parameter)
    return wrong(place / "trainable", "a buffer cannot be trained");
  if (plan.components()->Get(parameter.component())->frozen())
    return wrong(place / "trainable", "components[{}] is frozen", parameter.component());
  return {};
}

class ParameterNames {
public:
  explicit ParameterNames(size_t components) : byComponent(components) {}

  Status add(const fb::Parameter &parameter, const Place &place, Work &work) {
    UniqueNames &names = byComponent[parameter.component()];
    MAESTRO_TRY(checkName(place / "name", parameter.name(), work));
    MAESTRO_TRY(names.add(place / "name", parameter.name()));
    uint32_t aliases = parameter.aliases() ? parameter.aliases()->size() : 0;
    for (uint32_t i = 0; i < aliases; ++i) {
      MAESTRO_TRY(checkName(place.item("aliases", i), parameter.aliases()->Get(i), work));
      MAESTRO_TRY(names.add(place.item("aliases", i), parameter.aliases()->Get(i)));
    }
    return {};
  }

private:
  std::vector<UniqueNames> byComponent;
};

Status verifyParameters(const fb::Plan &plan, const Place &root, Work &work) {
  ParameterNames names(plan.components()->size());
  for (uint32_t i = 0; i < plan.parameters()->size(); ++i) {
    const fb::Parameter &parameter = *plan.parameters()->Get(i);
    Place place = root.item("parameters", i);
    uint64_t elements;
    MAESTRO_TRY(checkIndex(place / "component", parameter.component(), "components", plan.components()->size()));
    MAESTRO_TRY(names.add(parameter, place, work));
    MAESTRO_TRY(checkEnum(place / "kind", parameter.kind()));
    MAESTRO_TRY(countElements(place / "shape", *parameter.shape(), elements));
    MAESTRO_TRY(checkDType(place / "dtype", parameter.dtype()));
    MAESTRO_TRY(verifyTrainable(parameter, plan, place));
    MAESTRO_TRY(verifySource(parameter, plan, place, elements));
    MAESTRO_TRY(checkEnum(place / "initializer", parameter.initializer()));
    MAESTRO_TRY(checkNumber(place / "initializer_scale", parameter.initializer_scale(), 0));
    MAESTRO_TRY(checkNumber(place / "weight_decay", parameter.weight_decay(), 0));
    if (parameter.group() >= groupCount(*plan.training()))
      return wrong(place / "group", "{}, and training has {} groups", parameter.group(),
                   groupCount(*plan.training()) - 1);
  }
  return {};
}

} // namespace

Status verifyData(const fb::Plan &plan, Work &work) {
  Place root = Place::root();
  MAESTRO_TRY(verifyFields(plan, root, work));
  MAESTRO_TRY(verifyFiles(plan, root, work));
  MAESTRO_TRY(verifyComponents(plan, root, work));
  return verifyParameters(plan, root, work);
}

} // namespace maestro::plan

// Interning and serialisation of plans.
#include "plan/builder.h"

#include "plan/verifier.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>

namespace maestro::plan {
namespace {

/// Index of `name` in `names`, appended when it is new.
uint32_t intern(std::string_view name, std::unordered_map<std::string, uint32_t> &indices,
                std::vector<std::string> &names) {
  auto [entry, isNew] = indices.try_emplace(std::string(name), static_cast<uint32_t>(names.size()));
  if (isNew)
    names.emplace_back(name);
  return entry->second;
}

/// Folds a op b of constants where it is exact.
bool fold(fb::DimOp op, int64_t a, int64_t b, int64_t &result) {
  switch (op) {
  case fb::DimOp::Add:
    return !__builtin_add_overflow(a, b, &result);
  case fb::DimOp::Mul:
    return !__builtin_mul_overflow(a, b, &result);
  case fb::DimOp::Min:
    result = std::min(a, b);
    return true;
  case fb::DimOp::Max:
    result = std::max(a, b);
    return true;
  case fb::DimOp::FloorDiv:
  case fb::DimOp::CeilDiv:
  case fb::DimOp::Mod:
    if (a < 0 || b <= 0)
      return false;
    result = op == fb::DimOp::Mod ? a % b : a / b + (op == fb::DimOp::CeilDiv && a % b != 0);
    return true;
  default:
    return false;
  }
}

bool isCommutative(fb::DimOp op) {
  return op == fb::DimOp::Add || op == fb::DimOp::Mul || op == fb::DimOp::Min || op == fb::DimOp::Max;
}

/// A key that equal lists share. Numbers are kept as bytes: 0.0 and −0.0 differ, as they do to kernels.
class ListKey {
public:
  void add(const fb::AttributeT &item) {
    addBytes(item.name.data(), item.name.size());
    addBytes(item.ints.data(), item.ints.size() * sizeof(int64_t));
    addBytes(item.floats.data(), item.floats.size() * sizeof(double));
    addBytes(item.text.data(), item.text.size());
    addBytes(item.exprs.data(), item.exprs.size() * sizeof(uint32_t));
  }
  std::string take() { return std::move(key); }

private:
  void addBytes(const void *bytes, uint64_t count) {
    key.append(reinterpret_cast<const char *>(&count), sizeof count);
    key.append(static_cast<const char *>(bytes), count);
  }
  std::string key;
};

} // namespace

PlanBuilder::PlanBuilder() {
  tables.version_major = kVersionMajor;
  tables.version_minor = kVersionMinor;
  tables.training = std::make_unique<fb::TrainingT>();
  tables.machine = std::make_unique<fb::MachineT>();
}

uint32_t PlanBuilder::symbol(std::string_view name, fb::Combine combine, int64_t sampleMax, int64_t multipleOf,
                             std::optional<std::string> unpadded) {
  auto symbol = std::make_unique<fb::SymbolT>();
  symbol->name = name;
  symbol->combine = combine;
  symbol->sample_max = sampleMax;
  symbol->multiple_of = multipleOf;
  if (unpadded)
    symbol->unpadded = *unpadded;
  auto index = static_cast<uint32_t>(tables.symbols.size());
  tables.symbols.push_back(std::move(symbol));
  symbolIndices.try_emplace(std::string(name), index);
  return node(fb::DimOp::Symbol, index, 0);
}

uint32_t PlanBuilder::symbolIndex(std::string_view name) const {
  auto entry = symbolIndices.find(std::string(name));
  return entry == symbolIndices.end() ? kNone : entry->second;
}

uint32_t PlanBuilder::symbolNamed(std::string_view name) const {
  auto entry = nodes.find({static_cast<int64_t>(fb::DimOp::Symbol), symbolIndex(name), 0});
  return entry == nodes.end() ? kNone : entry->second;
}

uint32_t PlanBuilder::node(fb::DimOp op, int64_t a, int64_t b) {
  auto index = static_cast<uint32_t>(tables.exprs.size());
  auto [entry, isNew] = nodes.try_emplace({static_cast<int64_t>(op), a, b}, index);
  if (isNew)
    tables.exprs.emplace_back(op, a, b);
  return entry->second;
}

uint32_t PlanBuilder::constant(int64_t value) { return node(fb::DimOp::Constant, value, 0); }

uint32_t PlanBuilder::dim(fb::DimOp op, uint32_t a, uint32_t b) {
  const fb::DimExpr &left = tables.exprs[a], &right = tables.exprs[b];
  int64_t value;
  if (left.op() == fb::DimOp::Constant && right.op() == fb::DimOp::Constant && fold(op, left.a(), right.a(), value))
    return constant(value);
  if (isCommutative(op) && a > b)
    std::swap(a, b);
  return node(op, a, b);
}

std::vector<uint32_t> PlanBuilder::constants(std::span<const int64_t> dims) {
  std::vector<uint32_t> shape;
  for (int64_t dim : dims)
    shape.push_back(constant(dim));
  return shape;
}

uint32_t PlanBuilder::kernel(std::string_view name) { return intern(name, kernelIndices, tables.kernels); }

uint32_t PlanBuilder::scope(std::string_view name) {
  return name.empty() ? kNone : intern(name, scopeIndices, tables.scopes);
}

uint32_t PlanBuilder::attributes(std::vector<fb::AttributeT> items) {
  if (items.empty())
    return kNone;
  ListKey key;
  for (const fb::AttributeT &item : items)
    key.add(item);
  auto [entry, isNew] = listIndices.try_emplace(key.take(), static_cast<uint32_t>(tables.attribute_lists.size()));
  if (isNew) {
    auto list = std::make_unique<fb::AttributeListT>();
    for (fb::AttributeT &item : items)
      list->items.push_back(std::make_unique<fb::AttributeT>(std::move(item)));
    tables.attribute_lists.push_back(std::move(list));
  }
  return entry->second;
}

Result<std::vector<uint8_t>> PlanBuilder::finish() const { return plan::finish(tables); }

fb::AttributeT intsAttribute(std::string_view name, std::vector<int64_t> values) {
  fb::AttributeT attribute;
  attribute.name = name;
  attribute.ints = std::move(values);
  return attribute;
}

fb::AttributeT floatsAttribute(std::string_view name, std::vector<double> values) {
  fb::AttributeT attribute;
  attribute.name = name;
  attribute.floats = std::move(values);
  return attribute;
}

fb::AttributeT textAttribute(std::string_view name, std::string_view text) {
  fb::AttributeT attribute;
  attribute.name = name;
  attribute.text = text;
  return attribute;
}

fb::AttributeT exprsAttribute(std::string_view name, std::vector<uint32_t> exprs) {
  fb::AttributeT attribute;
  attribute.name = name;
  attribute.exprs = std::move(exprs);
  return attribute;
}

} // namespace maestro::plan

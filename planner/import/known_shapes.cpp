#include "planner/import/known_shapes.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {

bool isConstantShape(const Shape &shape) {
  return std::all_of(shape.begin(), shape.end(), [](const DimExpr &dim) { return dim.isConstant(); });
}

std::vector<int64_t> constantShape(const Shape &shape) {
  std::vector<int64_t> result;
  for (const DimExpr &dim : shape)
    result.push_back(*dim.asConstant());
  return result;
}

Status checkSizes(const Shape &shape, std::string_view what) {
  for (const DimExpr &dim : shape)
    if (auto constant = dim.asConstant(); constant && *constant < 0)
      return Status::invalidInput(fmt::format("{} {} has a negative dim", what, nn::shapeText(shape)));
  return {};
}

} // namespace maestro::planner

#include "planner/driver/sinusoidal_tables.h"

#include "base/convert.h"
#include "base/log.h"
#include "ir/nn/nn.h"
#include "passes/attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

namespace maestro::planner {
namespace {

/// Rows that tell enough, and bytes that may be read for them.
constexpr uint64_t kMaxRows = 64, kMinRows = 8, kMaxBytes = 4 << 20;

/// Tables of positions are looked up, cut, and added or multiplied with. What products, norms and convolutions read are
/// other weights.
bool isLookup(mlir::Operation *op) {
  return mlir::isa<nn::GatherOp, nn::GatherNDOp, nn::SliceOp, nn::ReshapeOp, nn::BroadcastToOp, nn::CastOp>(op);
}

bool isReadAsTable(mlir::Value table) {
  std::vector<mlir::Value> reached = {table};
  while (!reached.empty()) {
    mlir::Value value = reached.back();
    reached.pop_back();
    for (mlir::Operation *user : value.getUsers()) {
      bool isTable = isLookup(user) && user->getOperand(0) == value;
      if (isTable)
        reached.push_back(user->getResult(0));
      else if (!mlir::isa<nn::AddOp, nn::MulOp, nn::ConcatOp>(user))
        return false;
    }
  }
  return true;
}

/// The first rows in f32; empty where they cannot be read.
std::vector<float> firstRows(const GraphParameter &parameter) {
  DType stored = parameter.sourceDtype.value_or(parameter.info.dtype);
  auto rows = static_cast<uint64_t>(parameter.shape[0]), columns = static_cast<uint64_t>(parameter.shape[1]);
  uint64_t rowBytes = columns * byteSize(stored),
           count = std::min({rows, kMaxRows, kMaxBytes / std::max<uint64_t>(rowBytes, 1)});
  if (!isFloat(stored) || count < kMinRows || count * rowBytes > parameter.info.source->length)
    return {};
  std::vector<char> bytes(count * rowBytes);
  std::ifstream file(parameter.info.source->file, std::ios::binary);
  if (!file.seekg(static_cast<std::streamoff>(parameter.info.source->offset)) ||
      !file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return {};
  std::vector<float> values(count * columns);
  return convertElements(stored, bytes.data(), DType::F32, values.data(), values.size()) == values.size()
             ? values
             : std::vector<float>();
}

bool looksFixed(mlir::Value argument, const GraphParameter &parameter) {
  bool isCandidate = parameter.trainable && parameter.shape.size() == 2 && parameter.shape[1] > 0 &&
                     parameter.info.source && !parameter.info.transposed && isReadAsTable(argument);
  return isCandidate && isSinusoidal(firstRows(parameter), static_cast<size_t>(parameter.shape[1]));
}

} // namespace

bool isSinusoidal(std::span<const float> table, size_t columns) {
  // bf16 has 8 bits; of columns that swing less than this, noise would pass, too.
  constexpr float kTolerance = 0.03f, kSwing = 0.5f;
  size_t rows = columns ? table.size() / columns : 0, swinging = 0, fitting = 0, checked = 0;
  if (rows < kMinRows)
    return false;
  for (size_t c = 0; c < columns; ++c) {
    auto at = [&](size_t row) { return table[row * columns + c]; };
    double products = 0, squares = 0;
    float least = at(0), most = at(0);
    for (size_t r = 1; r + 1 < rows; ++r) {
      products += double(at(r)) * (at(r - 1) + at(r + 1));
      squares += double(at(r)) * at(r);
      least = std::min(least, at(r));
      most = std::max(most, at(r));
    }
    if (!(most <= 1 + kTolerance && least >= -1 - kTolerance))
      return false;
    if (most - least < kSwing)
      continue;
    ++swinging;
    auto twiceCosine = static_cast<float>(std::clamp(products / squares, -2.0, 2.0));
    for (size_t r = 1; r + 1 < rows; ++r, ++checked)
      fitting += std::abs(at(r - 1) + at(r + 1) - twiceCosine * at(r)) <= kTolerance;
  }
  return swinging * 8 >= columns && fitting * 10 >= checked * 9;
}

std::vector<Decision> doubtsOfTables(mlir::func::FuncOp graph, const GraphSummary &summary) {
  std::map<std::string, std::vector<std::string>> found;
  size_t next = 0;
  for (unsigned i = 0; i < graph.getNumArguments() && next < summary.parameters.size(); ++i) {
    auto name = graph.getArgAttrOfType<mlir::StringAttr>(i, attributes::kParameter);
    const GraphParameter &parameter = summary.parameters[next];
    if (!name || name.getValue() != parameter.fullName)
      continue;
    ++next;
    if (looksFixed(graph.getArgument(i), parameter))
      found[parameter.component].push_back(parameter.info.name);
  }
  std::vector<Decision> doubts;
  for (const auto &[component, names] : found) {
    std::string list = fmt::format("'{}'", fmt::join(names, "', '"));
    logWarning(fmt::format("component '{}': {} train{}, but hold{} a table of sines, which models keep fixed "
                           "(requires_grad=False, which an ONNX "
                           "file does not say); to keep {}, write components.{}.frozen: [{}]",
                           component, list, names.size() == 1 ? "s" : "", names.size() == 1 ? "s" : "",
                           names.size() == 1 ? "it" : "them", component, list));
    doubts.push_back({component + ".frozen", "not " + list,
                      "trains as the workload says; the values are a table of sines, which models keep fixed", true});
  }
  return doubts;
}

} // namespace maestro::planner

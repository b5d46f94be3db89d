#include "planner/driver/unpadded_dims.h"

#include "passes/attributes.h"

#include <fmt/format.h>

#include <set>

namespace maestro::planner {
namespace {

/// "of a step's 64 samples, of 41 lengths", for the first step that is simulated; empty where all are equally long.
std::string lengthsOf(const StepSizes &sizes, size_t dim, size_t dims) {
  if (sizes.steps.empty() || dims == 0)
    return "";
  std::set<int64_t> lengths;
  size_t samples = 0;
  for (size_t row = 0; row + dims <= sizes.steps.front().size(); row += dims)
    if (int64_t length = sizes.steps.front()[row + dim]; length > 0) {
      lengths.insert(length);
      ++samples;
    }
  return lengths.size() < 2 ? ""
                            : fmt::format("a step's {} samples have {} lengths, so that many micro-batches or more",
                                          samples, lengths.size());
}

} // namespace

Status noteUnpadded(mlir::ModuleOp module, const StepSizes &sizes, GraphSummary &graph,
                    std::vector<std::string> &notes) {
  auto table = module->getAttrOfType<mlir::DictionaryAttr>(attributes::kDims);
  for (size_t d = 0; table && d < graph.dims.size(); ++d) {
    GraphDim &dim = graph.dims[d];
    auto entry = table.getAs<mlir::DictionaryAttr>(dim.name);
    auto why = entry ? entry.getAs<mlir::StringAttr>(attributes::kUnpadded) : mlir::StringAttr();
    if (!why)
      continue;
    dim.unpadded = why.getValue().str();
    if (dim.multipleOf != 1)
      return Status::invalidInput(
          fmt::format("dims.{}.multiple_of is {}, which pads every sample, and {}: the loss would depend on it. "
                      "Remove multiple_of, or mask the padding there",
                      dim.name, dim.multipleOf, *dim.unpadded));
    std::string lengths = lengthsOf(sizes, d, graph.dims.size());
    if (dim.unpadded->empty())
      notes.push_back(fmt::format("dims.{}: samples of equal {} share micro-batches, as pad: never asks{}{}", dim.name,
                                  dim.name, lengths.empty() ? "" : ": ", lengths));
    else
      notes.push_back(fmt::format(
          "dims.{}: only samples of equal {} share micro-batches, since {}{}{}. A mask that is 0 or false where "
          "'{}' is padded would let all lengths share them",
          dim.name, dim.name, *dim.unpadded, lengths.empty() ? "" : ": ", lengths, dim.name));
  }
  return Status();
}

} // namespace maestro::planner

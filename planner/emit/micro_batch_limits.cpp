#include "planner/emit/micro_batch_limits.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace maestro::planner {
namespace {

/// More short samples than this for each of the longest gain little: their fixed cost is small by then.
constexpr int64_t kMostStretch = 8;

class Limits {
public:
  Limits(const GraphSummary &graph, const SectionLayout &layout) : graph(graph), layout(layout) {}

  MicroBatchLimits find(std::span<const std::string> activeDims, int64_t globalBatch) {
    std::optional<uint32_t> rows;
    if (!layout.isCountedInSamples)
      rows = paddedRows(activeDims);
    int64_t stretch = rows ? stretchOf(*rows) : 1;
    most = layout.mostSamples > 0 ? std::max(layout.mostSamples, layout.microBatch) : globalBatch;
    result.samples = std::max(layout.microBatch, std::min(stretch * layout.microBatch, most));
    for (const GraphDim &dim : graph.dims) {
      result.capacity.multiples.push_back(dim.multipleOf);
      result.capacity.bounds.push_back(dim.sum ? rowsOf(dim, result.samples)
                                               : (dim.max + dim.multipleOf - 1) / dim.multipleOf * dim.multipleOf);
    }
    if (rows && stretch > 1)
      addAreas(*rows);
    if (result.capacity.areas.empty())
      setRows(layout.microBatch);
    if (!layout.isCountedInSamples)
      addSamples(activeDims);
    for (const GraphDim &dim : graph.dims)
      if (std::find(activeDims.begin(), activeDims.end(), dim.name) != activeDims.end())
        result.presence = std::min(result.presence, dim.presence);
    result.bounds = named(result.capacity.bounds);
    for (const std::vector<int64_t> &sizes : plan::largestMicroBatches(result.capacity))
      result.largest.push_back(named(sizes));
    for (size_t quartile = 0; quartile < kQuartiles; ++quartile)
      for (double part : {1.0, 0.5})
        result.usual.push_back(named(usual(quartile, part)));
    return std::move(result);
  }

private:
  /// The rows that so many samples have typically, one sample's most at least. A micro-batch whose samples have more
  /// takes fewer.
  static int64_t rowsOf(const GraphDim &dim, int64_t samples) {
    return std::max(dim.max, static_cast<int64_t>(std::ceil(static_cast<double>(samples) * dim.typical)));
  }

  void setRows(int64_t samples) {
    result.samples = samples;
    for (size_t d = 0; d < graph.dims.size(); ++d)
      if (graph.dims[d].sum)
        result.capacity.bounds[d] = rowsOf(graph.dims[d], samples);
  }

  /// Where one sample may have many of the section's rows there is room for several that have as many as usual.
  void addSamples(std::span<const std::string> activeDims) {
    double room = static_cast<double>(most);
    for (size_t d = 0; d < graph.dims.size(); ++d)
      if (const GraphDim &dim = graph.dims[d];
          dim.sum && std::find(activeDims.begin(), activeDims.end(), dim.name) != activeDims.end())
        room = std::min(room, static_cast<double>(result.capacity.bounds[d]) / dim.typical);
    if (!activeDims.empty())
      result.samples = std::max(result.samples, static_cast<int64_t>(room));
    for (size_t d = 0; d < graph.dims.size(); ++d)
      if (graph.dims[d].sum && graph.dims[d].max == 1)
        result.capacity.bounds[d] = std::max(result.capacity.bounds[d], rowsOf(graph.dims[d], result.samples));
  }

  std::optional<uint32_t> find(const DimExpr &size) const {
    for (uint32_t d = 0; d < graph.dims.size(); ++d)
      if (size.asSymbol() == graph.dims[d].name)
        return d;
    return std::nullopt;
  }

  /// Dims that rows of this one are padded to: some field has both.
  std::set<uint32_t> paddedWith(uint32_t rows) const {
    std::set<uint32_t> padded;
    for (const GraphField &field : graph.fields) {
      std::set<uint32_t> dims;
      for (const DimExpr &size : field.shape)
        if (std::optional<uint32_t> dim = find(size))
          dims.insert(*dim);
      if (dims.count(rows))
        std::copy_if(dims.begin(), dims.end(), std::inserter(padded, padded.end()),
                     [&](uint32_t dim) { return !graph.dims[dim].sum; });
    }
    return padded;
  }

  /// Of a section's own rows; of the samples' where all take part.
  std::optional<uint32_t> paddedRows(std::span<const std::string> activeDims) const {
    for (uint32_t d = 0; d < graph.dims.size(); ++d) {
      const GraphDim &dim = graph.dims[d];
      bool own = activeDims.empty() ? dim.max == 1
                                    : std::find(activeDims.begin(), activeDims.end(), dim.name) != activeDims.end();
      if (dim.sum && own && !paddedWith(d).empty())
        return d;
    }
    return std::nullopt;
  }

  /// So many typical samples have the length of one of the longest.
  int64_t stretchOf(uint32_t rows) const {
    double most = 1;
    for (uint32_t padded : paddedWith(rows)) {
      const GraphDim &dim = graph.dims[padded];
      most = std::max(most, static_cast<double>(dim.max) / std::max(dim.typical, static_cast<double>(dim.multipleOf)));
    }
    return std::clamp<int64_t>(std::llround(most), 1, kMostStretch);
  }

  void addAreas(uint32_t rows) {
    int64_t least = rowsOf(graph.dims[rows], layout.microBatch);
    for (uint32_t padded : paddedWith(rows))
      if (int64_t value = least * result.capacity.bounds[padded]; least < result.capacity.bounds[rows]) {
        result.capacity.areas.push_back({rows, padded, value});
        limitMarked(rows, padded, value);
      }
  }

  /// Rows whose features take places among the padded tokens are no more than there are places.
  void limitMarked(uint32_t rows, uint32_t padded, int64_t tokens) {
    for (const GraphField &field : graph.fields)
      for (const GraphMark &mark : field.marks) {
        auto has = [&](uint32_t dim) {
          return std::any_of(field.shape.begin(), field.shape.end(),
                             [&](const DimExpr &size) { return find(size) == dim; });
        };
        for (uint32_t d = 0; d < graph.dims.size(); ++d)
          if (graph.dims[d].name == mark.rows && has(rows) && has(padded))
            result.capacity.bounds[d] =
                std::min(result.capacity.bounds[d], std::max(rowsOf(graph.dims[d], layout.microBatch),
                                                             tokens / std::max<int64_t>(1, mark.perRow)));
      }
  }

  /// Samples of such lengths with as many rows as they have typically: a part of as many as there is room for.
  std::vector<int64_t> usual(size_t quartile, double part) const {
    std::vector<int64_t> sizes = result.capacity.bounds;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (const GraphDim &dim = graph.dims[d]; !dim.sum && dim.quartiles[quartile] > 0)
        sizes[d] = std::min(sizes[d], (dim.quartiles[quartile] + dim.multipleOf - 1) / dim.multipleOf * dim.multipleOf);
    auto samples = static_cast<double>(result.samples);
    for (const plan::Capacity::Area &area : result.capacity.areas)
      samples = std::min(samples, static_cast<double>(area.value / sizes[area.padded]) / graph.dims[area.rows].typical);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (graph.dims[d].sum)
        sizes[d] = std::clamp<int64_t>(std::llround(part * samples * graph.dims[d].typical), 1, sizes[d]);
    return sizes;
  }

  DimSizes named(const std::vector<int64_t> &sizes) const {
    DimSizes result;
    for (size_t d = 0; d < sizes.size(); ++d)
      result[graph.dims[d].name] = sizes[d];
    return result;
  }

  const GraphSummary &graph;
  const SectionLayout &layout;
  int64_t most = 1; ///< Samples of a micro-batch.
  MicroBatchLimits result;
};

} // namespace

MicroBatchLimits limitsOf(const GraphSummary &graph, const SectionLayout &layout,
                          std::span<const std::string> activeDims, int64_t globalBatch) {
  return Limits(graph, layout).find(activeDims, globalBatch);
}

} // namespace maestro::planner

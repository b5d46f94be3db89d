#include "planner/driver/step_sizes.h"

#include "cost_models/sample_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace maestro::planner {
namespace {

using Distribution = cost_models::SizeDistribution;

/// A step of more samples is simulated by its first ones; several steps have about so many together.
constexpr int64_t kMostSamples = 16'384;
constexpr uint64_t kEnoughSamples = 128, kMostSteps = 4;
/// Draws for means of what is declared.
constexpr uint64_t kDraws = 1024;

Distribution distributionOf(const GraphDim &dim, const Workload &workload) {
  auto declared = workload.synthetic.find(dim.name);
  if (declared == workload.synthetic.end())
    return {Distribution::Kind::Constant, dim.sum ? 1.0 : static_cast<double>(dim.max), 0, dim.sum ? 0 : 1, dim.max};
  return {static_cast<Distribution::Kind>(declared->second.kind), declared->second.a, declared->second.b,
          dim.sum ? 0 : 1, dim.max};
}

DataQuestion questionOf(const GraphSummary &graph) {
  DataQuestion question;
  for (const GraphDim &dim : graph.dims)
    question.dims.push_back({dim.name, dim.sum, dim.max, dim.multipleOf});
  for (const GraphField &field : graph.fields) {
    DataQuestion::Field &own = question.fields.emplace_back();
    own.name = field.name;
    own.dtype = field.dtype;
    own.optional = field.optional;
    own.ownPositions = field.ownPositions;
    for (const DimExpr &size : field.shape) {
      auto dim = std::find_if(graph.dims.begin(), graph.dims.end(),
                              [&](const GraphDim &d) { return size.asSymbol() == d.name; });
      if (dim == graph.dims.end())
        own.shape.push_back({size.asConstant().value_or(0), -1});
      else
        own.shape.push_back({0, static_cast<int>(dim - graph.dims.begin())});
    }
  }
  return question;
}

/// Dims of which some field of a sample tells the size.
std::vector<uint8_t> toldBy(const DataQuestion &question) {
  std::vector<uint8_t> told(question.dims.size(), 0);
  for (const DataQuestion::Field &field : question.fields)
    for (const DataQuestion::Size &size : field.shape)
      if (size.dim >= 0 && !field.ownPositions)
        told[static_cast<size_t>(size.dim)] = 1;
  return told;
}

/// Of one dim: all sizes that are known of it.
struct Column {
  std::vector<int64_t> sizes;
  std::string source;

  double mean(bool ofPresent) const {
    int64_t sum = 0, present = 0;
    for (int64_t size : sizes) {
      sum += size;
      present += size > 0;
    }
    return static_cast<double>(sum) /
           std::max(1.0, static_cast<double>(ofPresent ? present : static_cast<int64_t>(sizes.size())));
  }

  /// What samples that have any have of it.
  void describe(GraphDim &dim) const {
    dim.typical = std::max(1.0, mean(true));
    dim.presence =
        static_cast<double>(std::count_if(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; })) /
        static_cast<double>(sizes.size());
    std::vector<int64_t> present;
    std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(present), [](int64_t size) { return size > 0; });
    std::sort(present.begin(), present.end());
    for (size_t i = 0; i < kQuartiles && !present.empty(); ++i)
      dim.quartiles[i] = present[present.size() * (i + 1) / (kQuartiles + 1)];
  }
};

class Sizes {
public:
  Sizes(const Workload &workload, GraphSummary &graph)
      : workload(workload), graph(graph), question(questionOf(graph)), told(toldBy(question)) {}

  Result<StepSizes> take(const ReadSizes &read) {
    if (read) {
      MAESTRO_ASSIGN(data, read(question));
    }
    StepSizes result;
    lowerBounds(result.notes);
    result.data = data.what;
    draw(result);
    placeData(result.steps);
    placeData(result.others);
    for (size_t d = 0; d < graph.dims.size(); ++d) {
      Column column = columnOf(d);
      GraphDim &dim = graph.dims[d];
      if (isFromData(d) || workload.synthetic.count(dim.name))
        column.describe(dim);
      result.quantities.push_back({"sizes." + dim.name + ".mean", column.mean(false), "", column.source});
      result.quantities.push_back({"sizes." + dim.name + ".most",
                                   static_cast<double>(*std::max_element(column.sizes.begin(), column.sizes.end())), "",
                                   column.source});
      if (!dim.maxSource.empty())
        result.quantities.push_back({"sizes." + dim.name + ".bound", static_cast<double>(dim.max), "", dim.maxSource});
    }
    return result;
  }

private:
  size_t width() const { return graph.dims.size(); }
  size_t samples() const { return width() ? data.values.size() / width() : 0; }
  bool isFromData(size_t dim) const { return samples() > 0 && told[dim]; }

  /// A model allows far longer samples than most data has, and micro-batches must hold the longest: where all samples
  /// are known, what only the model says gives way to them, but not below the default.
  void lowerBounds(std::vector<std::string> &notes) {
    for (size_t d = 0; d < graph.dims.size(); ++d) {
      GraphDim &dim = graph.dims[d];
      if (!dim.maxIsSaid || dim.sum || !data.isWhole || !isFromData(d))
        continue;
      int64_t most = kDefaultLength;
      for (size_t sample = 0; sample < samples(); ++sample)
        most = std::max(most, data.values[sample * width() + d]);
      most = (most + dim.multipleOf - 1) / dim.multipleOf * dim.multipleOf;
      if (most >= dim.max)
        continue;
      dim.maxSource = fmt::format("no sample is longer ({}), and the model allows {}; dims.{}.max sets it", data.what,
                                  dim.max, dim.name);
      notes.push_back(
          fmt::format("dims.{}: max {}, as no sample is longer; the model allows {}", dim.name, most, dim.max));
      dim.max = most;
    }
  }

  /// As declared.
  void draw(StepSizes &result) const {
    std::vector<Distribution> dims;
    bool varies = samples() > 0;
    for (const GraphDim &dim : graph.dims) {
      dims.push_back(distributionOf(dim, workload));
      varies |= dims.back().kind != Distribution::Kind::Constant;
    }
    auto each = static_cast<uint64_t>(std::min(workload.train.globalBatch, kMostSamples));
    uint64_t steps = varies ? std::clamp<uint64_t>(kEnoughSamples / each, 1, kMostSteps) : 1;
    if (steps > 1 || !varies) {
      result.steps = cost_models::drawSizes(dims, steps, each, workload.train.seed);
      return;
    }
    result.steps = {cost_models::typicalStep(dims, each, workload.train.seed)};
    result.others = cost_models::drawSizes(dims, kMostSteps, each, workload.train.seed);
  }

  /// What was read in place of what was drawn; data that is shorter than a step is repeated.
  void placeData(std::vector<cost_models::SampleSizes> &steps) const {
    for (size_t step = 0; step < steps.size(); ++step)
      for (size_t i = 0; i < steps[step].size(); ++i)
        if (isFromData(i % width())) {
          size_t sample = (step * samples() / steps.size() + i / width()) % samples();
          steps[step][i] = data.values[sample * width() + i % width()];
        }
  }

  Column columnOf(size_t d) const {
    const GraphDim &dim = graph.dims[d];
    Column column;
    if (isFromData(d)) {
      for (size_t sample = 0; sample < samples(); ++sample)
        column.sizes.push_back(data.values[sample * width() + d]);
      column.source = "read from headers: " + data.what;
      return column;
    }
    Distribution declared[] = {distributionOf(dim, workload)};
    column.sizes = cost_models::drawSizes(declared, 1, kDraws, workload.train.seed).front();
    column.source = workload.synthetic.count(dim.name) ? "declared: synthetic." + dim.name
                    : dim.sum
                        ? "assumed: one row a sample"
                        : "assumed: all samples at the bound; --data reads it, synthetic." + dim.name + " declares it";
    return column;
  }

  const Workload &workload;
  GraphSummary &graph;
  DataQuestion question;
  std::vector<uint8_t> told;
  DataSizes data;
};

} // namespace

Result<StepSizes> stepSizes(const Workload &workload, GraphSummary &graph, const ReadSizes &read) {
  return Sizes(workload, graph).take(read);
}

} // namespace maestro::planner

// The programs of a training task compute the global batch's loss and gradients (S1): counts first,
// then @forward and @backward per micro-batch, in whatever grouping, under every recompute policy,
// against the imported graph evaluated on the whole batch and central differences of it.
#include "ir/nn/nn.h"
#include "passes/graph_functions.h"
#include "passes/passes.h"
#include "test/support/interpreter.h"

#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace mlir;

namespace maestro::test {
namespace {

constexpr int64_t kBatch = 4, kSeq = 5, kVocabulary = 11;

MLIRContext &context() {
  static MLIRContext *context = [] {
    auto *created = new MLIRContext(MLIRContext::Threading::DISABLED);
    created->loadDialect<func::FuncDialect, nn::NNDialect>();
    return created;
  }();
  return *context;
}

OwningOpRef<ModuleOp> parseNetwork() { return parseSourceFile<ModuleOp>(MAESTRO_NETWORK, &context()); }

using Named = std::map<std::string, Tensor>;

/// Rows [begin, end) of a data field.
Tensor rows(const Tensor &field, int64_t begin, int64_t end) {
  std::vector<int64_t> shape(field.type().shape().begin(), field.type().shape().end());
  int64_t rowSize = field.size() / shape[0];
  shape[0] = end - begin;
  Tensor part(field.type().dtype, shape);
  for (int64_t i = 0; i < part.size(); ++i)
    part.set(i, field.at(begin * rowSize + i));
  return part;
}

class Network {
public:
  explicit Network(ModuleOp module) : module(module), library(kernels::createReferenceLibrary()) {}

  /// Seeded values for everything that @graph takes.
  void makeData() {
    std::mt19937_64 random(3);
    func::FuncOp graph = findFunction(module, attributes::kGraphFunction);
    Interpreter whole(*library, symbols(kBatch));
    for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
      auto type = whole.typeOf(graph.getArgument(i).getType());
      ASSERT_TRUE(type.isOk());
      Tensor tensor(type->dtype, type->shape());
      for (int64_t e = 0; e < tensor.size(); ++e)
        tensor.set(e, isFloat(type->dtype) ? std::uniform_real_distribution<double>(-1, 1)(random)
                                           : double(random() % kVocabulary));
      StringRef field = argumentText(graph, i, attributes::kField);
      if (field == "labels") // Unequal numbers of counted positions per row, none in the last.
        for (int64_t e = 0; e < tensor.size(); ++e)
          if (e % kSeq < e / kSeq || e / kSeq == kBatch - 1)
            tensor.set(e, -100);
      if (field.empty())
        parameters[argumentText(graph, i, attributes::kParameter).str()] = tensor;
      else
        fields[field.str()] = tensor;
    }
  }

  /// Runs a function on rows [begin, end); `extra` holds what else its arguments name.
  std::vector<Tensor> run(StringRef name, int64_t begin, int64_t end, const Named &extra = {}) {
    func::FuncOp function = findFunction(module, name);
    std::vector<Tensor> arguments;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      StringRef field = argumentText(function, i, attributes::kField);
      StringRef parameter = argumentText(function, i, attributes::kParameter);
      if (!field.empty())
        arguments.push_back(rows(fields.at(field.str()), begin, end));
      else if (!parameter.empty())
        arguments.push_back(parameters.at(parameter.str()));
      else
        arguments.push_back(extra.at(keyOf(function, i)));
    }
    auto results = Interpreter(*library, symbols(end - begin)).run(function, arguments);
    EXPECT_TRUE(results.isOk()) << results.status().message();
    return results.isOk() ? *results : std::vector<Tensor>();
  }

  static std::string keyOf(func::FuncOp function, unsigned i) {
    if (auto saved = function.getArgAttrOfType<IntegerAttr>(i, attributes::kSaved))
      return "saved" + std::to_string(saved.getInt());
    auto term = function.getArgAttrOfType<IntegerAttr>(i, attributes::kTerm);
    return "scale" + std::to_string(term ? term.getInt() : 0);
  }

  ModuleOp module;
  std::unique_ptr<kernels::Library> library;
  Named parameters, fields;

private:
  static Symbols symbols(int64_t batch) { return {{"batch", batch}, {"seq", kSeq}}; }
};

struct Outcome {
  double loss = 0;
  Named gradients;
};

/// What a program adds to the loss.
double lossOf(func::FuncOp function, const std::vector<Tensor> &results, const Named &scales) {
  double loss = 0;
  for (const LossResult &own : lossResults(function))
    loss += results.at(own.index).at(0) * scales.at("scale" + std::to_string(own.term)).at(0);
  return loss;
}

/// A step as an executor does it, for micro-batches that end at the given rows.
Outcome trainStep(Network &network, llvm::ArrayRef<int64_t> ends) {
  func::FuncOp count = findFunction(network.module, attributes::kCountFunction);
  llvm::SmallVector<LossResult> losses = lossResults(count);
  std::vector<double> counts(losses.size());
  int64_t begin = 0;
  for (int64_t end : ends) {
    std::vector<Tensor> parts = network.run(attributes::kCountFunction, std::exchange(begin, end), end);
    for (size_t k = 0; k < counts.size(); ++k)
      counts[k] += parts.at(k).at(0);
  }
  Named extra;
  for (size_t k = 0; k < counts.size(); ++k) {
    Tensor scale(DType::F32, {});
    scale.set(0, losses[k].weight / counts[k]);
    extra["scale" + std::to_string(losses[k].term)] = scale;
  }
  Outcome outcome;
  begin = 0;
  func::FuncOp forward = findFunction(network.module, attributes::kForwardFunction);
  for (int64_t end : ends) {
    std::vector<Tensor> results = network.run(attributes::kForwardFunction, begin, end);
    outcome.loss += lossOf(forward, results, extra);
    for (unsigned i = 0; i < forward.getNumResults(); ++i)
      if (auto saved = forward.getResultAttrOfType<IntegerAttr>(i, attributes::kSaved))
        extra["saved" + std::to_string(saved.getInt())] = results.at(i);
    for (StringRef name : {attributes::kBackwardFunction, attributes::kWeightGradientFunction}) {
      func::FuncOp function = findFunction(network.module, name);
      std::vector<Tensor> values = function ? network.run(name, begin, end, extra) : std::vector<Tensor>();
      outcome.loss += function ? lossOf(function, values, extra) : 0;
      for (unsigned i = 0; i < values.size(); ++i) {
        if (function.getResultAttr(i, attributes::kLoss))
          continue;
        if (auto saved = function.getResultAttrOfType<IntegerAttr>(i, attributes::kSaved)) {
          extra["saved" + std::to_string(saved.getInt())] = values.at(i);
          continue;
        }
        Tensor &sum = outcome.gradients[resultText(function, i, attributes::kGradient).str()];
        if (sum.size() != values.at(i).size() || !sum.data())
          sum = Tensor(DType::F32, values.at(i).type().shape());
        for (int64_t e = 0; e < sum.size(); ++e)
          sum.set(e, sum.at(e) + values.at(i).at(e));
      }
    }
    begin = end;
  }
  return outcome;
}

/// What is computed again, whether the backward is split, over how many chunks of rows the loss is done: more than some
/// micro-batches have.
class ProgramsTest : public testing::TestWithParam<std::tuple<RecomputeChoice, bool, int64_t>> {};

TEST_P(ProgramsTest, MicroBatchesAddUpToTheWholeBatch) {
  OwningOpRef<ModuleOp> imported = parseNetwork(), module = parseNetwork();
  ASSERT_TRUE(imported && module);
  PassManager manager(&context());
  PipelineOptions options;
  auto [recompute, splits, chunks] = GetParam();
  options.partition.recompute["*"] = recompute;
  options.partition.splitBackward["*"] = splits;
  options.partition.lossChunks["*"] = chunks;
  buildPipeline(manager, options);
  ASSERT_TRUE(succeeded(manager.run(*module)));

  auto sections = module->getOps<ModuleOp>();
  ASSERT_EQ(std::distance(sections.begin(), sections.end()), 1);
  EXPECT_EQ(findFunction(*sections.begin(), attributes::kWeightGradientFunction) != nullptr, splits);
  EXPECT_EQ(findFunction(*sections.begin(), attributes::kEvaluateFunction) != nullptr, chunks > 1);
  Network graph(*imported), programs(*sections.begin());
  graph.makeData();
  programs.parameters = graph.parameters;
  programs.fields = graph.fields;
  double expected = graph.run(attributes::kGraphFunction, 0, kBatch).at(0).at(0);
  const std::vector<std::vector<int64_t>> groupings{{4}, {1, 4}, {1, 2, 3, 4}};
  for (const std::vector<int64_t> &ends : groupings) {
    Outcome outcome = trainStep(programs, ends);
    EXPECT_NEAR(outcome.loss, expected, 1e-5 * std::abs(expected));
    if (chunks > 1) {
      func::FuncOp evaluate = findFunction(programs.module, attributes::kEvaluateFunction);
      std::vector<Tensor> sums = programs.run(attributes::kEvaluateFunction, 0, kBatch);
      std::vector<Tensor> counts = programs.run(attributes::kCountFunction, 0, kBatch);
      double loss = 0;
      for (auto [own, count] : llvm::zip_equal(lossResults(evaluate), counts))
        loss += own.weight * sums.at(own.index).at(0) / count.at(0);
      EXPECT_NEAR(loss, expected, 1e-5 * std::abs(expected));
    }
    EXPECT_EQ(outcome.gradients.size(),
              graph.parameters.size() - 1); // All but the frozen frequencies.
    for (auto &[name, gradient] : outcome.gradients) {
      Tensor &parameter = graph.parameters.at(name);
      for (int64_t e = 0; e < gradient.size(); e += 7) {
        constexpr double kStep = 1e-2;
        double at = parameter.at(e);
        auto lossAt = [&](double value) {
          parameter.set(e, value);
          return graph.run(attributes::kGraphFunction, 0, kBatch).at(0).at(0);
        };
        double slope = (lossAt(at + kStep) - lossAt(at - kStep)) / (2 * kStep);
        parameter.set(e, at);
        EXPECT_NEAR(gradient.at(e), slope, 2e-3) << name << " element " << e;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, ProgramsTest,
    testing::Combine(testing::Values(RecomputeChoice(), RecomputeChoice(Recompute::Selective),
                                     RecomputeChoice(Recompute::Full), RecomputeChoice(Recompute::Selective, 1),
                                     RecomputeChoice(Recompute::Full, 1), RecomputeChoice(Recompute::Full, 2, true)),
                     testing::Bool(), testing::Values(1, 7)),
    [](const testing::TestParamInfo<std::tuple<RecomputeChoice, bool, int64_t>> &info) {
      const RecomputeChoice &recompute = std::get<0>(info.param);
      return std::string(nameOf(recompute.most)) +
             (recompute.lighter > 0 ? "_less_" + std::to_string(recompute.lighter) : "") +
             (recompute.evenly ? "_evenly" : "") + (std::get<1>(info.param) ? "_split" : "") +
             (std::get<2>(info.param) > 1 ? "_chunks" : "");
    });

} // namespace
} // namespace maestro::test

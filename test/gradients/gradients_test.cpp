// Every differentiable operator's gradient against central differences, in f64 on the reference
// kernels.
//
// Each function of the .mlir files beside is a case. Its float arguments are wanted unless they
// carry test.constant; values are uniform in test.range (default [-1, 1]), integers included, and
// multiples of test.step where given. The scalar that is differentiated is Σ results · random
// numbers.
#include "ir/nn/nn.h"
#include "passes/differentiation.h"
#include "passes/graph_functions.h"
#include "test/support/interpreter.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>
#include <filesystem>
#include <random>
#include <set>

using namespace mlir;

namespace maestro::test {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6; ///< Of the largest difference quotient, or of 1.

MLIRContext &context() {
  static MLIRContext *context = [] {
    auto *created = new MLIRContext(MLIRContext::Threading::DISABLED);
    created->loadDialect<func::FuncDialect, nn::NNDialect>();
    created->allowUnregisteredDialects(); // test.* attributes
    return created;
  }();
  return *context;
}

/// All cases of all files, parsed once.
const std::vector<func::FuncOp> &cases() {
  static const std::vector<func::FuncOp> *functions = [] {
    auto *found = new std::vector<func::FuncOp>;
    static std::vector<OwningOpRef<ModuleOp>> modules;
    std::set<std::filesystem::path> files;
    for (const auto &file : std::filesystem::directory_iterator(MAESTRO_CASES))
      if (file.path().extension() == ".mlir")
        files.insert(file.path());
    for (const auto &file : files) {
      modules.push_back(parseSourceFile<ModuleOp>(file.string(), &context()));
      if (!modules.back())
        ADD_FAILURE() << file << " does not parse";
      else
        for (auto function : modules.back()->getOps<func::FuncOp>())
          found->push_back(function);
    }
    return found;
  }();
  return *functions;
}

Symbols symbolsOf(func::FuncOp function) {
  Symbols symbols;
  if (auto declared = function->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>("test.symbols"))
    for (NamedAttribute symbol : declared)
      symbols[symbol.getName().str()] = cast<IntegerAttr>(symbol.getValue()).getInt();
  return symbols;
}

double number(Attribute attribute) {
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return double(integer.getInt());
  return cast<FloatAttr>(attribute).getValueAsDouble();
}

class Case {
public:
  explicit Case(func::FuncOp function)
      : function(function), library(kernels::createReferenceLibrary()), interpreter(*library, symbolsOf(function)),
        random(7) {}

  void check() {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      arguments.push_back(makeArgument(i));
      if (isWanted(i))
        wanted.push_back(i);
    }
    ASSERT_FALSE(wanted.empty());
    std::vector<Tensor> gradients = computeGradients();
    ASSERT_EQ(gradients.size(), wanted.size());
    for (size_t w = 0; w < wanted.size(); ++w)
      compare(wanted[w], gradients[w]);
  }

private:
  bool isWanted(unsigned i) {
    return nn::typeOf(function.getArgument(i)).isFloat() && !function.getArgAttr(i, "test.constant");
  }

  Tensor makeArgument(unsigned i) {
    auto type = interpreter.typeOf(function.getArgument(i).getType());
    EXPECT_TRUE(type.isOk()) << type.status().message();
    double low = -1, high = 1;
    if (auto range = function.getArgAttrOfType<ArrayAttr>(i, "test.range")) {
      low = number(range[0]);
      high = number(range[1]);
    }
    Tensor tensor(type->dtype, type->shape());
    Attribute step = function.getArgAttr(i, "test.step");
    for (int64_t e = 0; e < tensor.size(); ++e) {
      double value = std::uniform_real_distribution<double>(low, high)(random);
      if (!isFloat(type->dtype))
        value = double(std::uniform_int_distribution<int64_t>(int64_t(low), int64_t(high))(random));
      tensor.set(e, step ? std::round(value / number(step)) * number(step) : value);
    }
    return tensor;
  }

  /// Runs a copy of the function that returns the gradients of the wanted arguments instead.
  std::vector<Tensor> computeGradients() {
    ModuleOp module = function->getParentOfType<ModuleOp>();
    func::FuncOp copy = function.clone();
    module.push_back(copy);
    copy.setName("gradient_of_" + function.getName().str());
    std::vector<Tensor> inputs = arguments;
    llvm::SmallVector<IncomingGradient> incoming;
    for (Value result : returnedValues(copy)) {
      auto type = interpreter.typeOf(result.getType());
      Tensor direction(type->dtype, type->shape());
      if (nn::typeOf(result).isFloat())
        addDirection(copy, result, direction, inputs, incoming);
      directions.push_back(direction);
    }
    OpBuilder builder(copy.getBody().front().getTerminator());
    llvm::SmallVector<Value> values;
    for (unsigned i : wanted)
      values.push_back(copy.getArgument(i));
    auto gradients = differentiate(builder, copy.getBody().front(), values, incoming);
    EXPECT_TRUE(succeeded(gradients));
    std::vector<Tensor> results;
    if (succeeded(gradients))
      results = runGradients(copy, *gradients, inputs);
    copy.erase();
    return results;
  }

  void addDirection(func::FuncOp copy, Value result, Tensor &direction, std::vector<Tensor> &inputs,
                    llvm::SmallVectorImpl<IncomingGradient> &incoming) {
    for (int64_t e = 0; e < direction.size(); ++e)
      direction.set(e, std::uniform_real_distribution<double>(-1, 1)(random));
    unsigned index = copy.getNumArguments();
    (void)copy.insertArgument(index, result.getType(), {}, copy.getLoc());
    incoming.push_back({result, copy.getArgument(index)});
    inputs.push_back(direction);
  }

  std::vector<Tensor> runGradients(func::FuncOp copy, llvm::ArrayRef<Value> gradients,
                                   const std::vector<Tensor> &inputs) {
    llvm::SmallVector<FunctionResult> results;
    for (auto [i, gradient] : llvm::zip_equal(wanted, gradients)) {
      EXPECT_TRUE(gradient) << "no gradient for argument " << i;
      if (!gradient)
        return {};
      EXPECT_EQ(gradient.getType(), copy.getArgument(i).getType());
      results.push_back({gradient, {}});
    }
    setResults(copy, results);
    EXPECT_TRUE(succeeded(mlir::verify(copy)));
    auto computed = interpreter.run(copy, inputs);
    EXPECT_TRUE(computed.isOk()) << computed.status().message();
    return computed.isOk() ? *computed : std::vector<Tensor>();
  }

  /// Σ results · directions.
  double evaluate(const std::vector<Tensor> &inputs) {
    auto results = interpreter.run(function, inputs);
    EXPECT_TRUE(results.isOk()) << results.status().message();
    double sum = 0;
    for (size_t r = 0; results.isOk() && r < results->size(); ++r)
      for (int64_t e = 0; e < directions[r].size(); ++e)
        if (directions[r].at(e) != 0.0)
          sum += (*results)[r].at(e) * directions[r].at(e);
    return sum;
  }

  void compare(unsigned argument, const Tensor &gradient) {
    std::vector<double> expected(gradient.size());
    double largest = 1.0;
    for (int64_t e = 0; e < gradient.size(); ++e) {
      std::vector<Tensor> moved = arguments;
      double at = arguments[argument].at(e);
      auto shifted = [&](double shift) {
        moved[argument] = arguments[argument].clone();
        moved[argument].set(e, at + shift);
        return evaluate(moved);
      };
      expected[e] = (shifted(kStep) - shifted(-kStep)) / (2 * kStep);
      largest = std::max(largest, std::abs(expected[e]));
    }
    for (int64_t e = 0; e < gradient.size(); ++e)
      EXPECT_NEAR(gradient.at(e), expected[e], kTolerance * largest) << "argument " << argument << ", element " << e;
  }

  func::FuncOp function;
  std::unique_ptr<kernels::Library> library;
  Interpreter interpreter;
  std::mt19937_64 random;
  std::vector<Tensor> arguments, directions;
  std::vector<unsigned> wanted;
};

class GradientTest : public testing::TestWithParam<size_t> {};

TEST_P(GradientTest, IsTheLimitOfDifferences) { Case(cases()[GetParam()]).check(); }

INSTANTIATE_TEST_SUITE_P(Operators, GradientTest, testing::Range<size_t>(0, cases().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           func::FuncOp function = cases()[info.param];
                           return function.getName().str();
                         });

TEST(GradientCoverage, EveryDifferentiableOperatorHasACase) {
  std::set<std::string> covered;
  for (func::FuncOp function : cases())
    function.walk([&](Operation *op) { covered.insert(op->getName().getStringRef().str()); });
  size_t differentiable = 0;
  for (RegisteredOperationName name : context().getRegisteredOperations()) {
    if (!name.hasInterface<nn::DifferentiableOpInterface>())
      continue;
    ++differentiable;
    EXPECT_TRUE(covered.count(name.getStringRef().str())) << name.getStringRef().str() << " has no case";
  }
  EXPECT_GT(differentiable, 50u);
}

} // namespace
} // namespace maestro::test

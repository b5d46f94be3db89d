// Raising changes how a graph is written, never what it computes: every function of raise*.mlir, run before and after.
#include "ir/nn/nn.h"
#include "passes/passes.h"
#include "test/support/interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>
#include <filesystem>
#include <random>

using namespace mlir;

namespace maestro::test {
namespace {

MLIRContext &context() {
  static MLIRContext *context = [] {
    auto *created = new MLIRContext(MLIRContext::Threading::DISABLED);
    created->loadDialect<func::FuncDialect, nn::NNDialect>();
    return created;
  }();
  return *context;
}

/// Seeded values; of truth values the first row is false, so that a mask hides all that one query may see.
Tensor drawn(const kernels::TensorType &type, std::mt19937_64 &random) {
  Tensor tensor(type.dtype, type.shape());
  int64_t row = type.shape().empty() ? 1 : type.shape().back();
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, type.dtype == DType::Bool ? i >= row && random() % 3 != 0
                                            : std::uniform_real_distribution<double>(-1, 1)(random));
  return tensor;
}

std::vector<Tensor> argumentsOf(const Interpreter &interpreter, func::FuncOp function) {
  std::mt19937_64 random(7);
  std::vector<Tensor> arguments;
  for (Type type : function.getArgumentTypes()) {
    auto concrete = interpreter.typeOf(type);
    EXPECT_TRUE(concrete.isOk()) << concrete.status().message();
    arguments.push_back(drawn(*concrete, random));
  }
  return arguments;
}

double largest(const Tensor &tensor) {
  double most = 1e-3;
  for (int64_t i = 0; i < tensor.size(); ++i)
    most = std::isfinite(tensor.at(i)) ? std::max(most, std::abs(tensor.at(i))) : most;
  return most;
}

void expectSame(const std::vector<Tensor> &before, const std::vector<Tensor> &after) {
  ASSERT_EQ(before.size(), after.size());
  for (size_t r = 0; r < before.size(); ++r) {
    ASSERT_EQ(before[r].type(), after[r].type());
    double tolerance = 1e-5 * largest(before[r]);
    for (int64_t i = 0; i < before[r].size(); ++i) {
      double was = before[r].at(i), is = after[r].at(i);
      ASSERT_TRUE(was == is || (std::isnan(was) && std::isnan(is)) || std::abs(was - is) <= tolerance)
          << "result " << r << ", element " << i << ": " << was << " before, " << is << " after";
    }
  }
}

/// How many functions had another number of operators afterwards.
size_t compare(ModuleOp original) {
  OwningOpRef<ModuleOp> raised = original.clone();
  PassManager manager(&context());
  addRaisePasses(manager);
  EXPECT_TRUE(succeeded(manager.run(*raised)));
  std::unique_ptr<kernels::Library> library = kernels::createReferenceLibrary();
  Interpreter interpreter(*library, {{"batch", 2}, {"seq", 6}});
  size_t changed = 0;
  for (auto function : original.getOps<func::FuncOp>()) {
    SCOPED_TRACE(function.getName().str());
    auto after = raised->lookupSymbol<func::FuncOp>(function.getName());
    std::vector<Tensor> arguments = argumentsOf(interpreter, function);
    auto expected = interpreter.run(function, arguments), found = interpreter.run(after, arguments);
    EXPECT_TRUE(expected.isOk()) << expected.status().message();
    EXPECT_TRUE(found.isOk()) << found.status().message();
    if (expected.isOk() && found.isOk())
      expectSame(*expected, *found);
    changed += function.front().getOperations().size() != after.front().getOperations().size();
  }
  return changed;
}

TEST(Raise, ComputesTheSame) {
  size_t files = 0, changed = 0;
  for (const auto &entry : std::filesystem::directory_iterator(MAESTRO_CASES)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with("raise") || entry.path().extension() != ".mlir")
      continue;
    SCOPED_TRACE(name);
    OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(entry.path().string(), &context());
    ASSERT_TRUE(module);
    changed += compare(*module);
    ++files;
  }
  EXPECT_GE(files, 1u);
  EXPECT_GE(changed, 8u); // Else nothing was raised, and nothing compared.
}

} // namespace
} // namespace maestro::test

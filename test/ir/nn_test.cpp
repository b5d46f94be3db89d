// The dialect from C++: element types, tensor types, creation that may fail, and what every factor rule keeps.
#include "ir/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace maestro;
using namespace maestro::nn;

namespace {

class NN : public testing::Test {
protected:
  NN() : builder(&context) { context.loadDialect<NNDialect, mlir::func::FuncDialect>(); }

  TensorType tensor(std::initializer_list<const char *> dims, DType dtype = DType::F32) {
    llvm::SmallVector<DimExpr> shape;
    for (const char *dim : dims)
      shape.push_back(*DimExpr::parse(dim));
    return TensorType::get(shape, elementTypeOf(&context, dtype));
  }
  mlir::Value value(TensorType type) { return block.addArgument(type, builder.getUnknownLoc()); }

  mlir::MLIRContext context;
  mlir::OpBuilder builder;
  mlir::Block block;
};

TEST_F(NN, ElementTypesRoundTrip) {
  for (int i = 0; i < kDTypeCount; ++i) {
    DType dtype = static_cast<DType>(i);
    EXPECT_EQ(dtypeOf(elementTypeOf(&context, dtype)), dtype) << name(dtype);
  }
  EXPECT_EQ(dtypeOf(builder.getIntegerType(7)), std::nullopt);
  EXPECT_EQ(dtypeOf(builder.getIntegerType(64, false)), std::nullopt);
  EXPECT_EQ(dtypeOf(builder.getIndexType()), std::nullopt);
}

TEST_F(NN, EqualShapesAreEqualTypes) {
  EXPECT_EQ(tensor({"a*b", "2*(n + 1)"}), tensor({"b*a", "2*n + 2"}));
  EXPECT_NE(tensor({"a"}), tensor({"b"}));
  EXPECT_NE(tensor({"a"}), tensor({"a"}, DType::BF16));
}

TEST_F(NN, TensorTypeAnswers) {
  TensorType type = tensor({"batch", "seq", "10"}, DType::BF16);
  EXPECT_EQ(type.getNumElements(), *DimExpr::parse("10*batch*seq"));
  EXPECT_EQ(type.getByteSize(), *DimExpr::parse("20*batch*seq"));
  EXPECT_EQ(tensor({"n"}, DType::Bool).getByteSize(), DimExpr::symbol("n"));
  EXPECT_EQ(tensor({}).getByteSize(), DimExpr(4));
  EXPECT_TRUE(type.getAccumulatorType().isF32());
  EXPECT_TRUE(tensor({}, DType::F64).getAccumulatorType().isF64());
  EXPECT_TRUE(tensor({}, DType::I64).getAccumulatorType().isInteger(64));
}

TEST_F(NN, Broadcasting) {
  auto shape = [&](std::initializer_list<const char *> dims) { return tensor(dims).getShape(); };
  EXPECT_EQ(shapeText(*broadcastShapes(shape({"b", "1", "4"}), shape({"s", "1"}))), "[b, s, 4]");
  EXPECT_EQ(shapeText(*broadcastShapes(shape({}), shape({"n"}))), "[n]");
  EXPECT_FALSE(broadcastShapes(shape({"n"}), shape({"m"})));
  EXPECT_FALSE(broadcastShapes(shape({"2"}), shape({"3"})));
}

//===----------------------------------------------------------------------===//
// tryCreate
//===----------------------------------------------------------------------===//

TEST_F(NN, CreatesWithInferredTypes) {
  builder.setInsertionPointToEnd(&block);
  mlir::Location location = builder.getUnknownLoc();
  mlir::Value x = value(tensor({"n", "4"})), w = value(tensor({"8", "4"}));
  auto product = tryCreate<MatmulOp>(builder, location, x, w, mlir::Value(), false, true);
  ASSERT_TRUE(mlir::succeeded(product));
  EXPECT_EQ(product->getType(), tensor({"n", "8"}));
  auto norm = tryCreate<LayerNormOp>(builder, location, x, mlir::Value(), mlir::Value(), 1, llvm::APFloat(1e-5));
  ASSERT_TRUE(mlir::succeeded(norm));
  EXPECT_EQ(norm->getRstd().getType(), tensor({"n"}));
}

TEST_F(NN, ReportsWhatCannotBeInferred) {
  builder.setInsertionPointToEnd(&block);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    message = diagnostic.str();
    return mlir::success();
  });
  mlir::Value x = value(tensor({"n", "4"})), y = value(tensor({"m", "4"}));
  EXPECT_TRUE(mlir::failed(tryCreate<AddOp>(builder, builder.getUnknownLoc(), x, y)));
  EXPECT_EQ(message, "nn.add: shapes [n, 4] and [m, 4] do not broadcast: dims must be the same "
                     "expression or 1");
  EXPECT_TRUE(block.empty());
}

//===----------------------------------------------------------------------===//
// Factor rules of every operator in ops.mlir
//===----------------------------------------------------------------------===//

void checkTensor(const FactorRule &rule, const TensorFactors &factors, mlir::Value value) {
  llvm::ArrayRef<DimExpr> shape = typeOf(value).getShape();
  ASSERT_EQ(factors.size(), shape.size());
  for (auto [dim, ofDim] : llvm::zip(shape, factors)) {
    DimExpr product = 1;
    for (unsigned factor : ofDim)
      product = product * rule.factors[factor].size;
    // A dim that broadcasts has size 1 and no factor; all others are products of theirs.
    EXPECT_EQ(product, dim);
  }
}

bool carries(const TensorFactors &tensor, unsigned factor) {
  return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
}

/// Parallel factors of operands reach every result; reduced ones do not reach all.
void checkKinds(const FactorRule &rule) {
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
    bool inOperand = llvm::any_of(rule.operandDims, [&](auto &t) { return carries(t, factor); });
    bool inAll = llvm::all_of(rule.resultDims, [&](auto &t) { return carries(t, factor); });
    FactorKind kind = rule.factors[factor].kind;
    if (kind == FactorKind::Parallel && inOperand) {
      EXPECT_TRUE(inAll) << "factor " << factor;
    }
    if (kind != FactorKind::Parallel && kind != FactorKind::Whole) {
      EXPECT_FALSE(inAll) << "factor " << factor;
    }
  }
}

TEST_F(NN, FactorRulesFitTheShapes) {
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(MAESTRO_OPS_MLIR, &context);
  ASSERT_TRUE(module);
  llvm::StringSet<> seen;
  module->walk([&](ShardableOpInterface op) {
    SCOPED_TRACE(op->getName().getStringRef().str());
    seen.insert(op->getName().getStringRef());
    FactorRule rule = op.getFactorRule();
    ASSERT_EQ(rule.operandDims.size(), op->getNumOperands());
    ASSERT_EQ(rule.resultDims.size(), op->getNumResults());
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      checkTensor(rule, rule.operandDims[i], op->getOperand(i));
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      checkTensor(rule, rule.resultDims[i], op->getResult(i));
    checkKinds(rule);
    EXPECT_EQ(FactorRule::parse(rule.str())->str(), rule.str());
  });
  // ops.mlir has every operator, so that this test and the round trip see all of them.
  for (mlir::RegisteredOperationName name : context.getRegisteredOperationsByDialect("nn"))
    EXPECT_TRUE(seen.contains(name.getStringRef())) << name.getStringRef().str();
}

} // namespace

#include "planner/emit/operator_costs.h"

#include "ir/nn/nn.h"

#include "llvm/ADT/SetVector.h"

#include <algorithm>

namespace maestro::planner {
namespace {

using cost_models::KernelWork;
using cost_models::OperatorTime;
using cost_models::Seconds;
using Sizes = std::map<std::string, int64_t>;

double product(llvm::ArrayRef<DimExpr> shape, const Sizes &sizes) {
  double elements = 1;
  for (const DimExpr &dim : shape)
    elements *= valueAtBounds(dim, sizes);
  return elements;
}

bool isProduct(mlir::Operation &op) { return mlir::isa<nn::MatmulOp, nn::MatmulAddOp>(op); }
bool isTransposed(mlir::Operation &product) {
  auto attribute = product.getAttrOfType<mlir::BoolAttr>("transpose_a");
  return attribute && attribute.getValue();
}

/// KernelWork's m, n, k. Of a product leading dims belong to m where all of them multiply the same matrix. A
/// convolution is the product of its patches with its filters: as many operations over as many results.
void setSizes(mlir::Operation &op, const Sizes &sizes, KernelWork &work) {
  llvm::ArrayRef<DimExpr> result = nn::typeOf(op.getResult(0)).getShape();
  if (isProduct(op)) {
    llvm::ArrayRef<DimExpr> a = nn::typeOf(op.getOperand(0)).getShape();
    double leading = product(result.drop_back(2), sizes);
    bool transposed = isTransposed(op), shared = nn::typeOf(op.getOperand(1)).getShape().size() == 2 && !transposed;
    work.m = valueAtBounds(result[result.size() - 2], sizes) * (shared ? leading : 1);
    work.n = valueAtBounds(result.back(), sizes);
    work.k = valueAtBounds(transposed ? a[a.size() - 2] : a.back(), sizes);
    work.batch = shared ? 1 : leading;
  } else if (mlir::isa<nn::ConvOp, nn::ConvGradInputOp, nn::ConvGradWeightOp>(op)) {
    double elements = product(result, sizes), first = valueAtBounds(result[0], sizes),
           second = valueAtBounds(result[1], sizes);
    bool filters = mlir::isa<nn::ConvGradWeightOp>(op);
    work.n = filters ? elements / first : second;
    work.m = elements / std::max(work.n, 1.0);
    work.k = work.flops.value / (2 * elements);
  } else if (work.isAttention()) {
    bool backward = mlir::isa<nn::AttentionGradOp>(op); // dy first.
    llvm::ArrayRef<DimExpr> q = nn::typeOf(op.getOperand(backward)).getShape(),
                            k = nn::typeOf(op.getOperand(backward + 1)).getShape();
    bool sequenceMajor =
        op.hasAttr("sequence_major") && mlir::cast<mlir::BoolAttr>(op.getAttr("sequence_major")).getValue();
    work.k = valueAtBounds(q.back(), sizes);
    work.m = product(q.drop_back(1), sizes);
    work.n = valueAtBounds(k[sequenceMajor ? 1 : 2], sizes);
  } else if (op.getNumOperands() > 0) {
    llvm::ArrayRef<DimExpr> rows = nn::typeOf(op.getOperand(0)).getShape();
    work.n = rows.empty() ? 1 : valueAtBounds(rows.back(), sizes);
    work.m = product(rows, sizes) / std::max(work.n, 1.0);
  }
  for (double *size : {&work.m, &work.n, &work.k})
    *size = std::max(*size, 1.0);
}

bool isBf16(mlir::Operation &op) {
  for (mlir::Value operand : op.getOperands())
    if (mlir::Type element = nn::typeOf(operand).getElementType(); element.isF32() || element.isBF16())
      return element.isBF16();
  return false;
}

mlir::Value maskOf(mlir::Operation &op) {
  if (auto attention = mlir::dyn_cast<nn::AttentionOp>(op))
    return attention.getMask();
  auto gradient = mlir::dyn_cast<nn::AttentionGradOp>(op);
  return gradient ? gradient.getMask() : mlir::Value();
}

/// Whether a mask hides what comes later, so that kernels skip whole blocks: it is made of positions in order, or given
/// to the function and differs by query. Others hide padding.
bool hidesWhatComes(mlir::Value mask) {
  if (mlir::isa<mlir::BlockArgument>(mask)) {
    llvm::ArrayRef<DimExpr> shape = nn::typeOf(mask).getShape();
    return shape.size() > 1 && !shape[shape.size() - 2].isConstant(1);
  }
  llvm::SmallSetVector<mlir::Value, 32> behind;
  behind.insert(mask);
  for (size_t i = 0; i < behind.size(); ++i) // It grows meanwhile.
    if (mlir::Operation *op = behind[i].getDefiningOp()) {
      if (mlir::isa<nn::LessOp, nn::LessEqualOp, nn::GreaterOp, nn::GreaterEqualOp>(op))
        return true;
      behind.insert(op->operand_begin(), op->operand_end());
    }
  return false;
}

KernelWork workOf(mlir::Operation &op, const OperatorWork &own, llvm::StringRef kernel, const Sizes &sizes) {
  KernelWork work;
  work.kernel = std::string_view(kernel.data(), kernel.size());
  work.bf16 = isBf16(op);
  work.flops = cost_models::Flops(valueAtBounds(own.flops, sizes));
  work.bytes = cost_models::Bytes(valueAtBounds(own.bytes, sizes));
  setSizes(op, sizes, work);
  if (isProduct(op) && isTransposed(op)) // As gradients of weights are.
    work.kernel = "matmul transposed";
  if (auto kind = op.getAttrOfType<mlir::StringAttr>("approximate"); kind && kind.getValue() == "tanh")
    work.kernel = work.kernel == "gelu" ? "gelu tanh" : "gelu_grad tanh";
  if (auto causal = op.getAttrOfType<mlir::BoolAttr>("causal"); causal && causal.getValue() && work.isAttention())
    work.kernel =
        work.kernel == "attention" ? "attention causal" : "attention_grad causal"; // Kernels skip what is masked.
  else if (mlir::Value mask = maskOf(op); mask && hidesWhatComes(mask))
    work.kernel = work.kernel == "attention" ? "attention masked" : "attention_grad masked";
  return work;
}

/// seconds = base + slope × work, none of them below 0.
struct Line {
  double base = 0, slope = 0;
};
struct Point {
  double work = 0, seconds = 0;
};

/// The least sum of squared relative errors: of base × x + slope × y against 1, where x = 1 ÷ seconds and y = work ÷
/// seconds.
Line nearest(llvm::ArrayRef<Point> points) {
  double x = 0, y = 0, xx = 0, xy = 0, yy = 0;
  for (const Point &point : points) {
    if (point.seconds <= 0)
      continue;
    double a = 1 / point.seconds, b = point.work / point.seconds;
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
    yy += b * b;
  }
  if (xx == 0)
    return {};
  double determinant = xx * yy - xy * xy;
  if (determinant <= 1e-9 * xx * yy) // One and the same work.
    return {x / xx, 0};
  Line line{(x * yy - y * xy) / determinant, (y * xx - x * xy) / determinant};
  if (line.slope < 0)
    return {x / xx, 0};
  return line.base < 0 ? Line{0, y / yy} : line;
}

double withoutCall(const OperatorTime &time, const cost_models::DeviceModel &device) {
  return std::max(time.time - device.rates.call, Seconds(0)).value;
}

} // namespace

OperatorCosts::OperatorCosts(const cost_models::DeviceModel &device, const MicroBatchLimits &limits,
                             OperatorWorks &works, plan::PlanBuilder &tables)
    : device(device), limits(limits), works(works), tables(tables) {}

const OperatorCost &OperatorCosts::of(mlir::Operation &op) {
  OperatorKey key(op);
  mlir::Value mask = maskOf(op);
  key.parts.push_back(mask && hidesWhatComes(mask) ? this : nullptr);
  auto [found, isNew] = known.try_emplace(std::move(key));
  if (isNew)
    found->second = ask(op);
  return found->second;
}

OperatorCost OperatorCosts::ask(mlir::Operation &op) {
  OperatorCost result;
  auto kernel = mlir::dyn_cast<nn::KernelOpInterface>(op);
  if (!mlir::isa<nn::CostOpInterface>(op) || !kernel || kernel.getKernelName().empty())
    return result;
  const OperatorWork &own = works.of(op);
  result.kernel = kernel.getKernelName().str();
  const DimSizes &bounds = limits.full();
  KernelWork full = workOf(op, own, result.kernel, bounds);
  OperatorTime atBounds = operatorTime(full, device);
  result.seconds = withoutCall(atBounds, device);
  result.provenance = atBounds.provenance;
  if (atBounds.provenance == cost_models::Provenance::BuiltIn && device.multiprocessors == 0) {
    cost_models::FlopsPerSecond arithmetic = arithmeticRate(full, device);
    addTerms(result.terms, own.flops, kPicoseconds / arithmetic.value, bounds, tables);
    addTerms(result.terms, own.bytes, kPicoseconds / device.rates.operands.value, bounds, tables);
    return result;
  }
  auto pointAt = [&](const Sizes &sizes) {
    KernelWork work = workOf(op, own, result.kernel, sizes);
    return Point{atBounds.byFlops ? work.flops.value : work.bytes.value,
                 withoutCall(operatorTime(work, device), device)};
  };
  Point most = pointAt(bounds);
  std::vector<Point> points{most};
  for (const DimSizes &sizes : limits.usual)
    points.push_back(pointAt(sizes));
  Line line = nearest(points);
  addTerms(result.terms, atBounds.byFlops ? own.flops : own.bytes, line.slope * kPicoseconds, bounds, tables);
  result.terms[{}] += line.base * kPicoseconds;
  return result;
}

} // namespace maestro::planner

// Matrix products, convolutions, pooling.
#include "planner/import/metadata.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

//===-- Products ------------------------------------------------------------===//

/// Swaps the last two dims, leaving the others: the operand of such a transpose can be read as it lies.
mlir::Value swappedOperand(mlir::Value x) {
  auto op = x.getDefiningOp<nn::TransposeOp>();
  if (!op)
    return {};
  auto permutation = op.getPermutation();
  int64_t rank = static_cast<int64_t>(permutation.size());
  for (int64_t i = 0; i < rank - 2; ++i)
    if (permutation[i] != i)
      return {};
  return rank >= 2 && permutation[rank - 2] == rank - 1 ? op.getX() : mlir::Value();
}

Result<mlir::Value> matmul(NodeContext &n, mlir::Value a, mlir::Value b, mlir::Value bias, bool transposeA,
                           bool transposeB) {
  auto sa = Emitter::shapeOf(a), sb = Emitter::shapeOf(b);
  DimExpr inner = transposeA ? sa[sa.size() - 2] : sa.back();
  DimExpr other = transposeB ? sb.back() : sb[sb.size() - 2];
  MAESTRO_TRY(
      n.e.requireEqual(inner, other, fmt::format("cannot multiply {} by {}", nn::shapeText(sa), nn::shapeText(sb))));
  MAESTRO_ASSIGN(Shape leading, n.e.broadcast(sa.drop_back(2), sb.drop_back(2)));
  // A transposed view is read as it lies. For `a` only where it has no leading dims to flatten.
  if (mlir::Value swapped = swappedOperand(b)) {
    b = swapped;
    transposeB = !transposeB;
  }
  if (mlir::Value swapped = swappedOperand(a); swapped && sa.size() == 2) {
    a = swapped;
    transposeA = !transposeA;
  }
  return n.e.emit<nn::MatmulOp>(a, b, bias, transposeA, transposeB, false);
}

/// Vectors take part as numpy's matmul has it.
Status importMatMul(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value a, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value b, n.tensor(1));
  if (Emitter::rankOf(a) == 0 || Emitter::rankOf(b) == 0)
    return Status::invalidInput("a scalar has no matrix product");
  bool rowVector = Emitter::rankOf(a) == 1, columnVector = Emitter::rankOf(b) == 1;
  if (rowVector)
    a = n.e.reshape(a, {DimExpr(1), Emitter::shapeOf(a)[0]});
  if (columnVector)
    b = n.e.reshape(b, {Emitter::shapeOf(b)[0], DimExpr(1)});
  MAESTRO_ASSIGN(mlir::Value y, matmul(n, a, b, {}, false, false));
  Shape shape(Emitter::shapeOf(y));
  if (columnVector)
    shape.pop_back();
  if (rowVector)
    shape.erase(shape.end() - (columnVector ? 1 : 2));
  return n.set(0, n.e.reshape(y, shape));
}

/// alpha·A·B + beta·C; a vector C with beta = 1 is the product's own bias.
Status importGemm(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value a, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value b, n.tensor(1));
  if (Emitter::rankOf(a) != 2 || Emitter::rankOf(b) != 2)
    return Status::invalidInput("operands must have rank 2");
  bool transposeA = n.intAttribute("transA", 0) != 0, transposeB = n.intAttribute("transB", 0) != 0;
  double alpha = n.floatAttribute("alpha", 1), beta = n.floatAttribute("beta", 1);
  mlir::Value c;
  if (n.has(2)) {
    MAESTRO_ASSIGN(c, n.tensor(2));
  }
  DimExpr columns = Emitter::shapeOf(b)[transposeB ? 0 : 1];
  bool isBias = c && alpha == 1 && beta == 1 && Emitter::rankOf(c) == 1 && Emitter::shapeOf(c)[0] == columns;
  MAESTRO_ASSIGN(mlir::Value y, matmul(n, a, b, isBias ? c : mlir::Value(), transposeA, transposeB));
  MAESTRO_ASSIGN(y, n.e.scaled(y, alpha));
  if (!c || isBias)
    return n.set(0, y);
  MAESTRO_ASSIGN(c, n.e.scaled(c, beta));
  return n.set(0, n.e.binary<nn::AddOp>(y, c));
}

//===-- Windows -------------------------------------------------------------===//

/// How a kernel moves over the spatial dims: one number per dim; pads low ends first.
struct Window {
  Ints kernel, strides, dilations, pads;
};

Result<Ints> perDim(NodeContext &n, const char *name, size_t count, int64_t fallback, int64_t least) {
  Ints values = n.intsAttribute(name).value_or(Ints(count, fallback));
  if (values.size() != count)
    return Status::invalidInput(fmt::format("{} has {} numbers for {} spatial dims", name, values.size(), count));
  for (int64_t value : values)
    if (value < least || value > (int64_t(1) << 30))
      return Status::invalidInput(fmt::format("{} holds {}", name, value));
  return values;
}

/// auto_pad SAME_*: the output has ceil(size ÷ stride) elements.
Status autoPad(const std::string &mode, llvm::ArrayRef<DimExpr> spatial, Window &w) {
  size_t count = spatial.size();
  w.pads.assign(2 * count, 0);
  if (mode == "VALID")
    return {};
  for (size_t i = 0; i < count; ++i) {
    int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1, total = extent - 1;
    if (w.strides[i] != 1) {
      auto size = spatial[i].asConstant();
      if (!size)
        return Status::invalidInput(fmt::format("auto_pad {} needs a constant size, not {}", mode, spatial[i].str()));
      int64_t outputs = (*size + w.strides[i] - 1) / w.strides[i];
      total = std::max<int64_t>(0, (outputs - 1) * w.strides[i] + extent - *size);
    }
    int64_t small = total / 2, large = total - small;
    w.pads[i] = mode == "SAME_UPPER" ? small : large;
    w.pads[count + i] = total - w.pads[i];
  }
  return {};
}

Result<Window> readWindow(NodeContext &n, Ints kernel, llvm::ArrayRef<DimExpr> spatial) {
  size_t count = spatial.size();
  if (count < 1 || count > 3)
    return Status::invalidInput(fmt::format("{} spatial dims; 1 to 3 are supported", count));
  if (kernel.size() != count)
    return Status::invalidInput(fmt::format("a kernel of {} dims over {} spatial dims", kernel.size(), count));
  for (int64_t size : kernel)
    if (size < 1 || size > (int64_t(1) << 30))
      return Status::invalidInput(fmt::format("a kernel of size {}", size));
  Window w{kernel, {}, {}, {}};
  MAESTRO_ASSIGN(w.strides, perDim(n, "strides", count, 1, 1));
  MAESTRO_ASSIGN(w.dilations, perDim(n, "dilations", count, 1, 1));
  std::string mode = n.textAttribute("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return Status::invalidInput(fmt::format("auto_pad '{}' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER", mode));
  if (mode != "NOTSET") {
    MAESTRO_TRY(autoPad(mode, spatial, w));
    return w;
  }
  w.pads = n.intsAttribute("pads").value_or(Ints(2 * count, 0));
  if (w.pads.size() != 2 * count)
    return Status::invalidInput(fmt::format("{} pads for {} spatial dims", w.pads.size(), count));
  for (int64_t pad : w.pads)
    if (pad < 0 || pad > (int64_t(1) << 30))
      return Status::invalidInput(fmt::format("a pad of {}", pad));
  return w;
}

Result<Ints> kernelOf(llvm::ArrayRef<DimExpr> weight) {
  Ints kernel;
  for (const DimExpr &dim : weight.drop_front(2)) {
    auto constant = dim.asConstant();
    if (!constant)
      return Status::invalidInput("the kernel's size must be a constant");
    kernel.push_back(*constant);
  }
  return kernel;
}

Status importConv(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value w, n.tensor(1));
  if (Emitter::rankOf(x) < 3 || Emitter::rankOf(w) != Emitter::rankOf(x))
    return Status::invalidInput("input and weight must have the same rank of 3 or more");
  MAESTRO_ASSIGN(Ints kernel, kernelOf(Emitter::shapeOf(w)));
  MAESTRO_ASSIGN(Window window, readWindow(n, kernel, Emitter::shapeOf(x).drop_front(2)));
  int64_t group = n.intAttribute("group", 1);
  if (group < 1)
    return Status::invalidInput(fmt::format("group is {}", group));
  mlir::Value bias;
  if (n.has(2)) {
    MAESTRO_ASSIGN(bias, n.tensor(2));
  }
  MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(x)[1], Emitter::shapeOf(w)[1] * DimExpr(group), "input channels"));
  return n.set(0, n.e.emit<nn::ConvOp>(x, w, bias, llvm::ArrayRef<int64_t>(window.strides),
                                       llvm::ArrayRef<int64_t>(window.pads), llvm::ArrayRef<int64_t>(window.dilations),
                                       group));
}

/// Sizes of a transposed convolution and the pads that give them.
Result<Shape> transposedSizes(NodeContext &n, llvm::ArrayRef<DimExpr> spatial, Window &w) {
  size_t count = spatial.size();
  MAESTRO_ASSIGN(Ints extra, perDim(n, "output_padding", count, 0, 0));
  auto given = n.intsAttribute("output_shape");
  if (given && given->size() != count)
    return Status::invalidInput("output_shape has not one number per spatial dim");
  std::string mode = n.textAttribute("auto_pad", "NOTSET");
  Shape sizes;
  for (size_t i = 0; i < count; ++i) {
    DimExpr full =
        (spatial[i] - 1) * DimExpr(w.strides[i]) + DimExpr(extra[i] + (w.kernel[i] - 1) * w.dilations[i] + 1);
    bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (!given && !same) {
      sizes.push_back(full - DimExpr(w.pads[i] + w.pads[count + i]));
      continue;
    }
    DimExpr size = given ? DimExpr((*given)[i]) : spatial[i] * DimExpr(w.strides[i]);
    auto total = (full - size).asConstant();
    if (!total)
      return Status::invalidInput("the output's shape needs pads that depend on dims");
    int64_t pads = std::max<int64_t>(0, *total), small = pads / 2;
    w.pads[i] = mode == "SAME_UPPER" ? small : pads - small;
    w.pads[count + i] = pads - w.pads[i];
    sizes.push_back(size);
  }
  return sizes;
}

/// The gradient of a convolution for its input.
Status importConvTranspose(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value w, n.tensor(1));
  if (Emitter::rankOf(x) < 3 || Emitter::rankOf(w) != Emitter::rankOf(x))
    return Status::invalidInput("input and weight must have the same rank of 3 or more");
  auto spatial = Emitter::shapeOf(x).drop_front(2);
  MAESTRO_ASSIGN(Ints kernel, kernelOf(Emitter::shapeOf(w)));
  MAESTRO_ASSIGN(Window window, readWindow(n, kernel, Shape(spatial.size(), DimExpr(1))));
  MAESTRO_ASSIGN(Shape sizes, transposedSizes(n, spatial, window));
  int64_t group = n.intAttribute("group", 1);
  if (group < 1)
    return Status::invalidInput(fmt::format("group is {}", group));
  MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(x)[1], Emitter::shapeOf(w)[0], "input channels"));
  Shape shape{Emitter::shapeOf(x)[0], Emitter::shapeOf(w)[1] * DimExpr(group)};
  shape.append(sizes.begin(), sizes.end());
  mlir::Value y = n.e.typed<nn::ConvGradInputOp>(n.e.like(x, shape), x, w, llvm::ArrayRef<int64_t>(window.strides),
                                                 llvm::ArrayRef<int64_t>(window.pads),
                                                 llvm::ArrayRef<int64_t>(window.dilations), group);
  if (!n.has(2))
    return n.set(0, y);
  MAESTRO_ASSIGN(mlir::Value bias, n.tensor(2));
  Shape channel(shape.size() - 1, DimExpr(1));
  channel[0] = Emitter::shapeOf(bias).empty() ? DimExpr(1) : Emitter::shapeOf(bias)[0];
  return n.set(0, n.e.binary<nn::AddOp>(y, n.e.reshape(bias, channel)));
}

/// The taps of a window as channels of a filter each: [taps, 1, window…], 1 where the channel is the tap.
Result<mlir::Value> tapFilter(NodeContext &n, const Ints &window, DType dtype) {
  constexpr int64_t kMostTaps = 4096;
  int64_t taps = 1;
  for (int64_t size : window)
    taps = taps <= kMostTaps ? taps * size : taps;
  if (taps > kMostTaps)
    return Status::invalidInput(fmt::format("a block of more than {} elements", kMostTaps));
  FoldedTensor filter{dtype, {taps, 1}, {}};
  filter.shape.insert(filter.shape.end(), window.begin(), window.end());
  for (int64_t i = 0; i < taps * taps; ++i)
    filter.elements.emplace_back(i / taps == i % taps ? 1.0 : 0.0);
  return n.e.materialize(filter);
}

/// x[N, C·taps, L]: sums of overlapping blocks, each plane by itself: what im2col takes apart, put together again.
Status importCol2Im(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(Shape image, n.dimList(1, "image_shape"));
  MAESTRO_ASSIGN(Ints block, n.intList(2, "block_shape"));
  if (Emitter::rankOf(x) != 3)
    return Status::invalidInput("input must have rank 3");
  MAESTRO_ASSIGN(Window w, readWindow(n, block, image));
  MAESTRO_ASSIGN(mlir::Value filter, tapFilter(n, block, Emitter::dtypeOf(x)));
  DimExpr taps = Emitter::shapeOf(filter)[0];
  auto planes = (Emitter::shapeOf(x)[0] * Emitter::shapeOf(x)[1]).exactQuotient(taps);
  auto channels = Emitter::shapeOf(x)[1].exactQuotient(taps);
  if (!planes || !channels)
    return Status::invalidInput(
        fmt::format("{} channels are no multiple of a block's {} elements", Emitter::shapeOf(x)[1].str(), taps.str()));
  Shape columns{*planes, taps}, sums{*planes, DimExpr(1)}, result{Emitter::shapeOf(x)[0], *channels};
  DimExpr blocks(1);
  for (size_t i = 0; i < image.size(); ++i) {
    DimExpr room = image[i] + DimExpr(w.pads[i] + w.pads[image.size() + i] - (block[i] - 1) * w.dilations[i] - 1);
    columns.push_back(DimExpr::floorDiv(room, DimExpr(w.strides[i])) + 1);
    blocks = blocks * columns.back();
  }
  sums.append(image.begin(), image.end());
  result.append(image.begin(), image.end());
  MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(x)[2], blocks, "blocks, and those of the image"));
  mlir::Value y = n.e.typed<nn::ConvGradInputOp>(n.e.like(x, sums), n.e.reshape(x, columns), filter,
                                                 llvm::ArrayRef<int64_t>(w.strides), llvm::ArrayRef<int64_t>(w.pads),
                                                 llvm::ArrayRef<int64_t>(w.dilations), 1);
  return n.set(0, n.e.reshape(y, result));
}

template <typename OpTy> Status importPool(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  if (n.wants(1))
    return Status::invalidInput("indices of the largest elements are not supported");
  if (n.intAttribute("storage_order", 0) != 0)
    return Status::invalidInput("storage_order 1 is not supported");
  // avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override): the
  // exporter drops the last.
  if (fxTarget(fxNode(n.node)).starts_with("aten.avg_pool") && fxNumber(fxNode(n.node), 6))
    return Status::invalidInput("divisor_override is not supported; pool without it and multiply the result");
  auto kernel = n.intsAttribute("kernel_shape");
  if (!kernel || Emitter::rankOf(x) < 3)
    return Status::invalidInput("needs kernel_shape and an input of rank 3 or more");
  MAESTRO_ASSIGN(Window w, readWindow(n, *kernel, Emitter::shapeOf(x).drop_front(2)));
  return n.set(0, n.e.emit<OpTy>(x, llvm::ArrayRef<int64_t>(w.kernel), llvm::ArrayRef<int64_t>(w.strides),
                                 llvm::ArrayRef<int64_t>(w.pads), llvm::ArrayRef<int64_t>(w.dilations),
                                 n.intAttribute("ceil_mode", 0) != 0, n.intAttribute("count_include_pad", 0) != 0));
}

template <typename OpTy> Status importGlobalPool(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  Ints axes;
  for (int64_t i = 2; i < Emitter::rankOf(x); ++i)
    axes.push_back(i);
  if (axes.empty())
    return Status::invalidInput("needs an input of rank 3 or more");
  return n.set(0, n.e.emit<OpTy>(x, llvm::ArrayRef<int64_t>(axes), true));
}

} // namespace

std::span<const OpEntry> productOps() {
  static constexpr OpEntry kOps[] = {
      {"AveragePool", 7, importPool<nn::AvgPoolOp>},
      {"Col2Im", 18, importCol2Im},
      {"Conv", 1, importConv},
      {"ConvTranspose", 1, importConvTranspose},
      {"Gemm", 7, importGemm},
      {"GlobalAveragePool", 1, importGlobalPool<nn::ReduceMeanOp>},
      {"GlobalMaxPool", 1, importGlobalPool<nn::ReduceMaxOp>},
      {"MatMul", 1, importMatMul},
      {"MaxPool", 8, importPool<nn::MaxPoolOp>},
  };
  return kOps;
}

} // namespace maestro::planner

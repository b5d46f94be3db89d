// Convolutions as products of their patches, so many samples at a time as scratch memory is kept for. What is grouped,
// or of several types, goes to product.cu.
#include "kernels/cuda/conv.h"

#include "kernels/cuda/movement.h"
#include "kernels/cuda/prepare.h"
#include "kernels/window.h"

namespace maestro::kernels::cuda {
namespace {

constexpr uint64_t kAlignment = 16; ///< Of a product's operands.

enum class Of { Result, Input, Weight };

/// The largest divisor of `samples` whose patches fit; 0: none.
int64_t samplesAtOnce(int64_t samples, int64_t bytesOfOne, int64_t maxBytes) {
  for (int64_t parts = 1; parts <= samples; ++parts)
    if (samples % parts == 0 && samples / parts * bytesOfOne <= maxBytes)
      return samples / parts;
  return 0;
}

Attribute number(std::string name, int64_t value) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.ints = {value};
  return attribute;
}

/// y [n, M, outputs] = w [M, C·taps] · patches [n, outputs, C·taps]ᵀ; gradients multiply dy as [n·outputs, M].
class Convolution : public Kernel {
public:
  explicit Convolution(Of what, const Functions &functions) : what(what), move(functions) {}

  Status enqueue(const Launch &launch, std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs,
                 CUdeviceptr scratch) override {
    CUdeviceptr patches = scratch, turned = scratch + patchBytes, own = turned + turnedBytes;
    auto run = [&](Kernel &kernel, std::initializer_list<CUdeviceptr> in, CUdeviceptr out) {
      CUdeviceptr results[] = {out};
      return kernel.enqueue(launch, {in.begin(), in.size()}, results, own);
    };
    for (int64_t part = 0; part < parts; ++part) {
      uint64_t ofX = static_cast<uint64_t>(part) * xBytes, ofY = static_cast<uint64_t>(part) * yBytes;
      switch (what) {
      case Of::Result:
        MAESTRO_TRY(run(move, {inputs[0] + ofX}, patches));
        MAESTRO_TRY(run(*product, {inputs[1], patches, 0}, outputs[0] + ofY));
        break;
      case Of::Input:
        MAESTRO_TRY(run(*turn, {inputs[0] + ofY}, turned));
        MAESTRO_TRY(run(*product, {turned, inputs[1], 0}, patches));
        MAESTRO_TRY(run(move, {patches}, outputs[0] + ofX));
        break;
      case Of::Weight:
        MAESTRO_TRY(run(move, {inputs[0] + ofX}, patches));
        MAESTRO_TRY(run(*turn, {inputs[1] + ofY}, turned));
        MAESTRO_TRY(run(part == 0 ? *product : *addingProduct, {turned, patches, 0}, outputs[0]));
        break;
      }
    }
    return bias ? run(*bias, {outputs[0], inputs[2]}, outputs[0]) : Status();
  }
  size_t scratchBytes() const override { return patchBytes + turnedBytes + productBytes; }

  Of what;
  Sequence move; ///< Patches from x, or to it.
  std::unique_ptr<Kernel> product, addingProduct, bias;
  std::unique_ptr<Kernel> turn; ///< dy with channels last.
  int64_t parts = 1;
  uint64_t xBytes = 0, yBytes = 0; ///< Of a part.
  size_t patchBytes = 0, turnedBytes = 0, productBytes = 0;
};

/// Prepares one convolution of a shape that Convolution takes.
struct Builder {
  const Call &call;
  Of what;
  const TensorType &x, &w, &y;
  int64_t maxPatchBytes;
  Window window{x, w.shape().subspan(2), y, call.attributes()};
  DType type = x.dtype;
  int64_t channels = x.dims[1], filters = w.dims[0], outputs = window.outputs(), depth = channels * window.taps();
  int64_t elementBytes = static_cast<int64_t>(byteSize(type));
  int64_t samples = samplesAtOnce(x.dims[0], outputs *depth *elementBytes, maxPatchBytes);

  bool serves() const {
    DType result = call.out(0).dtype;
    bool alike = fastSuffix(type) && w.dtype == (what == Of::Weight ? result : type) &&
                 y.dtype == (what == Of::Result ? result : type);
    bool typed = result == type || (what == Of::Weight && result == DType::F32);
    bool whole = samples > 0 && filters > 0 && depth > 0 && outputs > 0 && window.inputs() > 0;
    if (!alike || !typed || !whole || call.attributes().getInt("group", 1) != 1)
      return false;
    bool inParts = samples < x.dims[0];
    return !inParts ||
           (what == Of::Weight ? result == DType::F32 // Parts add up there.
                               : static_cast<uint64_t>(samples * filters * outputs * elementBytes) % kAlignment == 0);
  }

  /// Of what lies in scratch memory and the operand beside it.
  PreparedKernel product(bool adds) const {
    int64_t rows = samples * outputs;
    int64_t weights[] = {filters, depth}, patches[] = {samples, outputs, depth}, result[] = {samples, filters, outputs};
    int64_t flat[] = {rows, depth}, turned[] = {rows, filters};
    auto prepare = [&](const char *flag, std::span<const int64_t> a, std::span<const int64_t> b,
                       std::span<const int64_t> y) {
      Attribute attributes[] = {number("accumulate", adds), number(flag, 1)};
      TensorType inputs[] = {TensorType(type, a), TensorType(type, b), TensorType()};
      TensorType results[] = {TensorType(what == Of::Weight ? call.out(0).dtype : type, y)};
      return call.library.prepare({"matmul", Attributes(attributes), inputs, results, 1});
    };
    if (what == Of::Result)
      return prepare("transpose_b", weights, patches, result);
    return what == Of::Weight ? prepare("transpose_a", turned, flat, weights) : prepare("", turned, weights, flat);
  }

  Status addPatches(Sequence &sequence) const {
    PatchParams params{};
    params.samples = samples;
    params.channels = channels;
    for (size_t d = 0; d < 3; ++d) {
      params.window.input[d] = window.input[d];
      params.window.kernel[d] = window.kernel[d];
      params.window.output[d] = window.output[d];
      params.window.stride[d] = window.stride[d];
      params.window.dilation[d] = window.dilation[d];
      params.window.low[d] = window.low[d];
      params.window.high[d] = window.high[d];
    }
    if (what == Of::Input)
      return sequence.add(std::string("conv_fold_") + fastSuffix(type), blocksFor(samples * channels * window.inputs()),
                          params, [](PatchParams &p, const Operands &o) {
                            p.patches = address(o.in(0));
                            p.x = o.out(0);
                          });
    return sequence.add("conv_patches_" + std::to_string(elementBytes), blocksFor(samples * outputs * channels), params,
                        [](PatchParams &p, const Operands &o) {
                          p.x = address(o.in(0));
                          p.patches = o.out(0);
                        });
  }

  /// dy [n, M, outputs] as [n, outputs, M].
  PreparedKernel turned() const {
    int64_t from[] = {samples, filters, outputs}, to[] = {samples, outputs, filters};
    Attribute permutation = number("permutation", 0);
    permutation.ints = {0, 2, 1};
    TensorType inputs[] = {TensorType(type, from)}, results[] = {TensorType(type, to)};
    return call.library.prepare({"transpose", Attributes({&permutation, 1}), inputs, results, 1});
  }

  PreparedKernel addedBias() const {
    int64_t shape[] = {y.dims[0], filters, outputs}, column[] = {filters, 1};
    TensorType inputs[] = {TensorType(type, shape), TensorType(call.in(2).dtype, column)}, results[] = {inputs[0]};
    return call.library.prepare({"add", {}, inputs, results, 1});
  }
};

size_t padded(int64_t bytes) { return (static_cast<size_t>(bytes) + 255) / 256 * 256; }

} // namespace

PreparedKernel prepareConvolutionByProducts(const Call &call, int64_t maxPatchBytes) {
  Of what = call.spec.kernel == "conv" ? Of::Result : call.spec.kernel == "conv_grad_input" ? Of::Input : Of::Weight;
  const TensorType &x = what == Of::Input ? call.out(0) : call.in(0);
  const TensorType &w = what == Of::Weight ? call.out(0) : call.in(1);
  const TensorType &y = what == Of::Result ? call.out(0) : call.in(what == Of::Input ? 0 : 1);
  Builder build{call, what, x, w, y, maxPatchBytes};
  if (!build.serves())
    return unsupported();
  auto made = std::make_unique<Convolution>(what, call.functions);
  made->parts = x.dims[0] / build.samples;
  made->xBytes = static_cast<uint64_t>(x.bytes() / static_cast<size_t>(made->parts));
  made->yBytes = static_cast<uint64_t>(y.bytes() / static_cast<size_t>(made->parts));
  int64_t rows = build.samples * build.outputs;
  made->patchBytes = padded(rows * build.depth * build.elementBytes);
  MAESTRO_TRY(build.addPatches(made->move));
  MAESTRO_ASSIGN(made->product, build.product(false));
  if (what != Of::Result) {
    made->turnedBytes = padded(rows * build.filters * build.elementBytes);
    MAESTRO_ASSIGN(made->turn, build.turned());
  }
  if (what == Of::Weight) {
    MAESTRO_ASSIGN(made->addingProduct, build.product(true));
  }
  if (what == Of::Result && call.hasIn(2)) {
    MAESTRO_ASSIGN(made->bias, build.addedBias());
  }
  for (const Kernel *kernel : {made->product.get(), made->addingProduct.get(), made->bias.get(), made->turn.get()})
    made->productBytes = std::max(made->productBytes, kernel ? kernel->scratchBytes() : 0);
  bool whole = made->product && (what == Of::Result || made->turn) && (what != Of::Weight || made->addingProduct);
  return whole && (what != Of::Result || !call.hasIn(2) || made->bias) ? PreparedKernel(std::move(made))
                                                                       : unsupported();
}

} // namespace maestro::kernels::cuda

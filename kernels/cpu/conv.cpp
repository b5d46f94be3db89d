// Convolution and its gradients by oneDNN, which chooses layouts of its own; reorders lead there and back.
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/prepare.h"
#include "kernels/cpu/widened.h"

namespace maestro::kernels::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Shape = dnnl::memory::dims;

Shape toShape(std::span<const int64_t> dims) { return Shape(dims.begin(), dims.end()); }

Desc plain(const Shape &dims, DType dtype) {
  Shape strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i])
    strides[i] = stride;
  return Desc(dims, onednnType(dtype), strides);
}
Desc free(const Shape &dims, DType dtype) { return Desc(dims, onednnType(dtype), dnnl::memory::format_tag::any); }

struct Problem {
  Shape x, w, y, strides, dilations, low, high;
  DType dtype;

  Problem(const CallSpec &spec, const TensorType &xType, const TensorType &wType, const TensorType &yType)
      : x(toShape(xType.shape())), w(toShape(wType.shape())), y(toShape(yType.shape())), dtype(xType.dtype) {
    size_t dims = x.size() - 2;
    int64_t groups = spec.attributes.getInt("group", 1);
    if (groups > 1) {
      w[0] /= groups;
      w.insert(w.begin(), groups);
    }
    auto pads = spec.attributes.getInts("pads");
    strides = orElse(spec.attributes.getInts("strides"), dims, 1);
    dilations = orElse(spec.attributes.getInts("dilations"), dims, 1);
    for (int64_t &d : dilations)
      d -= 1; // oneDNN counts the elements between taps.
    low = orElse(pads.empty() ? pads : pads.first(dims), dims, 0);
    high = orElse(pads.empty() ? pads : pads.subspan(dims), dims, 0);
  }

  dnnl::convolution_forward::primitive_desc forward(bool biased, DType biasType,
                                                    const dnnl::primitive_attr &attributes) const {
    using Forward = dnnl::convolution_forward;
    constexpr auto kind = dnnl::prop_kind::forward_training;
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    Desc bias = free({y[1]}, biasType);
    Forward::desc d = biased ? Forward::desc(kind, algorithm, free(x, dtype), free(w, dtype), bias, free(y, dtype),
                                             strides, dilations, low, high)
                             : Forward::desc(kind, algorithm, free(x, dtype), free(w, dtype), free(y, dtype), strides,
                                             dilations, low, high);
    return Forward::primitive_desc(d, attributes, onednnEngine());
  }

  bool covered() const {
    return onednnCovers(dtype) && product(x) > 0 && product(w) > 0 && product(y) > 0 && x.size() <= 5;
  }

private:
  static Shape orElse(std::span<const int64_t> given, size_t count, int64_t value) {
    return given.empty() ? Shape(count, value) : toShape(given);
  }
};

dnnl::primitive_attr userScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// Where a primitive writes: the result itself, or scratch memory that finish() copies from.
OnednnKernel::Slot resultSlot(OnednnKernel &kernel, OnednnKernel::Slot result, const Desc &wanted) {
  return kernel.desc(result) == wanted ? result : kernel.scratch(wanted);
}

template <typename Build> PreparedKernel guarded(const CallSpec &spec, Build build) {
  try {
    ThreadScope scope(spec.threads);
    auto kernel = std::make_unique<OnednnKernel>(spec.threads);
    build(*kernel);
    return PreparedKernel(std::move(kernel));
  } catch (const dnnl::error &) {
    return unsupported(); // A combination that this build or processor lacks.
  }
}

bool sameType(const CallSpec &spec) {
  DType dtype = spec.outputs[0].dtype;
  bool biased = spec.inputs.size() > 2 && spec.inputs[2].present;
  return spec.inputs[0].dtype == dtype && spec.inputs[1].dtype == dtype &&
         (!biased || spec.inputs[2].dtype == dtype || spec.inputs[2].dtype == DType::F32);
}

} // namespace

PreparedKernel prepareConv(const CallSpec &spec, const Loops &loops) {
  if (mustWiden(spec))
    return prepareWidened(spec, loops, prepareConv);
  Problem problem(spec, spec.inputs[0], spec.inputs[1], spec.outputs[0]);
  if (!problem.covered() || !sameType(spec))
    return unsupported();
  bool biased = spec.inputs.size() > 2 && spec.inputs[2].present;
  return guarded(spec, [&](OnednnKernel &kernel) {
    DType biasType = biased ? spec.inputs[2].dtype : DType::F32;
    auto pd = problem.forward(biased, biasType, userScratchpad());
    auto x = kernel.converted(kernel.input(0, plain(problem.x, problem.dtype)), pd.src_desc());
    auto w = kernel.converted(kernel.input(1, plain(problem.w, problem.dtype)), pd.weights_desc());
    auto result = kernel.output(0, plain(problem.y, problem.dtype));
    auto y = resultSlot(kernel, result, pd.dst_desc());
    dnnl::convolution_forward convolution(pd);
    if (biased) {
      auto bias = kernel.converted(kernel.input(2, plain({problem.y[1]}, biasType)), pd.bias_desc());
      kernel.add(convolution, pd.scratchpad_desc(),
                 {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, y}});
    } else {
      kernel.add(convolution, pd.scratchpad_desc(), {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    }
    if (y != result)
      kernel.addReorder(y, result);
  });
}

PreparedKernel prepareConvGradInput(const CallSpec &spec, const Loops &loops) {
  if (mustWiden(spec))
    return prepareWidened(spec, loops, prepareConvGradInput);
  Problem problem(spec, spec.outputs[0], spec.inputs[1], spec.inputs[0]);
  if (!problem.covered() || !sameType(spec))
    return unsupported();
  return guarded(spec, [&](OnednnKernel &kernel) {
    using Backward = dnnl::convolution_backward_data;
    Backward::desc d(dnnl::algorithm::convolution_direct, free(problem.x, problem.dtype),
                     free(problem.w, problem.dtype), free(problem.y, problem.dtype), problem.strides, problem.dilations,
                     problem.low, problem.high);
    Backward::primitive_desc pd(d, userScratchpad(), onednnEngine(), problem.forward(false, DType::F32, {}));
    auto dy = kernel.converted(kernel.input(0, plain(problem.y, problem.dtype)), pd.diff_dst_desc());
    auto w = kernel.converted(kernel.input(1, plain(problem.w, problem.dtype)), pd.weights_desc());
    auto result = kernel.output(0, plain(problem.x, problem.dtype));
    auto dx = resultSlot(kernel, result, pd.diff_src_desc());
    kernel.add(Backward(pd), pd.scratchpad_desc(),
               {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx}});
    if (dx != result)
      kernel.addReorder(dx, result);
  });
}

PreparedKernel prepareConvGradWeight(const CallSpec &spec, const Loops &loops) {
  if (mustWiden(spec))
    return prepareWidened(spec, loops, prepareConvGradWeight);
  Problem problem(spec, spec.inputs[0], spec.outputs[0], spec.inputs[1]);
  bool typed = spec.inputs[1].dtype == problem.dtype &&
               (spec.outputs[0].dtype == problem.dtype || spec.outputs[0].dtype == DType::F32);
  if (!problem.covered() || !typed)
    return unsupported();
  return guarded(spec, [&](OnednnKernel &kernel) {
    using Backward = dnnl::convolution_backward_weights;
    DType out = spec.outputs[0].dtype;
    Backward::desc d(dnnl::algorithm::convolution_direct, free(problem.x, problem.dtype), free(problem.w, out),
                     free(problem.y, problem.dtype), problem.strides, problem.dilations, problem.low, problem.high);
    Backward::primitive_desc pd(d, userScratchpad(), onednnEngine(), problem.forward(false, DType::F32, {}));
    auto x = kernel.converted(kernel.input(0, plain(problem.x, problem.dtype)), pd.src_desc());
    auto dy = kernel.converted(kernel.input(1, plain(problem.y, problem.dtype)), pd.diff_dst_desc());
    auto result = kernel.output(0, plain(problem.w, out));
    auto dw = resultSlot(kernel, result, pd.diff_weights_desc());
    kernel.add(Backward(pd), pd.scratchpad_desc(),
               {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw}});
    if (dw != result)
      kernel.addReorder(dw, result);
  });
}

} // namespace maestro::kernels::cpu

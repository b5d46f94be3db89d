// The geometry of convolution and pooling over 1 to 3 spatial dims, seen as three: missing leading
// dims have size 1, kernel 1, stride 1 and no padding.
#pragma once

#include "kernels/kernel.h"

namespace maestro::kernels {

struct Window {
  using Triple = std::array<int64_t, 3>;
  Triple input{1, 1, 1}, kernel{1, 1, 1}, output{1, 1, 1};
  Triple stride{1, 1, 1}, dilation{1, 1, 1}, low{0, 0, 0}, high{0, 0, 0};

  /// `x` and `y` are [N, C, spatial…]; `kernelShape` the window's spatial dims.
  Window(const TensorType &x, std::span<const int64_t> kernelShape, const TensorType &y, const Attributes &attributes) {
    auto strides = attributes.getInts("strides"), pads = attributes.getInts("pads");
    auto dilations = attributes.getInts("dilations");
    size_t dims = kernelShape.size();
    for (size_t i = 0; i < dims; ++i) {
      size_t at = 3 - dims + i;
      input[at] = x.dims[2 + i];
      output[at] = y.dims[2 + i];
      kernel[at] = kernelShape[i];
      stride[at] = strides.empty() ? 1 : strides[i];
      dilation[at] = dilations.empty() ? 1 : dilations[i];
      low[at] = pads.empty() ? 0 : pads[i];
      high[at] = pads.empty() ? 0 : pads[dims + i];
    }
  }

  int64_t inputs() const { return input[0] * input[1] * input[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t outputs() const { return output[0] * output[1] * output[2]; }

  /// The input element under tap `tap` of the window of output element `out`; −1 in the padding,
  /// −2 beyond it (windows that ceil_mode lets overhang).
  int64_t inputAt(int64_t out, int64_t tap) const {
    int64_t position = 0, stride3 = 1;
    bool padding = false;
    for (int i = 2; i >= 0; --i) {
      int64_t at = out % output[i] * stride[i] + tap % kernel[i] * dilation[i] - low[i];
      out /= output[i];
      tap /= kernel[i];
      if (at >= input[i] + high[i])
        return -2;
      padding |= at < 0 || at >= input[i];
      position += at * stride3;
      stride3 *= input[i];
    }
    return padding ? -1 : position;
  }
};

} // namespace maestro::kernels

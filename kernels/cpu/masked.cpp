// Places marked by a mask take features in order, and give back their gradients. Marked places come in stretches, a
// feature's row at least, and most of a mask is unmarked: both are moved as they lie.
#include "kernels/cpu/prepare.h"
#include "kernels/masked_scatter.h"

#include <cstring>

namespace maestro::kernels::cpu {
namespace {

/// The first place from `begin` on that is marked (or not), or `end`.
int64_t nextMarked(const uint8_t *mask, int64_t begin, int64_t end) {
  for (uint64_t eight = 0; begin + 8 <= end; begin += 8) {
    std::memcpy(&eight, mask + begin, sizeof eight);
    if (eight != 0)
      break;
  }
  while (begin < end && mask[begin] == 0)
    ++begin;
  return begin;
}
int64_t nextUnmarked(const uint8_t *mask, int64_t begin, int64_t end) {
  const void *found = std::memchr(mask + begin, 0, static_cast<size_t>(end - begin));
  return found ? static_cast<const uint8_t *>(found) - mask : end;
}

void move(void *to, int64_t toIndex, const void *from, int64_t fromIndex, int64_t count, int64_t bytes) {
  if (count > 0) // Operands without elements may have no address.
    std::memcpy(at(to, toIndex, bytes), at(from, fromIndex, bytes), static_cast<size_t>(count * bytes));
}

} // namespace

PreparedKernel prepareMaskedScatter(const CallSpec &spec, const Loops &) {
  DType dtype = spec.outputs[0].dtype;
  if (spec.inputs[0].dtype != dtype || spec.inputs[2].dtype != dtype || spec.inputs[1].dtype != DType::Bool)
    return unsupported();
  int64_t count = spec.outputs[0].elements(), available = spec.inputs[2].elements(),
          bytes = static_cast<int64_t>(byteSize(dtype));
  return makeKernel(spec, [=](const Operands &call) -> Status {
    const uint8_t *mask = call.input<uint8_t>(1);
    int64_t taken = 0;
    for (int64_t i = 0; i < count;) {
      int64_t marked = nextMarked(mask, i, count), end = nextUnmarked(mask, marked, count);
      move(call.outputs[0], i, call.inputs[0], i, marked - i, bytes);
      if (end - marked > available - taken)
        return maskAsksForMore(available, marked + available - taken);
      move(call.outputs[0], marked, call.inputs[2], taken, end - marked, bytes);
      taken += end - marked;
      i = end;
    }
    return taken == available ? Status() : maskTakesFewer(taken, available);
  });
}

PreparedKernel prepareMaskedScatterGrad(const CallSpec &spec, const Loops &) {
  DType dtype = spec.outputs[0].dtype;
  if (spec.inputs[1].dtype != dtype || spec.inputs[0].dtype != DType::Bool)
    return unsupported();
  int64_t count = spec.inputs[0].elements(), available = spec.outputs[0].elements(),
          bytes = static_cast<int64_t>(byteSize(dtype));
  return makeKernel(spec, [=](const Operands &call) {
    const uint8_t *mask = call.input<uint8_t>(0);
    int64_t taken = 0;
    for (int64_t i = nextMarked(mask, 0, count); i < count && taken < available; i = nextMarked(mask, i, count)) {
      int64_t end = nextUnmarked(mask, i, count), run = std::min(end - i, available - taken);
      move(call.outputs[0], taken, call.inputs[1], i, run, bytes);
      taken += run;
      i = end;
    }
    if (taken < available)
      std::memset(at(call.outputs[0], taken, bytes), 0, static_cast<size_t>((available - taken) * bytes));
  });
}

} // namespace maestro::kernels::cpu

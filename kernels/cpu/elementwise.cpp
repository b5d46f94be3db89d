// Elementwise kernels: a loop from the table, run over rows of broadcast operands.
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/prepare.h"
#include "kernels/glu.h"

namespace maestro::kernels::cpu {
namespace {

/// The name under which the tables keep a kernel: "gelu:tanh" for the tanh approximation.
std::string entryName(const CallSpec &spec) {
  std::string name(spec.kernel);
  if (spec.attributes.getText("approximate", "none") == "tanh")
    name += ":tanh";
  return name;
}

template <typename Entry> const Entry *findEntry(const Entry *entries, int64_t count, const CallSpec &spec) {
  std::string name = entryName(spec);
  for (const Entry *entry = entries; entry < entries + count; ++entry)
    if (name == entry->name && entry->in == spec.inputs[0].dtype && entry->out == spec.outputs[0].dtype)
      return entry;
  return nullptr;
}

int64_t bytesOf(const TensorType &type) { return static_cast<int64_t>(byteSize(type.dtype)); }

} // namespace

PreparedKernel prepareUnary(const CallSpec &spec, const Loops &loops) {
  const UnaryEntry *entry = findEntry(loops.unary, loops.unaryCount, spec);
  if (!entry)
    return unsupported();
  int64_t count = spec.outputs[0].elements(), in = bytesOf(spec.inputs[0]), out = bytesOf(spec.outputs[0]);
  return makeKernel(spec, [=, loop = entry->loop, threads = spec.threads](const Operands &call) {
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
      loop(at(call.outputs[0], begin, out), at(call.inputs[0], begin, in), end - begin);
    });
  });
}

PreparedKernel prepareBinary(const CallSpec &spec, const Loops &loops) {
  const BinaryEntry *entry = findEntry(loops.binary, loops.binaryCount, spec);
  if (!entry || spec.inputs[0].dtype != spec.inputs[1].dtype)
    return unsupported();
  Broadcast<2> rows(spec.outputs[0].shape(), {&spec.inputs[0], &spec.inputs[1]});
  BinaryLoop loop = !rows.advances(0) ? entry->leftScalar : rows.advances(1) ? entry->both : entry->rightScalar;
  if (!rows.advances(0) && !rows.advances(1) && rows.inner() != 1)
    return unsupported();
  int64_t count = spec.outputs[0].elements(), in = bytesOf(spec.inputs[0]), out = bytesOf(spec.outputs[0]);
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
      rows.forEach(begin, end, [&](int64_t first, const std::array<int64_t, 2> &offsets, int64_t n) {
        loop(at(call.outputs[0], first, out), at(call.inputs[0], offsets[0], in), at(call.inputs[1], offsets[1], in),
             n);
      });
    });
  });
}

PreparedKernel prepareWhere(const CallSpec &spec, const Loops &loops) {
  int64_t bytes = bytesOf(spec.outputs[0]);
  SelectLoop loop = loops.select[bytes];
  bool uniform = spec.inputs[1].dtype == spec.outputs[0].dtype && spec.inputs[2].dtype == spec.outputs[0].dtype;
  if (!loop || !uniform || spec.inputs[0].dtype != DType::Bool)
    return unsupported();
  Broadcast<3> rows(spec.outputs[0].shape(), {&spec.inputs[0], &spec.inputs[1], &spec.inputs[2]});
  int64_t count = spec.outputs[0].elements();
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
      rows.forEach(begin, end, [&](int64_t first, const std::array<int64_t, 3> &offsets, int64_t n) {
        loop(at(call.outputs[0], first, bytes), call.input<uint8_t>(0) + offsets[0],
             at(call.inputs[1], offsets[1], bytes), at(call.inputs[2], offsets[2], bytes), n, rows.advances(0),
             rows.advances(1), rows.advances(2));
      });
    });
  });
}

namespace {

/// The loops for the call's activation and element type; null where not all operands are of one type that has some.
const GluLoops *gluLoops(const CallSpec &spec, const Loops &loops) {
  DType dtype = spec.inputs[0].dtype;
  auto isOther = [&](const TensorType &type) { return type.dtype != dtype; };
  if (floatIndex(dtype) < 0 || std::ranges::any_of(spec.inputs, isOther) || std::ranges::any_of(spec.outputs, isOther))
    return nullptr;
  auto activation = gluActivationFromName(spec.attributes.getText("activation", ""));
  return activation ? &loops.floats[floatIndex(dtype)].glu[static_cast<size_t>(*activation)] : nullptr;
}

} // namespace

PreparedKernel prepareGlu(const CallSpec &spec, const Loops &loops) {
  const GluLoops *own = gluLoops(spec, loops);
  if (!own)
    return unsupported();
  int64_t count = spec.outputs[0].elements(), bytes = bytesOf(spec.outputs[0]);
  return makeKernel(spec, [=, loop = own->forward, threads = spec.threads](const Operands &call) {
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
      loop(at(call.outputs[0], begin, bytes), at(call.inputs[0], begin, bytes), at(call.inputs[1], begin, bytes),
           end - begin);
    });
  });
}

PreparedKernel prepareGluGrad(const CallSpec &spec, const Loops &loops) {
  const GluLoops *own = gluLoops(spec, loops);
  if (!own)
    return unsupported();
  int64_t count = spec.outputs[0].elements(), bytes = bytesOf(spec.outputs[0]);
  return makeKernel(spec, [=, loop = own->backward, threads = spec.threads](const Operands &call) {
    parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
      loop(at(call.outputs[0], begin, bytes), at(call.outputs[1], begin, bytes), at(call.inputs[0], begin, bytes),
           at(call.inputs[1], begin, bytes), at(call.inputs[2], begin, bytes), end - begin);
    });
  });
}

} // namespace maestro::kernels::cpu

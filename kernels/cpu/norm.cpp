// Layer and RMS normalisation. The gradients of scale and bias are summed over fixed chunks of rows,
// then over the chunks, so that the number of threads changes no bit.
#include "kernels/cpu/prepare.h"

#include <cstring>

namespace maestro::kernels::cpu {
namespace {

struct Rows {
  int64_t count, width;
  Rows(const TensorType &x, const Attributes &attributes) {
    int64_t axis = attributes.getInt("axis", 0);
    count = product(x.shape().first(axis));
    width = product(x.shape().subspan(axis));
  }
};

/// Optional operand i as f32: where it lies, or converted into scratch; null when absent.
const float *asFloats(const Operands &call, size_t i, const Loops &loops, float *scratch) {
  if (!call.hasInput(i))
    return nullptr;
  if (call.in[i].dtype == DType::F32)
    return call.input<float>(i);
  int64_t count = call.in[i].elements();
  std::memset(scratch, 0, static_cast<size_t>(count) * sizeof(float));
  loops.floats[floatIndex(call.in[i].dtype)].addTo(scratch, call.inputs[i], count);
  return scratch;
}

/// Between f32 and bf16.
UnaryLoop castLoop(const Loops &loops, DType from, DType to) {
  for (const UnaryEntry *entry = loops.unary; entry < loops.unary + loops.unaryCount; ++entry)
    if (std::string_view(entry->name) == "cast" && entry->in == from && entry->out == to)
      return entry->loop;
  return nullptr;
}

bool floatsOnly(std::span<const TensorType> types) {
  return std::ranges::all_of(types, [](const TensorType &t) { return !t.present || floatIndex(t.dtype) >= 0; });
}

} // namespace

PreparedKernel prepareNorm(const CallSpec &spec, const Loops &loops) {
  bool centred = spec.kernel == "layer_norm";
  int index = floatIndex(spec.inputs[0].dtype);
  Rows rows(spec.inputs[0], spec.attributes);
  DType type = spec.inputs[0].dtype;
  bool narrows = type == DType::F32 && spec.outputs[0].dtype == DType::BF16; // Each row by way of a thread's own.
  if (index < 0 || rows.width == 0 || !floatsOnly(spec.inputs) || (!narrows && spec.outputs[0].dtype != type) ||
      spec.outputs.back().dtype != DType::F32)
    return unsupported();
  UnaryLoop narrow = castLoop(loops, DType::F32, DType::BF16);
  auto loop = (centred ? loops.floats[index].layerNorm : loops.floats[index].rmsNorm).forward;
  float epsilon = static_cast<float>(spec.attributes.getFloat("epsilon", 1e-5));
  int64_t bytes = rows.width * static_cast<int64_t>(byteSize(type));
  auto body = [=, &loops, threads = spec.threads](const Operands &call) {
    float *scratch = static_cast<float *>(call.scratch);
    const float *scale = asFloats(call, 1, loops, scratch);
    const float *bias = centred ? asFloats(call, 2, loops, scratch + rows.width) : nullptr;
    float *mean = centred ? call.output<float>(1) : nullptr, *rstd = call.output<float>(centred ? 2 : 1);
    parallelFor(threads, rows.count, rowGrain(rows.width), [&](int64_t begin, int64_t end) {
      float *own = narrows ? scratch + (2 + omp_get_thread_num()) * rows.width : nullptr;
      for (int64_t r = begin; r < end; ++r) {
        loop(narrows ? own : at(call.outputs[0], r, bytes), at(call.inputs[0], r, bytes), scale, bias, rows.width,
             epsilon, centred ? mean + r : nullptr, rstd + r);
        if (narrows)
          narrow(call.output<BFloat16>(0) + r * rows.width, own, rows.width);
      }
    });
  };
  return makeKernel(spec, body, static_cast<size_t>((2 + (narrows ? spec.threads : 0)) * rows.width) * sizeof(float));
}

PreparedKernel prepareNormGrad(const CallSpec &spec, const Loops &loops) {
  bool centred = spec.kernel == "layer_norm_grad";
  DType type = spec.inputs[1].dtype;
  int index = floatIndex(type);
  bool widens = type == DType::F32 && spec.inputs[0].dtype == DType::BF16; // Each row of dy in a thread's own.
  UnaryLoop widen = castLoop(loops, DType::BF16, DType::F32);
  Rows rows(spec.inputs[1], spec.attributes);
  uint64_t mask = accumulateMask(spec);
  if (index < 0 || rows.width == 0 || !floatsOnly(spec.inputs) || (!widens && spec.inputs[0].dtype != type) ||
      spec.outputs[0].dtype != type || (mask & 1))
    return unsupported();
  size_t scaleAt = centred ? 4 : 3;
  size_t sums = spec.outputs.size() - 1; // dscale, and dbias for layer normalisation
  for (size_t i = 1; i <= sums; ++i)
    if (spec.outputs[i].present && spec.outputs[i].dtype != DType::F32)
      return unsupported();
  auto loop = (centred ? loops.floats[index].layerNorm : loops.floats[index].rmsNorm).backward;
  int64_t bytes = rows.width * static_cast<int64_t>(byteSize(type));
  int64_t chunkRows = std::max<int64_t>(16, (rows.count + 15) / 16);
  int64_t chunks = std::max<int64_t>(1, (rows.count + chunkRows - 1) / chunkRows);
  auto body = [=, &loops, threads = spec.threads](const Operands &call) {
    float *scaleScratch = static_cast<float *>(call.scratch), *partial = scaleScratch + rows.width;
    const float *scale = asFloats(call, scaleAt, loops, scaleScratch);
    const float *mean = centred ? call.input<float>(2) : nullptr, *rstd = call.input<float>(centred ? 3 : 2);
    int64_t perChunk = static_cast<int64_t>(sums) * rows.width;
    float *widened = partial + chunks * perChunk;
    bool wanted = call.hasOutput(1) || call.hasOutput(2);
    parallelItems(rows.count * rows.width < kElementGrain ? 1 : threads, chunks, [&](int64_t chunk, int worker) {
      float *dscale = partial + chunk * perChunk, *dbias = dscale + rows.width;
      std::memset(dscale, 0, static_cast<size_t>(perChunk) * sizeof(float));
      float *own = widened + worker * rows.width;
      for (int64_t r = chunk * chunkRows, end = std::min(r + chunkRows, rows.count); r < end; ++r) {
        if (widens)
          widen(own, call.input<BFloat16>(0) + r * rows.width, rows.width);
        loop(at(call.outputs[0], r, bytes), widens ? own : at(call.inputs[0], r, bytes), at(call.inputs[1], r, bytes),
             scale, rows.width, mean ? mean[r] : 0, rstd[r], wanted ? dscale : nullptr,
             centred && wanted ? dbias : nullptr);
      }
    });
    for (size_t i = 1; i <= sums; ++i) {
      if (!call.hasOutput(i))
        continue;
      float *out = call.output<float>(i);
      if (!(mask >> i & 1))
        std::memset(out, 0, static_cast<size_t>(rows.width) * sizeof(float));
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        loops.floats[0].addTo(out, partial + chunk * perChunk + static_cast<int64_t>(i - 1) * rows.width, rows.width);
    }
  };
  size_t floats = static_cast<size_t>(rows.width) *
                  (1 + sums * static_cast<size_t>(chunks) + (widens ? static_cast<size_t>(spec.threads) : 0));
  return makeKernel(spec, body, floats * sizeof(float));
}

} // namespace maestro::kernels::cpu

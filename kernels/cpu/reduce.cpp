// Reductions over neighbouring axes, seen as [outer, reduced, inner]; sums over what surrounds one axis; and the sum of
// squares.
//
// Sums run over chunks whose size depends on the shape alone, and the chunks' sums are added in order,
// so that the number of threads changes no bit and long sums lose little precision.
#include "kernels/cpu/prepare.h"

#include <cstring>

namespace maestro::kernels::cpu {
namespace {

constexpr int64_t kRowChunk = 4096; ///< Elements of a row that are summed in f32 before f64 takes over.

/// [outer, reduced, inner] if the reduced axes (dims of size 1 aside) are neighbours.
struct Extent {
  int64_t outer = 1, reduced = 1, inner = 1;
  bool valid = true;

  Extent(std::span<const int64_t> shape, std::span<const int64_t> axes) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1)
        continue;
      if (std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end()) {
        valid &= inner == 1;
        reduced *= shape[i];
      } else {
        (seenReduced(shape, axes, i) ? inner : outer) *= shape[i];
      }
    }
  }

private:
  static bool seenReduced(std::span<const int64_t> shape, std::span<const int64_t> axes, size_t i) {
    return std::ranges::any_of(axes, [&](int64_t a) { return a < static_cast<int64_t>(i) && shape[a] != 1; });
  }
};

enum class Kind { Sum, Mean, Largest, Smallest };

struct Target {
  void *data;
  DType dtype;
  bool add;
  void set(int64_t i, float value) const {
    if (dtype == DType::F32) {
      float &place = static_cast<float *>(data)[i];
      place = add ? place + value : value;
    } else {
      BFloat16 &place = static_cast<BFloat16 *>(data)[i];
      place = BFloat16(add ? static_cast<float>(place) + value : value);
    }
  }
};

double sumChunk(const FloatLoops &loops, const void *row, int64_t n, int64_t bytes) {
  double total = 0;
  for (int64_t i = 0; i < n; i += kRowChunk)
    total += loops.sum(at(row, i, bytes), std::min(kRowChunk, n - i));
  return total;
}

/// Rows of `reduced` contiguous elements, one result each; few long rows are cut into pieces.
PreparedKernel makeRowReduction(const CallSpec &spec, const FloatLoops &loops, Kind kind, const Extent &extent,
                                bool add) {
  int64_t bytes = static_cast<int64_t>(byteSize(spec.inputs[0].dtype));
  int64_t pieceLength = 16 * kRowChunk, pieces = std::max<int64_t>(1, (extent.reduced + pieceLength - 1) / pieceLength);
  DType dtype = spec.outputs[0].dtype;
  auto body = [=, &loops, threads = spec.threads](const Operands &call) {
    double *partial = static_cast<double *>(call.scratch);
    Target target{call.outputs[0], dtype, add};
    int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(std::min(extent.reduced, pieceLength), 1));
    parallelFor(threads, extent.outer * pieces, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t row = item / pieces, start = item % pieces * pieceLength;
        int64_t n = std::min(pieceLength, extent.reduced - start);
        const void *x = at(call.inputs[0], row * extent.reduced + start, bytes);
        partial[item] = kind == Kind::Largest    ? loops.maximum(x, n)
                        : kind == Kind::Smallest ? loops.minimum(x, n)
                                                 : sumChunk(loops, x, n, bytes);
      }
    });
    for (int64_t row = 0; row < extent.outer; ++row) {
      double result = partial[row * pieces];
      for (int64_t p = 1; p < pieces; ++p) {
        double piece = partial[row * pieces + p];
        if (kind == Kind::Sum || kind == Kind::Mean)
          result += piece;
        else if (piece != piece || (kind == Kind::Largest ? piece > result : piece < result))
          result = piece;
      }
      target.set(row, static_cast<float>(kind == Kind::Mean ? result / static_cast<double>(extent.reduced) : result));
    }
  };
  return makeKernel(spec, body, static_cast<size_t>(extent.outer * pieces) * sizeof(double));
}

/// Sums over rows: results of `inner` elements. Chunks of rows are summed side by side.
PreparedKernel makeColumnSum(const CallSpec &spec, const Loops &loops, Kind kind, const Extent &extent, bool add) {
  int64_t bytes = static_cast<int64_t>(byteSize(spec.inputs[0].dtype));
  auto addTo = loops.floats[floatIndex(spec.inputs[0].dtype)].addTo;
  auto addFloats = loops.floats[0].addTo;
  int64_t chunkRows = std::max<int64_t>(32, (extent.reduced + 15) / 16);
  int64_t chunks = std::max<int64_t>(1, (extent.reduced + chunkRows - 1) / chunkRows);
  float scale = kind == Kind::Mean ? 1.0f / static_cast<float>(extent.reduced) : 1.0f;
  DType dtype = spec.outputs[0].dtype;
  auto body = [=, threads = spec.threads](const Operands &call) {
    float *partial = static_cast<float *>(call.scratch);
    Target target{call.outputs[0], dtype, add};
    int team = extent.outer * extent.reduced * extent.inner < kElementGrain ? 1 : threads;
    parallelItems(team, extent.outer * chunks, [&](int64_t item, int) {
      int64_t o = item / chunks, first = item % chunks * chunkRows, end = std::min(first + chunkRows, extent.reduced);
      float *sums = partial + item * extent.inner;
      std::fill_n(sums, extent.inner, 0.0f);
      for (int64_t r = first; r < end; ++r)
        addTo(sums, at(call.inputs[0], (o * extent.reduced + r) * extent.inner, bytes), extent.inner);
    });
    for (int64_t o = 0; o < extent.outer; ++o) {
      float *sums = partial + o * chunks * extent.inner;
      for (int64_t c = 1; c < chunks; ++c)
        addFloats(sums, sums + c * extent.inner, extent.inner);
      for (int64_t i = 0; i < extent.inner; ++i)
        target.set(o * extent.inner + i, sums[i] * scale);
    }
  };
  return makeKernel(spec, body, static_cast<size_t>(extent.outer * chunks * extent.inner) * sizeof(float));
}

/// Sums over all but one stretch of axes, [outer, kept, inner], as a convolution's bias has its gradient.
struct Surrounded {
  int64_t outer = 1, kept = 1, inner = 1;
  bool valid = true; ///< Otherwise kept axes lie apart.

  Surrounded(std::span<const int64_t> shape, std::span<const int64_t> axes) {
    for (size_t i = 0; i < shape.size(); ++i)
      if (std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end()) {
        (kept > 1 ? inner : outer) *= shape[i];
      } else {
        valid &= inner == 1 || shape[i] == 1;
        kept *= shape[i];
      }
  }
};

PreparedKernel makeSurroundedSum(const CallSpec &spec, const FloatLoops &loops, Kind kind, const Surrounded &extent,
                                 bool add) {
  int64_t bytes = static_cast<int64_t>(byteSize(spec.inputs[0].dtype)), terms = extent.outer * extent.inner;
  double scale = kind == Kind::Mean ? 1.0 / static_cast<double>(terms) : 1.0;
  DType dtype = spec.outputs[0].dtype;
  return makeKernel(spec, [=, &loops, threads = spec.threads](const Operands &call) {
    Target target{call.outputs[0], dtype, add};
    parallelFor(threads, extent.kept, std::max<int64_t>(1, kElementGrain / terms), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        double total = 0;
        for (int64_t o = 0; o < extent.outer; ++o)
          total +=
              sumChunk(loops, at(call.inputs[0], (o * extent.kept + k) * extent.inner, bytes), extent.inner, bytes);
        target.set(k, static_cast<float>(total * scale));
      }
    });
  });
}

} // namespace

PreparedKernel prepareReduce(const CallSpec &spec, const Loops &loops) {
  int in = floatIndex(spec.inputs[0].dtype), out = floatIndex(spec.outputs[0].dtype);
  Extent extent(spec.inputs[0].shape(), spec.attributes.getInts("axes"));
  if (in < 0 || out < 0 || spec.inputs[0].elements() == 0)
    return unsupported();
  Kind kind = spec.kernel == "reduce_sum"    ? Kind::Sum
              : spec.kernel == "reduce_mean" ? Kind::Mean
              : spec.kernel == "reduce_max"  ? Kind::Largest
                                             : Kind::Smallest;
  bool add = accumulateMask(spec) & 1, sums = kind == Kind::Sum || kind == Kind::Mean;
  if (!extent.valid) {
    Surrounded around(spec.inputs[0].shape(), spec.attributes.getInts("axes"));
    return sums && around.valid ? makeSurroundedSum(spec, loops.floats[in], kind, around, add) : unsupported();
  }
  if (extent.inner == 1)
    return makeRowReduction(spec, loops.floats[in], kind, extent, add);
  if (!sums)
    return unsupported();
  return makeColumnSum(spec, loops, kind, extent, add);
}

PreparedKernel prepareSumSquares(const CallSpec &spec, const Loops &loops) {
  if (spec.inputs[0].dtype != DType::F32 || spec.outputs[0].dtype != DType::F64)
    return unsupported();
  constexpr int64_t kChunk = 16384;
  int64_t count = spec.inputs[0].elements(), chunks = (count + kChunk - 1) / kChunk;
  bool add = accumulateMask(spec) & 1;
  auto body = [=, loop = loops.sumSquares, threads = spec.threads](const Operands &call) {
    double *partial = static_cast<double *>(call.scratch), total = 0;
    parallelFor(threads, chunks, 2, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        partial[c] = loop(call.input<float>(0) + c * kChunk, std::min(kChunk, count - c * kChunk));
    });
    for (int64_t c = 0; c < chunks; ++c)
      total += partial[c];
    double &result = *call.output<double>(0);
    result = add ? result + total : total;
  };
  return makeKernel(spec, body, static_cast<size_t>(std::max<int64_t>(chunks, 1)) * sizeof(double));
}

} // namespace maestro::kernels::cpu

// Dropout: four numbers per evaluation of the generator where positions are neighbours.
#include "kernels/random.h"
#include "kernels/cpu/prepare.h"

namespace maestro::kernels::cpu {
namespace {

template <typename T>
void dropRow(T *y, const T *x, int64_t width, PhiloxCounter counter, PhiloxKey key, int64_t firstPosition, float ratio,
             float scale) {
  for (int64_t i = 0; i < width;) {
    int64_t position = firstPosition + i;
    counter[3] = fold(position >> 2);
    PhiloxCounter numbers = philox4x32(counter, key);
    for (int64_t word = position & 3; word < 4 && i < width; ++word, ++i)
      y[i] = uniformFloat(numbers[word]) < ratio ? T() : static_cast<T>(static_cast<float>(x[i]) * scale);
  }
}

} // namespace

PreparedKernel prepareDropout(const CallSpec &spec, const Loops &) {
  const TensorType &x = spec.inputs[0];
  auto given = spec.attributes.getInts("strides");
  if (floatIndex(x.dtype) < 0 || x.rank < 2 || given.size() + 1 != static_cast<size_t>(x.rank) || given.back() != 1 ||
      spec.inputs[1].dtype != DType::I64 || spec.inputs[2].dtype != DType::I64)
    return unsupported();
  Dims strides{};
  std::ranges::copy(given.first(given.size() - 1), strides.begin());
  auto middle = x.shape().subspan(1, static_cast<size_t>(x.rank) - 2);
  IndexMap position(middle, strides);
  int64_t width = x.shape().back(), lines = product(middle), rows = x.dims[0];
  int64_t samples = std::max<int64_t>(spec.inputs[2].elements(), 1),
          rowsPerSample = std::max<int64_t>(rows / samples, 1);
  float ratio = static_cast<float>(spec.attributes.getFloat("ratio", 0.5));
  float scale = ratio < 1 ? static_cast<float>(1 / (1 - spec.attributes.getFloat("ratio", 0.5))) : 0;
  int64_t stream = spec.attributes.getInt("stream", 0);
  bool half = x.dtype == DType::BF16;
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    const int64_t *state = call.input<int64_t>(1), *ids = call.input<int64_t>(2);
    PhiloxKey key{fold(state[0]), fold(stream)};
    parallelFor(threads, rows * lines, std::max<int64_t>(1, 2048 / std::max<int64_t>(width, 1)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t line = begin; line < end; ++line) {
                    int64_t row = line / lines;
                    PhiloxCounter counter{fold(state[1]), fold(ids[row / rowsPerSample]), fold(row % rowsPerSample), 0};
                    int64_t first = position(line % lines), at = line * width;
                    if (half)
                      dropRow(call.output<BFloat16>(0) + at, call.input<BFloat16>(0) + at, width, counter, key, first,
                              ratio, scale);
                    else
                      dropRow(call.output<float>(0) + at, call.input<float>(0) + at, width, counter, key, first, ratio,
                              scale);
                  }
                });
  });
}

} // namespace maestro::kernels::cpu

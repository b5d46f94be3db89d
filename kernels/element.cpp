// One switch per access, kept out of line: the loops around it stay small.
#include "kernels/element.h"

namespace maestro::kernels {
namespace {

template <typename C> C read(const void *data, DType dtype, int64_t i) {
  auto at = [&]<typename T>(T) { return static_cast<const T *>(data)[i]; };
  switch (dtype) {
  case DType::F32:
    return convert<C>(at(float()));
  case DType::F64:
    return convert<C>(at(double()));
  case DType::BF16:
    return convert<C>(static_cast<float>(at(BFloat16())));
  case DType::F16:
    return convert<C>(halfToFloat(at(uint16_t())));
  case DType::I64:
    return convert<C>(at(int64_t()));
  case DType::I32:
    return convert<C>(at(int32_t()));
  case DType::I16:
    return convert<C>(at(int16_t()));
  case DType::I8:
    return convert<C>(at(int8_t()));
  case DType::U8:
  case DType::Bool:
    return convert<C>(at(uint8_t()));
  }
  return C(0);
}

template <typename C> void write(void *data, DType dtype, int64_t i, C value) {
  auto put = [&]<typename T>(T element) { static_cast<T *>(data)[i] = element; };
  switch (dtype) {
  case DType::F32:
    return put(static_cast<float>(value));
  case DType::F64:
    return put(static_cast<double>(value));
  case DType::BF16:
    return put(BFloat16(static_cast<float>(value)));
  case DType::F16:
    return put(floatToHalf(static_cast<float>(value)));
  case DType::I64:
    return put(convert<int64_t>(value));
  case DType::I32:
    return put(static_cast<int32_t>(convert<int64_t>(value)));
  case DType::I16:
    return put(static_cast<int16_t>(convert<int64_t>(value)));
  case DType::I8:
    return put(static_cast<int8_t>(convert<int64_t>(value)));
  case DType::U8:
    return put(static_cast<uint8_t>(convert<int64_t>(value)));
  case DType::Bool:
    return put(static_cast<uint8_t>(value != C(0)));
  }
}

} // namespace

double readDouble(const void *data, DType dtype, int64_t i) { return read<double>(data, dtype, i); }
int64_t readInteger(const void *data, DType dtype, int64_t i) { return read<int64_t>(data, dtype, i); }
void writeDouble(void *data, DType dtype, int64_t i, double value) { write(data, dtype, i, value); }
void writeInteger(void *data, DType dtype, int64_t i, int64_t value) { write(data, dtype, i, value); }

} // namespace maestro::kernels

// Calls of kernels for tests of the memory that they are predicted to need, as the libraries and as the cost models
// have them.
#pragma once

#include "cost_models/cpu_memory.h"
#include "kernels/kernel.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace maestro::cost_models::test {

using Shape = std::vector<int64_t>;

struct Call {
  std::string kernel;
  std::vector<kernels::Attribute> attributes;
  std::vector<KernelOperand> inputs, outputs;
  uint64_t accumulate = 0;
};

inline KernelOperand of(DType dtype, Shape shape) { return {true, dtype, std::move(shape)}; }
inline KernelOperand f32(Shape shape) { return of(DType::F32, std::move(shape)); }
inline KernelOperand bf16(Shape shape) { return of(DType::BF16, std::move(shape)); }
inline KernelOperand i64(Shape shape) { return of(DType::I64, std::move(shape)); }
inline KernelOperand mask(Shape shape) { return of(DType::Bool, std::move(shape)); }

inline kernels::Attribute ints(std::string name, std::vector<int64_t> values) {
  kernels::Attribute attribute;
  attribute.name = std::move(name);
  attribute.ints = std::move(values);
  return attribute;
}

inline kernels::Attribute number(std::string name, double value) {
  kernels::Attribute attribute;
  attribute.name = std::move(name);
  attribute.kind = kernels::Attribute::Kind::Floats;
  attribute.floats = {value};
  return attribute;
}

inline std::vector<kernels::TensorType> types(const std::vector<KernelOperand> &operands) {
  std::vector<kernels::TensorType> result;
  for (const KernelOperand &operand : operands)
    result.push_back(operand.present ? kernels::TensorType(operand.dtype, operand.shape) : kernels::TensorType());
  return result;
}

} // namespace maestro::cost_models::test

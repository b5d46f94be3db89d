#include "tools/profile/bf16_products.h"

#include "cost_models/cpu_memory.h"
#include "kernels/kernel.h"

#include <array>

namespace maestro::profile {

using cost_models::Bf16Products;

Result<Bf16Products> bf16Products() {
  constexpr int kThreads = 1;
  const std::vector<int64_t> shape = {1024, 1024};
  const cost_models::KernelOperand operand{true, DType::BF16, shape};
  const std::array described{operand, operand, cost_models::KernelOperand()};
  const std::array product{operand};
  const kernels::TensorType type(DType::BF16, shape);
  const std::array inputs{type, type, kernels::TensorType()};
  const std::array outputs{type};
  MAESTRO_ASSIGN(std::unique_ptr<kernels::Kernel> kernel,
                 kernels::createCpuLibrary()->prepare({"matmul", {}, inputs, outputs, kThreads}));
  if (!kernel)
    return Status::internal("the CPU library has no product of bf16");
  uint64_t native = cost_models::cpuScratchBytes({"matmul", described, product}, kThreads, Bf16Products::Native);
  return kernel->scratchBytes() <= native ? Bf16Products::Native : Bf16Products::Widened;
}

} // namespace maestro::profile

// What maestro-profile measures: kernels at sizes that cover those of plans.
#pragma once

#include "kernels/kernel.h"

#include <cstdint>
#include <string>
#include <vector>

namespace maestro::profile {

/// A kernel at one size.
struct Subject {
  std::string curve; ///< As planning asks for it (cost_models/kernel_curves.h).
  std::string kernel;
  std::vector<kernels::Attribute> attributes;
  std::vector<kernels::TensorType> inputs, outputs;
  std::vector<double> sizes; ///< Of a grid: m, n, k. Of a curve: the bytes; none: those of operands and results.
  bool ordered = false;      ///< Masks are true up to the diagonal of their last two dims; otherwise nowhere.
  /// Bits, of inputs that another task left behind and of results that another one will read: a step has passed over
  /// its other values meanwhile, so that they lie further away than what the kernel before just wrote.
  uint32_t farInputs = 0, farOutputs = 0;
};

/// A product with the second operand stored transposed, as weights are.
Subject product(DType dtype, int64_t m, int64_t n, int64_t k);
Subject addition(int64_t rows, int64_t width);
/// Added to its result, with the first operand transposed, as weights' gradients are: k rows.
Subject gradientProduct(int64_t m, int64_t n, int64_t k);

/// What a pulse is (stopwatch.h): an inner cache holds it, and several threads have enough to do.
Subject pulseProduct();

/// Products over a grid for each type; others from what a cache holds to what it does not.
std::vector<Subject> subjects();

/// For a GPU: sizes of large models, less by the factor `shrink`. Products and attention, the latter in bf16, over
/// grids; what memory limits by its bytes, as planning takes it of both float types.
std::vector<Subject> gpuSubjects(int64_t shrink);

/// The optimizer on tensors that no cache holds.
Subject optimizerStep();
/// Small kernels of many kinds and shapes, as they surround a kernel in a step: together they fit no inner cache.
std::vector<Subject> companions();

} // namespace maestro::profile

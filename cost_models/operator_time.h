// The time of one kernel call on a device, and where that number comes from.
//
//   measured   a grid or curve of the device's profile (kernel_curves.h), and what a call in a program takes besides
//   built in   accelerators: the slower of arithmetic and memory, products in waves of tiles, and the call's own time
//              CPUs: arithmetic and memory one after the other, since a core overlaps little of them, and the call's
//              own time
//
// Waves of tiles: a product's result is cut into tiles, a multiprocessor works on one at a time, and the last wave of
// tiles takes as long as a full one ("Matrix Multiplication Background User's Guide", NVIDIA 2023, sections 2.3, 3.1
// and 3.2). Of the usual tiles the fastest is taken; smaller ones reach less of the peak, since they load more for each
// operation.
#pragma once

#include "cost_models/machine.h"

#include <string>
#include <string_view>

namespace maestro::cost_models {

/// What a call does, at some sizes of the dims.
struct KernelWork {
  std::string_view
      kernel; ///< "matmul"; with a word for its kind where that matters: "matmul transposed", "attention masked".
  bool bf16 = false; ///< Its (first) floating point operand's type; otherwise f32.
  Flops flops;
  Bytes bytes; ///< Operands and results, once each.
  /// Of products (convolutions, too): batch times m × k by k × n. Of attention: queries of all heads, keys, depth. Of
  /// others: rows and width of the first operand, and 1.
  double m = 1, n = 1, k = 1, batch = 1;

  bool isProduct() const { return kernel.starts_with("matmul") || kernel.starts_with("conv"); }
  bool isAttention() const { return kernel.starts_with("attention"); }
};

enum class Provenance : uint8_t { BuiltIn, Measured, Scaled };

struct OperatorTime {
  Seconds time;
  bool byFlops = false; ///< It grows with the operations; otherwise with the bytes.
  Provenance provenance = Provenance::BuiltIn;
};

OperatorTime operatorTime(const KernelWork &work, const DeviceModel &device);

/// The rate of a call's arithmetic by data sheet or built-in rates.
FlopsPerSecond arithmeticRate(const KernelWork &work, const DeviceModel &device);

/// "measured on AMD EPYC …, 1 thread"; "NVIDIA H100 data sheet (2023), H100 SXM; …": where times of the provenance come
/// from.
std::string sourceOf(const DeviceModel &device, Provenance provenance);

} // namespace maestro::cost_models

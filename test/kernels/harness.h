// Calling kernels in tests: tensors that own their memory, random contents, comparison with tolerances.
#pragma once

#include "kernels/kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace maestro::kernels::test {

/// A tensor and its elements. Elements are read and written as double whatever the type.
class Tensor {
public:
  Tensor() = default; ///< Absent.
  Tensor(DType dtype, std::vector<int64_t> shape);
  static Tensor of(DType dtype, std::vector<int64_t> shape, const std::vector<double> &values);

  const TensorType &type() const { return tensorType; }
  int64_t size() const { return tensorType.present ? tensorType.elements() : 0; }
  double at(int64_t i) const;
  void set(int64_t i, double value);
  void *data() { return tensorType.present ? bytes.data() + 64 : nullptr; }
  const void *data() const { return tensorType.present ? bytes.data() + 64 : nullptr; }
  std::vector<double> values() const;
  /// The guard bytes before and behind the elements are untouched.
  bool guardsIntact() const;

private:
  TensorType tensorType;
  std::vector<uint8_t> bytes;
};

Attribute ints(std::string name, std::vector<int64_t> values);
Attribute flag(std::string name, bool value = true);
Attribute number(std::string name, double value);
Attribute text(std::string name, std::string value);

/// Random contents: floats normal with the given scale, integers in [low, high), booleans even.
class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  Tensor floats(DType dtype, std::vector<int64_t> shape, double scale = 1, double offset = 0);
  Tensor integers(DType dtype, std::vector<int64_t> shape, int64_t low, int64_t high);
  Tensor booleans(std::vector<int64_t> shape);
  double normal() { return std::normal_distribution<double>()(engine); }

private:
  std::mt19937 engine;
};

struct CallResult {
  Status status;
  bool supported = true;
  std::string implementation; ///< The C++ type of the kernel: tells one library's from another's.
};

/// Prepares and runs; `outputs` holds the results' types and, with `accumulate`, their old contents.
/// inPlace[i] = j: result i is written over operand j (or −1).
CallResult call(const Library &library, std::string_view kernel, const std::vector<Attribute> &attributes,
                const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs, int threads = 2);

/// The same with result i over operand over[i], whose type it has.
Status callOver(const Library &library, std::string_view kernel, const std::vector<Attribute> &attributes,
                std::vector<Tensor> &operands, const std::vector<size_t> &over);

/// |a − b| ≤ absolute + relative·|b| for every element; NaN equals NaN, infinities equal themselves.
::testing::AssertionResult close(const Tensor &a, const Tensor &b, double relative, double absolute);
/// The same relative to the largest magnitude in b.
::testing::AssertionResult closeToScale(const Tensor &a, const Tensor &b, double tolerance);

} // namespace maestro::kernels::test

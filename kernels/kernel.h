// The kernel interface: one named operation on dense row-major tensors.
//
// A kernel is *prepared* once for fixed shapes (this may allocate, choose algorithms, ask oneDNN) and
// then *run* any number of times (this may not allocate, lock or throw). Names, operands, attributes
// and meaning are those of the `nn` operators (ir/nn/nn_ops.td is the catalogue); the optimizer's
// kernels, which no graph contains, are described in kernels/README.md.
//
// Ownership: the caller owns every buffer. Operands do not overlap results, except where the operator
// says that a result may reuse an operand's memory (elementwise kernels: same element type and shape).
#pragma once

#include "base/dtype.h"
#include "base/status.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::kernels {

/// Element type and shape of one operand or result, in elements, row-major and dense.
struct TensorType {
  static constexpr int kMaxRank = 8;

  bool present = false; ///< false: an optional operand that the call leaves out (its pointer is null).
  DType dtype = DType::F32;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};

  TensorType() = default;
  TensorType(DType dtype, std::span<const int64_t> shape);

  std::span<const int64_t> shape() const { return {dims.data(), static_cast<size_t>(rank)}; }
  int64_t elements() const; ///< Product of the dims; 1 for a scalar.
  size_t bytes() const { return static_cast<size_t>(elements()) * byteSize(dtype); }
  bool operator==(const TensorType &) const = default;
};

/// A named attribute, symbolic dims already evaluated to integers.
struct Attribute {
  enum class Kind : uint8_t { Ints, Floats, Text };
  std::string name;
  Kind kind = Kind::Ints;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::string text;
};

/// The attributes of one call. Look-ups return the fallback when the name is absent.
class Attributes {
public:
  Attributes() = default;
  explicit Attributes(std::span<const Attribute> items) : items(items) {}

  const Attribute *find(std::string_view name) const;
  int64_t getInt(std::string_view name, int64_t fallback) const;
  double getFloat(std::string_view name, double fallback) const;
  bool getFlag(std::string_view name) const { return getInt(name, 0) != 0; }
  std::string_view getText(std::string_view name, std::string_view fallback) const;
  std::span<const int64_t> getInts(std::string_view name) const; ///< Empty when absent.
  std::span<const Attribute> all() const { return items; }

private:
  std::span<const Attribute> items;
};

/// What a library needs to know to prepare one call.
struct CallSpec {
  std::string_view kernel; ///< "matmul", "layer_norm_grad", "adamw" …
  Attributes attributes;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  int threads = 1; ///< Threads that run() may use; results do not depend on it unless stated.
};

/// A prepared call.
class Kernel {
public:
  virtual ~Kernel() = default;

  /// Reads inputs, writes outputs. A result named by the `accumulate` attribute (a bit mask over
  /// outputs) is added to instead of overwritten. `scratch` has scratchBytes() bytes, 64-byte
  /// aligned, contents undefined before and after. Fails only on bad data (an index out of range:
  /// InvalidInput naming index, position and limit); outputs are then undefined.
  virtual Status run(std::span<const void *const> inputs, std::span<void *const> outputs, void *scratch) = 0;

  /// Bytes of scratch memory that run() needs; fixed after preparation.
  virtual size_t scratchBytes() const { return 0; }

  /// About what keeping it takes, its description included; measured.
  virtual size_t ownBytes() const { return 2048; }
};

/// A set of kernels for one kind of device. reference/ is the oracle: one obvious loop per operator,
/// for every floating type including f64. cpu/ is fast and falls back to nothing: a combination
/// that it lacks is reported, and the caller (Libraries in a chain) asks the next library.
class Library {
public:
  virtual ~Library() = default;
  virtual std::string_view name() const = 0;
  /// nullptr (inside an ok Result) when this library does not implement the call.
  virtual Result<std::unique_ptr<Kernel>> prepare(const CallSpec &spec) const = 0;
};

/// The oracle: simple loops, single-threaded.
std::unique_ptr<Library> createReferenceLibrary();
/// oneDNN and vectorised loops; asks the reference library for what it lacks.
std::unique_ptr<Library> createCpuLibrary();

} // namespace maestro::kernels

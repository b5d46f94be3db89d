#include "test/kernels/harness.h"

#include "kernels/element.h"

#include <cstring>
#include <typeinfo>

namespace maestro::kernels::test {
namespace {
constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xa5;
} // namespace

Tensor::Tensor(DType dtype, std::vector<int64_t> shape)
    : tensorType(dtype, shape), bytes(tensorType.bytes() + 2 * kGuard, kGuardByte) {
  std::memset(data(), 0, tensorType.bytes());
}

Tensor Tensor::of(DType dtype, std::vector<int64_t> shape, const std::vector<double> &values) {
  Tensor tensor(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

double Tensor::at(int64_t i) const { return readDouble(data(), tensorType.dtype, i); }
void Tensor::set(int64_t i, double value) { writeDouble(data(), tensorType.dtype, i, value); }

std::vector<double> Tensor::values() const {
  std::vector<double> all;
  for (int64_t i = 0; i < size(); ++i)
    all.push_back(at(i));
  return all;
}

bool Tensor::guardsIntact() const {
  for (size_t i = 0; i < kGuard && !bytes.empty(); ++i)
    if (bytes[i] != kGuardByte || bytes[bytes.size() - 1 - i] != kGuardByte)
      return false;
  return true;
}

Attribute ints(std::string name, std::vector<int64_t> values) {
  return {std::move(name), Attribute::Kind::Ints, std::move(values), {}, {}};
}
Attribute flag(std::string name, bool value) { return ints(std::move(name), {value}); }
Attribute number(std::string name, double value) { return {std::move(name), Attribute::Kind::Floats, {}, {value}, {}}; }
Attribute text(std::string name, std::string value) {
  return {std::move(name), Attribute::Kind::Text, {}, {}, std::move(value)};
}

Tensor Random::floats(DType dtype, std::vector<int64_t> shape, double scale, double offset) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, normal() * scale + offset);
  return tensor;
}
Tensor Random::integers(DType dtype, std::vector<int64_t> shape, int64_t low, int64_t high) {
  Tensor tensor(dtype, std::move(shape));
  std::uniform_int_distribution<int64_t> pick(low, high - 1);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, static_cast<double>(pick(engine)));
  return tensor;
}
Tensor Random::booleans(std::vector<int64_t> shape) { return integers(DType::Bool, std::move(shape), 0, 2); }

namespace {

Status run(Kernel &kernel, std::span<const void *const> sources, std::span<void *const> targets) {
  constexpr uintptr_t kAlignment = 256; // A GPU's; a CPU's is 64.
  std::vector<uint8_t> scratch(kernel.scratchBytes() + kAlignment + 64, kGuardByte);
  void *aligned = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch.data()) + kAlignment - 1) / kAlignment *
                                           kAlignment);
  return kernel.run(sources, targets, aligned);
}

} // namespace

CallResult call(const Library &library, std::string_view kernel, const std::vector<Attribute> &attributes,
                const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs, int threads) {
  std::vector<TensorType> in, out;
  std::vector<const void *> sources;
  std::vector<void *> targets;
  for (const Tensor &tensor : inputs) {
    in.push_back(tensor.type());
    sources.push_back(tensor.data());
  }
  for (Tensor &tensor : outputs) {
    out.push_back(tensor.type());
    targets.push_back(tensor.data());
  }
  CallSpec spec{kernel, Attributes(attributes), in, out, threads};
  auto prepared = library.prepare(spec);
  if (!prepared.isOk())
    return {std::move(prepared).takeStatus(), true, ""};
  if (!*prepared)
    return {Status(), false, ""};
  Kernel &made = **prepared;
  std::string implementation = typeid(made).name();
  Status status = run(made, sources, targets);
  for (const Tensor &tensor : outputs)
    EXPECT_TRUE(tensor.guardsIntact()) << kernel << " wrote outside a result";
  return {std::move(status), true, std::move(implementation)};
}

Status callOver(const Library &library, std::string_view kernel, const std::vector<Attribute> &attributes,
                std::vector<Tensor> &operands, const std::vector<size_t> &over) {
  std::vector<TensorType> in, out;
  std::vector<const void *> sources;
  std::vector<void *> targets;
  for (const Tensor &tensor : operands) {
    in.push_back(tensor.type());
    sources.push_back(tensor.data());
  }
  for (size_t operand : over) {
    out.push_back(operands[operand].type());
    targets.push_back(operands[operand].data());
  }
  MAESTRO_ASSIGN(std::unique_ptr<Kernel> made, library.prepare({kernel, Attributes(attributes), in, out, 1}));
  return made ? run(*made, sources, targets) : Status::internal("the library lacks the kernel");
}

namespace {
::testing::AssertionResult compare(const Tensor &a, const Tensor &b, double relative, double absolute) {
  if (a.type() != b.type())
    return ::testing::AssertionFailure() << "types differ";
  for (int64_t i = 0; i < a.size(); ++i) {
    double x = a.at(i), y = b.at(i);
    bool same = x == y || (std::isnan(x) && std::isnan(y));
    if (!same && !(std::abs(x - y) <= absolute + relative * std::abs(y)))
      return ::testing::AssertionFailure() << "element " << i << " is " << x << ", expected " << y;
  }
  return ::testing::AssertionSuccess();
}
} // namespace

::testing::AssertionResult close(const Tensor &a, const Tensor &b, double relative, double absolute) {
  return compare(a, b, relative, absolute);
}

::testing::AssertionResult closeToScale(const Tensor &a, const Tensor &b, double tolerance) {
  double largest = 0;
  for (int64_t i = 0; i < b.size(); ++i)
    if (std::isfinite(b.at(i)))
      largest = std::max(largest, std::abs(b.at(i)));
  return compare(a, b, 0, tolerance * largest);
}

} // namespace maestro::kernels::test

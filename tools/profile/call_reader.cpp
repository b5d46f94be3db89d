#include "tools/profile/call_reader.h"

#include "plan/plan_generated.h"

#include <algorithm>

namespace maestro::profile {
namespace {

namespace fb = plan::fb;
using cost_models::CallSample;
using kernels::TensorType;

/// Which operand of attention is its mask; three later of its gradient.
constexpr size_t kMask = 3;

double elements(const TensorType &type) { return static_cast<double>(type.elements()); }
double dimOf(const TensorType &type, int fromLast) {
  return static_cast<double>(type.dims[static_cast<size_t>(type.rank - fromLast)]);
}

} // namespace

CallKind CallReader::read(const fb::Executable &executable, const fb::Call &call) {
  kernel = plan->kernels()->Get(call.kernel())->str();
  inputs = typesOf(executable, {call.inputs()->data(), call.inputs()->size()});
  outputs = typesOf(executable, {call.outputs()->data(), call.outputs()->size()});
  CallKind kind;
  bool bf16 = isBf16();
  if (!inputs.empty() && !outputs.empty())
    place(call, kind);
  kind.work.bytes = bytesMoved(call);
  for (double *size : {&kind.work.m, &kind.work.n, &kind.work.k, &kind.work.bytes})
    *size = std::max(*size, 1.0);
  kind.name = cost_models::callsOf(kernel, bf16);
  return kind;
}

/// As the operators of ir/nn answer: all operands and results once, but of what is looked up in, cut, or added to at
/// indices as much as is taken or added.
double CallReader::bytesMoved(const fb::Call &call) const {
  std::string_view name = plan->kernels()->Get(call.kernel())->string_view();
  bool takesPart = name == "gather" || name == "gather_nd" || name == "gather_elements" || name == "slice";
  double bytes = 0;
  auto add = [&](const TensorType &type) { bytes += type.present ? static_cast<double>(type.bytes()) : 0; };
  for (size_t i = 0; i < inputs.size(); ++i)
    add(takesPart && i == 0 ? outputs.front() : inputs[i]);
  for (const TensorType &type : outputs)
    add(name == "gather_grad" ? inputs[1] : type);
  return bytes;
}

std::vector<TensorType> CallReader::typesOf(const fb::Executable &executable, std::span<const uint32_t> buffers) const {
  std::vector<TensorType> types;
  for (uint32_t buffer : buffers) {
    TensorType &type = types.emplace_back();
    if (buffer == plan::kNone)
      continue;
    const fb::Buffer &table = *executable.buffers()->Get(buffer);
    std::vector<int64_t> shape;
    for (uint32_t expr : *table.shape())
      shape.push_back(dims[expr]);
    type = TensorType(static_cast<DType>(table.dtype()), shape);
  }
  return types;
}

/// By the first operand that may be either.
bool CallReader::isBf16() const {
  for (const TensorType &type : inputs)
    if (type.present && (type.dtype == DType::F32 || type.dtype == DType::BF16))
      return type.dtype == DType::BF16;
  return false;
}

const fb::Attribute *CallReader::find(const fb::Call &call, std::string_view name) const {
  if (call.attributes() != plan::kNone)
    for (const fb::Attribute *item : *plan->attribute_lists()->Get(call.attributes())->items())
      if (item->name()->string_view() == name)
        return item;
  return nullptr;
}

bool CallReader::flag(const fb::Call &call, std::string_view name) const {
  const fb::Attribute *item = find(call, name);
  return item && item->ints() && item->ints()->size() > 0 && item->ints()->Get(0) != 0;
}

void CallReader::place(const fb::Call &call, CallKind &kind) {
  if (kernel == "matmul")
    return placeProduct(call, kind);
  if (kernel.starts_with("conv"))
    return placeConvolution(kind);
  if (kernel == "attention" || kernel == "attention_grad")
    return placeAttention(call, kind);
  const fb::Attribute *approximate = find(call, "approximate");
  if (approximate && approximate->text() && approximate->text()->string_view() == "tanh")
    kernel += " tanh";
  const TensorType &first = inputs.front();
  kind.work.n = first.present && first.rank > 0 ? dimOf(first, 1) : 1;
  kind.work.m = first.present ? elements(first) / kind.work.n : 1;
}

void CallReader::placeProduct(const fb::Call &call, CallKind &kind) {
  const TensorType &result = outputs.front();
  CallSample &work = kind.work;
  bool transposed = flag(call, "transpose_a"), shared = inputs[1].rank == 2 && !transposed;
  work.n = dimOf(result, 1);
  work.m = elements(result) / work.n;
  work.k = dimOf(inputs.front(), transposed ? 2 : 1);
  if (!shared) {
    kind.products = work.m / dimOf(result, 2);
    work.m /= kind.products;
  }
  if (transposed)
    kernel = "matmul transposed";
}

/// As the product of its patches with its filters.
void CallReader::placeConvolution(CallKind &kind) const {
  const TensorType &first = inputs.front(), &result = outputs.front();
  bool ofFilters = kernel == "conv_grad_weight";
  const TensorType &filters = ofFilters ? result : inputs[1];
  const TensorType &y = kernel == "conv" ? result : kernel == "conv_grad_input" ? first : inputs[1];
  kind.work.n =
      ofFilters ? elements(result) / static_cast<double>(result.dims[0]) : static_cast<double>(result.dims[1]);
  kind.work.m = elements(result) / kind.work.n;
  kind.work.k = elements(y) * elements(filters) / static_cast<double>(filters.dims[0]) / elements(result);
}

void CallReader::placeAttention(const fb::Call &call, CallKind &kind) {
  size_t q = kernel == "attention_grad" ? 1 : 0, at = kMask + 3 * q; // dy first.
  kind.work.k = dimOf(inputs[q], 1);
  kind.work.m = elements(inputs[q]) / kind.work.k;
  kind.work.n = static_cast<double>(inputs[q + 1].dims[flag(call, "sequence_major") ? 1 : 2]);
  bool hidesWhatComes = at < inputs.size() && inputs[at].present && inputs[at].rank > 1 && dimOf(inputs[at], 2) > 1;
  if (flag(call, "causal"))
    kernel += " causal";
  else if (hidesWhatComes)
    kernel += " masked";
}

} // namespace maestro::profile

#include "executor/device/kernel_table.h"

namespace maestro::executor {
namespace {

void append(std::string &key, const void *data, size_t bytes) {
  key.append(reinterpret_cast<const char *>(&bytes), sizeof bytes).append(static_cast<const char *>(data), bytes);
}

void append(std::string &key, std::span<const kernels::TensorType> types) {
  for (const kernels::TensorType &type : types) {
    const uint8_t kind[] = {type.present, static_cast<uint8_t>(type.dtype)};
    append(key, kind, sizeof kind);
    append(key, type.dims.data(), static_cast<size_t>(type.rank) * sizeof type.dims[0]);
  }
  key += '\0'; // Inputs end, results begin.
}

} // namespace

void writeKey(std::string &key, const kernels::CallSpec &spec, std::span<const kernels::Attribute> attributes) {
  key.clear();
  append(key, spec.kernel.data(), spec.kernel.size());
  append(key, spec.inputs);
  append(key, spec.outputs);
  for (const kernels::Attribute &attribute : attributes) {
    append(key, attribute.name.data(), attribute.name.size());
    append(key, attribute.ints.data(), attribute.ints.size() * sizeof attribute.ints[0]);
    append(key, attribute.floats.data(), attribute.floats.size() * sizeof attribute.floats[0]);
    append(key, attribute.text.data(), attribute.text.size());
  }
}

std::string describeCall(std::string_view kernel, std::string_view scope) {
  std::string text(kernel);
  if (!scope.empty())
    text.append(" (").append(scope).append(")");
  return text;
}

} // namespace maestro::executor

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

Result<KernelTable::Use> KernelTable::acquire(const kernels::Library &library, const kernels::CallSpec &spec,
                                              std::span<const kernels::Attribute> attributes) {
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
  auto found = entries.find(key);
  if (found == entries.end()) {
    auto prepared = library.prepare(spec);
    if (!prepared || !*prepared)
      return prepared ? Result<Use>(nullptr) : Result<Use>(std::move(prepared).takeStatus());
    heldBytes += (*prepared)->ownBytes();
    found = entries.emplace(key, Entry{std::move(*prepared), 0}).first;
  }
  ++found->second.uses;
  return &*found;
}

void KernelTable::release(Use use) {
  if (--use->second.uses > 0)
    return;
  heldBytes -= use->second.kernel->ownBytes();
  entries.erase(entries.find(use->first));
}

} // namespace maestro::executor

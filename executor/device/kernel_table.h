// A device's prepared kernels, each once: calls of the same kernel, attributes and shapes share it, whatever program
// they stand in. Layers repeat, and micro-batches of other sizes still have much in common; finding one takes a quarter
// of a microsecond, preparing one of the library's own loops 1, one of oneDNN's primitives 200 and more.
//
// A kernel lives as long as a program uses it. All of a device's calls run one after the other, so that sharing is
// safe.
#pragma once

#include "kernels/kernel.h"

#include <memory>
#include <string>
#include <unordered_map>

namespace maestro::executor {

class KernelTable {
public:
  struct Entry {
    std::unique_ptr<kernels::Kernel> kernel;
    uint32_t uses = 0;
  };
  using Entries = std::unordered_map<std::string, Entry>;
  using Use = Entries::value_type *; ///< Stays where it is until it is released.

  /// The kernel of such calls, with one use more; null where the library has none.
  Result<Use> acquire(const kernels::Library &library, const kernels::CallSpec &spec,
                      std::span<const kernels::Attribute> attributes);
  void release(Use use);

  size_t size() const { return entries.size(); }
  size_t bytes() const { return heldBytes; }

private:
  Entries entries; ///< By all that preparing may depend on, as bytes.
  size_t heldBytes = 0;
  std::string key; ///< Of the call that is asked for.
};

} // namespace maestro::executor

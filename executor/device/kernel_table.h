// A device's prepared kernels, each once: calls of the same kernel, attributes and shapes share it, whatever program they stand in.
// Layers repeat, and micro-batches of other sizes still have much in common; preparing costs some 30 µs, finding 1.
//
// A kernel lives as long as a program uses it. All of a device's calls run one after the other, so that sharing is safe.
#pragma once

#include "kernels/kernel.h"

#include <map>
#include <memory>
#include <string>

namespace maestro::executor {

class KernelTable {
public:
  struct Entry {
    std::unique_ptr<kernels::Kernel> kernel;
    uint32_t uses = 0;
  };
  using Entries = std::map<std::string, Entry>;
  using Use = Entries::iterator;

  /// The kernel of such calls, with one use more; end() where the library has none.
  Result<Use> acquire(const kernels::Library &library, const kernels::CallSpec &spec, std::span<const kernels::Attribute> attributes);
  void release(Use use);

  Use end() { return entries.end(); }
  size_t size() const { return entries.size(); }

private:
  Entries entries; ///< By all that preparing may depend on, as bytes.
};

} // namespace maestro::executor

// A device's prepared kernels, each once: calls of the same kernel, attributes and shapes share it, whatever program
// they stand in. Layers repeat, and micro-batches of other sizes still have much in common; finding one takes a quarter
// of a microsecond, preparing one of the library's own loops 1, one of oneDNN's primitives 200 and more.
//
// A kernel lives as long as a program uses it. All of a device's calls run one after the other, so that sharing is
// safe.
#pragma once

#include "executor/device/device.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>

namespace maestro::executor {

/// All that preparing a call may depend on, as bytes.
void writeKey(std::string &key, const kernels::CallSpec &spec, std::span<const kernels::Attribute> attributes);
/// "gather (wte)": how messages name a call.
std::string describeCall(std::string_view kernel, std::string_view scope);

/// Of `Kernel`s, which a `Library` prepares.
template <typename Library, typename Kernel> class KernelTable {
public:
  struct Entry {
    std::unique_ptr<Kernel> kernel;
    uint32_t uses = 0;
  };
  using Entries = std::unordered_map<std::string, Entry>;
  using Use = typename Entries::value_type *; ///< Stays where it is until it is released.

  /// The kernel of such calls, with one use more; a failure that names the call where the library has none.
  Result<Use> acquire(const Library &library, const CallDescription &call, int threads) {
    kernels::CallSpec spec{call.kernel, kernels::Attributes(call.attributes), call.inputTypes, call.outputTypes,
                           threads};
    writeKey(key, spec, call.attributes);
    auto found = entries.find(key);
    if (found == entries.end()) {
      auto prepared = library.prepare(spec);
      if (!prepared)
        return std::move(prepared).takeStatus().withContext(describeCall(call.kernel, call.scope));
      if (!*prepared)
        return Status::internal(describeCall(call.kernel, call.scope) +
                                ": the device has no kernel for these operands");
      heldBytes += (*prepared)->ownBytes();
      found = entries.emplace(key, Entry{std::move(*prepared), 0}).first;
    }
    ++found->second.uses;
    return &*found;
  }
  void release(Use use) {
    if (--use->second.uses > 0)
      return;
    heldBytes -= use->second.kernel->ownBytes();
    entries.erase(entries.find(use->first));
  }

  size_t size() const { return entries.size(); }
  size_t bytes() const { return heldBytes; }

private:
  Entries entries; ///< By writeKey().
  size_t heldBytes = 0;
  std::string key; ///< Of the call that is asked for.
};

/// A program's calls: which kernel each uses, and where its operands lie.
template <typename Library, typename Kernel> struct ProgramOf : PreparedProgram {
  using Table = KernelTable<Library, Kernel>;
  struct Call {
    typename Table::Use use;
    uint32_t inputs, outputs; ///< How many of the program's operands.
    std::string_view name;
    std::string_view scope;
    uint32_t number = 0; ///< The device's own.

    Kernel &kernel() const { return *use->second.kernel; }
  };

  explicit ProgramOf(std::shared_ptr<Table> kernels) : kernels(std::move(kernels)) {}
  ~ProgramOf() override {
    for (const Call &call : calls)
      kernels->release(call.use);
  }

  Status add(const Library &library, const CallDescription &call, int threads) {
    MAESTRO_ASSIGN(auto use, kernels->acquire(library, call, threads));
    calls.push_back({use, static_cast<uint32_t>(call.inputs.size()), static_cast<uint32_t>(call.outputs.size()),
                     call.kernel, call.scope, 0});
    for (const auto *list : {&call.inputs, &call.outputs})
      operands.insert(operands.end(), list->begin(), list->end());
    mostOperands = std::max({mostOperands, call.inputs.size(), call.outputs.size()});
    return Status();
  }
  size_t scratchBytes() const {
    size_t bytes = 0;
    for (const Call &call : calls)
      bytes = std::max(bytes, call.kernel().scratchBytes());
    return bytes;
  }

  std::shared_ptr<Table> kernels;
  std::vector<Call> calls;
  std::vector<OperandRef> operands; ///< Call by call: inputs, then outputs.
  size_t mostOperands = 0;
};

} // namespace maestro::executor

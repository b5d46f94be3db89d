// A kernel made of oneDNN primitives: prepared once, then run on whatever memory the caller gives.
// What a primitive needs for itself lies in the call's scratch memory.
#pragma once

#include "kernels/kernel.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <initializer_list>
#include <vector>

namespace maestro::kernels::cpu {

/// The process's CPU engine.
const dnnl::engine &onednnEngine();
dnnl::memory::data_type onednnType(DType dtype);
/// f32, or bf16 where this processor has instructions to multiply it (and DNNL_MAX_CPU_ISA allows them).
bool onednnCovers(DType dtype);

/// oneDNN takes its number of threads from OpenMP's setting of the calling thread.
class ThreadScope {
public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope &) = delete;
  ThreadScope &operator=(const ThreadScope &) = delete;

private:
  int previous;
};

/// One run at a time: the memory objects are the kernel's own.
class OnednnKernel : public Kernel {
public:
  using Slot = size_t;

  explicit OnednnKernel(int threads) : threads(threads), stream(onednnEngine()) {}

  // Preparation: declare memory, then the primitives that use it, in order. These may throw dnnl::error.
  Slot input(size_t index, const dnnl::memory::desc &desc) { return bind(Place::Input, index, desc); }
  Slot output(size_t index, const dnnl::memory::desc &desc) { return bind(Place::Output, index, desc); }
  Slot scratch(const dnnl::memory::desc &desc);
  /// The slot itself if it already has the wanted layout, or scratch memory and a primitive that fills it.
  Slot converted(Slot from, const dnnl::memory::desc &wanted);
  struct Argument {
    int name;
    Slot slot;
  };
  void add(const dnnl::primitive &primitive, const dnnl::memory::desc &scratchpad,
           std::initializer_list<Argument> arguments);
  void addReorder(Slot from, Slot to);
  const dnnl::memory::desc &desc(Slot slot) const { return bindings[slot].desc; }

  Status run(std::span<const void *const> inputs, std::span<void *const> outputs, void *scratch) override;
  size_t scratchBytes() const override { return bytes; }
  size_t ownBytes() const override { return steps.size() * kPrimitiveBytes; }

private:
  static constexpr size_t kPrimitiveBytes = 14 << 10; ///< With its code; 8 to 14 KiB were seen.
  enum class Place : uint8_t { Input, Output, Scratch };
  struct Binding {
    Place place;
    size_t index; ///< Of the operand, or the offset in scratch memory.
    dnnl::memory::desc desc;
    dnnl::memory memory;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  Slot bind(Place place, size_t index, const dnnl::memory::desc &desc);

  int threads;
  dnnl::stream stream;
  std::vector<Binding> bindings;
  std::vector<Step> steps;
  size_t bytes = 0;
};

} // namespace maestro::kernels::cpu

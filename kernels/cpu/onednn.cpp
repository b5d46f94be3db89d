// Memory objects are made once and pointed at the operands for each run.
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/openmp.h"

namespace maestro::kernels::cpu {

const dnnl::engine &onednnEngine() {
  static const dnnl::engine engine = [] {
    // Its cache only needs to span the shapes of a few micro-batches; by default it keeps 1,024 primitives, some 20 KiB
    // each.
    dnnl::set_primitive_cache_capacity(256);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::memory::data_type onednnType(DType dtype) {
  return dtype == DType::BF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

bool onednnCovers(DType dtype) {
  // An instruction set's number has the bits of those that it contains. With AVX-512 alone oneDNN multiplies bf16 at a
  // third of f32's rate, and each thread has a result of its own.
  static const int isa = static_cast<int>(dnnl::get_effective_cpu_isa()),
                   needed = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  return dtype == DType::F32 || (dtype == DType::BF16 && (isa & needed) == needed);
}

ThreadScope::ThreadScope(int threads) : previous(omp_get_max_threads()) {
  if (previous != threads)
    omp_set_num_threads(threads);
}
ThreadScope::~ThreadScope() { omp_set_num_threads(previous); }

OnednnKernel::Slot OnednnKernel::bind(Place place, size_t index, const dnnl::memory::desc &desc) {
  bindings.push_back({place, index, desc, dnnl::memory(desc, onednnEngine(), nullptr)});
  return bindings.size() - 1;
}

OnednnKernel::Slot OnednnKernel::scratch(const dnnl::memory::desc &desc) {
  Slot slot = bind(Place::Scratch, bytes, desc);
  bytes += (desc.get_size() + 63) / 64 * 64;
  return slot;
}

OnednnKernel::Slot OnednnKernel::converted(Slot from, const dnnl::memory::desc &wanted) {
  if (bindings[from].desc == wanted)
    return from;
  Slot to = scratch(wanted);
  addReorder(from, to);
  return to;
}

void OnednnKernel::addReorder(Slot from, Slot to) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::reorder::primitive_desc pd(onednnEngine(), bindings[from].desc, onednnEngine(), bindings[to].desc, attributes);
  add(dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void OnednnKernel::add(const dnnl::primitive &primitive, const dnnl::memory::desc &scratchpad,
                       std::initializer_list<Argument> arguments) {
  Step step{primitive, {}};
  for (const Argument &argument : arguments)
    step.arguments.push_back({argument.name, bindings[argument.slot].memory.get()});
  if (scratchpad.get_size() > 0)
    step.arguments.push_back({DNNL_ARG_SCRATCHPAD, bindings[scratch(scratchpad)].memory.get()});
  steps.push_back(std::move(step));
}

Status OnednnKernel::run(std::span<const void *const> inputs, std::span<void *const> outputs, void *memory) {
  for (const Binding &binding : bindings) {
    void *data = binding.place == Place::Input    ? const_cast<void *>(inputs[binding.index])
                 : binding.place == Place::Output ? outputs[binding.index]
                                                  : static_cast<char *>(memory) + binding.index;
    dnnl_memory_set_data_handle(binding.memory.get(), data);
  }
  ThreadScope scope(threads);
  for (const Step &step : steps) {
    dnnl_status_t status = dnnl_primitive_execute(step.primitive.get(), stream.get(),
                                                  static_cast<int>(step.arguments.size()), step.arguments.data());
    if (status != dnnl_success)
      return Status::internal("oneDNN failed with status " + std::to_string(status));
  }
  return Status();
}

} // namespace maestro::kernels::cpu

#include "planner/emit/host_memory.h"

#include "cost_models/cpu_memory.h"
#include "cost_models/gpu_memory.h"
#include "plan/plan.h"

#include <algorithm>
#include <vector>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;
using cost_models::KernelOperand;

class HostMemory {
public:
  HostMemory(const fb::PlanT &plan, const fb::ExecutableT &executable, std::span<const int64_t> values)
      : plan(plan), executable(executable), values(values) {}

  HostBytes onCpu(int threads, cost_models::Bf16Products bf16) const {
    HostBytes result;
    uint64_t calls = 0, scratch = 0, holes = 0;
    forEachCall([&](const cost_models::KernelCall &call) {
      scratch = std::max(scratch, cost_models::cpuScratchBytes(call, threads, bf16)); // One block serves all programs.
      holes = std::max(holes, cost_models::cpuHeapBytes(call, threads));
      ++calls;
    });
    result.own = cost_models::cpuCallBytes(calls) + cost_models::assemblyBytes(fieldBytes(false));
    result.scratch = scratch + holes;
    result.process = cost_models::cpuProcessBytes(threads) +
                     cost_models::sampleBytesOnTheirWay(plan.training->global_batch, fieldBytes(true));
    return result;
  }

  HostBytes onGpu() const {
    HostBytes result;
    forEachCall([&](const cost_models::KernelCall &call) {
      result.scratch = std::max(result.scratch, cost_models::gpuScratchBytes(call));
    });
    result.process = cost_models::kGranuleBytes;
    return result;
  }

private:
  template <typename Visit> void forEachCall(Visit visit) const {
    for (const auto &program : executable.programs)
      for (const auto &call : program->calls) {
        std::vector<KernelOperand> inputs = operands(call->inputs), outputs = operands(call->outputs);
        visit(cost_models::KernelCall{plan.kernels[call->kernel], inputs, outputs, accumulateMask(*call)});
      }
  }

  std::vector<KernelOperand> operands(const std::vector<uint32_t> &buffers) const {
    std::vector<KernelOperand> result;
    for (uint32_t buffer : buffers) {
      KernelOperand &operand = result.emplace_back();
      if (buffer == plan::kNone)
        continue;
      const fb::BufferT &table = *executable.buffers[buffer];
      operand.present = true;
      operand.dtype = static_cast<DType>(table.dtype);
      for (uint32_t expr : table.shape)
        operand.shape.push_back(values[expr]);
    }
    return result;
  }

  uint64_t accumulateMask(const fb::CallT &call) const {
    if (call.attributes != plan::kNone)
      for (const auto &item : plan.attribute_lists[call.attributes]->items)
        if (item->name == "accumulate" && !item->ints.empty())
          return static_cast<uint64_t>(item->ints.front());
    return 0;
  }

  /// Of a full micro-batch, or of one sample at the dims' max; fields' dims are constants or symbols.
  uint64_t fieldBytes(bool ofSample) const {
    uint64_t bytes = 0;
    for (const auto &field : plan.fields) {
      double elements = 1;
      for (uint32_t expr : field->shape) {
        const fb::DimExpr &dim = plan.exprs[expr];
        bool isSymbol = ofSample && dim.op() == fb::DimOp::Symbol;
        int64_t size = isSymbol ? plan.symbols[static_cast<size_t>(dim.a())]->sample_max : values[expr];
        elements *= static_cast<double>(std::max<int64_t>(size, 0));
      }
      bytes += static_cast<uint64_t>(elements) * byteSize(static_cast<DType>(field->dtype));
    }
    return bytes;
  }

  const fb::PlanT &plan;
  const fb::ExecutableT &executable;
  std::span<const int64_t> values;
};

} // namespace

HostBytes hostBytes(const fb::PlanT &plan, const fb::ExecutableT &executable, std::span<const int64_t> values,
                    int threads, cost_models::Bf16Products bf16) {
  return HostMemory(plan, executable, values).onCpu(threads, bf16);
}

HostBytes gpuBytes(const fb::PlanT &plan, const fb::ExecutableT &executable, std::span<const int64_t> values) {
  return HostMemory(plan, executable, values).onGpu();
}

} // namespace maestro::planner

#include "executor/device/cuda/cuda_program.h"

namespace maestro::executor {

Result<std::unique_ptr<PreparedProgram>> CudaPrograms::prepare(std::span<const CallDescription> calls) {
  auto program = std::make_unique<CudaProgram>(kernels);
  uint64_t bytes = 0;
  size_t regions = 0;
  for (const CallDescription &call : calls) {
    for (const auto *types : {&call.inputTypes, &call.outputTypes})
      for (const kernels::TensorType &type : *types)
        bytes += type.present ? type.bytes() : 0;
    for (const auto *operands : {&call.inputs, &call.outputs})
      for (const OperandRef &operand : *operands)
        regions = operand.region == OperandRef::kAbsent ? regions : std::max<size_t>(regions, operand.region + 1);
  }
  program->graphs =
      std::make_unique<LaunchGraphs>(context, graphs, graphMode, library ? calls.size() : 0, bytes, regions);
  if (!library)
    return std::unique_ptr<PreparedProgram>(std::move(program));
  for (const CallDescription &call : calls) {
    MAESTRO_TRY(program->add(*library, call, 1));
    std::lock_guard lock(mutex);
    auto [found, isNew] = numbers.try_emplace({call.kernel, call.scope}, static_cast<uint32_t>(names.size()));
    if (isNew)
      names.push_back(found->first);
    program->calls.back().number = found->second;
  }
  inputs.resize(std::max(inputs.size(), program->mostOperands));
  outputs.resize(inputs.size());
  if (size_t bytes = program->scratchBytes(); bytes > 0)
    MAESTRO_TRY(scratch.grow(bytes, "kernels' scratch memory"));
  return std::unique_ptr<PreparedProgram>(std::move(program));
}

Status CudaPrograms::enqueue(const CudaProgram::Call &call, const OperandRef *operand,
                             std::span<const CUdeviceptr> bases, CUstream stream, CUdeviceptr failure) {
  auto resolve = [&](CUdeviceptr &address) {
    address = operand->region == OperandRef::kAbsent ? 0 : bases[operand->region] + operand->offset;
    ++operand;
  };
  for (size_t i = 0; i < call.inputs; ++i)
    resolve(inputs[i]);
  for (size_t i = 0; i < call.outputs; ++i)
    resolve(outputs[i]);
  Status status = call.kernel().enqueue({stream, failure, call.number}, {inputs.data(), call.inputs},
                                        {outputs.data(), call.outputs}, scratch.start());
  return status.isOk() ? Status() : std::move(status).withContext(describeCall(call.name, call.scope));
}

Status CudaPrograms::toStatus(const kernels::cuda::Failure &failure) const {
  std::lock_guard lock(mutex);
  if (failure.call >= names.size())
    return Status::internal("a kernel of no program has failed");
  const auto &[kernel, scope] = names[failure.call];
  return kernels::cuda::toStatus(failure, kernel).withContext(describeCall(kernel, scope));
}

} // namespace maestro::executor

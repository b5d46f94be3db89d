#include "executor/device/cpu_program.h"

#include "transport/progress.h"

#include <algorithm>
#include <ctime>

namespace maestro::executor {
namespace {

/// That the calling thread has run.
int64_t ownNs() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::byte *resolve(const OperandRef &operand, std::span<std::byte *const> bases) {
  return operand.region == OperandRef::kAbsent ? nullptr : bases[operand.region] + operand.offset;
}

} // namespace

Result<std::unique_ptr<PreparedProgram>> CpuPrograms::prepare(std::span<const CallDescription> calls,
                                                              const std::function<void()> &awaitIdle) {
  if (!library)
    return std::unique_ptr<PreparedProgram>(std::make_unique<CpuProgram>(kernels));
  MAESTRO_ASSIGN(std::unique_ptr<CpuProgram> program, describe(calls));
  MAESTRO_TRY(reserve(*program, awaitIdle));
  return std::unique_ptr<PreparedProgram>(std::move(program));
}

Result<std::unique_ptr<CpuProgram>> CpuPrograms::describe(std::span<const CallDescription> calls) {
  auto program = std::make_unique<CpuProgram>(kernels);
  size_t operands = 0;
  for (const CallDescription &call : calls)
    operands += call.inputs.size() + call.outputs.size();
  program->calls.reserve(calls.size());
  program->operands.reserve(operands);
  for (const CallDescription &call : calls)
    MAESTRO_TRY(program->add(*library, call, options.threads));
  return program;
}

/// Scratch memory and room for operands.
Status CpuPrograms::reserve(const CpuProgram &program, const std::function<void()> &awaitIdle) {
  constexpr size_t kUnit = size_t{1} << 16;
  size_t scratch = program.scratchBytes();
  bool growsScratch = scratch > scratchSize, growsOperands = program.mostOperands > inputs.size();
  if (growsScratch || growsOperands)
    awaitIdle();
  if (growsOperands) {
    inputs.resize(program.mostOperands);
    outputs.resize(program.mostOperands);
  }
  if (!growsScratch)
    return Status();
  size_t rounded = (scratch + kUnit - 1) / kUnit * kUnit;
  MAESTRO_TRY(memory.replaceScratch(rounded));
  scratchSize = rounded;
  return Status();
}

Status CpuPrograms::run(const CpuProgram &program, std::span<std::byte *const> bases, int32_t task) {
  const OperandRef *operand = program.operands.data();
  for (const CpuProgram::Call &call : program.calls) {
    for (size_t i = 0; i < call.inputs; ++i)
      inputs[i] = resolve(*operand++, bases);
    for (size_t i = 0; i < call.outputs; ++i)
      outputs[i] = resolve(*operand++, bases);
    if (options.onSign)
      options.onSign(DeviceSign::Kernel);
    bool timesOwn = tracing && options.tracesOwnTime;
    int64_t startOwnNs = timesOwn ? ownNs() : 0, startNs = tracing ? transport::nowNs() : 0;
    Status status = call.kernel().run({inputs.data(), call.inputs}, {outputs.data(), call.outputs}, memory.scratch());
    if (!status.isOk())
      return std::move(status).withContext(describeCall(call.name, call.scope));
    if (tracing && spans.size() < spans.capacity())
      spans.push_back({call.name, call.scope, startNs, transport::nowNs(), task, timesOwn ? ownNs() - startOwnNs : 0});
  }
  return Status();
}

} // namespace maestro::executor

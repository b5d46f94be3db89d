#include "planner/emit/executable_writer.h"

#include "plan/collectives.h"

#include <algorithm>
#include <memory>

namespace maestro::planner {

namespace fb = plan::fb;
using plan::kNone;

uint32_t ExecutableWriter::buffer(const View &view) {
  auto [position, isNew] = bufferIndex.try_emplace(view, static_cast<uint32_t>(executable.buffers.size()));
  if (!isNew)
    return position->second;
  const Storage &storage = storages[view.storage];
  auto table = std::make_unique<fb::BufferT>();
  table->dtype = static_cast<uint8_t>(view.dtype);
  table->shape = view.shape;
  table->region = storages.regionOf(storage);
  table->offset = storage.offset;
  table->bytes = storage.bytes;
  if (auto constant = constants.find(view.storage); constant != constants.end())
    table->constant = constant->second;
  executable.buffers.push_back(std::move(table));
  return position->second;
}

fb::ProgramT &ExecutableWriter::addProgram(fb::ProgramKind kind, const std::vector<PendingCall> &calls,
                                           std::vector<uint32_t> fields) {
  auto program = std::make_unique<fb::ProgramT>();
  program->kind = kind;
  for (const PendingCall &pending : calls) {
    auto call = std::make_unique<fb::CallT>();
    call->kernel = tables.kernel(pending.kernel);
    call->kind = plan::kindNamed(pending.kernel);
    for (const auto &view : pending.inputs)
      call->inputs.push_back(view ? buffer(*view) : kNone);
    for (const auto &view : pending.outputs)
      call->outputs.push_back(view ? buffer(*view) : kNone);
    call->attributes = tables.attributes(pending.attributes);
    call->scope = tables.scope(pending.scope);
    program->calls.push_back(std::move(call));
  }
  std::sort(fields.begin(), fields.end());
  fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
  program->fields = std::move(fields);
  executable.programs.push_back(std::move(program));
  return *executable.programs.back();
}

void ExecutableWriter::bind(const PendingBinding &pending) {
  auto binding = std::make_unique<fb::BindingT>();
  binding->kind = pending.kind;
  binding->index = pending.index;
  binding->buffer = buffer(pending.view);
  binding->split_dim = pending.splitDim;
  executable.bindings.push_back(std::move(binding));
}

} // namespace maestro::planner

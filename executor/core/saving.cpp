#include "executor/core/saving.h"

#include "executor/checkpoint/safetensors.h"
#include "executor/core/transfer.h"

#include <fmt/format.h>

#include <cstdio>
#include <functional>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

/// One tensor of a file: which bound buffer of which parameter.
struct Entry {
  std::string name;
  fb::BindingKind kind;
  uint32_t parameter;
};

std::string componentName(const plan::Plan &plan, const fb::Parameter &parameter) {
  return plan->components()->Get(parameter.component())->name()->str();
}

checkpoint::TensorInfo tensorInfo(const plan::Plan &plan, const ExecutableInstance &instance, const Entry &entry) {
  checkpoint::TensorInfo info;
  info.name = entry.name;
  uint32_t buffer = instance.boundBuffer(entry.kind, entry.parameter);
  info.dtype = static_cast<DType>(instance.table().buffers()->Get(buffer)->dtype());
  const auto *shape = plan->parameters()->Get(entry.parameter)->shape();
  info.shape.assign(shape->begin(), shape->end());
  return info;
}

Status writeEntries(const plan::Plan &plan, ExecutableInstance &instance, Device &device,
                    const std::string &path, std::span<const Entry> entries, checkpoint::Metadata metadata) {
  std::vector<checkpoint::TensorInfo> tensors;
  for (const Entry &entry : entries)
    tensors.push_back(tensorInfo(plan, instance, entry));
  MAESTRO_ASSIGN(auto writer, checkpoint::SafetensorsWriter::create(path, tensors, std::move(metadata)));
  for (const Entry &entry : entries)
    MAESTRO_TRY(readInPieces(instance, device, entry.kind, entry.parameter,
                             [&](std::span<const std::byte> piece) { return writer.append(piece); }));
  return writer.finish();
}

constexpr fb::BindingKind kMoments[] = {fb::BindingKind::Moment1, fb::BindingKind::Moment2};

/// Names as PyTorch's optimizers call them.
std::string_view momentName(const plan::Plan &plan, fb::BindingKind kind) {
  if (plan->training()->optimizer() == fb::Optimizer::Sgd)
    return "momentum_buffer";
  return kind == fb::BindingKind::Moment1 ? "exp_avg" : "exp_avg_sq";
}

std::vector<Entry> optimizerEntries(const plan::Plan &plan, const ExecutableInstance &instance) {
  std::vector<Entry> entries;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
    for (fb::BindingKind kind : kMoments)
      if (instance.boundBuffer(kind, p) != kNone) {
        const fb::Parameter &parameter = *plan->parameters()->Get(p);
        entries.push_back({fmt::format("{}.{}.{}", componentName(plan, parameter),
                                       parameter.name()->string_view(), momentName(plan, kind)),
                           kind, p});
      }
  return entries;
}

/// Parameters and persistent buffers of a component; names of tied weights go into `metadata`.
std::vector<Entry> valueEntries(const plan::Plan &plan, const ExecutableInstance &instance,
                                uint32_t component, checkpoint::Metadata &metadata) {
  std::vector<Entry> entries;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p) {
    const fb::Parameter &parameter = *plan->parameters()->Get(p);
    if (parameter.component() != component || parameter.kind() == fb::ParameterKind::NonPersistentBuffer ||
        instance.boundBuffer(fb::BindingKind::Value, p) == kNone)
      continue;
    entries.push_back({parameter.name()->str(), fb::BindingKind::Value, p});
    if (parameter.aliases())
      for (const flatbuffers::String *alias : *parameter.aliases())
        metadata[alias->str()] = parameter.name()->str();
  }
  return entries;
}

Status readEntries(const plan::Plan &plan, ExecutableInstance &instance, Device &device,
                   const std::string &path, std::span<const Entry> entries) {
  MAESTRO_ASSIGN(auto file, checkpoint::SafetensorsFile::open(path));
  for (const Entry &entry : entries) {
    const checkpoint::TensorInfo *tensor = file.findTied(entry.name);
    checkpoint::TensorInfo expected = tensorInfo(plan, instance, entry);
    if (!tensor)
      return Status::invalidInput(fmt::format("{} has no tensor '{}'; the checkpoint is of another workload",
                                              path, entry.name));
    if (tensor->shape != expected.shape)
      return Status::invalidInput(fmt::format("{}: tensor '{}' has shape [{}], the plan wants [{}]", path,
                                              entry.name, fmt::join(tensor->shape, ", "),
                                              fmt::join(expected.shape, ", ")));
    MAESTRO_TRY(writeInPieces(instance, device, entry.kind, entry.parameter, 1,
                              [&](uint64_t first, std::span<std::byte> piece) {
                                return file.readAs(*tensor, expected.dtype, piece, first);
                              }));
  }
  return Status();
}

} // namespace

Status saveCheckpoint(const plan::Plan &plan, ExecutableInstance &instance, Device &device,
                      const std::string &outFolder, checkpoint::TrainingState state) {
  MAESTRO_ASSIGN(auto pending, checkpoint::PendingCheckpoint::begin(outFolder, state.step));
  for (uint32_t c = 0; c < plan->components()->size(); ++c) {
    const fb::Component &component = *plan->components()->Get(c);
    if (component.frozen()) {
      state.frozen[component.name()->str()] = component.model_path() ? component.model_path()->str() : "";
      continue;
    }
    checkpoint::Metadata metadata;
    std::vector<Entry> entries = valueEntries(plan, instance, c, metadata);
    MAESTRO_TRY(writeEntries(plan, instance, device, pending.file(component.name()->str() + ".safetensors"),
                             entries, std::move(metadata)));
  }
  MAESTRO_TRY(writeEntries(plan, instance, device, pending.file("optimizer.safetensors"),
                           optimizerEntries(plan, instance), {}));
  return pending.commit(std::move(state));
}

Status loadCheckpoint(const plan::Plan &plan, const checkpoint::FoundCheckpoint &found,
                      ExecutableInstance &instance, Device &device) {
  for (uint32_t c = 0; c < plan->components()->size(); ++c) {
    const fb::Component &component = *plan->components()->Get(c);
    if (component.frozen())
      continue;
    checkpoint::Metadata metadata;
    MAESTRO_TRY(readEntries(plan, instance, device,
                            found.path + "/" + component.name()->str() + ".safetensors",
                            valueEntries(plan, instance, c, metadata)));
  }
  return readEntries(plan, instance, device, found.path + "/optimizer.safetensors",
                     optimizerEntries(plan, instance));
}

Status saveGradients(const plan::Plan &plan, ExecutableInstance &instance, Device &device,
                     const std::string &path) {
  std::vector<Entry> entries;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
    if (instance.boundBuffer(fb::BindingKind::Gradient, p) != kNone) {
      const fb::Parameter &parameter = *plan->parameters()->Get(p);
      entries.push_back({fmt::format("{}.{}", componentName(plan, parameter), parameter.name()->string_view()),
                         fb::BindingKind::Gradient, p});
    }
  std::string partial = path + ".partial";
  Status status = writeEntries(plan, instance, device, partial, entries, {});
  if (status.isOk() && std::rename(partial.c_str(), path.c_str()) != 0)
    status = Status::unavailable("cannot rename " + partial + " to " + path);
  if (!status.isOk())
    std::remove(partial.c_str());
  return status;
}

} // namespace maestro::executor

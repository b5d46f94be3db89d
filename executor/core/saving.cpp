#include "executor/core/saving.h"

#include "base/system_failure.h"
#include "executor/checkpoint/file_writer.h"
#include "executor/checkpoint/safetensors.h"
#include "executor/core/shard.h"
#include "plan/reserved_names.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

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

checkpoint::TensorInfo tensorInfo(const plan::Plan &plan, const fb::Executable &executable, const Entry &entry) {
  checkpoint::TensorInfo info;
  info.name = entry.name;
  for (const fb::Binding *binding : *executable.bindings())
    if (binding->kind() == entry.kind && binding->index() == entry.parameter)
      info.dtype = static_cast<DType>(executable.buffers()->Get(binding->buffer())->dtype());
  const auto *shape = plan->parameters()->Get(entry.parameter)->shape();
  info.shape.assign(shape->begin(), shape->end());
  return info;
}

bool isFinite(std::span<const std::byte> floats) {
  float value;
  for (size_t at = 0; at + sizeof value <= floats.size(); at += sizeof value) {
    std::memcpy(&value, floats.data() + at, sizeof value);
    if (!std::isfinite(value))
      return false;
  }
  return true;
}

/// What training changes is finite in every checkpoint.
bool mustBeFinite(const plan::Plan &plan, const Entry &entry, DType dtype) {
  return dtype == DType::F32 && entry.kind != fb::BindingKind::Gradient &&
         plan->parameters()->Get(entry.parameter)->trainable();
}

Status notFinite(const plan::Plan &plan, const Entry &entry) {
  return Status::invalidInput(
      fmt::format("'{}' of component '{}' holds a value that is not finite; no checkpoint is written: look at "
                  "the initial values, or lower train.optimizer's lr",
                  entry.name, componentName(plan, *plan->parameters()->Get(entry.parameter))));
}

Status writeEntries(const plan::Plan &plan, Job &job, const std::string &path, std::span<const Entry> entries,
                    checkpoint::Metadata metadata) {
  if (!job.isRoot()) { // Hands over what it holds.
    for (const Entry &entry : entries)
      MAESTRO_TRY(job.gather(entry.kind, entry.parameter, {}));
    return Status();
  }
  std::vector<checkpoint::TensorInfo> tensors;
  for (const Entry &entry : entries)
    tensors.push_back(tensorInfo(plan, job.topology().executable(job.holder(entry.kind, entry.parameter)), entry));
  MAESTRO_ASSIGN(auto writer, checkpoint::SafetensorsWriter::create(path, tensors, std::move(metadata)));
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry &entry = entries[i];
    bool checks = mustBeFinite(plan, entry, tensors[i].dtype);
    MAESTRO_TRY(job.gather(entry.kind, entry.parameter, [&](std::span<const std::byte> piece) {
      return checks && !isFinite(piece) ? notFinite(plan, entry) : writer.append(piece);
    }));
  }
  return writer.finish();
}

constexpr fb::BindingKind kMoments[] = {fb::BindingKind::Moment1, fb::BindingKind::Moment2};

/// Names as PyTorch's optimizers call them.
std::string_view momentName(const plan::Plan &plan, fb::BindingKind kind) {
  if (plan->training()->optimizer() == fb::Optimizer::Sgd)
    return "momentum_buffer";
  return kind == fb::BindingKind::Moment1 ? "exp_avg" : "exp_avg_sq";
}

/// Of what `isBound` says: a station's, or the whole job's.
using IsBound = std::function<bool(fb::BindingKind, uint32_t)>;

std::vector<Entry> optimizerEntries(const plan::Plan &plan, const IsBound &isBound) {
  std::vector<Entry> entries;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
    for (fb::BindingKind kind : kMoments)
      if (isBound(kind, p)) {
        const fb::Parameter &parameter = *plan->parameters()->Get(p);
        entries.push_back({fmt::format("{}.{}.{}", componentName(plan, parameter), parameter.name()->string_view(),
                                       momentName(plan, kind)),
                           kind, p});
      }
  return entries;
}

/// Parameters and persistent buffers of a component, or what trains of them where that alone is saved; names of tied
/// weights go into `metadata`.
std::vector<Entry> valueEntries(const plan::Plan &plan, const IsBound &isBound, uint32_t component,
                                checkpoint::Metadata &metadata) {
  std::vector<Entry> entries;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p) {
    const fb::Parameter &parameter = *plan->parameters()->Get(p);
    bool isLeftOut = plan->components()->Get(component)->saves_trained() && !parameter.trainable();
    if (parameter.component() != component || isLeftOut || parameter.kind() == fb::ParameterKind::NonPersistentBuffer ||
        !isBound(fb::BindingKind::Value, p))
      continue;
    entries.push_back({parameter.name()->str(), fb::BindingKind::Value, p});
    if (parameter.aliases())
      for (const flatbuffers::String *alias : *parameter.aliases())
        metadata[alias->str()] = parameter.name()->str();
  }
  return entries;
}

Status readEntries(const plan::Plan &plan, ExecutableInstance &instance, Device &device, const std::string &path,
                   std::span<const Entry> entries) {
  MAESTRO_ASSIGN(auto file, checkpoint::SafetensorsFile::open(path));
  for (const Entry &entry : entries) {
    const checkpoint::TensorInfo *tensor = file.findTied(entry.name);
    checkpoint::TensorInfo expected = tensorInfo(plan, instance.table(), entry);
    if (!tensor)
      return Status::invalidInput(
          fmt::format("{} has no tensor '{}'; the checkpoint is of another workload", path, entry.name));
    if (tensor->shape != expected.shape)
      return Status::invalidInput(fmt::format("{}: tensor '{}' has shape [{}], the plan wants [{}]", path, entry.name,
                                              fmt::join(tensor->shape, ", "), fmt::join(expected.shape, ", ")));
    MAESTRO_TRY(writePart(plan, instance, device, entry.kind, entry.parameter, 1,
                          [&](uint64_t first, std::span<std::byte> piece) {
                            return file.readAs(*tensor, expected.dtype, piece, first);
                          }));
  }
  return Status();
}

} // namespace

Status saveCheckpoint(const plan::Plan &plan, Job &job, const std::string &outFolder, checkpoint::TrainingState state) {
  IsBound isBound = [&](fb::BindingKind kind, uint32_t p) { return job.holder(kind, p) != kNone; };
  std::optional<checkpoint::PendingCheckpoint> pending;
  if (job.isRoot()) {
    MAESTRO_ASSIGN(auto begun, checkpoint::PendingCheckpoint::begin(outFolder, state.step));
    pending.emplace(std::move(begun));
  }
  auto file = [&](const std::string &name) { return pending ? pending->file(name) : name; };
  for (uint32_t c = 0; c < plan->components()->size(); ++c) {
    const fb::Component &component = *plan->components()->Get(c);
    if (component.frozen() || component.saves_trained())
      state.frozen.emplace(component.name()->str(), component.model_path() ? component.model_path()->str() : "");
    if (component.frozen())
      continue;
    checkpoint::Metadata metadata;
    std::vector<Entry> entries = valueEntries(plan, isBound, c, metadata);
    MAESTRO_TRY(writeEntries(plan, job, file(component.name()->str() + ".safetensors"), entries, std::move(metadata)));
  }
  MAESTRO_TRY(writeEntries(plan, job, file(std::string(plan::kOptimizerFile) + ".safetensors"),
                           optimizerEntries(plan, isBound), {}));
  return pending ? pending->commit(std::move(state)) : Status();
}

Status loadCheckpoint(const plan::Plan &plan, const checkpoint::FoundCheckpoint &found, Job &job) {
  for (uint32_t s = 0; s < job.topology().stations.size(); ++s) {
    if (!job.isHere(s))
      continue;
    ExecutableInstance &instance = job.station(s).instance();
    IsBound isBound = [&](fb::BindingKind kind, uint32_t p) { return instance.boundBuffer(kind, p) != kNone; };
    for (uint32_t c = 0; c < plan->components()->size(); ++c) {
      const fb::Component &component = *plan->components()->Get(c);
      checkpoint::Metadata metadata;
      std::vector<Entry> entries = valueEntries(plan, isBound, c, metadata);
      if (component.frozen() || entries.empty())
        continue;
      MAESTRO_TRY(readEntries(plan, instance, job.device(s),
                              found.path + "/" + component.name()->str() + ".safetensors", entries));
    }
    MAESTRO_TRY(readEntries(plan, instance, job.device(s), found.path + "/optimizer.safetensors",
                            optimizerEntries(plan, isBound)));
  }
  return Status();
}

Status saveGradients(const plan::Plan &plan, Job &job, const std::string &path) {
  std::vector<Entry> entries;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
    if (job.holder(fb::BindingKind::Gradient, p) != kNone) {
      const fb::Parameter &parameter = *plan->parameters()->Get(p);
      entries.push_back({fmt::format("{}.{}", componentName(plan, parameter), parameter.name()->string_view()),
                         fb::BindingKind::Gradient, p});
    }
  std::string partial = path + ".partial";
  Status status = writeEntries(plan, job, partial, entries, {});
  if (!job.isRoot())
    return status;
  if (status.isOk() && std::rename(partial.c_str(), path.c_str()) != 0)
    status = systemFailure("write", path, errno);
  if (!status.isOk())
    std::remove(partial.c_str());
  return status.isOk() ? checkpoint::syncFolder(std::filesystem::path(path).parent_path()) : std::move(status);
}

} // namespace maestro::executor

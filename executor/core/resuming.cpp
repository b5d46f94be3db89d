#include "executor/core/resuming.h"

#include "base/log.h"
#include "executor/checkpoint/weight_set.h"
#include "executor/core/checkpoint_files.h"
#include "executor/core/shard.h"
#include "plan/reserved_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

Status readSet(const plan::Plan &plan, ExecutableInstance &instance, Device &device, const std::string &path,
               std::span<const SavedName> names) {
  MAESTRO_ASSIGN(auto set, checkpoint::WeightSet::open(path));
  for (const SavedName &named : names) {
    auto [file, tensor] = set.findTied(named.name);
    checkpoint::TensorInfo expected = tensorInfo(plan, instance.table(), named);
    if (!tensor)
      return Status::invalidInput(
          fmt::format("{} has no tensor '{}'; the checkpoint is of another workload", path, named.name));
    if (tensor->shape != expected.shape)
      return Status::invalidInput(fmt::format("{}: tensor '{}' has shape [{}], the plan wants [{}]", path, named.name,
                                              fmt::join(tensor->shape, ", "), fmt::join(expected.shape, ", ")));
    MAESTRO_TRY(writePart(plan, instance, device, named.kind, named.parameter, 1,
                          [&, file = file, tensor = tensor](uint64_t first, std::span<std::byte> piece) {
                            return file->readAs(*tensor, expected.dtype, piece, first);
                          }));
  }
  return Status();
}

} // namespace

Status checkFits(const plan::Plan &plan, const checkpoint::FoundCheckpoint &found, const WeightFiles &weights) {
  const checkpoint::TrainingState &state = found.state;
  if (state.workloadHash != plan->workload_hash())
    return Status::invalidInput(
        fmt::format("{0}: was written by another workload: its models, losses, batch or training settings differ "
                    "(maestro-dump diff "
                    "{1}/plan.mpl with this plan says in what). Resume under a plan of the same workload; to begin a "
                    "new run with its "
                    "values, name another --out, and --weights COMPONENT={0}/COMPONENT.safetensors",
                    found.path, std::filesystem::path(found.path).parent_path().string()));
  if (state.planHash != plan.hash())
    logWarning("resuming under another plan of the same workload: the run continues, but not bitwise");
  for (const fb::Component *component : *plan->components()) {
    std::string name = component->name()->str();
    auto source = state.frozen.find(name);
    bool fromWeights = source != state.frozen.end() && state.planHash == plan.hash() &&
                       source->second != (component->model_path() ? component->model_path()->str() : "");
    if (fromWeights && !weights.count(name))
      return Status::invalidInput(
          fmt::format("{}: component '{}' had its frozen values from {}; give --weights {}={} again", found.path, name,
                      source->second, name, source->second));
  }
  return Status();
}

void warnOfOtherDevice(const checkpoint::FoundCheckpoint &found, const std::map<std::string, std::string> &device) {
  const auto &before = found.state.device;
  if (before.empty() || device.empty()) // Nothing that bits depend on, or not recorded: another plan, which is said.
    return;
  std::string differences;
  for (const auto &[part, version] : device)
    if (auto old = before.find(part); old == before.end() || old->second != version)
      differences += fmt::format("{}{} {} instead of {}", differences.empty() ? "" : ", ", part, version,
                                 old == before.end() ? "none" : old->second);
  if (!differences.empty())
    logWarning(fmt::format("resuming with {}: the run continues, but not bitwise", differences));
}

Status loadCheckpoint(const plan::Plan &plan, const checkpoint::FoundCheckpoint &found, Job &job) {
  auto pathOf = [&](std::string_view set) { return fmt::format("{}/{}.safetensors", found.path, set); };
  for (uint32_t s = 0; s < job.topology().stations.size(); ++s) {
    if (!job.isHere(s))
      continue;
    ExecutableInstance &instance = job.station(s).instance();
    IsBound isBound = [&](fb::BindingKind kind, uint32_t p) { return instance.boundBuffer(kind, p) != kNone; };
    for (uint32_t c = 0; c < plan->components()->size(); ++c) {
      const fb::Component &component = *plan->components()->Get(c);
      checkpoint::Metadata metadata;
      std::vector<SavedName> names = valueNames(plan, isBound, c, metadata);
      if (component.frozen() || names.empty())
        continue;
      std::string set = component.name()->str();
      MAESTRO_TRY(readSet(plan, instance, job.device(s), pathOf(set), names));
      names = averageNames(plan, isBound, c, metadata);
      std::erase_if(names, [](const SavedName &named) { return named.kind != fb::BindingKind::Average; });
      if (!names.empty())
        MAESTRO_TRY(readSet(plan, instance, job.device(s), pathOf(set + std::string(plan::kAveragesSuffix)), names));
    }
    MAESTRO_TRY(readSet(plan, instance, job.device(s), pathOf(plan::kOptimizerFile), optimizerNames(plan, isBound)));
  }
  return Status();
}

} // namespace maestro::executor

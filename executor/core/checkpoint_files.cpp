#include "executor/core/checkpoint_files.h"

#include "base/log.h"
#include "plan/parameter_groups.h"
#include "plan/reserved_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;
using plan::kNone;

std::string_view componentName(const plan::Plan &plan, const fb::Parameter &parameter) {
  return plan->components()->Get(parameter.component())->name()->string_view();
}

constexpr fb::BindingKind kMoments[] = {fb::BindingKind::Moment1, fb::BindingKind::Moment2};

std::string_view momentName(const plan::Plan &plan, const fb::Parameter &parameter, fb::BindingKind kind) {
  bool isFirst = kind == fb::BindingKind::Moment1;
  switch (plan::optimizerOf(*plan->training(), parameter.group()).kind) {
  case fb::Optimizer::Sgd:
  case fb::Optimizer::Muon:
    return "momentum_buffer";
  case fb::Optimizer::Adafactor:
    return isFirst ? "row_var" : parameter.shape()->size() < 2 ? "variance" : "col_var";
  default:
    return isFirst ? "exp_avg" : "exp_avg_sq";
  }
}

/// The leads that hold each bound buffer, in the order of stations.
class Holders {
public:
  explicit Holders(const Topology &topology) {
    for (uint32_t s = 0; s < topology.stations.size(); ++s)
      if (topology.stations[s].isLead())
        for (const fb::Binding *binding : *topology.executable(s).bindings())
          if (auto &list = stations[{binding->kind(), binding->index()}]; list.empty() || list.back() != s)
            list.push_back(s);
  }
  const std::vector<uint32_t> &of(fb::BindingKind kind, uint32_t parameter) const {
    static const std::vector<uint32_t> none;
    auto found = stations.find({kind, parameter});
    return found == stations.end() ? none : found->second;
  }
  IsBound isBound() const {
    return [this](fb::BindingKind kind, uint32_t parameter) { return !of(kind, parameter).empty(); };
  }

private:
  std::map<std::pair<fb::BindingKind, uint32_t>, std::vector<uint32_t>> stations;
};

/// Deals a set's tensors out to the ranks that hold them.
class Dealer {
public:
  Dealer(const plan::Plan &plan, const Topology &topology, const Holders &holders, uint32_t root,
         uint64_t leastFileBytes)
      : plan(plan), topology(topology), holders(holders), root(root), leastFileBytes(leastFileBytes) {}

  SavedSet deal(std::string name, const std::vector<SavedName> &names, const checkpoint::Metadata &metadata) {
    struct Group { // Of tensors that the same stations hold.
      uint64_t bytes = 0, dealt = 0;
    };
    std::map<std::vector<uint32_t>, Group> groups;
    std::vector<checkpoint::TensorInfo> infos;
    for (const SavedName &named : names) {
      const std::vector<uint32_t> &held = holders.of(named.kind, named.parameter);
      infos.push_back(tensorInfo(plan, topology.executable(held.front()), named));
      groups[held].bytes += byteCount(infos.back());
    }
    SavedSet set{std::move(name), {}};
    std::map<uint32_t, size_t> fileOf; // By rank.
    for (size_t i = 0; i < names.size(); ++i) {
      const std::vector<uint32_t> &held = holders.of(names[i].kind, names[i].parameter);
      Group &group = groups[held];
      uint64_t writers = std::clamp<uint64_t>(group.bytes / leastFileBytes, 1, held.size());
      uint64_t turn = group.bytes > 0 ? std::min(group.dealt * writers / group.bytes, writers - 1) : 0;
      group.dealt += byteCount(infos[i]);
      uint32_t source = held[turn], rank = topology.stations[source].rank;
      auto [place, isNew] = fileOf.emplace(rank, set.files.size());
      if (isNew)
        set.files.push_back({"", rank, {}, {}});
      SavedFile &file = set.files[place->second];
      for (const auto &[alias, kept] : metadata)
        if (kept == names[i].name)
          file.metadata.emplace(alias, kept);
      file.tensors.push_back({std::move(infos[i]), names[i].kind, names[i].parameter, source});
    }
    if (set.files.empty()) // SGD without momentum has no state: an empty file says so.
      set.files.push_back({"", root, {}, {}});
    for (size_t i = 0; i < set.files.size(); ++i)
      set.files[i].name = set.hasIndex()
                              ? fmt::format("{}-{:05}-of-{:05}.safetensors", set.name, i + 1, set.files.size())
                              : set.name + ".safetensors";
    return set;
  }

private:
  const plan::Plan &plan;
  const Topology &topology;
  const Holders &holders;
  uint32_t root;
  uint64_t leastFileBytes;
};

} // namespace

uint64_t SavedFile::bytes() const {
  uint64_t bytes = 0;
  for (const SavedTensor &tensor : tensors)
    bytes += byteCount(tensor.info);
  return bytes;
}

std::string SavedSet::index() const {
  uint64_t bytes = 0;
  std::string map;
  for (std::string_view separator = ""; const SavedFile &file : files) {
    bytes += file.bytes();
    for (const SavedTensor &tensor : file.tensors) {
      map += fmt::format("{}\n    \"{}\": \"{}\"", separator, escapeJson(tensor.info.name), escapeJson(file.name));
      separator = ",";
    }
  }
  return fmt::format("{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n  }}\n}}\n", bytes, map);
}

checkpoint::TensorInfo tensorInfo(const plan::Plan &plan, const fb::Executable &executable, const SavedName &named) {
  checkpoint::TensorInfo info;
  info.name = named.name;
  for (const fb::Binding *binding : *executable.bindings())
    if (binding->kind() == named.kind && binding->index() == named.parameter)
      info.dtype = static_cast<DType>(executable.buffers()->Get(binding->buffer())->dtype());
  const fb::Parameter &parameter = *plan->parameters()->Get(named.parameter);
  info.shape.assign(parameter.shape()->begin(), parameter.shape()->end());
  if (named.kind == fb::BindingKind::Moment1 || named.kind == fb::BindingKind::Moment2)
    info.shape = *plan::optimizerOf(*plan->training(), parameter.group()).momentShape(named.kind, info.shape);
  return info;
}

std::vector<SavedName> optimizerNames(const plan::Plan &plan, const IsBound &isBound) {
  std::vector<SavedName> names;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
    for (fb::BindingKind kind : kMoments)
      if (isBound(kind, p)) {
        const fb::Parameter &parameter = *plan->parameters()->Get(p);
        names.push_back({fmt::format("{}.{}.{}", componentName(plan, parameter), parameter.name()->string_view(),
                                     momentName(plan, parameter, kind)),
                         kind, p});
      }
  return names;
}

std::vector<SavedName> valueNames(const plan::Plan &plan, const IsBound &isBound, uint32_t component,
                                  checkpoint::Metadata &metadata) {
  std::vector<SavedName> names;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p) {
    const fb::Parameter &parameter = *plan->parameters()->Get(p);
    bool isLeftOut = plan->components()->Get(component)->saves_trained() && !parameter.trainable();
    if (parameter.component() != component || isLeftOut || parameter.kind() == fb::ParameterKind::NonPersistentBuffer ||
        !isBound(fb::BindingKind::Value, p))
      continue;
    names.push_back({parameter.name()->str(), fb::BindingKind::Value, p});
    if (parameter.aliases())
      for (const flatbuffers::String *alias : *parameter.aliases())
        metadata[alias->str()] = parameter.name()->str();
  }
  return names;
}

std::vector<SavedName> averageNames(const plan::Plan &plan, const IsBound &isBound, uint32_t component,
                                    checkpoint::Metadata &metadata) {
  std::vector<SavedName> names = valueNames(plan, isBound, component, metadata);
  bool isAny = false;
  for (SavedName &named : names)
    if (isBound(fb::BindingKind::Average, named.parameter)) {
      named.kind = fb::BindingKind::Average;
      isAny = true;
    }
  return isAny ? names : std::vector<SavedName>();
}

std::vector<SavedSet> checkpointSets(const plan::Plan &plan, const Topology &topology, uint32_t root,
                                     uint64_t leastFileBytes) {
  Holders holders(topology);
  Dealer dealer(plan, topology, holders, root, leastFileBytes);
  std::vector<SavedSet> sets;
  for (uint32_t c = 0; c < plan->components()->size(); ++c) {
    const fb::Component &component = *plan->components()->Get(c);
    if (component.frozen())
      continue;
    checkpoint::Metadata metadata;
    std::vector<SavedName> names = valueNames(plan, holders.isBound(), c, metadata);
    sets.push_back(dealer.deal(component.name()->str(), names, metadata));
    metadata.clear();
    if (names = averageNames(plan, holders.isBound(), c, metadata); !names.empty())
      sets.push_back(dealer.deal(component.name()->str() + std::string(plan::kAveragesSuffix), names, metadata));
  }
  sets.push_back(dealer.deal(std::string(plan::kOptimizerFile), optimizerNames(plan, holders.isBound()), {}));
  return sets;
}

SavedFile gradientsFile(const plan::Plan &plan, const Topology &topology, uint32_t writer) {
  Holders holders(topology);
  SavedFile file{"gradients.safetensors", writer, {}, {}};
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
    if (const std::vector<uint32_t> &held = holders.of(fb::BindingKind::Gradient, p); !held.empty()) {
      const fb::Parameter &parameter = *plan->parameters()->Get(p);
      SavedName named{fmt::format("{}.{}", componentName(plan, parameter), parameter.name()->string_view()),
                      fb::BindingKind::Gradient, p};
      file.tensors.push_back({tensorInfo(plan, topology.executable(held.front()), named), named.kind, p, held.front()});
    }
  return file;
}

} // namespace maestro::executor

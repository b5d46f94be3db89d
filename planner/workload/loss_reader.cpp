#include "planner/workload/loss_reader.h"

#include "planner/workload/field_reader.h"

#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>

#include <set>

namespace maestro::planner {
namespace {

const std::vector<std::string> kKinds = {"cross_entropy", "kl_divergence", "mean", "output", "mse", "cosine"};

Status checkKnown(const Workload &workload, const YamlNode &node, const std::string &path, const PortRef &ref) {
  if (ref.component.empty() || workload.component(ref.component))
    return {};
  std::vector<std::string> names;
  for (const ComponentSpec &component : workload.components)
    names.push_back(component.name);
  return wrong(
      node, path,
      fmt::format("names the component '{}', which does not exist{}", ref.component, didYouMean(ref.component, names)));
}

/// Reads `key`, a port or a data field, where it is given.
Status readPort(FieldReader &fields, const Workload &workload, const std::string &key, std::optional<PortRef> &ref) {
  const YamlNode *node = fields.find(key);
  if (!node)
    return {};
  MAESTRO_ASSIGN(std::string text, readText(*node, fields.pathOf(key)));
  ref = splitPort(text);
  ref->place = node->place;
  return checkKnown(workload, *node, fields.pathOf(key), *ref);
}

/// The same where it must be given and be an output of a component.
Status readOutput(FieldReader &fields, const Workload &workload, const std::string &key, PortRef &ref) {
  MAESTRO_TRY(fields.require(key, "component.output"));
  std::optional<PortRef> found;
  MAESTRO_TRY(readPort(fields, workload, key, found));
  if (found->component.empty())
    return wrong(*fields.find(key), fields.pathOf(key), fmt::format("is '{}'; write component.output", found->port));
  ref = *found;
  return {};
}

Status readBody(FieldReader &fields, const Workload &workload, LossSpec &loss) {
  constexpr int64_t kMost = int64_t(1) << 53;
  switch (loss.kind) {
  case LossKind::CrossEntropy:
    MAESTRO_TRY(readOutput(fields, workload, "logits", loss.scores));
    MAESTRO_TRY(fields.require("labels", "a data field or component.output"));
    MAESTRO_TRY(readPort(fields, workload, "labels", loss.labels));
    MAESTRO_TRY(fields.integer("ignore_index", loss.ignoreIndex, -kMost));
    MAESTRO_TRY(fields.number("label_smoothing", loss.labelSmoothing, {0, 1}));
    MAESTRO_TRY(fields.number("z_loss", loss.zLoss, {0, 1e6}));
    break;
  case LossKind::KlDivergence:
    MAESTRO_TRY(readOutput(fields, workload, "student", loss.scores));
    MAESTRO_TRY(readOutput(fields, workload, "teacher", loss.teacher));
    MAESTRO_TRY(fields.number("temperature", loss.temperature, {0, 1e6, true}));
    MAESTRO_TRY(fields.integer("top_k", loss.topK, 1, int64_t(1) << 31));
    if (const YamlNode *direction = fields.find("direction")) {
      MAESTRO_ASSIGN(size_t choice,
                     readChoice(*direction, fields.pathOf("direction"), {"forward", "reverse", "jensen_shannon"}));
      loss.direction = static_cast<Divergence>(choice);
    }
    MAESTRO_TRY(readPort(fields, workload, "labels", loss.labels));
    MAESTRO_TRY(readPort(fields, workload, "mask", loss.mask));
    MAESTRO_TRY(fields.integer("ignore_index", loss.ignoreIndex, -kMost));
    break;
  case LossKind::Mse:
  case LossKind::Cosine:
    MAESTRO_TRY(readOutput(fields, workload, "value", loss.scores));
    MAESTRO_TRY(fields.require("target", "a data field or component.output"));
    MAESTRO_TRY(readPort(fields, workload, "target", loss.target));
    MAESTRO_TRY(readPort(fields, workload, "labels", loss.labels));
    MAESTRO_TRY(readPort(fields, workload, "mask", loss.mask));
    MAESTRO_TRY(fields.integer("ignore_index", loss.ignoreIndex, -kMost));
    break;
  case LossKind::Mean:
    MAESTRO_TRY(readOutput(fields, workload, "value", loss.scores));
    MAESTRO_TRY(readPort(fields, workload, "mask", loss.mask));
    break;
  case LossKind::Output:
    MAESTRO_TRY(readOutput(fields, workload, "value", loss.scores));
    break;
  }
  MAESTRO_TRY(fields.number("weight", loss.weight, {}));
  MAESTRO_TRY(fields.text("name", loss.name));
  return fields.finish();
}

Status readLoss(const YamlNode &node, const std::string &path, Workload &workload) {
  if (node.kind != YamlNode::Kind::Map || node.entries.empty())
    return wrong(
        node, path,
        "must be one of cross_entropy, kl_divergence, mean, output, mse, cosine, such as {output: model.loss}");
  LossSpec loss;
  loss.place = node.place;
  const auto &[kind, body] = node.entries[0];
  YamlNode key{YamlNode::Kind::Scalar, kind, {}, {}, node.place};
  MAESTRO_ASSIGN(size_t choice, readChoice(key, path, kKinds));
  loss.kind = static_cast<LossKind>(choice);
  // `output: model.loss` is short for `output: {value: model.loss}`; weight and name may stand beside it.
  YamlNode fields = body;
  if (body.kind == YamlNode::Kind::Scalar) {
    fields = YamlNode{YamlNode::Kind::Map, "", {}, {}, body.place};
    fields.entries.emplace_back("value", body);
  }
  for (size_t i = 1; i < node.entries.size(); ++i) {
    if (fields.find(node.entries[i].first))
      return wrong(node.entries[i].second, path + "." + node.entries[i].first, "is given twice");
    fields.entries.push_back(node.entries[i]);
  }
  FieldReader reader(fields, path + "." + kind);
  MAESTRO_TRY(reader.checkIsMap());
  MAESTRO_TRY(readBody(reader, workload, loss));
  if (loss.labels && loss.mask)
    return wrong(node, path, "has labels and mask; give one of them");
  workload.losses.push_back(std::move(loss));
  return {};
}

/// kind, kind_2, kind_3 …
Status nameLosses(const YamlNode &node, Workload &workload) {
  std::set<std::string> used;
  for (const LossSpec &loss : workload.losses)
    if (!loss.name.empty() && !used.insert(loss.name).second)
      return wrong(node, "loss", fmt::format("has two entries named '{}'", loss.name));
  for (LossSpec &loss : workload.losses) {
    const std::string &kind = kKinds[static_cast<size_t>(loss.kind)];
    for (int i = 1; loss.name.empty(); ++i) {
      std::string name = i == 1 ? kind : fmt::format("{}_{}", kind, i);
      if (used.insert(name).second)
        loss.name = name;
    }
  }
  return {};
}

} // namespace

Status readLosses(const YamlNode &node, Workload &workload) {
  if (node.kind == YamlNode::Kind::Map) {
    MAESTRO_TRY(readLoss(node, "loss", workload));
    return nameLosses(node, workload);
  }
  if (node.kind != YamlNode::Kind::List)
    return wrong(node, "loss", "must be a list, such as [{output: model.loss}]");
  for (size_t i = 0; i < node.items.size(); ++i)
    MAESTRO_TRY(readLoss(node.items[i], fmt::format("loss[{}]", i), workload));
  auto isIdle = [](const LossSpec &loss) { return loss.weight == 0; };
  if (!workload.losses.empty() && std::all_of(workload.losses.begin(), workload.losses.end(), isIdle))
    return wrong(node, "loss", "has weights of 0 alone, so that nothing would be learned; give one a weight");
  return nameLosses(node, workload);
}

} // namespace maestro::planner

#include "planner/workload/train_reader.h"

#include "planner/workload/field_reader.h"

#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace maestro::planner {
namespace {

using Optimizer = OptimizerSpec;

constexpr NumberRange kBelowOne{0, 1 - 0x1p-53};

/// A list of two numbers, where it is given.
Status readPair(FieldReader &fields, const char *key, const char *example, NumberRange range, double &first,
                double &second) {
  const YamlNode *node = fields.find(key);
  if (!node)
    return {};
  std::string path = fields.pathOf(key);
  if (node->kind != YamlNode::Kind::List || node->items.size() != 2)
    return wrong(*node, path, fmt::format("must be two numbers, such as {}", example));
  MAESTRO_ASSIGN(first, readNumber(node->items[0], path + "[0]", range));
  MAESTRO_ASSIGN(second, readNumber(node->items[1], path + "[1]", range));
  return {};
}

/// PyTorch's defaults, which differ between optimizers.
Optimizer defaultsOf(Optimizer::Kind kind) {
  Optimizer optimizer;
  optimizer.kind = kind;
  switch (kind) {
  case Optimizer::Kind::AdamW:
    break;
  case Optimizer::Kind::Muon:
    optimizer.momentum = 0.95;
    optimizer.nesterov = true;
    optimizer.iterations = 5;
    optimizer.eps = 1e-7;
    optimizer.weightDecay = 0.1;
    break;
  case Optimizer::Kind::Adafactor:
    optimizer.lr = 1e-2;
    optimizer.beta2Decay = -0.8;
    optimizer.eps = std::numeric_limits<float>::epsilon();
    optimizer.eps2 = 1e-3;
    optimizer.clip = 1;
    optimizer.weightDecay = 0;
    break;
  default:
    optimizer.weightDecay = 0;
  }
  return optimizer;
}

/// What is a kind's own.
Status readSettings(FieldReader &fields, Optimizer &optimizer) {
  constexpr int64_t kMostIterations = 100;
  switch (optimizer.kind) {
  case Optimizer::Kind::Sgd:
    MAESTRO_TRY(fields.number("momentum", optimizer.momentum, kBelowOne));
    return fields.flag("nesterov", optimizer.nesterov);
  case Optimizer::Kind::Muon: {
    MAESTRO_TRY(fields.number("momentum", optimizer.momentum, kBelowOne));
    MAESTRO_TRY(fields.flag("nesterov", optimizer.nesterov));
    MAESTRO_TRY(fields.integer("ns_steps", optimizer.iterations, 1, kMostIterations));
    if (const YamlNode *adjust = fields.find("adjust_lr")) {
      MAESTRO_ASSIGN(size_t choice, readChoice(*adjust, fields.pathOf("adjust_lr"), {"original", "match_rms_adamw"}));
      optimizer.matchRms = choice == 1;
    }
    return fields.number("eps", optimizer.eps, {0, 1, true});
  }
  case Optimizer::Kind::Adafactor:
    MAESTRO_TRY(fields.number("beta2_decay", optimizer.beta2Decay, {-100, 0}));
    MAESTRO_TRY(fields.number("clip", optimizer.clip, {0, 1e6, true}));
    return readPair(fields, "eps", "[1e-7, 1e-3]", {0, 1}, optimizer.eps, optimizer.eps2);
  default:
    MAESTRO_TRY(readPair(fields, "betas", "[0.9, 0.999]", kBelowOne, optimizer.beta1, optimizer.beta2));
    return fields.number("eps", optimizer.eps, {0, 1, true});
  }
}

Result<Optimizer> readOptimizer(const YamlNode &given, const std::string &path) {
  // `optimizer: sgd` is short for `optimizer: {sgd: {}}`.
  YamlNode node = given;
  if (given.kind == YamlNode::Kind::Scalar) {
    node = YamlNode{YamlNode::Kind::Map, "", {}, {}, given.place};
    node.entries.emplace_back(given.scalar, YamlNode{YamlNode::Kind::Null, "", {}, {}, given.place});
  }
  if (node.kind != YamlNode::Kind::Map || node.entries.size() != 1)
    return wrong(node, path,
                 "must be one of sgd, adam, adamw, muon, adafactor with its settings, such as {adamw: {lr: 3e-4}}");
  const auto &[kind, body] = node.entries[0];
  YamlNode key{YamlNode::Kind::Scalar, kind, {}, {}, node.place};
  MAESTRO_ASSIGN(size_t choice, readChoice(key, path, {"sgd", "adam", "adamw", "muon", "adafactor"}));
  Optimizer optimizer = defaultsOf(static_cast<Optimizer::Kind>(choice));
  FieldReader fields(body, path + "." + kind);
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(fields.number("lr", optimizer.lr, {0, 1e6, true}));
  MAESTRO_TRY(fields.number("weight_decay", optimizer.weightDecay, {0, 1e6}));
  MAESTRO_TRY(fields.texts("no_decay", optimizer.noDecay));
  MAESTRO_TRY(fields.texts("parameters", optimizer.parameters));
  optimizer.place = fmt::format("{}: {}", body.place, fields.pathOf("parameters"));
  MAESTRO_TRY(readSettings(fields, optimizer));
  MAESTRO_TRY(fields.finish());
  if (optimizer.nesterov && optimizer.momentum == 0)
    return wrong(body, path + "." + kind + ".nesterov", "needs a momentum above 0");
  return optimizer;
}

/// One for all parameters, or a list: each but the last is of those that it names.
Status readOptimizers(const YamlNode &node, TrainSpec &train) {
  constexpr size_t kMost = 64;
  std::string path = "train.optimizer";
  if (node.kind != YamlNode::Kind::List) {
    MAESTRO_ASSIGN(train.optimizer, readOptimizer(node, path));
    if (!train.optimizer.parameters.empty())
      return wrong(node, path, "names parameters, and is the only one; write a list, whose last is for the others");
    return {};
  }
  if (node.items.empty() || node.items.size() > kMost)
    return wrong(node, path, fmt::format("is a list of {}; it may have 1 to {}", node.items.size(), kMost));
  for (size_t i = 0; i < node.items.size(); ++i) {
    std::string place = fmt::format("{}[{}]", path, i);
    MAESTRO_ASSIGN(Optimizer optimizer, readOptimizer(node.items[i], place));
    bool isLast = i + 1 == node.items.size();
    if (optimizer.parameters.empty() != isLast)
      return wrong(node.items[i], place,
                   isLast ? "names parameters, and is the last, which is for all others; add one that names none"
                          : "names no parameters, and is not the last; write parameters: [globs]");
    if (isLast)
      train.optimizer = std::move(optimizer);
    else
      train.groups.push_back(std::move(optimizer));
  }
  return {};
}

Status readSchedule(const YamlNode &node, TrainSpec &train) {
  ScheduleSpec schedule;
  FieldReader fields(node, "train.schedule");
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(fields.integer("warmup_steps", schedule.warmupSteps, 0));
  MAESTRO_TRY(fields.integer("total_steps", schedule.totalSteps, 1));
  MAESTRO_TRY(fields.integer("decay_steps", schedule.decaySteps, 1));
  MAESTRO_TRY(fields.number("min_lr", schedule.minLr, {0, 1e6}));
  if (const YamlNode *decay = fields.find("decay")) {
    MAESTRO_ASSIGN(size_t choice, readChoice(*decay, "train.schedule.decay", {"constant", "linear", "cosine", "wsd"}));
    schedule.decay = static_cast<ScheduleSpec::Decay>(choice);
  }
  MAESTRO_TRY(fields.finish());
  if (schedule.decay != ScheduleSpec::Decay::Constant && schedule.totalSteps == 0)
    return wrong(node, "train.schedule.total_steps", "is missing; a decay needs it");
  if (schedule.totalSteps > 0 && schedule.totalSteps <= schedule.warmupSteps)
    return wrong(node, "train.schedule.total_steps",
                 fmt::format("is {}, not above warmup_steps {}", schedule.totalSteps, schedule.warmupSteps));
  if (schedule.decay != ScheduleSpec::Decay::Constant && schedule.minLr > train.optimizer.lr)
    return wrong(
        node, "train.schedule.min_lr",
        fmt::format("is {}, above the optimizer's lr {}, to which warmup leads", schedule.minLr, train.optimizer.lr));
  bool isWsd = schedule.decay == ScheduleSpec::Decay::Wsd;
  if (!isWsd && schedule.decaySteps > 0)
    return wrong(node, "train.schedule.decay_steps", "is of `decay: wsd`; other decays end at total_steps");
  int64_t most = schedule.totalSteps - schedule.warmupSteps;
  if (isWsd && schedule.decaySteps == 0)
    schedule.decaySteps = std::clamp<int64_t>(schedule.totalSteps / 10, 1, most);
  if (isWsd && schedule.decaySteps > most)
    return wrong(node, "train.schedule.decay_steps",
                 fmt::format("is {}, and total_steps after warmup_steps are {}", schedule.decaySteps, most));
  train.schedule = schedule;
  return {};
}

Status readPrecision(const YamlNode &node, Workload &workload) {
  static const std::vector<std::string> kNames = {"f32", "bf16"};
  auto read = [](const YamlNode &value, const std::string &path) -> Result<DType> {
    MAESTRO_ASSIGN(size_t choice, readChoice(value, path, kNames));
    return choice == 0 ? DType::F32 : DType::BF16;
  };
  if (node.kind != YamlNode::Kind::Map) {
    MAESTRO_ASSIGN(workload.train.precision, read(node, "train.precision"));
    return {};
  }
  std::vector<std::string> names;
  for (const ComponentSpec &component : workload.components)
    names.push_back(component.name);
  for (const auto &[name, value] : node.entries) {
    std::string path = "train.precision." + name;
    if (!workload.component(name))
      return wrong(value, path, fmt::format("names a component that does not exist{}", didYouMean(name, names)));
    MAESTRO_ASSIGN(workload.train.precisionOf[name], read(value, path));
  }
  return {};
}

void listDefaults(FieldReader &fields, Workload &workload) {
  auto taken = [&](const char *key, const std::string &text) {
    if (!fields.find(key))
      workload.defaults.push_back(fmt::format("train.{} = {}", key, text));
  };
  taken("global_batch", std::to_string(workload.train.globalBatch));
  taken("optimizer", fmt::format("adamw, lr {}", workload.train.optimizer.lr));
  taken("schedule", "none (constant learning rate)");
  taken("clip_grad_norm", "none");
  taken("precision", "f32");
  taken("seed", "0");
  taken("bad_steps", std::to_string(workload.train.badSteps));
}

} // namespace

Status readTrain(const YamlNode *node, Workload &workload) {
  YamlNode nothing;
  nothing.place = workload.path;
  TrainSpec &train = workload.train;
  FieldReader fields(node ? *node : nothing, "train");
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(fields.integer("global_batch", train.globalBatch, 1, int64_t(1) << 31));
  if (const YamlNode *optimizer = fields.find("optimizer"))
    MAESTRO_TRY(readOptimizers(*optimizer, train));
  if (const YamlNode *schedule = fields.find("schedule"))
    MAESTRO_TRY(readSchedule(*schedule, train));
  if (fields.find("clip_grad_norm")) {
    double clip = 0;
    MAESTRO_TRY(fields.number("clip_grad_norm", clip, {0, 1e12, true}));
    train.clipGradNorm = clip;
  }
  if (fields.find("ema"))
    MAESTRO_TRY(fields.number("ema", train.emaDecay, kBelowOne));
  if (const YamlNode *precision = fields.find("precision"))
    MAESTRO_TRY(readPrecision(*precision, workload));
  int64_t seed = 0;
  MAESTRO_TRY(fields.integer("seed", seed, 0));
  train.seed = static_cast<uint64_t>(seed);
  MAESTRO_TRY(fields.integer("bad_steps", train.badSteps, 1, 1'000'000));
  listDefaults(fields, workload);
  return fields.finish();
}

} // namespace maestro::planner

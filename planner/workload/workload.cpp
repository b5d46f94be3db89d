#include "planner/workload/workload.h"

#include "planner/workload/field_reader.h"
#include "planner/workload/loss_reader.h"
#include "planner/workload/train_reader.h"

#include "base/nearest.h"
#include "plan/reserved_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <set>

namespace maestro::planner {
namespace {

/// Names end up in file names, plan names and dotted paths.
Status checkName(const YamlNode &node, const std::string &path, const std::string &name) {
  bool fine = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (unsigned char c : name)
    fine &= std::isalnum(c) || c == '_' || c == '-';
  if (fine)
    return {};
  return wrong(node, path, fmt::format("has the name '{}'; use letters, digits, _ and -", name));
}

std::string besideFile(const std::string &file, const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return (folder / path).lexically_normal().string();
}

Status readFrozen(const YamlNode &node, const std::string &path, ComponentSpec &component) {
  if (node.kind == YamlNode::Kind::Scalar && (node.scalar == "true" || node.scalar == "false")) {
    component.frozen = node.scalar == "true";
    return {};
  }
  MAESTRO_ASSIGN(component.frozenPatterns, readTexts(node, path));
  return {};
}

Status readTrainable(FieldReader &fields, ComponentSpec &component) {
  MAESTRO_TRY(fields.texts("trainable", component.trainablePatterns));
  const YamlNode *trainable = fields.find("trainable"), *save = fields.find("save");
  if (trainable && component.frozen)
    return wrong(*trainable, fields.pathOf("trainable"), "is given beside `frozen: true`; remove one of them");
  if (!save)
    return {};
  MAESTRO_ASSIGN(size_t choice, readChoice(*save, fields.pathOf("save"), {"all", "trained"}));
  component.savesTrained = choice == 1;
  if (component.frozen)
    return wrong(*save, fields.pathOf("save"), "is given beside `frozen: true`, of which nothing is saved; remove it");
  return {};
}

Status readComponent(const YamlNode &node, const std::string &name, const std::string &file, Workload &workload) {
  ComponentSpec component;
  component.name = name;
  component.place = node.place;
  MAESTRO_TRY(checkName(node, "components", name));
  if (name == plan::kOptimizerFile)
    return wrong(
        node, "components",
        fmt::format("has the name '{}', which is a checkpoint's file for the optimizer; choose another", name));
  std::string path = "components." + name;
  if (node.kind == YamlNode::Kind::Scalar) {
    component.model = besideFile(file, node.scalar);
  } else {
    FieldReader fields(node, path);
    MAESTRO_TRY(fields.checkIsMap());
    MAESTRO_TRY(fields.require("model", "the path of an ONNX file"));
    MAESTRO_TRY(fields.text("model", component.model));
    MAESTRO_TRY(fields.text("weights", component.weights));
    if (const YamlNode *frozen = fields.find("frozen"))
      MAESTRO_TRY(readFrozen(*frozen, path + ".frozen", component));
    MAESTRO_TRY(readTrainable(fields, component));
    MAESTRO_TRY(fields.texts("strip", component.strip));
    MAESTRO_TRY(fields.texts("cuts", component.cuts));
    MAESTRO_TRY(fields.finish());
    component.model = besideFile(file, component.model);
    if (!component.weights.empty())
      component.weights = besideFile(file, component.weights);
  }
  workload.components.push_back(std::move(component));
  return {};
}

std::vector<std::string> componentNames(const Workload &workload) {
  std::vector<std::string> names;
  for (const ComponentSpec &component : workload.components)
    names.push_back(component.name);
  return names;
}

Status checkComponent(const Workload &workload, const YamlNode &node, const std::string &path, const PortRef &ref) {
  if (ref.component.empty())
    return wrong(node, path, fmt::format("is '{}'; write component.port", ref.port));
  if (workload.component(ref.component))
    return {};
  return wrong(node, path,
               fmt::format("names the component '{}', which does not exist{}", ref.component,
                           didYouMean(ref.component, componentNames(workload))));
}

std::string trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

Status readEdge(const YamlNode &node, const std::string &path, Workload &workload) {
  MAESTRO_ASSIGN(std::string text, readText(node, path));
  size_t arrow = text.find("->");
  if (arrow == std::string::npos)
    return wrong(node, path, fmt::format("is '{}'; write producer.output -> consumer.input", text));
  EdgeSpec edge{splitPort(trimmed(text.substr(0, arrow))), splitPort(trimmed(text.substr(arrow + 2)))};
  edge.from.place = edge.to.place = node.place;
  MAESTRO_TRY(checkComponent(workload, node, path, edge.from));
  MAESTRO_TRY(checkComponent(workload, node, path, edge.to));
  workload.edges.push_back(std::move(edge));
  return {};
}

Status readEdges(const YamlNode &node, Workload &workload) {
  workload.edgesGiven = true;
  if (node.kind != YamlNode::Kind::List)
    return wrong(node, "edges", "must be a list of `producer.output -> consumer.input`");
  std::set<std::string> fed;
  for (size_t i = 0; i < node.items.size(); ++i) {
    std::string path = fmt::format("edges[{}]", i);
    MAESTRO_TRY(readEdge(node.items[i], path, workload));
    if (!fed.insert(workload.edges.back().to.str()).second)
      return wrong(node.items[i], path, fmt::format("feeds {} a second time", workload.edges.back().to.str()));
  }
  return {};
}

Status readField(const YamlNode &node, const std::string &name, Workload &workload) {
  FieldSpec field;
  field.name = name;
  field.place = node.place;
  std::string path = "inputs." + name;
  FieldReader fields(node, path);
  MAESTRO_TRY(fields.checkIsMap());
  std::vector<std::string> targets;
  MAESTRO_TRY(fields.texts("to", targets));
  for (const std::string &target : targets) {
    PortRef ref = splitPort(target);
    ref.place = node.place;
    MAESTRO_TRY(checkComponent(workload, node, path + ".to", ref));
    field.to.push_back(std::move(ref));
  }
  std::string dtype;
  MAESTRO_TRY(fields.text("dtype", dtype));
  if (!dtype.empty()) {
    MAESTRO_ASSIGN(field.dtype, readDType(*fields.find("dtype"), path + ".dtype"));
  }
  if (fields.find("shape")) {
    std::vector<std::string> shape;
    const YamlNode *given = fields.find("shape");
    if (!(given->kind == YamlNode::Kind::List && given->items.empty()))
      MAESTRO_TRY(fields.texts("shape", shape));
    field.shape = std::move(shape);
  }
  if (fields.find("pad")) {
    double pad = 0;
    MAESTRO_TRY(fields.number("pad", pad, {}));
    field.pad = pad;
  }
  MAESTRO_TRY(fields.finish());
  workload.inputs.push_back(std::move(field));
  return {};
}

Status readDim(const YamlNode &node, const std::string &name, Workload &workload) {
  DimSpec dim;
  dim.place = node.place;
  std::string path = "dims." + name;
  FieldReader fields(node, path);
  MAESTRO_TRY(fields.checkIsMap());
  if (const YamlNode *combine = fields.find("combine")) {
    MAESTRO_ASSIGN(size_t choice, readChoice(*combine, path + ".combine", {"sum", "max"}));
    dim.combine = choice == 0 ? Combine::Sum : Combine::Max;
  }
  int64_t most = 0;
  MAESTRO_TRY(fields.integer("max", most, 1, kMostOfADim));
  if (most > 0)
    dim.max = most;
  MAESTRO_TRY(fields.integer("multiple_of", dim.multipleOf, 1, kMostOfADim));
  if (const YamlNode *pad = fields.find("pad")) {
    MAESTRO_ASSIGN([[maybe_unused]] size_t only, readChoice(*pad, path + ".pad", {"never"}));
    dim.unpadded = true;
    if (dim.combine == Combine::Sum || dim.multipleOf != 1)
      return wrong(*pad, path + ".pad",
                   dim.multipleOf != 1 ? "never pads, and multiple_of does; remove one of them"
                                       : "is for dims that combine by max; rows that sum are not padded");
  }
  MAESTRO_TRY(fields.finish());
  if (dim.max && *dim.max % dim.multipleOf != 0)
    return wrong(node, path, fmt::format("has max {} that is no multiple of {}", *dim.max, dim.multipleOf));
  workload.dims[name] = dim;
  return {};
}

/// "lognormal(512, 0.6)", "uniform(16, 512)", "normal(256, 32)", or a number.
Status readDistribution(const YamlNode &node, const std::string &name, Workload &workload) {
  std::string path = "synthetic." + name;
  MAESTRO_ASSIGN(std::string text, readText(node, path));
  SizeDistribution result;
  size_t open = text.find('('), comma = text.find(','), close = text.find(')');
  if (open == std::string::npos) {
    MAESTRO_ASSIGN(result.a, readNumber(node, path, {0, 1e12}));
    workload.synthetic[name] = result;
    return {};
  }
  std::string kind = trimmed(text.substr(0, open));
  static const std::vector<std::string> kKinds = {"uniform", "normal", "lognormal"};
  auto found = std::find(kKinds.begin(), kKinds.end(), kind);
  if (found == kKinds.end() || comma == std::string::npos || close == std::string::npos || comma > close)
    return wrong(node, path,
                 fmt::format("is '{}'; write a number, uniform(least, most), normal(mean, deviation) or "
                             "lognormal(median, sigma){}",
                             text, didYouMean(kind, kKinds)));
  YamlNode first = node, second = node;
  first.scalar = trimmed(text.substr(open + 1, comma - open - 1));
  second.scalar = trimmed(text.substr(comma + 1, close - comma - 1));
  MAESTRO_ASSIGN(result.a, readNumber(first, path, {0, 1e12}));
  MAESTRO_ASSIGN(result.b, readNumber(second, path, {0, 1e12}));
  result.kind = kind == "uniform"  ? SizeDistribution::Kind::Uniform
                : kind == "normal" ? SizeDistribution::Kind::Normal
                                   : SizeDistribution::Kind::LogNormal;
  if (result.kind == SizeDistribution::Kind::Uniform && result.b < result.a)
    return wrong(node, path, fmt::format("is '{}', whose largest value is below its least", text));
  workload.synthetic[name] = result;
  return {};
}

template <typename ReadEntry>
Status readEntries(FieldReader &root, const char *key, Workload &workload, ReadEntry readEntry) {
  const YamlNode *node = root.find(key);
  if (!node)
    return {};
  FieldReader fields(*node, key);
  MAESTRO_TRY(fields.checkIsMap());
  for (const auto &[name, value] : node->entries)
    MAESTRO_TRY(readEntry(value, name, workload));
  return {};
}

Status readRoot(const YamlNode &root, Workload &workload) {
  FieldReader fields(root, "");
  MAESTRO_TRY(fields.checkIsMap());
  MAESTRO_TRY(fields.require("components", "components: {model: {model: model.onnx}}"));
  MAESTRO_TRY(
      readEntries(fields, "components", workload, [](const YamlNode &node, const std::string &name, Workload &w) {
        return readComponent(node, name, w.path, w);
      }));
  if (workload.components.empty())
    return wrong(root, "components", "has no entry; write components: {model: {model: model.onnx}}");
  if (const YamlNode *edges = fields.find("edges"))
    MAESTRO_TRY(readEdges(*edges, workload));
  MAESTRO_TRY(readEntries(fields, "inputs", workload, readField));
  MAESTRO_TRY(readEntries(fields, "dims", workload, readDim));
  MAESTRO_TRY(readEntries(fields, "synthetic", workload, readDistribution));
  // Without `loss` the graphs' outputs must tell, as with bare models; the linker says what to write where they do not.
  if (const YamlNode *loss = fields.find("loss"))
    MAESTRO_TRY(readLosses(*loss, workload));
  MAESTRO_TRY(readTrain(fields.find("train"), workload));
  return fields.finish();
}

/// Those that change the workload file, not the cluster's.
Status applyAssignments(YamlNode &root, const std::vector<std::string> &assignments) {
  for (const std::string &assignment : assignments)
    if (assignment.rfind("cluster.", 0) != 0)
      MAESTRO_TRY(setYaml(root, assignment));
  return {};
}

Result<Workload> workloadOf(YamlNode root, const std::string &path, const std::vector<std::string> &assignments) {
  MAESTRO_TRY(applyAssignments(root, assignments));
  Workload workload;
  workload.path = path;
  MAESTRO_TRY(readRoot(root, workload));
  return workload;
}

/// What a file's stem becomes as a component's name.
std::string stemName(const std::string &model) {
  std::string name = std::filesystem::path(model).stem().string();
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-')
      c = '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || name == plan::kOptimizerFile)
    name.insert(0, "model_");
  return name;
}

} // namespace

PortRef splitPort(const std::string &text) {
  size_t dot = text.find('.');
  if (dot == std::string::npos)
    return {"", text, ""};
  return {text.substr(0, dot), text.substr(dot + 1), ""};
}

Result<DType> readDType(const YamlNode &node, const std::string &path) {
  static const std::vector<std::pair<std::string, DType>> kNames = {
      {"float32", DType::F32},   {"f32", DType::F32},   {"float64", DType::F64}, {"f64", DType::F64},
      {"bfloat16", DType::BF16}, {"bf16", DType::BF16}, {"float16", DType::F16}, {"f16", DType::F16},
      {"int64", DType::I64},     {"i64", DType::I64},   {"int32", DType::I32},   {"i32", DType::I32},
      {"int16", DType::I16},     {"int8", DType::I8},   {"uint8", DType::U8},    {"bool", DType::Bool}};
  std::vector<std::string> names;
  for (const auto &[name, dtype] : kNames)
    names.push_back(name);
  MAESTRO_ASSIGN(size_t choice, readChoice(node, path, names));
  return kNames[choice].second;
}

const ComponentSpec *Workload::component(std::string_view name) const {
  for (const ComponentSpec &component : components)
    if (component.name == name)
      return &component;
  return nullptr;
}

uint32_t TrainSpec::groupOf(const std::string &component, const std::string &parameter) const {
  for (uint32_t i = 0; i < groups.size(); ++i)
    for (const std::string &pattern : groups[i].parameters)
      if (namesParameter(pattern, component, parameter))
        return i + 1;
  return 0;
}

Result<Workload> parseWorkload(std::string_view text, const std::string &path,
                               const std::vector<std::string> &assignments) {
  MAESTRO_ASSIGN(YamlNode root, parseYaml(text, path));
  return workloadOf(std::move(root), path, assignments);
}

Result<Workload> readWorkload(const std::string &path, const std::vector<std::string> &assignments) {
  MAESTRO_ASSIGN(YamlNode root, readYaml(path));
  return workloadOf(std::move(root), path, assignments);
}

Result<Workload> workloadOfModels(const std::vector<std::string> &models, const std::vector<std::string> &assignments) {
  YamlNode root;
  root.kind = YamlNode::Kind::Map;
  root.place = models.empty() ? "" : models[0];
  YamlNode components = root;
  for (const std::string &model : models) {
    YamlNode path{YamlNode::Kind::Scalar, std::filesystem::absolute(model).string(), {}, {}, model};
    std::string name = stemName(model);
    if (components.find(name))
      return Status::invalidInput(
          fmt::format("{}: two models are named '{}'; write a workload file that names them", model, name));
    components.entries.emplace_back(name, std::move(path));
  }
  root.entries.emplace_back("components", std::move(components));
  YamlNode losses{YamlNode::Kind::List, "", {}, {}, root.place};
  root.entries.emplace_back("loss", std::move(losses));
  std::string place = root.place;
  MAESTRO_ASSIGN(Workload workload, workloadOf(std::move(root), "", assignments)); // Paths are as the shell has them.
  workload.path = place;
  return workload;
}

bool namesParameter(std::string_view pattern, const std::string &component, const std::string &name) {
  return matchesGlob(pattern, name) || matchesGlob(pattern, component + "/" + name);
}

bool matchesGlob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

} // namespace maestro::planner

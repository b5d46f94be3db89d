#include "planner/import/metadata.h"

#include "planner/workload/workload.h"

#include "llvm/Support/JSON.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace maestro::planner {
namespace {

constexpr std::string_view kSignatureKey = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr std::string_view kKindKey = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr std::string_view kPersistentKey = "pkg.torch.export.graph_signature.InputSpec.persistent";
constexpr std::string_view kOriginalNameKey = "pkg.torch.onnx.original_node_name";
constexpr std::string_view kStackTraceKey = "pkg.torch.onnx.stack_trace";
constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kRequiresGradKey = "maestro.requires_grad";
constexpr std::string_view kAliasesKey = "maestro.aliases";
constexpr std::string_view kBoundsKey = "maestro.bounds";
constexpr std::string_view kFoldedKey = "pkg.onnxscript.optimizer.folded_from";

constexpr size_t kMaxShown = 80;

/// The text between quotes after `key='`.
std::string quoted(std::string_view line, std::string_view key) {
  size_t at = line.find(key);
  if (at == std::string_view::npos)
    return "";
  at += key.size();
  size_t end = line.find(line[at - 1], at);
  return end == std::string_view::npos ? "" : std::string(line.substr(at, end - at));
}

SignatureEntry parseEntry(std::string_view line) {
  SignatureEntry entry;
  size_t colon = line.find(": ");
  if (colon == std::string_view::npos)
    return entry;
  entry.node = line.substr(0, colon);
  std::string_view rest = line.substr(colon + 2);
  entry.kind = rest.substr(0, rest.find(' '));
  entry.target = quoted(rest, "target='");
  entry.persistent = rest.find("persistent=False") == std::string_view::npos;
  return entry;
}

} // namespace

std::string_view metadataValue(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> &entries,
                               std::string_view key) {
  for (const auto &entry : entries)
    if (entry.key() == key)
      return entry.value();
  return {};
}

const SignatureEntry *GraphSignature::input(std::string_view node) const {
  for (const SignatureEntry &entry : inputs)
    if (entry.node == node)
      return &entry;
  return nullptr;
}

GraphSignature readSignature(const onnx::GraphProto &graph) {
  GraphSignature signature;
  std::string_view text = metadataValue(graph.metadata_props(), kSignatureKey);
  std::vector<SignatureEntry> *section = nullptr;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line == "# inputs")
      section = &signature.inputs;
    else if (line == "# outputs")
      section = &signature.outputs;
    else if (section && !line.empty())
      section->push_back(parseEntry(line));
  }
  return signature;
}

SignatureEntry describeInput(const onnx::ValueInfoProto &info, const GraphSignature &signature) {
  SignatureEntry entry;
  entry.node = metadataValue(info.metadata_props(), kOriginalNameKey);
  entry.kind = metadataValue(info.metadata_props(), kKindKey);
  entry.persistent = metadataValue(info.metadata_props(), kPersistentKey) != "False";
  entry.requiresGrad = metadataValue(info.metadata_props(), kRequiresGradKey) != "False";
  entry.aliases = parseNameList(metadataValue(info.metadata_props(), kAliasesKey));
  if (const SignatureEntry *known = entry.node.empty() ? nullptr : signature.input(entry.node))
    entry.target = known->target;
  return entry;
}

std::vector<std::string> foldedFrom(const onnx::ValueInfoProto &info) {
  return parseNameList(metadataValue(info.metadata_props(), kFoldedKey));
}

Result<std::map<std::string, int64_t>> readBounds(const onnx::ModelProto &model) {
  std::map<std::string, int64_t> bounds;
  std::string_view text = metadataValue(model.metadata_props(), kBoundsKey);
  if (text.empty())
    return bounds;
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(llvm::StringRef(text.data(), text.size()));
  const llvm::json::Object *object = json ? json->getAsObject() : nullptr;
  bool isRight = object != nullptr;
  if (!json)
    llvm::consumeError(json.takeError());
  else if (object)
    for (const auto &[name, value] : *object) {
      int64_t most = value.getAsInteger().value_or(0);
      isRight = isRight && most >= 1 && most <= kMostOfADim;
      bounds[name.str()] = most;
    }
  if (!isRight)
    return Status::invalidInput(fmt::format(
        "metadata {} is {}; it must map names of dims to whole numbers from 1 to {}, such as {{\"seq\": 2048}}: export "
        "the model again, or remove the entry",
        kBoundsKey, text.size() > kMaxShown ? std::string(text.substr(0, kMaxShown)) + "…" : text, kMostOfADim));
  return bounds;
}

std::string moduleScope(const onnx::NodeProto &node) {
  std::vector<std::string> scopes = parseNameList(metadataValue(node.metadata_props(), kScopesKey));
  // The last element is the fx node, the one before it the innermost module.
  return scopes.size() < 2 || scopes[scopes.size() - 2].rfind("_empty_nn_module", 0) == 0 ? ""
                                                                                          : scopes[scopes.size() - 2];
}

int64_t moduleDepth(const onnx::NodeProto &node) {
  auto scopes = parseNameList(metadataValue(node.metadata_props(), kScopesKey));
  return std::max<int64_t>(static_cast<int64_t>(scopes.size()) - 1, 0);
}

std::string_view fxNode(const onnx::NodeProto &node) { return metadataValue(node.metadata_props(), kFxNodeKey); }

std::string_view stackTrace(const onnx::NodeProto &node) {
  return metadataValue(node.metadata_props(), kStackTraceKey);
}

std::vector<std::string> fxOperands(std::string_view text) {
  std::vector<std::string> names;
  size_t at = text.find("args = ");
  while (at != std::string_view::npos && (at = text.find('%', at)) != std::string_view::npos) {
    size_t begin = ++at;
    while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_'))
      ++at;
    names.emplace_back(text.substr(begin, at - begin));
  }
  return names;
}

std::string_view fxTarget(std::string_view text) {
  constexpr std::string_view kTarget = "[target=torch.ops.";
  size_t begin = text.find(kTarget);
  if (begin == std::string_view::npos)
    return {};
  begin += kTarget.size();
  size_t end = text.find(']', begin);
  return end == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin);
}

std::vector<std::string> fxArguments(std::string_view text) {
  constexpr std::string_view kBegin = "](args = (";
  std::vector<std::string> arguments;
  size_t at = text.find(kBegin);
  if (at == std::string_view::npos)
    return arguments;
  text.remove_prefix(at + kBegin.size());
  int depth = 0;
  std::string current;
  for (char c : text) {
    depth += c == '(' || c == '[' || c == '{';
    bool closes = c == ')' || c == ']' || c == '}';
    if (closes && depth == 0)
      break;
    depth -= closes;
    if (c == ',' && depth == 0) {
      arguments.push_back(std::move(current));
      current.clear();
    } else if (c != ' ' || !current.empty()) {
      current.push_back(c);
    }
  }
  if (!current.empty())
    arguments.push_back(std::move(current));
  return arguments;
}

std::optional<double> fxNumber(std::string_view text, size_t argument) {
  std::vector<std::string> arguments = fxArguments(text);
  if (argument >= arguments.size())
    return std::nullopt;
  const std::string &written = arguments[argument];
  char *end = nullptr;
  double value = std::strtod(written.c_str(), &end);
  bool isNumber = !written.empty() && end == written.c_str() + written.size();
  return isNumber ? std::optional(value) : std::nullopt;
}

std::vector<std::string> parseNameList(std::string_view text) {
  std::vector<std::string> names;
  size_t at = 0;
  while ((at = text.find_first_of("'\"", at)) != std::string_view::npos) {
    size_t end = text.find(text[at], at + 1);
    if (end == std::string_view::npos)
      break;
    names.emplace_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

} // namespace maestro::planner

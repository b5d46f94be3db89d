#include "planner/workload/yaml_tree.h"

#include <fmt/format.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/YAMLParser.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

namespace maestro::planner {
namespace {

constexpr size_t kMaxBytes = 16 << 20;
constexpr int kMaxDepth = 32;

/// Turns LLVM's event-like nodes, which can be walked once, into a tree.
class TreeBuilder {
public:
  TreeBuilder(llvm::SourceMgr &sources, const std::string &path) : sources(sources), path(path) {
    sources.setDiagHandler(
        [](const llvm::SMDiagnostic &diagnostic, void *self) {
          auto *builder = static_cast<TreeBuilder *>(self);
          if (builder->message.empty())
            builder->message = fmt::format("{}:{}: {}", builder->path, std::max(1, diagnostic.getLineNo()),
                                           diagnostic.getMessage().str());
        },
        this);
  }

  Result<YamlNode> build(llvm::yaml::Stream &stream) {
    YamlNode root;
    root.place = path;
    auto document = stream.begin();
    if (document != stream.end()) {
      llvm::yaml::Node *node = document->getRoot();
      if (node)
        MAESTRO_TRY(convert(*node, root, 0));
    }
    if (stream.failed() || !message.empty())
      return Status::invalidInput(message.empty() ? fmt::format("{}: not valid YAML", path) : message);
    return root;
  }

private:
  std::string placeOf(llvm::yaml::Node &node) {
    llvm::SMLoc start = node.getSourceRange().Start;
    if (!start.isValid() || sources.FindBufferContainingLoc(start) == 0)
      return path;
    return fmt::format("{}:{}", path, sources.getLineAndColumn(start).first);
  }

  Status convert(llvm::yaml::Node &node, YamlNode &out, int depth) {
    out.place = placeOf(node);
    if (depth > kMaxDepth)
      return Status::invalidInput(fmt::format("{}: nested more than {} deep", out.place, kMaxDepth));
    if (auto *scalar = llvm::dyn_cast<llvm::yaml::ScalarNode>(&node)) {
      llvm::SmallString<64> storage;
      out.kind = YamlNode::Kind::Scalar;
      out.scalar = scalar->getValue(storage).str();
      return {};
    }
    if (auto *block = llvm::dyn_cast<llvm::yaml::BlockScalarNode>(&node)) {
      out.kind = YamlNode::Kind::Scalar;
      out.scalar = block->getValue().str();
      return {};
    }
    if (auto *list = llvm::dyn_cast<llvm::yaml::SequenceNode>(&node))
      return convertList(*list, out, depth);
    if (auto *map = llvm::dyn_cast<llvm::yaml::MappingNode>(&node))
      return convertMap(*map, out, depth);
    if (llvm::isa<llvm::yaml::NullNode>(&node))
      return {};
    return Status::invalidInput(fmt::format("{}: YAML aliases are not supported; write the value out", out.place));
  }

  Status convertList(llvm::yaml::SequenceNode &list, YamlNode &out, int depth) {
    out.kind = YamlNode::Kind::List;
    for (llvm::yaml::Node &item : list)
      MAESTRO_TRY(convert(item, out.items.emplace_back(), depth + 1));
    return {};
  }

  /// In {seq: lognormal(512, 0.6)} YAML ends the value at the comma, and takes "0.6)" for a key.
  static bool endsCall(const YamlNode &map, const std::string &key) {
    if (map.entries.empty() || !key.ends_with(')'))
      return false;
    const std::string &before = map.entries.back().second.scalar;
    return before.find('(') != std::string::npos && before.find(')') == std::string::npos;
  }

  Status convertMap(llvm::yaml::MappingNode &map, YamlNode &out, int depth) {
    out.kind = YamlNode::Kind::Map;
    for (llvm::yaml::KeyValueNode &entry : map) {
      llvm::yaml::Node *key = entry.getKey();
      YamlNode name;
      if (key)
        MAESTRO_TRY(convert(*key, name, depth + 1));
      if (name.kind != YamlNode::Kind::Scalar)
        return Status::invalidInput(fmt::format("{}: a key must be plain text", name.place));
      YamlNode value;
      if (llvm::yaml::Node *node = entry.getValue())
        MAESTRO_TRY(convert(*node, value, depth + 1));
      if (value.kind == YamlNode::Kind::Null && endsCall(out, name.scalar)) {
        out.entries.back().second.scalar += ", " + name.scalar;
        continue;
      }
      if (out.find(name.scalar))
        return Status::invalidInput(fmt::format("{}: key '{}' is given twice", name.place, name.scalar));
      value.place = value.kind == YamlNode::Kind::Null ? name.place : value.place;
      out.entries.emplace_back(name.scalar, std::move(value));
    }
    return {};
  }

  llvm::SourceMgr &sources;
  std::string path;
  std::string message;
};

bool isIndex(std::string_view text, size_t &index) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size();
}

/// The child of `node` named by one part of a path, made where it is missing.
Result<YamlNode *> child(YamlNode &node, const std::string &part, const std::string &assignment) {
  size_t index = 0;
  if (node.kind == YamlNode::Kind::List && isIndex(part, index)) {
    if (index >= node.items.size())
      return Status::invalidInput(
          fmt::format("--set {}: the list has {} entries, and {} is none of them (they count from 0)", assignment,
                      node.items.size(), index));
    return &node.items[index];
  }
  if (node.kind == YamlNode::Kind::Null)
    node.kind = YamlNode::Kind::Map;
  if (node.kind != YamlNode::Kind::Map)
    return Status::invalidInput(fmt::format("--set {}: '{}' lies below a value that has no keys", assignment, part));
  if (YamlNode *found = node.find(part))
    return found;
  node.entries.emplace_back(part, YamlNode());
  node.entries.back().second.place = "--set " + assignment;
  return &node.entries.back().second;
}

void setPlaces(YamlNode &node, const std::string &place) {
  node.place = place;
  for (YamlNode &item : node.items)
    setPlaces(item, place);
  for (auto &[key, value] : node.entries)
    setPlaces(value, place);
}

} // namespace

const YamlNode *YamlNode::find(std::string_view key) const {
  for (const auto &[name, value] : entries)
    if (name == key)
      return &value;
  return nullptr;
}

YamlNode *YamlNode::find(std::string_view key) {
  return const_cast<YamlNode *>(static_cast<const YamlNode *>(this)->find(key));
}

Result<YamlNode> parseYaml(std::string_view text, const std::string &path) {
  // LLVM's scanner takes some control bytes for the end of the text; nothing readable holds them.
  for (size_t i = 0; i < text.size(); ++i)
    if (static_cast<unsigned char>(text[i]) < 9)
      return Status::invalidInput(fmt::format("{}: not a text file (byte {} is {})", path, i,
                                              static_cast<int>(static_cast<unsigned char>(text[i]))));
  llvm::SourceMgr sources;
  TreeBuilder builder(sources, path);
  llvm::yaml::Stream stream(llvm::StringRef(text.data(), text.size()), sources, /*ShowColors=*/false);
  return builder.build(stream);
}

Result<YamlNode> readYaml(const std::string &path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return Status::invalidInput(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  if (!S_ISREG(info.st_mode))
    return Status::invalidInput(fmt::format("{}: not a regular file", path));
  if (static_cast<size_t>(info.st_size) > kMaxBytes)
    return Status::invalidInput(fmt::format("{}: {} bytes are too many for YAML (at most {}); is it another file?",
                                            path, info.st_size, kMaxBytes));
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return parseYaml(text.str(), path);
}

Status setYaml(YamlNode &root, const std::string &assignment) {
  size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    return Status::invalidInput(
        fmt::format("--set {}: write path=value, such as --set train.global_batch=64", assignment));
  MAESTRO_ASSIGN(YamlNode value, parseYaml(std::string_view(assignment).substr(equals + 1), "--set " + assignment));
  setPlaces(value, "--set " + assignment);
  YamlNode *at = &root;
  std::string path = assignment.substr(0, equals);
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find('.', begin), path.size());
    std::string part = path.substr(begin, end - begin);
    if (part.empty())
      return Status::invalidInput(fmt::format("--set {}: the path has an empty part", assignment));
    MAESTRO_ASSIGN(at, child(*at, part, assignment));
    begin = end + 1;
  }
  *at = std::move(value);
  return {};
}

} // namespace maestro::planner

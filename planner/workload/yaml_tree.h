// YAML as a plain tree that remembers where everything stands, so that every later message can point at a line.
#pragma once

#include "base/status.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace maestro::planner {

struct YamlEntry;

struct YamlNode {
  enum class Kind { Null, Scalar, List, Map };
  Kind kind = Kind::Null;
  std::string scalar; ///< Without quotes.
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries; ///< In the file's order; keys are unique.
  std::string place;              ///< "kd.yaml:12", or "--set …".

  const YamlNode *find(std::string_view key) const;
  YamlNode *find(std::string_view key);
};

/// No std::pair: clang looks into its second half before the vector of such pairs is known.
struct YamlEntry {
  YamlEntry(std::string key, YamlNode value) : first(std::move(key)), second(std::move(value)) {}
  std::string first;
  YamlNode second;
};

/// Parses one document. `path` only names it in messages. An empty text is Null.
Result<YamlNode> parseYaml(std::string_view text, const std::string &path);
/// Reads a file of at most 16 MiB.
Result<YamlNode> readYaml(const std::string &path);

/// `--set train.optimizer.adamw.lr=1e-4`: replaces or adds the value at a path of keys (numbers index lists). The
/// value is YAML itself, so that `--set student.frozen=[a, b]` works.
Status setYaml(YamlNode &root, const std::string &assignment);

} // namespace maestro::planner

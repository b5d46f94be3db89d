// Typed reading of YAML maps: every value checked, every unknown key refused with its line and the nearest right one.
#pragma once

#include "planner/workload/yaml_tree.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

/// Limits of a number; both ends belong to it unless `above` is set.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false; ///< `least` itself is refused.
};

Status wrong(const YamlNode &node, const std::string &path, const std::string &what);

Result<std::string> readText(const YamlNode &node, const std::string &path);
Result<bool> readFlag(const YamlNode &node, const std::string &path);
Result<int64_t> readInteger(const YamlNode &node, const std::string &path, int64_t least, int64_t most);
Result<double> readNumber(const YamlNode &node, const std::string &path, NumberRange range);
/// A list of text, or one text.
Result<std::vector<std::string>> readTexts(const YamlNode &node, const std::string &path);
/// One of `choices`, by index.
Result<size_t> readChoice(const YamlNode &node, const std::string &path, const std::vector<std::string> &choices);

/// A map's values by key. finish() refuses the keys that nobody asked for.
class FieldReader {
public:
  /// `path` is that of the map itself: "train.optimizer".
  FieldReader(const YamlNode &map, std::string path) : map(map), path(std::move(path)) {}

  Status checkIsMap() const;
  const YamlNode *find(const std::string &key);
  std::string pathOf(const std::string &key) const { return path.empty() ? key : path + "." + key; }

  Status text(const std::string &key, std::string &value);
  Status flag(const std::string &key, bool &value);
  Status integer(const std::string &key, int64_t &value, int64_t least, int64_t most = int64_t(1) << 53);
  Status number(const std::string &key, double &value, NumberRange range);
  Status texts(const std::string &key, std::vector<std::string> &value);
  /// Fails when `key` is missing; `example` shows what to write.
  Status require(const std::string &key, const char *example);
  Status finish() const;

private:
  const YamlNode &map;
  std::string path;
  std::vector<std::string> known;
};

} // namespace maestro::planner

// Which parameters of a component train, by name: numbered modules of one kind are one pattern.
#include "plan/print/formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace maestro::plan {
namespace {

constexpr size_t kMaxPatterns = 14;

/// "model.layers.11.mlp.weight" -> "model.layers.*.mlp.weight"
std::string patternOf(std::string_view name) {
  std::string pattern;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('.', begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    bool isNumber = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    pattern += isNumber ? "*" : std::string(part);
    pattern += end < name.size() ? "." : "";
    begin = end + 1;
  }
  return pattern;
}

} // namespace

std::vector<std::string> namePatterns(const std::vector<std::string> &names) {
  std::map<std::string, size_t> counts;
  for (const std::string &name : names)
    ++counts[patternOf(name)];
  std::vector<std::string> patterns;
  for (const std::string &name : names) // In their order, each pattern once.
    if (size_t count = std::exchange(counts[patternOf(name)], 0); count > 0)
      patterns.push_back(count == 1 ? name : fmt::format("{} ({})", patternOf(name), count));
  return patterns;
}

std::string trainedNames(const Plan &plan, uint32_t component, bool trained) {
  std::vector<std::string> names;
  for (const fb::Parameter *parameter : *plan->parameters())
    if (parameter->component() == component && parameter->kind() == fb::ParameterKind::Parameter &&
        parameter->trainable() == trained)
      names.push_back(parameter->name()->str());
  std::vector<std::string> patterns = namePatterns(names);
  size_t shown = patterns.size() > kMaxPatterns + 1 ? kMaxPatterns : patterns.size();
  std::string text =
      fmt::format("{}", fmt::join(patterns.begin(), patterns.begin() + static_cast<ptrdiff_t>(shown), ", "));
  return shown < patterns.size() ? fmt::format("{} and {} more patterns", text, patterns.size() - shown) : text;
}

} // namespace maestro::plan

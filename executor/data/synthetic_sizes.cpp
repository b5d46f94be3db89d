#include "executor/data/synthetic_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace maestro::data {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

bool parseNumber(std::string_view text, double &value) {
  text = trim(text);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

Status badDistribution(std::string_view text) {
  return Status::invalidInput(
      fmt::format("synthetic size '{}' is none of: 512, constant(512), uniform(16, 512) with 0 <= "
                  "least <= largest, normal(512, 64), lognormal(512, 0.6) with median > 0; deviations >= 0",
                  text.substr(0, 100)));
}

} // namespace

Result<Distribution> parseDistribution(std::string_view text) {
  using Kind = Distribution::Kind;
  Distribution result;
  text = trim(text);
  if (parseNumber(text, result.a))
    return result.a >= 0 ? Result(result) : badDistribution(text);
  size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')')
    return badDistribution(text);
  std::string_view kind = trim(text.substr(0, open));
  std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  size_t comma = inside.find(',');
  bool two = comma != std::string_view::npos;
  if (!parseNumber(inside.substr(0, comma), result.a) || (two && !parseNumber(inside.substr(comma + 1), result.b)))
    return badDistribution(text);
  bool good = false;
  if (kind == "constant")
    good = !two && result.a >= 0;
  else if (kind == "uniform")
    result.kind = Kind::Uniform, good = two && result.a >= 0 && result.b >= result.a;
  else if (kind == "normal")
    result.kind = Kind::Normal, good = two && result.a >= 0 && result.b >= 0;
  else if (kind == "lognormal")
    result.kind = Kind::LogNormal, good = two && result.a > 0 && result.b >= 0;
  return good ? Result(result) : badDistribution(text);
}

Result<std::vector<NamedDistribution>> parseSyntheticSizes(std::string_view text) {
  std::vector<NamedDistribution> sizes;
  while (!trim(text).empty()) {
    size_t end = std::min(text.find(';'), text.size());
    std::string_view item = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (item.empty())
      continue;
    size_t equals = item.find('=');
    if (equals == std::string_view::npos || trim(item.substr(0, equals)).empty())
      return Status::invalidInput(fmt::format("synthetic size '{}' has no 'dim=' before it", item));
    MAESTRO_ASSIGN(Distribution distribution, parseDistribution(item.substr(equals + 1)));
    sizes.push_back({std::string(trim(item.substr(0, equals))), distribution});
  }
  return sizes;
}

} // namespace maestro::data

#include "planner/workload/field_reader.h"

#include "base/nearest.h"
#include "planner/workload/key_listener.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace maestro::planner {
namespace {

const char *kindName(YamlNode::Kind kind) {
  switch (kind) {
  case YamlNode::Kind::Null:
    return "nothing";
  case YamlNode::Kind::Scalar:
    return "a plain value";
  case YamlNode::Kind::List:
    return "a list";
  case YamlNode::Kind::Map:
    return "a map";
  }
  return "";
}

Status expect(const YamlNode &node, const std::string &path, const char *what) {
  if (node.kind == YamlNode::Kind::Scalar)
    return wrong(node, path, fmt::format("is '{}', not {}", node.scalar, what));
  return wrong(node, path, fmt::format("is {}, not {}", kindName(node.kind), what));
}

/// "from 1 to 1024", "above 0", "at least 0"; empty where anything goes.
std::string text(const NumberRange &range) {
  if (!std::isfinite(range.least))
    return "";
  std::string least = fmt::format("{} {:g}", range.above ? "above" : "at least", range.least);
  // What lies just below 1 is all below 1.
  if (range.most < 1 && range.most > 0.999)
    return least + " and below 1";
  return std::isfinite(range.most) && range.most < 1e6 ? fmt::format("{} and at most {:g}", least, range.most) : least;
}

std::string text(int64_t least, int64_t most) {
  constexpr int64_t kUnbounded = int64_t{1} << 31;
  bool hasLeast = least > -kUnbounded, hasMost = most < kUnbounded;
  if (hasLeast && hasMost)
    return fmt::format(" from {} to {}", least, most);
  return hasLeast ? fmt::format(", at least {}", least) : "";
}

} // namespace

Status wrong(const YamlNode &node, const std::string &path, const std::string &what) {
  return Status::invalidInput(fmt::format("{}: {} {}", node.place, path, what));
}

Result<std::string> readText(const YamlNode &node, const std::string &path) {
  KeyListener::isOfKind(path, "text");
  if (node.kind != YamlNode::Kind::Scalar || node.scalar.empty())
    return expect(node, path, "text");
  return node.scalar;
}

Result<bool> readFlag(const YamlNode &node, const std::string &path) {
  KeyListener::isOfKind(path, "`true` or `false`");
  if (node.kind == YamlNode::Kind::Scalar && (node.scalar == "true" || node.scalar == "false"))
    return node.scalar == "true";
  return expect(node, path, "true or false");
}

Result<int64_t> readInteger(const YamlNode &node, const std::string &path, int64_t least, int64_t most) {
  KeyListener::isOfKind(path, "a whole number" + text(least, most));
  int64_t value = 0;
  const std::string &given = node.scalar;
  auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (node.kind != YamlNode::Kind::Scalar || error != std::errc() || end != given.data() + given.size())
    return expect(node, path, "a whole number");
  if (value < least || value > most)
    return wrong(node, path, fmt::format("is {}; it must be between {} and {}", value, least, most));
  return value;
}

Result<double> readNumber(const YamlNode &node, const std::string &path, NumberRange range) {
  std::string limits = text(range);
  KeyListener::isOfKind(path, limits.empty() ? "a number" : "a number, " + limits);
  double value = 0;
  const std::string &given = node.scalar;
  auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (node.kind != YamlNode::Kind::Scalar || error != std::errc() || end != given.data() + given.size())
    return expect(node, path, "a number");
  if (!std::isfinite(value))
    return wrong(node, path, fmt::format("is {}; it must be a finite number", given));
  if (value < range.least || value > range.most || (range.above && value == range.least))
    return wrong(node, path,
                 std::isfinite(range.most)
                     ? fmt::format("is {}; it must be {} {} and at most {}", given, range.above ? "above" : "at least",
                                   range.least, range.most)
                     : fmt::format("is {}; it must be {} {}", given, range.above ? "above" : "at least", range.least));
  return value;
}

Result<std::vector<std::string>> readTexts(const YamlNode &node, const std::string &path) {
  KeyListener::isOfKind(path, "text, or a list of texts");
  std::vector<std::string> result;
  if (node.kind == YamlNode::Kind::List) {
    for (size_t i = 0; i < node.items.size(); ++i) {
      MAESTRO_ASSIGN(std::string item, readText(node.items[i], fmt::format("{}[{}]", path, i)));
      result.push_back(std::move(item));
    }
    return result;
  }
  MAESTRO_ASSIGN(std::string single, readText(node, path));
  result.push_back(std::move(single));
  return result;
}

Result<size_t> readChoice(const YamlNode &node, const std::string &path, const std::vector<std::string> &choices) {
  KeyListener::isOfKind(path, fmt::format("`{}`", fmt::join(choices, "`, `")));
  MAESTRO_ASSIGN(std::string text, readText(node, path));
  auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end())
    return static_cast<size_t>(found - choices.begin());
  return wrong(node, path,
               fmt::format("is '{}', none of {}{}", text, fmt::join(choices, ", "), didYouMean(text, choices)));
}

Status FieldReader::checkIsMap() const {
  if (map.kind == YamlNode::Kind::Map || map.kind == YamlNode::Kind::Null)
    return {};
  return expect(map, path.empty() ? "the file" : path, "a map of keys and values");
}

const YamlNode *FieldReader::find(const std::string &key) {
  if (std::find(known.begin(), known.end(), key) == known.end())
    known.push_back(key);
  KeyListener::asked(pathOf(key));
  const YamlNode *node = map.find(key);
  return node && node->kind != YamlNode::Kind::Null ? node : nullptr;
}

Status FieldReader::text(const std::string &key, std::string &value) {
  const YamlNode *node = find(key);
  KeyListener::fallsBackTo(pathOf(key), value);
  if (node) {
    MAESTRO_ASSIGN(value, readText(*node, pathOf(key)));
  }
  return {};
}

Status FieldReader::flag(const std::string &key, bool &value) {
  const YamlNode *node = find(key);
  KeyListener::fallsBackTo(pathOf(key), value ? "true" : "false");
  if (node) {
    MAESTRO_ASSIGN(value, readFlag(*node, pathOf(key)));
  }
  return {};
}

Status FieldReader::integer(const std::string &key, int64_t &value, int64_t least, int64_t most) {
  const YamlNode *node = find(key);
  if (value >= least) // Else the value says that there is none.
    KeyListener::fallsBackTo(pathOf(key), std::to_string(value));
  if (node) {
    MAESTRO_ASSIGN(value, readInteger(*node, pathOf(key), least, most));
  }
  return {};
}

Status FieldReader::number(const std::string &key, double &value, NumberRange range) {
  const YamlNode *node = find(key);
  if (range.above ? value > range.least : value >= range.least)
    KeyListener::fallsBackTo(pathOf(key), fmt::format("{:g}", value));
  if (node) {
    MAESTRO_ASSIGN(value, readNumber(*node, pathOf(key), range));
  }
  return {};
}

Status FieldReader::texts(const std::string &key, std::vector<std::string> &value) {
  if (const YamlNode *node = find(key)) {
    MAESTRO_ASSIGN(value, readTexts(*node, pathOf(key)));
  }
  return {};
}

Status FieldReader::require(const std::string &key, const char *example) {
  const YamlNode *node = find(key);
  KeyListener::isNeeded(pathOf(key));
  if (node)
    return {};
  std::vector<std::string> given;
  for (const auto &[name, value] : map.entries)
    given.push_back(name);
  std::string misspelt = nearestName(key, given);
  if (!misspelt.empty())
    return wrong(map, pathOf(misspelt), fmt::format("is unknown; did you mean '{}'?", key));
  return wrong(map, pathOf(key), fmt::format("is missing; write {}", example));
}

namespace {

/// Where other trainers' settings are: "" of keys that none has.
std::string_view placeOf(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kPlaces[] = {
      {"lr", "train.optimizer: {adamw: {lr: 1e-3}}"},
      {"learning_rate", "train.optimizer: {adamw: {lr: 1e-3}}"},
      {"weight_decay", "train.optimizer: {adamw: {weight_decay: 0.01}}"},
      {"batch_size", "train.global_batch, of all devices together"},
      {"per_device_train_batch_size", "train.global_batch, of all devices together"},
      {"gradient_accumulation_steps", "train.global_batch, which planning cuts into micro-batches"},
      {"warmup_steps", "train.schedule: {warmup_steps: 100}"},
      {"max_grad_norm", "train.clip_grad_norm"},
      {"steps", "an option of the run: maestro-run --steps"},
      {"max_steps", "an option of the run: maestro-run --steps"},
      {"epochs", "an option of the run: maestro-run --steps; without it, one pass over the data"},
      {"num_train_epochs", "an option of the run: maestro-run --steps; without it, one pass over the data"},
      {"bf16", "train.precision: bf16"},
      {"fp16", "train.precision: bf16"},
      {"max_length", "dims.seq.max"},
      {"max_seq_length", "dims.seq.max"},
  };
  for (auto [name, place] : kPlaces)
    if (name == key)
      return place;
  return "";
}

} // namespace

Status FieldReader::finish() const {
  for (const auto &[key, value] : map.entries)
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string_view place = placeOf(key);
      return Status::invalidInput(fmt::format("{}: unknown key '{}'{}; known here: {}", value.place, pathOf(key),
                                              place.empty() ? didYouMean(key, known) : fmt::format("; it is {}", place),
                                              fmt::join(known, ", ")));
    }
  return {};
}

} // namespace maestro::planner

// state.json: what a checkpoint says beside its tensors. Hashes are hexadecimal text, since JSON
// readers keep only 53 bits of a number.
#include "base/log.h"
#include "executor/checkpoint/directory.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace maestro::checkpoint {
namespace {

using Json = nlohmann::json;

/// Reads members of one object; the first failure stays.
class Members {
public:
  Members(const Json &object, std::string_view where) : object(object), where(where) {}

  uint64_t number(const char *key) {
    const Json *value = member(key);
    if (value && value->is_number_unsigned())
      return value->get<uint64_t>();
    fail(key, "a number from 0 on");
    return 0;
  }
  uint64_t hash(const char *key) {
    const Json *value = member(key);
    const std::string *text = value ? value->get_ptr<const std::string *>() : nullptr;
    uint64_t parsed = 0;
    if (text && text->size() == 16 && text->find_first_not_of("0123456789abcdef") == std::string::npos)
      parsed = std::stoull(*text, nullptr, 16);
    else
      fail(key, "16 hexadecimal digits");
    return parsed;
  }
  bool flag(const char *key) {
    const Json *value = member(key);
    if (value && value->is_boolean())
      return value->get<bool>();
    fail(key, "true or false");
    return false;
  }
  double real(const char *key) {
    const Json *value = member(key);
    if (value && value->is_number())
      return value->get<double>();
    fail(key, "a number");
    return 0;
  }
  std::string text(const char *key) {
    const Json *value = member(key);
    if (value && value->is_string())
      return value->get<std::string>();
    fail(key, "a text");
    return "";
  }
  const Json *list(const char *key) {
    const Json *value = member(key);
    if (value && value->is_array())
      return value;
    fail(key, "a list");
    return nullptr;
  }
  bool has(const char *key) { return member(key) != nullptr; }
  const Json *child(const char *key) {
    const Json *value = member(key);
    if (value && value->is_object())
      return value;
    fail(key, "an object");
    return nullptr;
  }

  Status status;

private:
  const Json *member(const char *key) {
    if (!object.is_object())
      return nullptr;
    auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }
  void fail(const char *key, std::string_view expected) {
    if (status.isOk())
      status = Status::invalidInput(fmt::format("{}: '{}' is missing or not {}", where, key, expected));
  }

  const Json &object;
  std::string_view where;
};

std::string formatData(const data::DataIdentity &data) {
  std::string text = fmt::format("{{\"synthetic\": {}, \"shuffled\": {}, \"shards\": [", data.synthetic, data.shuffled);
  for (std::string_view separator = ""; const data::ShardIdentity &shard : data.shards) {
    text += fmt::format("{}\n    {{\"path\": \"{}\", \"bytes\": {}{}}}", separator, escapeJson(shard.path), shard.bytes,
                        shard.weight > 0 ? fmt::format(", \"weight\": {}", shard.weight) : "");
    separator = ",";
  }
  return text + "]}";
}

Result<data::DataIdentity> parseData(const Json &object) {
  Members members(object, "state.json, data");
  data::DataIdentity data;
  data.synthetic = members.flag("synthetic");
  data.shuffled = members.flag("shuffled");
  const Json *shards = members.list("shards");
  MAESTRO_TRY(std::move(members.status));
  for (const Json &entry : *shards) {
    Members shard(entry, "state.json, a shard of data");
    data.shards.push_back({shard.text("path"), shard.number("bytes"), shard.has("weight") ? shard.real("weight") : 0});
    MAESTRO_TRY(std::move(shard.status));
  }
  return data;
}

/// A value that is not finite is left out.
std::string formatBest(const BestLoss &best) {
  return fmt::format("{{\"loss\": \"{}\", {}\"step\": {}, \"without_gain\": {}}}", escapeJson(best.name),
                     std::isfinite(best.value) ? fmt::format("\"value\": {}, ", best.value) : "", best.step,
                     best.withoutGain);
}

Result<BestLoss> parseBest(const Json &object) {
  Members members(object, "state.json, best_validation");
  BestLoss best;
  best.name = members.text("loss");
  if (members.has("value"))
    best.value = members.real("value");
  best.step = members.number("step");
  best.withoutGain = members.number("without_gain");
  MAESTRO_TRY(std::move(members.status));
  return best;
}

template <typename Value, typename Format>
std::string formatMap(const std::map<std::string, Value> &map, Format format) {
  std::string text = "{";
  for (std::string_view separator = ""; const auto &[key, value] : map) {
    text += fmt::format("{}\n    \"{}\": {}", separator, escapeJson(key), format(value));
    separator = ",";
  }
  return text + (map.empty() ? "}" : "\n  }");
}

std::string formatTexts(const std::map<std::string, std::string> &map) {
  return formatMap(map, [](const std::string &text) { return fmt::format("\"{}\"", escapeJson(text)); });
}

void parseTexts(const Json &object, std::map<std::string, std::string> &map) {
  for (const auto &[key, value] : object.items())
    if (value.is_string())
      map.emplace(key, value.get<std::string>());
}

} // namespace

std::string formatState(const TrainingState &state, const std::map<std::string, uint64_t> &files) {
  std::string frozen = formatTexts(state.frozen);
  return fmt::format("{{\n  \"version\": 1,\n  \"step\": {},\n"
                     "  \"position\": {{\"pass\": {}, \"shard\": {}, \"sample\": {}, \"ordinal\": {}}},\n"
                     "  \"seed\": {},\n  \"plan_hash\": \"{:016x}\",\n  \"workload_hash\": \"{:016x}\",\n"
                     "  \"frozen\": {},\n  \"skipped_steps\": {},\n  \"bad_steps_in_a_row\": {},\n"
                     "  \"tokens_seen\": {},\n"
                     "  \"run\": \"{}\",\n{}{}{}  \"files\": {}\n}}\n",
                     state.step, state.position.pass, state.position.shard, state.position.sample,
                     state.position.ordinal, state.seed, state.planHash, state.workloadHash, frozen, state.skippedSteps,
                     state.badStepsInARow, state.tokensSeen, escapeJson(state.run),
                     state.data ? fmt::format("  \"data\": {},\n", formatData(*state.data)) : "",
                     state.device.empty() ? "" : fmt::format("  \"device\": {},\n", formatTexts(state.device)),
                     state.best ? fmt::format("  \"best_validation\": {},\n", formatBest(*state.best)) : "",
                     formatMap(files, [](uint64_t bytes) { return fmt::to_string(bytes); }));
}

Result<TrainingState> parseState(const std::string &text, std::map<std::string, uint64_t> &files) {
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object())
    return Status::invalidInput("state.json is no JSON object");
  Members members(root, "state.json");
  TrainingState state;
  if (members.number("version") != 1 && members.status.isOk())
    return Status::invalidInput("state.json: 'version' is not 1, the one that this program reads");
  state.step = members.number("step");
  state.seed = members.number("seed");
  state.planHash = members.hash("plan_hash");
  state.workloadHash = members.hash("workload_hash");
  const Json *position = members.child("position"), *frozen = members.child("frozen"), *listed = members.child("files");
  if (members.has("skipped_steps")) { // Absent in those of older versions, like what follows.
    state.skippedSteps = members.number("skipped_steps");
    state.badStepsInARow = members.number("bad_steps_in_a_row");
  }
  if (members.has("tokens_seen"))
    state.tokensSeen = members.number("tokens_seen");
  if (members.has("run"))
    state.run = members.text("run");
  if (const Json *data = members.has("data") ? members.child("data") : nullptr) {
    MAESTRO_ASSIGN(state.data, parseData(*data));
  }
  if (const Json *device = members.has("device") ? members.child("device") : nullptr)
    parseTexts(*device, state.device);
  if (const Json *best = members.has("best_validation") ? members.child("best_validation") : nullptr) {
    MAESTRO_ASSIGN(state.best, parseBest(*best));
  }
  MAESTRO_TRY(std::move(members.status));
  Members at(*position, "state.json, position");
  state.position = {at.number("pass"), at.number("shard"), at.number("sample"), at.number("ordinal")};
  MAESTRO_TRY(std::move(at.status));
  parseTexts(*frozen, state.frozen);
  for (const auto &[file, bytes] : listed->items()) {
    if (!bytes.is_number_unsigned() || file.find('/') != std::string::npos)
      return Status::invalidInput("state.json: 'files' is not names and bytes");
    files.emplace(file, bytes.get<uint64_t>());
  }
  return state;
}

std::string formatRunName(const std::string &run) {
  return fmt::format("{{\"version\": 1, \"run\": \"{}\"}}\n", escapeJson(run));
}

Result<std::string> parseRunName(const std::string &text) {
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Members members(root, "run.json");
  std::string run = members.text("run");
  MAESTRO_TRY(std::move(members.status));
  return run;
}

} // namespace maestro::checkpoint

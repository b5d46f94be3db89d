#include "planner/emit/weights_file.h"

#include "base/convert.h"
#include "base/log.h"
#include "base/nearest.h"
#include "planner/emit/emit_plan.h"

#include "llvm/Support/JSON.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

namespace maestro::planner {
namespace {

namespace json = llvm::json;

constexpr uint64_t kLargestHeader = 100'000'000; ///< As safetensors' own readers allow.

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"F32", DType::F32}, {"F64", DType::F64}, {"BF16", DType::BF16}, {"F16", DType::F16}, {"I64", DType::I64},
    {"I32", DType::I32}, {"I16", DType::I16}, {"I8", DType::I8},     {"U8", DType::U8},   {"BOOL", DType::Bool}};

std::optional<DType> typeNamed(std::string_view text) {
  for (const auto &[name, dtype] : kTypes)
    if (name == text)
      return dtype;
  return std::nullopt;
}

/// Whether brackets nest deeper than a header's: the parser behind recurses.
bool nestsTooDeep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '{' || c == '['))
      if (++depth > 3)
        return true;
    if (!quoted && (c == '}' || c == ']'))
      --depth;
  }
  return false;
}

std::optional<std::vector<uint64_t>> numbers(const json::Array *list) {
  if (!list)
    return std::nullopt;
  std::vector<uint64_t> values;
  for (const json::Value &item : *list) {
    std::optional<int64_t> value = item.getAsInteger();
    if (!value || *value < 0)
      return std::nullopt;
    values.push_back(static_cast<uint64_t>(*value));
  }
  return values;
}

Result<StoredTensor> readTensor(const std::string &name, const json::Value &value, uint64_t dataOffset, uint64_t dataBytes) {
  auto wrong = [&](std::string_view what) {
    return Status::invalidInput(fmt::format("tensor '{}' {}; write the file again with safetensors", name, what));
  };
  const json::Object *entry = value.getAsObject();
  std::optional<llvm::StringRef> type = entry ? entry->getString("dtype") : std::nullopt;
  auto shape = numbers(entry ? entry->getArray("shape") : nullptr);
  auto span = numbers(entry ? entry->getArray("data_offsets") : nullptr);
  if (!type || !shape || !span)
    return wrong("lacks a dtype, shape or data_offsets that can be read");
  StoredTensor tensor;
  std::optional<DType> dtype = typeNamed({type->data(), type->size()});
  if (!dtype)
    return wrong(fmt::format("has elements of type '{}', which is not supported", type->str().substr(0, 30)));
  tensor.dtype = *dtype;
  uint64_t needed = byteSize(*dtype);
  for (uint64_t dim : *shape) {
    tensor.shape.push_back(static_cast<int64_t>(dim));
    if (__builtin_mul_overflow(needed, dim, &needed))
      return wrong("has a shape of more than 2^64 bytes");
  }
  if (span->size() != 2 || (*span)[0] > (*span)[1] || (*span)[1] > dataBytes)
    return wrong(fmt::format("lies at bytes [{}] of {}: the file is cut off or damaged", fmt::join(*span, ", "), dataBytes));
  tensor.offset = dataOffset + (*span)[0];
  tensor.bytes = (*span)[1] - (*span)[0];
  if (tensor.bytes != needed)
    return wrong(fmt::format("has {} bytes and needs {} for its shape", tensor.bytes, needed));
  return tensor;
}

std::string quoted(const std::vector<std::string> &names) {
  size_t shown = std::min<size_t>(names.size(), 3);
  std::string text = fmt::format("'{}'", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), "', '"));
  return names.size() > shown ? text + fmt::format(" and {} more", names.size() - shown) : text;
}

/// One component's parameters against its file.
class WeightsApplication {
public:
  WeightsApplication(const ComponentSpec &component, const WeightsFile &file) : component(component), file(file) {}

  Status apply(GraphSummary &graph) {
    for (GraphParameter &parameter : graph.parameters)
      if (parameter.component == component.name)
        MAESTRO_TRY(applyTo(parameter));
    warnOfUnused();
    return {};
  }

private:
  Status applyTo(GraphParameter &parameter) {
    known.insert(parameter.info.name);
    known.insert(parameter.info.aliases.begin(), parameter.info.aliases.end());
    const StoredTensor *tensor = file.find(parameter.info.name);
    for (const std::string &alias : parameter.info.aliases)
      tensor = tensor ? tensor : file.find(alias);
    if (!tensor)
      return missing(parameter);
    if (tensor->shape != parameter.shape)
      return Status::invalidInput(fmt::format("{} has shape [{}] in {}, but [{}] in the model; give the weights of this model",
                                              describe(parameter), fmt::join(tensor->shape, ", "), component.weights,
                                              fmt::join(parameter.shape, ", ")));
    if (conversionKind(tensor->dtype, parameter.dtype) == Conversion::Refused)
      return Status::invalidInput(fmt::format("{} is stored as {} in {} and needed as {}; convert it there",
                                              describe(parameter), name(tensor->dtype), component.weights,
                                              name(parameter.dtype)));
    parameter.info.source = TensorSource{component.weights, tensor->offset, tensor->bytes};
    parameter.info.transposed = false;
    parameter.sourceDtype = tensor->dtype;
    return {};
  }

  /// What no state_dict holds may keep the model's own value.
  Status missing(const GraphParameter &parameter) const {
    if (parameter.info.kind == ParameterKind::Constant || !parameter.info.persistent)
      return {};
    std::vector<std::string> names;
    for (const auto &[stored, tensor] : file.all())
      names.push_back(stored);
    return Status::invalidInput(fmt::format("{} is not in {}{}; give a complete state_dict, or leave `weights` out",
                                            describe(parameter), component.weights, didYouMean(parameter.info.name, names)));
  }

  void warnOfUnused() const {
    std::vector<std::string> unused;
    for (const auto &[stored, tensor] : file.all()) {
      bool tied = std::any_of(file.ties().begin(), file.ties().end(),
                              [&](const auto &tie) { return tie.second == stored && known.count(tie.first); });
      if (!known.count(stored) && !tied)
        unused.push_back(stored);
    }
    if (!unused.empty())
      logWarning(fmt::format("{}: component '{}' has no parameter {}; the file's values are not used", component.weights,
                             component.name, quoted(unused)));
  }

  std::string describe(const GraphParameter &parameter) const {
    return fmt::format("parameter '{}' of component '{}'", parameter.info.name, component.name);
  }

  const ComponentSpec &component;
  const WeightsFile &file;
  std::set<std::string> known;
};

} // namespace

Result<WeightsFile> WeightsFile::parse(std::string_view text, uint64_t dataOffset, uint64_t dataBytes) {
  if (nestsTooDeep(text))
    return Status::invalidInput("the header is no safetensors header: its JSON is nested deeper than 3");
  llvm::Expected<json::Value> root = json::parse({text.data(), text.size()});
  if (!root)
    return Status::invalidInput("the header is no JSON: " + llvm::toString(root.takeError()));
  const json::Object *entries = root->getAsObject();
  if (!entries)
    return Status::invalidInput("the header is no JSON object");
  WeightsFile file;
  for (const auto &[key, value] : *entries) {
    std::string name = key.str();
    if (name != "__metadata__") {
      MAESTRO_ASSIGN(file.tensors[name], readTensor(name, value, dataOffset, dataBytes));
      continue;
    }
    if (const json::Object *metadata = value.getAsObject())
      for (const auto &[from, to] : *metadata)
        if (std::optional<llvm::StringRef> target = to.getAsString())
          file.metadata[from.str()] = target->str();
  }
  return file;
}

Result<WeightsFile> WeightsFile::open(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return Status::invalidInput(
        fmt::format("{}: {}; weights are a safetensors file", path, error ? error.message() : "no regular file"));
  uint64_t size = std::filesystem::file_size(path, error);
  std::ifstream stream(path, std::ios::binary);
  uint8_t prefix[8] = {};
  if (error || !stream || !stream.read(reinterpret_cast<char *>(prefix), sizeof prefix))
    return Status::invalidInput(
        fmt::format("{}: {}; weights are a safetensors file", path, size < 8 ? "shorter than 8 bytes" : std::strerror(errno)));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | prefix[i];
  if (length > kLargestHeader || length > size - 8)
    return Status::invalidInput(fmt::format("{}: its header would have {} bytes of {} (limit {}); this is no safetensors file",
                                            path, length, size, kLargestHeader));
  std::string text(length, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(length)))
    return Status::unavailable(fmt::format("{}: cannot read its header", path));
  Result<WeightsFile> file = parse(text, 8 + length, size - 8 - length);
  return std::move(file).withContext(path);
}

const StoredTensor *WeightsFile::find(const std::string &name) const {
  if (auto tensor = tensors.find(name); tensor != tensors.end())
    return &tensor->second;
  auto tie = metadata.find(name);
  auto tensor = tie == metadata.end() ? tensors.end() : tensors.find(tie->second);
  return tensor == tensors.end() ? nullptr : &tensor->second;
}

Status applyWeightFiles(const Workload &workload, GraphSummary &graph) {
  for (const ComponentSpec &component : workload.components) {
    if (component.weights.empty())
      continue;
    MAESTRO_ASSIGN(WeightsFile file, WeightsFile::open(component.weights)
                                         .withContext(fmt::format("components.{}.weights", component.name)));
    MAESTRO_TRY(WeightsApplication(component, file).apply(graph));
  }
  return {};
}

} // namespace maestro::planner

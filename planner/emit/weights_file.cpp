#include "planner/emit/weights_file.h"

#include "base/convert.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/weights_location.h"
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

/// File -> the tensors that an index says it holds.
using TensorsByFile = std::map<std::string, std::set<std::string>>;

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

/// Whether brackets nest deeper than a header's or an index's: the parser behind recurses.
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

Result<StoredTensor> readTensor(const std::string &name, const json::Value &value, uint64_t dataOffset,
                                uint64_t dataBytes) {
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
    return wrong(
        fmt::format("lies at bytes [{}] of {}: the file is cut off or damaged", fmt::join(*span, ", "), dataBytes));
  tensor.offset = dataOffset + (*span)[0];
  tensor.bytes = (*span)[1] - (*span)[0];
  if (tensor.bytes != needed)
    return wrong(fmt::format("has {} bytes and needs {} for its shape", tensor.bytes, needed));
  return tensor;
}

std::string quoted(const std::vector<std::string> &names) {
  size_t shown = std::min<size_t>(names.size(), 3);
  std::string text =
      fmt::format("'{}'", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), "', '"));
  return names.size() > shown ? text + fmt::format(" and {} more", names.size() - shown) : text;
}

Result<TensorsByFile> readIndex(const std::string &path) {
  std::error_code error;
  uint64_t size = std::filesystem::file_size(path, error);
  if (error || size > kMaxWeightsIndexBytes)
    return Status::invalidInput(
        error ? error.message()
              : fmt::format("the index has {} bytes, above the limit of {}", size, kMaxWeightsIndexBytes));
  std::string text(size, '\0');
  if (!std::ifstream(path, std::ios::binary).read(text.data(), static_cast<std::streamsize>(size)))
    return Status::unavailable("cannot be read");
  llvm::Expected<json::Value> root = json::parse(nestsTooDeep(text) ? "" : text);
  if (!root)
    return Status::invalidInput("is no index of safetensors files: " + llvm::toString(root.takeError()));
  const json::Object *map = root->getAsObject() ? root->getAsObject()->getObject("weight_map") : nullptr;
  if (!map || map->empty())
    return Status::invalidInput("is no index of safetensors files: it has no \"weight_map\"");
  TensorsByFile tensors;
  for (const auto &[tensor, file] : *map) {
    std::optional<llvm::StringRef> name = file.getAsString();
    if (!name)
      return Status::invalidInput(fmt::format("weight_map: '{}' names no file", tensor.str()));
    tensors[name->str()].insert(tensor.str());
  }
  return tensors;
}

bool lacksBufferValue(const GraphParameter &parameter) {
  return parameter.info.kind == ParameterKind::Buffer && !parameter.info.persistent && !parameter.info.source &&
         !parameter.info.zeros;
}

/// A run's --weights may still give what the plan has no value for.
void warnOfLackingValues(const ComponentSpec &component, const GraphSummary &graph) {
  for (const GraphParameter &parameter : graph.parameters)
    if (parameter.component == component.name && lacksBufferValue(parameter))
      logWarning(fmt::format("buffer '{}' of component '{}' {}", parameter.info.name, component.name,
                             missingBufferValue(component.name)));
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
    const StoredTensor *tensor = find(parameter.info.name);
    for (const std::string &alias : parameter.info.aliases)
      tensor = tensor ? tensor : find(alias);
    if (!tensor)
      return missing(parameter);
    if (tensor->shape != parameter.shape)
      return Status::invalidInput(fmt::format(
          "{} has shape [{}] in {}, but [{}] in the model; give the weights of this model", describe(parameter),
          fmt::join(tensor->shape, ", "), component.weights, fmt::join(parameter.shape, ", ")));
    if (conversionKind(tensor->dtype, parameter.dtype) == Conversion::Refused)
      return Status::invalidInput(fmt::format("{} is stored as {} in {} and needed as {}; convert it there",
                                              describe(parameter), name(tensor->dtype), component.weights,
                                              name(parameter.dtype)));
    parameter.info.source = TensorSource{tensor->file, tensor->offset, tensor->bytes};
    parameter.info.transposed = false;
    parameter.sourceDtype = tensor->dtype;
    return {};
  }

  /// By its name, or by that behind a prefix that is stripped.
  const StoredTensor *find(const std::string &name) {
    known.insert(name);
    const StoredTensor *tensor = file.find(name);
    for (const std::string &prefix : component.strip) {
      known.insert(prefix + name);
      tensor = tensor ? tensor : file.find(prefix + name);
    }
    return tensor;
  }

  /// What no state_dict holds may keep the model's own value.
  Status missing(const GraphParameter &parameter) const {
    if (lacksBufferValue(parameter))
      return Status::invalidInput(fmt::format("{} is not in {} and {}", describe(parameter), component.weights,
                                              missingBufferValue(component.name)));
    if (parameter.info.kind == ParameterKind::Constant || !parameter.info.persistent)
      return {};
    std::vector<std::string> names;
    for (const auto &[stored, tensor] : file.all())
      names.push_back(stored);
    std::string hint = prefixHint(component.name, parameter.info.name, names);
    return Status::invalidInput(fmt::format("{} is not in {}{}; give a complete state_dict, or leave `weights` out",
                                            describe(parameter), component.weights,
                                            hint.empty() ? didYouMean(parameter.info.name, names) : hint));
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
      logWarning(fmt::format("{}: component '{}' has no parameter {}; the file's values are not used",
                             component.weights, component.name, quoted(unused)));
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

Result<WeightsFile> WeightsFile::open(const std::string &path, std::string_view component) {
  MAESTRO_ASSIGN(WeightsLocation found, locateWeights(path, component));
  return found.isIndex ? openIndex(found.path) : openOne(found.path);
}

Result<WeightsFile> WeightsFile::openOne(const std::string &path) {
  std::error_code error;
  uint64_t size = std::filesystem::file_size(path, error);
  std::ifstream stream(path, std::ios::binary);
  uint8_t prefix[8] = {};
  if (error || !stream || !stream.read(reinterpret_cast<char *>(prefix), sizeof prefix))
    return Status::invalidInput(fmt::format("{}: {}; weights are safetensors files", path,
                                            size < 8 ? "shorter than 8 bytes" : std::strerror(errno)));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | prefix[i];
  if (length > kLargestHeader || length > size - 8) {
    std::string foreign = describeForeignWeights({reinterpret_cast<const char *>(prefix), sizeof prefix});
    return Status::invalidInput(
        foreign.empty()
            ? fmt::format("{}: its header would have {} bytes of {} (limit {}); this is no safetensors file", path,
                          length, size, kLargestHeader)
            : fmt::format("{}: {}", path, foreign));
  }
  std::string text(length, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(length)))
    return Status::unavailable(fmt::format("{}: cannot read its header", path));
  MAESTRO_ASSIGN(WeightsFile file, parse(text, 8 + length, size - 8 - length).withContext(path));
  for (auto &[name, tensor] : file.tensors)
    tensor.file = path;
  return file;
}

Result<WeightsFile> WeightsFile::openIndex(const std::string &path) {
  MAESTRO_ASSIGN(TensorsByFile index, readIndex(path).withContext(path));
  WeightsFile all;
  for (const auto &[name, tensors] : index) {
    MAESTRO_ASSIGN(std::string beside, besideIndex(path, name));
    MAESTRO_ASSIGN(WeightsFile one, openOne(beside).withContext(path));
    for (const std::string &tensor : tensors)
      if (!one.tensors.count(tensor))
        return Status::invalidInput(fmt::format("{}: says that '{}' lies in '{}', which lacks it", path, tensor, name));
    for (auto &[tensor, stored] : one.tensors)
      if (auto [other, isNew] = all.tensors.emplace(tensor, std::move(stored)); !isNew)
        return Status::invalidInput(fmt::format("{}: tensor '{}' lies both in '{}' and in '{}'", path, tensor,
                                                std::filesystem::path(other->second.file).filename().string(), name));
    all.metadata.merge(one.metadata);
  }
  return all;
}

Result<std::vector<std::string>> filesOfWeights(const std::string &path, std::string_view component) {
  MAESTRO_ASSIGN(WeightsLocation found, locateWeights(path, component));
  std::vector<std::string> files = {found.path};
  if (!found.isIndex)
    return files;
  MAESTRO_ASSIGN(TensorsByFile index, readIndex(found.path).withContext(found.path));
  for (const auto &[name, tensors] : index) {
    MAESTRO_ASSIGN(std::string beside, besideIndex(found.path, name));
    files.push_back(beside);
  }
  return files;
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
    if (component.weights.empty()) {
      warnOfLackingValues(component, graph);
      continue;
    }
    MAESTRO_ASSIGN(WeightsFile file, WeightsFile::open(component.weights, component.name)
                                         .withContext(fmt::format("components.{}.weights", component.name)));
    MAESTRO_TRY(WeightsApplication(component, file).apply(graph));
  }
  return {};
}

} // namespace maestro::planner

#include "executor/checkpoint/weight_set.h"

#include "base/weights_location.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace maestro::checkpoint {
namespace {

using Json = nlohmann::json;
/// File -> the tensors that an index says it holds.
using TensorsByFile = std::map<std::string, std::set<std::string>>;

Result<TensorsByFile> readIndex(const std::string &path) {
  std::error_code error;
  uint64_t size = std::filesystem::file_size(path, error);
  if (error || size > kMaxWeightsIndexBytes)
    return Status::invalidInput(
        error ? error.message()
              : fmt::format("the index has {} bytes, above the limit of {}", size, kMaxWeightsIndexBytes));
  std::ifstream stream(path, std::ios::binary);
  Json root = Json::parse(stream, nullptr, false);
  auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (!root.is_object() || map == root.end() || !map->is_object())
    return Status::invalidInput("is no index of safetensors files: it has no \"weight_map\"");
  TensorsByFile tensors;
  for (const auto &[tensor, file] : map->items()) {
    if (!file.is_string())
      return Status::invalidInput(fmt::format("weight_map: '{}' names no file", tensor));
    tensors[file.get<std::string>()].insert(tensor);
  }
  if (tensors.empty())
    return Status::invalidInput("weight_map is empty");
  return tensors;
}

} // namespace

Result<WeightSet> WeightSet::open(const std::string &path, std::string_view component) {
  MAESTRO_ASSIGN(WeightsLocation found, locateWeights(path, component));
  WeightSet set;
  set.path = found.path;
  if (found.isIndex) {
    MAESTRO_TRY(set.openIndex());
    return set;
  }
  MAESTRO_ASSIGN(SafetensorsFile file, SafetensorsFile::open(found.path));
  set.files.push_back(std::move(file));
  return set;
}

Status WeightSet::openIndex() {
  MAESTRO_ASSIGN(TensorsByFile index, readIndex(path).withContext(path));
  std::map<std::string, std::string> fileOf;
  for (const auto &[name, tensors] : index) {
    MAESTRO_ASSIGN(std::string beside, besideIndex(path, name));
    MAESTRO_ASSIGN(SafetensorsFile file, SafetensorsFile::open(beside).withContext(path));
    for (const std::string &tensor : tensors)
      if (!file.find(tensor))
        return Status::invalidInput(fmt::format("{}: says that '{}' lies in '{}', which lacks it", path, tensor, name));
    for (const TensorInfo &tensor : file.tensors())
      if (auto [other, isNew] = fileOf.emplace(tensor.name, name); !isNew)
        return Status::invalidInput(
            fmt::format("{}: tensor '{}' lies both in '{}' and in '{}'", path, tensor.name, other->second, name));
    files.push_back(std::move(file));
  }
  return {};
}

WeightSet::Place WeightSet::findTied(std::string_view name) const {
  for (const SafetensorsFile &file : files)
    if (const TensorInfo *tensor = file.find(name))
      return {&file, tensor};
  for (const SafetensorsFile &tying : files)
    if (auto tied = tying.metadata().find(std::string(name)); tied != tying.metadata().end())
      for (const SafetensorsFile &file : files)
        if (const TensorInfo *tensor = file.find(tied->second))
          return {&file, tensor};
  return {};
}

std::vector<std::string> WeightSet::tensorNames() const {
  std::vector<std::string> names;
  for (const SafetensorsFile &file : files)
    for (const TensorInfo &tensor : file.tensors())
      names.push_back(tensor.name);
  return names;
}

} // namespace maestro::checkpoint

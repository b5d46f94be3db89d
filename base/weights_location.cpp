#include "base/weights_location.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace maestro {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr std::string_view kRemedy = "convert it where you trust it: load the model in Python and call "
                                     "model.save_pretrained(FOLDER), or safetensors.torch.save_model(model, FILE)";

bool isPickleName(std::string_view name) {
  constexpr std::string_view suffixes[] = {".bin", ".pt", ".pth", ".ckpt", ".bin.index.json"};
  return std::any_of(std::begin(suffixes), std::end(suffixes),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

Status pickle(const std::string &path) {
  return Status::invalidInput(path + ": is a pickle, which can run code and is not read; " + std::string(kRemedy));
}

/// What a folder holds that may be weights.
struct Candidates {
  std::vector<std::string> files, indices, pickles; ///< Names, sorted.
};

Result<Candidates> candidatesIn(const std::string &folder) {
  Candidates found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(kSuffix))
      found.files.push_back(name);
    else if (name.ends_with(kIndexSuffix))
      found.indices.push_back(name);
    else if (isPickleName(name))
      found.pickles.push_back(name);
  }
  if (error)
    return Status::invalidInput(folder + ": " + error.message());
  for (std::vector<std::string> *names : {&found.files, &found.indices, &found.pickles})
    std::sort(names->begin(), names->end());
  return found;
}

Result<WeightsLocation> locateInFolder(const std::string &folder, std::string_view component) {
  MAESTRO_ASSIGN(Candidates found, candidatesIn(folder));
  auto has = [](const std::vector<std::string> &names, std::string_view name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  auto in = [&](std::string_view name) { return (fs::path(folder) / name).string(); };
  for (std::string_view name : {component, std::string_view("model")}) {
    if (std::string file = std::string(name) + std::string(kSuffix); has(found.files, file))
      return WeightsLocation{in(file)};
    if (std::string index = std::string(name) + std::string(kIndexSuffix); has(found.indices, index))
      return WeightsLocation{in(index), true};
  }
  if (found.indices.size() == 1)
    return WeightsLocation{in(found.indices.front()), true};
  if (found.files.size() == 1 && found.indices.empty())
    return WeightsLocation{in(found.files.front())};
  if (size_t count = found.files.size() + found.indices.size(); count > 1)
    return Status::invalidInput(
        folder + ": holds " + std::to_string(count) + " files of weights, such as '" +
        (found.indices.empty() ? found.files : found.indices).front() +
        "', and no model.safetensors.index.json that says which belong together; name one file");
  if (!found.pickles.empty())
    return pickle(in(found.pickles.front()));
  return Status::invalidInput(folder + ": holds no safetensors file; name the folder that holds "
                                       "model.safetensors or model.safetensors.index.json");
}

} // namespace

Result<WeightsLocation> locateWeights(const std::string &path, std::string_view component) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    return locateInFolder(path, component);
  if (std::string index = path + ".index.json"; !fs::exists(status) && path.ends_with(kSuffix) && fs::exists(index))
    return WeightsLocation{std::move(index), true};
  if (!fs::is_regular_file(status))
    return Status::invalidInput(path + ": " +
                                (error                ? error.message()
                                 : fs::exists(status) ? "is no regular file"
                                                      : "there is no such file") +
                                "; weights are a safetensors file, its index, or a folder that holds either");
  if (path.ends_with(".bin.index.json"))
    return pickle(path);
  return WeightsLocation{path, path.ends_with(".json")};
}

Result<std::string> besideIndex(const std::string &index, const std::string &name) {
  bool isPlain = !name.empty() && name != "." && name != ".." &&
                 name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!isPlain)
    return Status::invalidInput(index + ": names the file '" + name.substr(0, 200) +
                                "'; only files in the index's own folder are read");
  if (!name.ends_with(kSuffix))
    return Status::invalidInput(index + ": names '" + name.substr(0, 200) + "', which is no safetensors file; " +
                                std::string(kRemedy));
  return (fs::path(index).parent_path() / name).string();
}

std::string describeForeignWeights(std::string_view firstBytes) {
  if (firstBytes.starts_with("PK\x03\x04") || firstBytes.starts_with("\x80\x02"))
    return "it is a pickle, as torch.save writes, which can run code and is not read; " + std::string(kRemedy);
  if (firstBytes.starts_with("GGUF"))
    return "it is a GGUF file, whose weights are quantised; give the safetensors of the model that "
           "it was made of";
  if (firstBytes.starts_with("{"))
    return "it is JSON; an index of safetensors files is named *.safetensors.index.json";
  return "";
}

std::string prefixHint(std::string_view component, std::string_view name, std::span<const std::string> names) {
  for (const std::string &other : names) {
    std::string_view longer = other.size() > name.size() ? std::string_view(other) : name;
    std::string_view shorter = other.size() > name.size() ? name : std::string_view(other);
    if (shorter.empty() || !longer.ends_with(shorter) || longer == shorter)
      continue;
    std::string_view prefix = longer.substr(0, longer.size() - shorter.size());
    if (!prefix.ends_with('.'))
      continue;
    if (longer == other)
      return "; they have '" + other + "': write components." + std::string(component) +
             ".strip: " + std::string(prefix);
    return "; they have '" + other + "', without '" + std::string(prefix) +
           "': they are of a part of this model; save them from the model that was exported";
  }
  return "";
}

std::string missingBufferValue(std::string_view component) {
  return "has no value: it is a buffer that the model computes when it is built (persistent=False), "
         "so checkpoints lack it, and the graph came without it. Export with its value in the graph "
         "(docs/guide.md, \"without weights\"), or write a safetensors file that holds it beside "
         "the parameters, safetensors.torch.save_file(dict(model.named_parameters()) | "
         "dict(model.named_buffers()), FILE), and give it as components." +
         std::string(component) + ".weights or --weights " + std::string(component) + "=FILE";
}

} // namespace maestro

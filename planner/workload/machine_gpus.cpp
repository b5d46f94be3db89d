#include "planner/workload/machine_gpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace maestro::planner {
namespace {

/// Of a line "Model: \t\t NVIDIA H200"; empty where there is none.
std::string modelIn(const std::filesystem::path &file) {
  constexpr std::string_view kKey = "Model:";
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kKey))
      if (size_t first = line.find_first_not_of(" \t", kKey.size()); first != line.npos)
        return line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
  return "";
}

} // namespace

std::vector<std::string> machineGpus(const std::string &folder) {
  std::error_code error;
  std::vector<std::filesystem::path> places;
  for (const auto &entry : std::filesystem::directory_iterator(folder, error))
    places.push_back(entry.path());
  std::sort(places.begin(), places.end());
  std::vector<std::string> models;
  for (const std::filesystem::path &place : places)
    if (std::string model = modelIn(place / "information"); !model.empty())
      models.push_back(std::move(model));
  return models;
}

} // namespace maestro::planner

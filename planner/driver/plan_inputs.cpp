#include "planner/driver/plan_inputs.h"

#include "planner/emit/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace maestro::planner {
namespace {

bool isYaml(const std::string &path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

} // namespace

Result<PlanInputs> readInputs(const PlanOptions &options) {
  bool anyYaml = std::any_of(options.inputs.begin(), options.inputs.end(), isYaml);
  if (anyYaml && options.inputs.size() > 1)
    return Status::invalidInput("give one workload file, or models; a workload file names its models itself");
  PlanInputs inputs;
  MAESTRO_ASSIGN(inputs.workload, anyYaml ? readWorkload(options.inputs.front(), options.settings)
                                          : workloadOfModels(options.inputs, options.settings));
  MAESTRO_ASSIGN(inputs.cluster, options.cluster.empty() ? thisMachine(options.settings)
                                                         : readCluster(options.cluster, options.settings));
  MAESTRO_ASSIGN(inputs.target, machineOf(inputs.cluster, options.cluster));
  if (!inputs.target.note.empty())
    inputs.workload.defaults.push_back(inputs.target.note);
  return inputs;
}

Status checkOutput(const PlanOptions &options) {
  if (options.stopAfter)
    return Status();
  std::error_code error;
  std::filesystem::path output = std::filesystem::absolute(options.output, error);
  if (!std::filesystem::is_directory(output.parent_path(), error))
    return Status::invalidInput(
        fmt::format("{}: there is no folder '{}'; make it first", options.output, output.parent_path().string()));
  if (std::filesystem::is_directory(output, error))
    return Status::invalidInput(fmt::format("{}: is a folder; name the file, for example {}", options.output,
                                            (std::filesystem::path(options.output) / "plan.mpl").string()));
  return Status();
}

Status checkOverwrites(const PlanOptions &options, const Workload &workload) {
  std::vector<std::string> read = options.inputs;
  read.push_back(options.cluster);
  for (const ComponentSpec &component : workload.components) {
    read.push_back(component.model);
    if (component.weights.empty())
      continue;
    MAESTRO_ASSIGN(auto files, filesOfWeights(component.weights, component.name)
                                   .withContext(fmt::format("components.{}.weights", component.name)));
    read.insert(read.end(), files.begin(), files.end());
  }
  std::error_code error;
  for (const std::string &path : read)
    if (!path.empty() && !options.output.empty() && std::filesystem::equivalent(path, options.output, error))
      return Status::invalidInput(fmt::format(
          "-o {}: is what the plan is made from, and would be lost; name another file, for example plan.mpl",
          options.output));
  return Status();
}

} // namespace maestro::planner

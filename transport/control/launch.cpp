#include "transport/control/launch.h"

#include <charconv>

namespace maestro::transport {
namespace {

class Variables {
public:
  explicit Variables(const Environment &environment) : environment(environment) {}

  bool has(const char *name) const { return environment(name) != nullptr; }
  Result<std::string> text(const char *name) const {
    const char *value = environment(name);
    if (!value || !*value)
      return Status::invalidInput(std::string(name) + " is not set, though other variables of its launcher are");
    return std::string(value);
  }
  Result<uint32_t> number(const char *name, uint32_t least, uint32_t most) const {
    MAESTRO_ASSIGN(std::string value, text(name));
    uint32_t number = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < least || number > most)
      return Status::invalidInput(std::string(name) + "='" + value + "' is not a number from " + std::to_string(least) +
                                  " to " + std::to_string(most));
    return number;
  }
  /// A process's number among them.
  Status numbers(const char *process, const char *processes, Launch &launch) const {
    MAESTRO_ASSIGN(launch.processes, number(processes, 1, 1u << 20));
    MAESTRO_ASSIGN(launch.process, number(process, 0, launch.processes - 1));
    return Status();
  }

private:
  const Environment &environment;
};

Result<Launch> fromNumbers(const Variables &variables, const char *process, const char *processes) {
  Launch launch;
  launch.engine = variables.has(kPmixVariable) ? "PMIx" : std::string(process) + " and " + processes;
  MAESTRO_TRY(variables.numbers(process, processes, launch));
  MAESTRO_ASSIGN(launch.host, variables.text("MASTER_ADDR"));
  // torchrun's agent keeps a store of its own at MASTER_PORT, and says so.
  MAESTRO_ASSIGN(uint32_t port, variables.number("MASTER_PORT", 1, 65534));
  launch.port = static_cast<uint16_t>(port + (variables.has("TORCHELASTIC_USE_AGENT_STORE") ? 1 : 0));
  return launch;
}

Result<Launch> fromSlurm(const Variables &variables) {
  Launch launch;
  launch.engine = "Slurm";
  MAESTRO_TRY(variables.numbers("SLURM_PROCID", "SLURM_NTASKS", launch));
  MAESTRO_ASSIGN(std::string nodes, variables.text("SLURM_STEP_NODELIST"));
  MAESTRO_ASSIGN(launch.host, firstHost(nodes));
  MAESTRO_ASSIGN(uint32_t job, variables.number("SLURM_JOB_ID", 0, UINT32_MAX));
  MAESTRO_ASSIGN(uint32_t step, variables.number("SLURM_STEP_ID", 0, UINT32_MAX));
  launch.port = static_cast<uint16_t>(kFirstJobPort + (uint64_t{job} * 101 + step) % kJobPorts);
  return launch;
}

} // namespace

Result<std::string> firstHost(const std::string &nodes) {
  size_t bracket = nodes.find_first_of("[,");
  std::string host = nodes.substr(0, bracket);
  if (bracket != std::string::npos && nodes[bracket] == '[') {
    size_t end = nodes.find_first_of(",-]", bracket);
    if (end == std::string::npos)
      return Status::invalidInput("SLURM_STEP_NODELIST='" + nodes + "' has no end of its brackets");
    host += nodes.substr(bracket + 1, end - bracket - 1);
    size_t close = nodes.find(']', bracket), comma = nodes.find(',', close);
    host += nodes.substr(close + 1, comma == std::string::npos ? comma : comma - close - 1);
  }
  if (host.empty())
    return Status::invalidInput("SLURM_STEP_NODELIST='" + nodes + "' names no host");
  return host;
}

Result<std::optional<Launch>> detectLaunch(const Environment &environment) {
  Variables variables(environment);
  Launch launch;
  constexpr const char *kNumbers[][2] = {
      {"RANK", "WORLD_SIZE"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (auto [process, processes] : kNumbers)
    if (variables.has(process) && variables.has(processes) && (variables.has("MASTER_ADDR") || process[0] == 'R')) {
      MAESTRO_ASSIGN(launch, fromNumbers(variables, process, processes));
      return launch.processes > 1 ? std::optional(launch) : std::nullopt;
    }
  if (variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_NODELIST")) {
    MAESTRO_ASSIGN(launch, fromSlurm(variables));
    return launch.processes > 1 ? std::optional(launch) : std::nullopt;
  }
  for (auto [process, processes] : kNumbers)
    if (process[0] != 'R' && variables.has(process) && variables.has(processes)) {
      MAESTRO_TRY(variables.numbers(process, processes, launch));
      if (launch.processes > 1)
        return Status::invalidInput(
            std::string(processes) + "=" + std::to_string(launch.processes) +
            ", and nothing says where these processes meet: install PMIx's client library (Debian: libpmix2), or set "
            "MASTER_ADDR and MASTER_PORT for all of them; to run alone, unset " +
            process + " and " + processes);
    }
  return std::optional<Launch>();
}

} // namespace maestro::transport

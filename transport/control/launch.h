// How this process was started: alone, or as one of a job's processes, by which engine, and where they meet.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace maestro::transport {

struct Launch {
  std::string engine; ///< Whose variables these are, as messages name it.
  uint32_t process = 0, processes = 1;
  std::string host; ///< Where process 0 is met: a name or an address.
  uint16_t port = 0;
};

/// Where jobs meet whose engine names no port: outside of what Linux hands out to clients (32768 to 60999) and of
/// well-known services.
inline constexpr uint32_t kFirstJobPort = 20000, kJobPorts = 12000;

/// Set where the others come from PMIx (pmix.h).
inline constexpr const char *kPmixVariable = "MAESTRO_MET_THROUGH_PMIX";

/// A variable's value, or null; std::getenv but in tests.
using Environment = std::function<const char *(const char *)>;

/// Nothing where no engine has started this process, or it has started this one alone. In this order:
///   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT          torchrun, Kubernetes' training operators, a script, pmix.h
///   OMPI_COMM_WORLD_RANK and _SIZE, or PMI_RANK and PMI_SIZE, with MASTER_ADDR and MASTER_PORT    mpirun
///   SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_NODELIST     srun; the port follows from SLURM_JOB_ID and SLURM_STEP_ID
/// InvalidInput where variables are missing, are no numbers, or contradict each other, or where there are several
/// processes and nobody says where they meet.
Result<std::optional<Launch>> detectLaunch(const Environment &environment);

/// The first host of a Slurm node list: "gpu[003-005,9],login" is gpu003. InvalidInput where it has none.
Result<std::string> firstHost(const std::string &nodes);

} // namespace maestro::transport

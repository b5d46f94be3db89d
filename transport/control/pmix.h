// Meeting through PMIx, which Slurm (srun --mpi=pmix), Open MPI's mpirun and others speak: it says which process this
// is, and carries where process 0 is met and the job's secret to the others. No MPI is needed.
//
// Only for the meeting: whether processes live is the control connection's to know (control.h). A PMIx fence succeeds
// although a process has died.
#pragma once

#include "base/status.h"

namespace maestro::transport {

/// Where a launcher speaks PMIx and MASTER_ADDR is not set: sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, unless
/// there is one, MAESTRO_JOB_SECRET as all processes of the job need them. Else, and where PMIx's library is not
/// installed or the job has one process, does nothing. Unavailable where PMIx fails. libpmix.so.2 is loaded for it, and
/// at rest when this returns. Before there are threads.
Status meetThroughPmix();

} // namespace maestro::transport

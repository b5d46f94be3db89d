// The kernels compiled for the host behind the library's interface, and a library of the CPU's kind made of them, which
// the same tests as the CPU's judge.
#pragma once

#include "kernels/cuda/host/grid.h"
#include "kernels/cuda/library.h"

namespace maestro::kernels::cuda::host {

/// Streams mean nothing here: a launch has run when it returns.
class HostFunctions : public Functions {
public:
  Result<CUfunction> find(const std::string &name) const override;
  Status launch(CUfunction function, Grid grid, unsigned threads, size_t sharedBytes, CUstream stream,
                void *params) const override;
};

/// Calls run at once, on the caller's memory; with two threads or more, in reverse order of a block's threads.
/// `first` as createLibrary() takes it.
std::unique_ptr<kernels::Library> createHostLibrary(Libraries first = {});

} // namespace maestro::kernels::cuda::host

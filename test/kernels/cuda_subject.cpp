// The CUDA library, its kernels compiled for the host.
#include "test/kernels/subject.h"

#include "kernels/cuda/host/functions.h"

namespace maestro::kernels::test {

const Library &subject() {
  static auto library = cuda::host::createHostLibrary();
  return *library;
}

} // namespace maestro::kernels::test

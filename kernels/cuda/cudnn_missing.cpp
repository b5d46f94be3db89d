// The library of attention where cuDNN's headers were not found when this was built: it takes no call.
#include "kernels/cuda/cudnn.h"

#include "base/log.h"

#include <atomic>

namespace maestro::kernels::cuda {
namespace {

class NoCudnn : public Library {
public:
  Result<std::unique_ptr<Kernel>> prepare(const CallSpec &spec) const override {
    static std::atomic<bool> said = false;
    if (spec.kernel == "attention" && spec.inputs[0].dtype == DType::BF16 && !said.exchange(true))
      logWarning(
          "attention runs on kernels without tensor cores, many times slower than cuDNN's: this program was built "
          "where cuDNN's headers were not found; install them (pip's nvidia-cudnn-cu13) and build again");
    return std::unique_ptr<Kernel>();
  }
};

} // namespace

std::string cudnnVersion() { return "none"; }

std::unique_ptr<Library> createCudnnLibrary(const Functions &, const CudnnOptions &) {
  return std::make_unique<NoCudnn>();
}

} // namespace maestro::kernels::cuda

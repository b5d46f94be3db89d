// The CPU library: kernel names and the functions that prepare them. A name or element type that has
// no entry here is the reference library's.
#include "kernels/accumulate.h"
#include "kernels/kernel.h"

#include <algorithm>

namespace maestro::kernels {
namespace {

class CpuLibrary : public Library {
public:
  std::string_view name() const override { return "cpu"; }

  Result<std::unique_ptr<Kernel>> prepare(const CallSpec &spec) const override {
    return fallback->prepare(spec);
  }

private:
  std::unique_ptr<Library> fallback = createReferenceLibrary();
};

} // namespace

std::unique_ptr<Library> createCpuLibrary() { return std::make_unique<CpuLibrary>(); }

} // namespace maestro::kernels

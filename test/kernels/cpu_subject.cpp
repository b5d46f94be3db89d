// The CPU library; MAESTRO_TEST_LOOPS=avx2 asks for the loops of older processors.
#include "test/kernels/subject.h"

#include "kernels/cpu/library.h"

#include <cstdlib>
#include <string>

namespace maestro::kernels::test {

const Library &subject() {
  const char *wanted = std::getenv("MAESTRO_TEST_LOOPS");
  static auto library =
      wanted && std::string(wanted) == "avx2" ? cpu::createLibrary(cpu::avx2Loops()) : createCpuLibrary();
  return *library;
}

} // namespace maestro::kernels::test

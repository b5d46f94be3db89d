#include "base/guarded.h"

#include <exception>
#include <new>
#include <string>

namespace maestro {

Status exceptionStatus() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return Status::unavailable(kOutOfMemory);
  } catch (const std::exception &error) {
    return Status::unavailable(std::string("the machine failed: ") + error.what());
  }
}

} // namespace maestro

// The parts of the verifier, in order.
#include "plan/verifier.h"

#include "plan/verify/parts.h"

namespace maestro::plan {

Status verify(std::span<const uint8_t> bytes) {
  MAESTRO_TRY(verifyBytes(bytes));
  return {};
}

} // namespace maestro::plan

// The parts of the verifier, in order.
#include "plan/verifier.h"

#include "plan/verify/parts.h"

namespace maestro::plan {
namespace {

Status verifyExecutable(const fb::Plan &plan, uint32_t index, Work &work) {
  Place root = Place::root();
  Place place = root.item("executables", index);
  BoundedExecutable executable{plan, *plan.executables()->Get(index), place, work, {}};
  MAESTRO_TRY(verifyBuffers(executable));
  MAESTRO_TRY(verifyPrograms(executable));
  MAESTRO_TRY(verifyBindings(executable));
  return verifyDataflow(executable);
}

Status verifyMeaning(const fb::Plan &plan, size_t fileBytes, bool isSpare) {
  Work work(fileBytes);
  MAESTRO_TRY(verifyCommon(plan, work));
  MAESTRO_TRY(verifyTraining(plan, work));
  MAESTRO_TRY(verifyData(plan, work));
  MAESTRO_TRY(verifySections(plan, work));
  for (uint32_t i = 0; i < plan.executables()->size(); ++i)
    MAESTRO_TRY(verifyExecutable(plan, i, work));
  MAESTRO_TRY(verifyCompleteness(plan));
  MAESTRO_TRY(verifyGradientSums(plan, work));
  if (isSpare && plan.spares())
    return wrong(Place::root() / "spares", "a spare has none of its own");
  return verifySpares(plan);
}

} // namespace

Status verifyWhole(std::span<const uint8_t> bytes, bool isSpare) {
  MAESTRO_TRY(verifyBytes(bytes));
  return verifyMeaning(*fb::GetPlan(bytes.data()), bytes.size(), isSpare);
}

Status verify(std::span<const uint8_t> bytes) {
  MAESTRO_TRY(verifyBytes(bytes));
  Status status = verifyMeaning(*fb::GetPlan(bytes.data()), bytes.size(), /*isSpare=*/false);
  if (status.isOk())
    return status;
  return {status.code(), std::string(status.message()) + "; make the plan again with maestro-plan"};
}

} // namespace maestro::plan

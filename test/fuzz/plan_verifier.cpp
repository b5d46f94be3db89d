// Verifies the input as a plan. What the verifier accepts is then read as everybody reads plans,
// without any further checks: every expression is evaluated, every format printed.
#include "plan/dims.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/print/print.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

using namespace maestro;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  auto plan = plan::Plan::fromBytes({bytes, size});
  if (!plan)
    return 0;
  plan::DimTable dims(**plan);
  std::vector<int64_t> symbols(dims.symbols(), 3), values(dims.nodes());
  dims.evaluateDefined(symbols, values);
  if (!dims.evaluate(symbols, values).isOk())
    dims.text(static_cast<uint32_t>(dims.nodes() - 1));
  plan::Selection all(*plan);
  for (auto format :
       {plan::Format::Summary, plan::Format::Json, plan::Format::Mlir, plan::Format::Dot, plan::Format::Html})
    plan::print(*plan, format, all);
  plan::explain(*plan, all);
  plan::lint(*plan);
  plan::diff(*plan, *plan);
  for (uint32_t lost = 1; (*plan)->spares() && lost <= (*plan)->spares()->size(); ++lost)
    if (!plan->spare(lost)) // It was verified, too.
      std::abort();
  return 0;
}

#ifdef MAESTRO_FUZZ
extern "C" size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);

namespace {

/// A value that a field may have had, or that is at a limit.
uint64_t oddValue(uint64_t old, std::mt19937 &random) {
  constexpr uint64_t kOdd[] = {0, 1, 2, 7, 8, 63, 64, 65, 255, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, ~0ull};
  switch (random() % 4) {
  case 0:
    return old + 1;
  case 1:
    return old - 1;
  case 2:
    return old ^ (uint64_t{1} << random() % 64);
  default:
    return kOdd[random() % std::size(kOdd)];
  }
}

/// Changes or copies one aligned number, as most fields are: offsets keep their meaning unless they
/// are hit.
template <typename T> void changeNumber(uint8_t *bytes, size_t size, std::mt19937 &random) {
  size_t count = size / sizeof(T), target = random() % count * sizeof(T), source = random() % count * sizeof(T);
  T value;
  std::memcpy(&value, bytes + (random() % 4 == 0 ? source : target), sizeof value);
  if (random() % 4 != 0)
    value = static_cast<T>(oddValue(value, random));
  std::memcpy(bytes + target, &value, sizeof value);
}

} // namespace

/// Half of the time fields are changed in place, else whatever libFuzzer does.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  if (size < 64 || random() % 4 == 0)
    return LLVMFuzzerMutate(bytes, size, most);
  for (unsigned i = 0, count = 1 + random() % 3; i < count; ++i) {
    unsigned width = random() % 3;
    width == 0   ? changeNumber<uint8_t>(bytes, size, random)
    : width == 1 ? changeNumber<uint32_t>(bytes, size, random)
                 : changeNumber<uint64_t>(bytes, size, random);
  }
  return size;
}
#endif

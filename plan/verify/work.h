// How much the verifier may look at.
#pragma once

#include "plan/verify/place.h"

#include <cstddef>

namespace maestro::plan {

/// Counts what the verifier looks at, before it does. Tables may share vectors and texts, so that a small file could
/// name as much work as it likes; real plans stay far below the limit, which is linear in the file.
class Work {
public:
  explicit Work(size_t fileBytes) : left((size_t{1} << 26) + 32 * fileBytes) {}

  Status spend(const Place &place, size_t amount) {
    if (amount > left)
      return wrong(place, "the plan names so much more than it holds that checking it would not end");
    left -= amount;
    return {};
  }
  /// `count` times `each`.
  Status spend(const Place &place, size_t count, size_t each) {
    size_t amount;
    return spend(place, __builtin_mul_overflow(count, each, &amount) ? SIZE_MAX : amount);
  }

private:
  size_t left;
};

} // namespace maestro::plan

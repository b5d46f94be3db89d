// Conversion of arrays between element types, with the loss of each conversion stated.
#pragma once

#include "base/dtype.h"

#include <cstddef>

namespace maestro {

/// What a conversion may do to values.
enum class Conversion {
  Same,     ///< Equal types: a copy (bools become 0 or 1).
  Exact,    ///< Every value is kept.
  Checked,  ///< Values are kept or refused, one by one (i64 to i32, i64 to f32, i64 to bool).
  Rounding, ///< A float to a narrower one: rounded to nearest; finite values that overflow are
            ///< refused.
  Refused   ///< Never done: floats to integers or bool.
};
Conversion conversionKind(DType from, DType to);

/// Converts `count` elements and returns `count`; or stops at the first value that `to` cannot hold
/// and returns its index (what lies in `target` from there on is undefined). Returns 0 when the
/// conversion is Refused and count > 0. Source and target need no alignment and do not overlap.
size_t convertElements(DType from, const void *source, DType to, void *target, size_t count);

} // namespace maestro

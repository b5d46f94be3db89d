// Checks of single values, which say place, value and limit when they fail.
#pragma once

#include "base/dtype.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/verify/place.h"
#include "plan/verify/work.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

namespace maestro::plan {

/// Names are printed in messages, tables and JSON: not empty, at most 4,096 bytes of UTF-8 without control characters.
/// Tables may share a text: its bytes count as work each time.
Status checkName(const Place &place, const flatbuffers::String *name, Work &work);
/// Prose: at most 64 KiB of UTF-8; new lines and tabs allowed. Null is no text, and right.
Status checkText(const Place &place, const flatbuffers::String *text, Work &work);
/// Also the name of a file in a checkpoint: no '/', and neither "." nor "..".
Status checkFileName(const Place &place, const flatbuffers::String *name, Work &work);

inline Status checkIndex(const Place &place, uint64_t index, const char *what, size_t count) {
  return index < count ? Status() : wrong(place, "{} is not below the number of {}, {}", index, what, count);
}

/// `value` is one of the enum's constants, which start at 0 and have no gaps.
template <typename Enum> Status checkEnum(const Place &place, Enum value) {
  auto number = static_cast<unsigned>(value), most = static_cast<unsigned>(Enum::MAX);
  return number <= most ? Status() : wrong(place, "{} is not a known value; the last is {}", number, most);
}

inline Status checkDType(const Place &place, uint8_t value) {
  return value < kDTypeCount ? Status()
                             : wrong(place, "{} is not a known element type; the last is {}", value, kDTypeCount - 1);
}

/// Finite and within [least, most].
inline Status checkNumber(const Place &place, double value, double least, double most = HUGE_VAL) {
  if (std::isfinite(value) && value >= least && value <= most)
    return {};
  return most == HUGE_VAL ? wrong(place, "{} is not a finite number of at least {}", value, least)
                          : wrong(place, "{} is not in [{}, {}]", value, least, most);
}

inline Status checkPositive(const Place &place, double value) {
  return std::isfinite(value) && value > 0 ? Status() : wrong(place, "{} is not a finite positive number", value);
}

inline Status checkRange(const Place &place, int64_t value, int64_t least, int64_t most) {
  return value >= least && value <= most ? Status() : wrong(place, "{} is not in [{}, {}]", value, least, most);
}

/// FlatBuffers' own verifier checks offsets and sizes of vectors, but not the alignment of their elements. It aligns
/// no vector without elements.
template <typename T> Status checkAligned(const Place &place, const T *vector, size_t alignment) {
  if (!vector || vector->size() == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % alignment == 0)
    return {};
  return wrong(place, "the elements are not aligned to {} bytes", alignment);
}

/// Names seen so far; a second one of the same text is an error.
class UniqueNames {
public:
  Status add(const Place &place, const flatbuffers::String *name) {
    if (seen.insert(name->string_view()).second)
      return {};
    return wrong(place, "'{}' is the name of an earlier one, too", name->string_view());
  }

private:
  std::unordered_set<std::string_view> seen;
};

/// A predicted time: no negative terms, few factors, symbols that are there. Work is counted by the caller.
Status checkCostTerm(const Place &place, const fb::CostTerm &term, size_t symbols);

/// The elements of a tensor of constant dims in `elements`; dims must be ≥ 0 and the number below 2^48.
Status countElements(const Place &place, const flatbuffers::Vector<int64_t> &shape, uint64_t &elements);

} // namespace maestro::plan

// One number written as text: what .cls and .json members hold.
#pragma once

#include "base/status.h"
#include "executor/data/shard.h"

#include <cstddef>
#include <string_view>

namespace maestro::data {

/// Longest text that is looked at.
inline constexpr size_t kMaxScalarTextBytes = 100;

struct ScalarText {
  ValueFormat format = ValueFormat::IntegerText;
  int64_t integer = 0; ///< IntegerText, and BoolText as 0 or 1.
  double real = 0;     ///< FloatText
};

/// "7", "-1.5e3", "true", "false", with spaces around. An integer beyond int64 is refused.
Result<ScalarText> parseScalarText(std::string_view text);

} // namespace maestro::data

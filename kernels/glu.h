// Which activation a gated linear unit has.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace maestro::kernels {

enum class GluActivation { Silu, Gelu, GeluTanh };

/// By the text of the attribute `activation`; nothing for other text.
constexpr std::optional<GluActivation> gluActivationFromName(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames = {"silu", "gelu", "gelu_tanh"};
  for (size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i])
      return static_cast<GluActivation>(i);
  return std::nullopt;
}

} // namespace maestro::kernels

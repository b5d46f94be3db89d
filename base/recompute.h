// What a backward task computes again rather than keeps for each micro-batch in flight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace maestro {

/// Each keeps less, and computes more, than the one before. Names are Megatron-LM's, as are the ideas (Korthikanti et al.,
/// arXiv 2205.05198).
enum class Recompute : uint8_t {
  None,      ///< What products read is kept; views, casts and masks are computed again.
  Selective, ///< Elementwise operators, norms and softmaxes are computed again, too: little work, most of the bytes.
  Full,      ///< What passes from layer to layer is kept, a layer computed again when its gradients are: a third more work.
};

inline constexpr std::array kRecomputes = {Recompute::None, Recompute::Selective, Recompute::Full};
inline constexpr std::array<std::string_view, kRecomputes.size()> kRecomputeNames = {"none", "selective", "full"};
inline constexpr std::string_view nameOf(Recompute recompute) { return kRecomputeNames[static_cast<size_t>(recompute)]; }
/// Nothing for other text.
inline constexpr std::optional<Recompute> recomputeFromName(std::string_view name) {
  for (Recompute recompute : kRecomputes)
    if (nameOf(recompute) == name)
      return recompute;
  return std::nullopt;
}

} // namespace maestro

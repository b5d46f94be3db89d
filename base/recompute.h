// What a backward task computes again rather than keeps for each micro-batch in flight.
#pragma once

#include <array>
#include <charconv>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace maestro {

/// Each keeps less, and computes more, than the one before. Names are Megatron-LM's, as are the ideas (Korthikanti et
/// al., arXiv 2205.05198).
enum class Recompute : uint8_t {
  None,      ///< What products read is kept; views, casts and masks are computed again.
  Selective, ///< Elementwise operators, norms and softmaxes are computed again, too: little work, most of the bytes.
  Full, ///< What passes from layer to layer is kept, a layer computed again when its gradients are: a third more work.
};

inline constexpr std::array kRecomputes = {Recompute::None, Recompute::Selective, Recompute::Full};
inline constexpr std::array<std::string_view, kRecomputes.size()> kRecomputeNames = {"none", "selective", "full"};
inline constexpr std::string_view nameOf(Recompute recompute) {
  return kRecomputeNames[static_cast<size_t>(recompute)];
}
/// Nothing for other text.
inline constexpr std::optional<Recompute> recomputeFromName(std::string_view name) {
  for (Recompute recompute : kRecomputes)
    if (nameOf(recompute) == name)
      return recompute;
  return std::nullopt;
}
/// The one that keeps more. Not of Recompute::None.
inline constexpr Recompute lighterThan(Recompute recompute) {
  return static_cast<Recompute>(static_cast<uint8_t>(recompute) - 1);
}

/// Of a section's layers, `lighter` keep as much as the next lighter recompute says: a device has seldom memory for all
/// layers or for none. They are the last ones, since a pipeline's first stages hold the most micro-batches; or they lie
/// evenly among the others, since all stages of an encoder hold those that wait for gradients of the language model
/// behind it. (Megatron-LM has layers first to be computed again, in each stage: `--recompute-method block`.)
/// What is behind a section's heads holds less, too, where it is done over chunks of rows (passes/chunk_losses.cpp).
struct RecomputeChoice {
  Recompute most = Recompute::None;
  uint32_t lighter = 0; ///< Layers; 0 with Recompute::None.
  bool evenly = false;  ///< With some that are lighter.
  uint32_t lossChunks = 1;
  constexpr RecomputeChoice(Recompute most = Recompute::None, uint32_t lighter = 0, bool evenly = false,
                            uint32_t lossChunks = 1)
      : most(most), lighter(lighter), evenly(evenly), lossChunks(lossChunks) {} // A kind is a choice.
  /// Nothing but the chunks differs.
  bool isAlike(RecomputeChoice other) const {
    other.lossChunks = lossChunks;
    return *this == other;
  }
  Recompute of(uint32_t layer, uint32_t layers) const {
    bool isLighter = evenly ? uint64_t{layer + 1} * lighter / layers > uint64_t{layer} * lighter / layers
                            : layer + lighter >= layers;
    return isLighter ? lighterThan(most) : most;
  }
  auto operator<=>(const RecomputeChoice &) const = default;
};

inline constexpr std::string_view kEvenly = "-evenly";

/// Chunks aside: "none", "selective", "full"; "full-12": all but the last 12 layers; "full-12-evenly": all but 12 among
/// them.
inline std::string textOf(const RecomputeChoice &choice) {
  return std::string(nameOf(choice.most)) + (choice.lighter > 0 ? "-" + std::to_string(choice.lighter) : "") +
         std::string(choice.evenly ? kEvenly : "");
}
/// Nothing for other text.
inline std::optional<RecomputeChoice> recomputeChoiceFromText(std::string_view text) {
  bool evenly = text.ends_with(kEvenly);
  text.remove_suffix(evenly ? kEvenly.size() : 0);
  size_t dash = text.find('-');
  std::optional<Recompute> most = recomputeFromName(text.substr(0, dash));
  if (!most || dash == std::string_view::npos)
    return most && !evenly ? std::optional(RecomputeChoice{*most}) : std::nullopt;
  RecomputeChoice choice{*most, 0, evenly};
  auto [end, error] = std::from_chars(text.data() + dash + 1, text.data() + text.size(), choice.lighter);
  if (error != std::errc() || end != text.data() + text.size() || choice.lighter == 0 || *most == Recompute::None)
    return std::nullopt;
  return choice;
}

} // namespace maestro

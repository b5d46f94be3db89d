#include "wavefront/choice.h"

#include <algorithm>
#include <array>

namespace maestro::wavefront {
namespace {

template <auto Member>
constexpr ChoicePart part(const char *name, int64_t min, int64_t max, std::span<const int64_t> values) {
  return {name,
          min,
          max,
          values,
          [](const Choice &choice) { return static_cast<int64_t>(choice.*Member); },
          [](Choice &choice, int64_t value) {
            choice.*Member = static_cast<std::remove_reference_t<decltype(choice.*Member)>>(value);
          }};
}

constexpr int64_t kEighths[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
constexpr int64_t kHeadrooms[] = {1, 2, 4, 8};
constexpr int64_t kBands[] = {1, 2, 4, 8, 16};
constexpr int64_t kEnds[] = {0, 1, 2, 4};
constexpr int64_t kClasses[] = {0, 1, 2, 16};
constexpr int64_t kRules[] = {0, 1, 2, 3};

constexpr std::array kParts = {
    part<&Choice::microBatchesPerReplica>("micro_batches_per_replica", 1, 1 << 24, kEighths),
    part<&Choice::headroom>("headroom", 1, 64, kHeadrooms),
    part<&Choice::lengthBands>("length_bands", 1, 64, kBands),
    part<&Choice::lightEnds>("light_ends", 0, 4, kEnds),
    part<&Choice::sampleClasses>("sample_classes", 0, 16, kClasses),
    part<&Choice::rule>("rule", 0, static_cast<int64_t>(Rule::ZeroBubble), kRules),
};

int64_t perReplica(const Traits &traits, int64_t eighths) {
  return std::clamp<int64_t>(traits.theoryPerReplica * eighths / 8, 1, traits.maxPerReplica);
}

} // namespace

std::span<const ChoicePart> choiceParts() { return kParts; }

Choice within(const Traits &traits, Choice choice) {
  const Choice usual{.microBatchesPerReplica = perReplica(traits, 6)};
  for (size_t i = 0; i < kParts.size(); ++i)
    if (traits.fixedParts >> i & 1)
      kParts[i].set(choice, kParts[i].get(usual));
  choice.microBatchesPerReplica = std::clamp<int64_t>(choice.microBatchesPerReplica, 1, traits.maxPerReplica);
  return choice;
}

size_t startCount(const Traits &traits) { return 5 + traits.splitsAlike; }

/// After those of 400 drawn choices that together brought 150 training problems (seeds 1000 to 1024 of
/// test/wavefront/training_problem.cpp) nearest to their bounds, one after the other.
Choice start(const Traits &traits, size_t index) {
  if (traits.splitsAlike && index > 0) { // The first once more, as zero-bubble schedules have it.
    if (--index == 0) {
      Choice choice = start(traits, 0);
      choice.rule = Rule::ZeroBubble;
      return within(traits, choice);
    }
  }
  const Choice apart[] = {
      {.microBatchesPerReplica = perReplica(traits, 6)},
      {.microBatchesPerReplica = perReplica(traits, 8), .lightEnds = 1},
      {.microBatchesPerReplica = perReplica(traits, 12), .lengthBands = 1, .lightEnds = 2, .sampleClasses = 1},
      {.microBatchesPerReplica = perReplica(traits, 6),
       .lengthBands = 16,
       .sampleClasses = 0,
       .rule = Rule::ShortestFirst},
      {.microBatchesPerReplica = perReplica(traits, 6), .sampleClasses = 1},
  };
  const Choice colocated[] = {
      {.microBatchesPerReplica = perReplica(traits, 8), .headroom = 1, .sampleClasses = 0, .rule = Rule::BackwardFirst},
      {.microBatchesPerReplica = perReplica(traits, 6), .rule = Rule::ShortestFirst},
      {.microBatchesPerReplica = perReplica(traits, 8),
       .headroom = 8,
       .lengthBands = 4,
       .sampleClasses = 1,
       .rule = Rule::ShortestFirst},
      {.microBatchesPerReplica = perReplica(traits, 24),
       .headroom = 8,
       .sampleClasses = 2,
       .rule = Rule::ShortestFirst},
      {
          .microBatchesPerReplica = perReplica(traits, 1),
          .lengthBands = 8,
          .lightEnds = 2,
          .sampleClasses = 0,
      },
  };
  return within(traits, traits.isColocated ? colocated[index] : apart[index]);
}

uint64_t randomAt(uint64_t counter) {
  uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Choice redrawn(const Traits &traits, Choice choice, uint64_t parts, uint64_t counter) {
  for (size_t i = 0; i < kParts.size(); ++i) {
    if (!(parts >> i & 1))
      continue;
    int64_t value = kParts[i].values[randomAt(counter * kParts.size() + i) % kParts[i].values.size()];
    kParts[i].set(choice, i == 0 ? perReplica(traits, value) : value);
  }
  return within(traits, choice);
}

Choice changed(const Traits &traits, const Choice &choice, uint64_t counter) {
  uint64_t random = randomAt(~counter), parts = uint64_t{1} << random % kParts.size();
  for (int more = 1; more <= 2; ++more)
    if (random >> (60 + more) & 1)
      parts |= uint64_t{1} << (random >> (8 * more)) % kParts.size();
  return redrawn(traits, choice, parts, counter);
}

} // namespace maestro::wavefront

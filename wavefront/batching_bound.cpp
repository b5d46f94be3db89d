// The least that padded micro-batches cost, and why no way to form them costs less.
//
// Let a micro-batch of n samples, the longest of length L, cost c(L) + the sum of its samples' costs at length L. With
// g(L) the least that any sample costs at L in the terms that grow with L, and a its own cost alone at its own length
// l, that is at least c(L) + n g(L) + the sum of a - g(l). The last sum is the same for all ways to form micro-batches.
// For the rest samples differ in length alone, so that neighbours in length belong together: give micro-batches of the
// same sizes, the longest first, the samples in falling order; the k-th then starts with a sample that is no longer
// than the k-th's longest was, as what is longer was in those before. It still fits, where what fits is a matter of n
// and L. So a walk over the samples in falling order finds the least.
#include "wavefront/batching_bound.h"

#include "wavefront/bound_units.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

constexpr size_t kMaxSteps = 1 << 18; ///< Of the walk: a millisecond at the very most, seldom a tenth of it.

/// The dim that the section's samples are padded to: the first that is no sum.
uint32_t paddedDim(const std::vector<Dim> &dims, std::span<const Cost *const> costs) {
  for (const Cost *cost : costs)
    for (const CostTerm &term : cost->terms)
      for (uint32_t dim : term.dims)
        if (!dims[dim].sum)
          return dim;
  return kNone;
}

} // namespace

/// Lists the samples, and returns what their terms that grow with their number cost alone.
int64_t BatchingBound::list(const std::vector<Dim> &dims, std::span<const int64_t> sizes,
                            std::span<const uint8_t> active, std::span<const Cost *const> costs, uint32_t pad) {
  minDims.assign(dims.size(), kNever);
  padded.clear();
  int64_t total = 0;
  for (size_t i = 0; i < active.size(); ++i) {
    if (!active[i])
      continue;
    const int64_t *own = sizes.data() + i * dims.size();
    for (size_t d = 0; d < dims.size(); ++d)
      minDims[d] = std::min(minDims[d], own[d]);
    for (const Cost *cost : costs)
      for (const CostTerm &term : cost->terms)
        if (hasSummedDim(dims, term))
          total = addSaturated(total, termPs(term, own));
    padded.push_back({own[pad], 0, 0, 0});
  }
  std::sort(padded.begin(), padded.end(), [](const Padded &a, const Padded &b) { return a.length > b.length; });
  return total;
}

/// What a micro-batch of this length costs, each of its samples, and how many of them it holds at most.
void BatchingBound::measure(const std::vector<Dim> &dims, const Section &section, std::span<const Cost *const> costs,
                            uint32_t pad, Padded &own) {
  minDims[pad] = own.length;
  for (const Cost *cost : costs)
    for (const CostTerm &term : cost->terms) {
      bool grows = std::find(term.dims.begin(), term.dims.end(), pad) != term.dims.end();
      bool summed = hasSummedDim(dims, term);
      int64_t &ps = summed ? own.samplePs : own.groupPs;
      if (grows || !summed)
        ps = addSaturated(ps, termPs(term, minDims.data()));
    }
  int64_t most = section.maxSamples;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d].sum && minDims[d] > 0)
      most = std::min(most, section.capacity[d] / minDims[d]);
  for (const Area &area : section.areas)
    if (area.padded == pad && minDims[area.rows] > 0 && own.length > 0)
      most = std::min(most, area.capacity / minDims[area.rows] / own.length);
  own.most = static_cast<size_t>(std::clamp<int64_t>(most, 1, static_cast<int64_t>(padded.size())));
}

int64_t BatchingBound::ps(const std::vector<Dim> &dims, const Section &section, std::span<const int64_t> sizes,
                          std::span<const uint8_t> active, std::span<const Cost *const> costs) {
  uint32_t pad = paddedDim(dims, costs);
  if (pad == kNone)
    return 0;
  int64_t aloneTotal = list(dims, sizes, active, costs, pad);
  size_t window = 0;
  for (size_t i = 0; i < padded.size(); ++i) {
    if (i > 0 && padded[i].length == padded[i - 1].length)
      padded[i] = padded[i - 1];
    else
      measure(dims, section, costs, pad, padded[i]);
    window = std::max(window, padded[i].most);
  }
  if (padded.empty() || padded.size() * window > kMaxSteps)
    return 0;
  int64_t largest = addSaturated(padded[0].groupPs, padded[0].samplePs);
  if (aloneTotal >= kNever / 4 || largest >= kNever / 4 / static_cast<int64_t>(padded.size() + 1))
    return 0;
  values.assign(padded.size() + 1, kNever);
  values[0] = 0;
  for (size_t first = 0; first < padded.size(); ++first) {
    const Padded &own = padded[first];
    int64_t ps = values[first] + own.groupPs;
    for (size_t next = first + 1, last = std::min(padded.size(), first + own.most); next <= last; ++next)
      values[next] = std::min(values[next], ps += own.samplePs);
    aloneTotal -= own.samplePs;
  }
  return aloneTotal + values.back();
}

} // namespace maestro::wavefront

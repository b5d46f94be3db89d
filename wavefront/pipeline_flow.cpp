// Take one replica of S stages, and number its n micro-batches as their forward tasks stand on the last stage. Let f
// and b be at most a micro-batch's time on any one stage, forward and backward. Micro-batch k's forward task reaches
// the last stage no sooner than
//   (S - 1) f(k) + the f of all that stand before it on the last stage:
// what is before it on stage 0 precedes it there; what overtakes it between two stages does so on the later one, while
// it waits. So with backward tasks, and the last stage in between, for any k1 <= k2:
//   makespan >= (S - 1) f(k1) + the b of all from k1 on + (S - 1) b(k2) + the f of all up to k2, (1)
// as what ends its backward on the last stage before k1 comes there, or comes there after k2 has left, is before k1 or
// after k2. Were all sums complete, this would be the last stage's work, filling and draining, all constants; what they
// lack is what lets sizes grow: with c, d the constants, g(k) the rest of f(k) + b(k), and at least parts p of it in f
// and q in b, (1) says that
//   x(k1) = (S - 1) p g(k1) - sum of (1 - p) g + d before k1, and y(k2) = (S - 1) q g(k2) - sum of (1 - q) g + c after
//   k2,
// have x(k1) + y(k2) <= idle, which is what the makespan leaves. Cut the micro-batches anywhere at m: up to m no x
// exceeds some X, from m on no y some Y, and X + Y <= idle. Either says how large micro-batches can become one after
// the other; together they must hold all work.
#include "wavefront/pipeline_flow.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

/// Hours: products with wholePart stay within an int64_t.
constexpr int64_t longest = int64_t{1} << 44;

} // namespace

/// The most work in 1, 2, … micro-batches, where the first may make the others idle for so long: each has `part` of its
/// work to pass through the stages, meanwhile there is the rest of those before, and `lastsNs` of each. Rounded up.
void PipelineFlow::grow(int64_t idleNs, int64_t part, int64_t lastsNs, std::vector<int64_t> &done) const {
  int64_t way = (facts.stages - 1) * part, before = idleNs, size = 0;
  for (size_t k = 1; k < done.size(); ++k) {
    if (size < facts.mostNs)
      size = way == 0 ? facts.mostNs : std::min(facts.mostNs, before * PipelineFacts::wholePart / way + 1);
    done[k] = std::min(longest, done[k - 1] + size);
    before =
        std::min(longest, before + size * (PipelineFacts::wholePart - part) / PipelineFacts::wholePart + 1 + lastsNs);
  }
}

void PipelineFlow::grow(size_t cell, int64_t idleNs, size_t batches) {
  filled[cell].assign(batches + 1, 0);
  grow(idleNs, facts.forwardPart, facts.backwardNs, filled[cell]);
  drained[cell].assign(batches + 1, 0);
  if (facts.drains)
    grow(idleNs, facts.backwardPart, facts.forwardNs, drained[cell]);
}

/// Whether m micro-batches that fill and the rest that drain, m itself both, hold all work.
bool PipelineFlow::holds(const std::vector<int64_t> &fill, const std::vector<int64_t> &drain, size_t m) const {
  size_t rest = fill.size() - 1 - m;
  return std::min(fill[m] + drain[rest], fill[m - 1] + drain[rest + 1]) >= facts.workNs;
}

/// Whether that many micro-batches might hold all work and leave no more idle. Idle times are tried in cells: filling
/// has all up to a cell's upper end, draining all from its lower end on.
bool PipelineFlow::fits(int64_t idleNs, size_t batches) {
  int64_t step = idleNs / static_cast<int64_t>(cells) + 1;
  grow(cells, step * static_cast<int64_t>(cells), batches);
  if (!facts.drains)
    return filled[cells][batches] >= facts.workNs;
  for (size_t m = 1; m <= batches; ++m) // Seldom, were all of it for both.
    if (!holds(filled[cells], drained[cells], m))
      return false;
  for (size_t i = 0; i < cells; ++i)
    grow(i, step * static_cast<int64_t>(i), batches);
  for (size_t m = 1; m <= batches; ++m) {
    bool any = false;
    for (size_t i = 0; i < cells && !any; ++i)
      any = holds(filled[i + 1], drained[cells - i], m);
    if (!any)
      return false;
  }
  return true;
}

/// Numbers of micro-batches are tried in ranges: the constants of the fewest, the room of the most.
bool PipelineFlow::fits(int64_t ns) {
  int64_t fewest = std::clamp<int64_t>((facts.workNs + facts.mostNs - 1) / facts.mostNs, 1, facts.mostBatches), last;
  for (int64_t first = fewest; first <= facts.mostBatches; first = last + 1) {
    last = std::min(facts.mostBatches, first + first / 8);
    int64_t around = facts.stages - 1;
    int64_t idle = ns - facts.aroundNs - facts.workNs - (first + around) * facts.forwardNs -
                   (first + (facts.drains ? around : 0)) * facts.backwardNs;
    if (idle < 0)
      return false;
    if (fits(idle, static_cast<size_t>(last)))
      return true;
  }
  return false;
}

int64_t PipelineFlow::bound(const PipelineFacts &theFacts, int64_t knownNs) {
  facts = theFacts;
  if (facts.workNs <= 0 || facts.mostNs <= 0 || knownNs >= longest / 8 ||
      facts.aroundNs + facts.workNs + (facts.mostBatches + facts.stages) * (facts.forwardNs + facts.backwardNs) >=
          longest)
    return 0;
  if (fits(knownNs))
    return 0;
  int64_t low = knownNs, step = std::max<int64_t>(1, knownNs / 32);
  while (low < longest / 2 && !fits(low + step)) {
    low += step;
    step *= 2;
  }
  while (step > std::max<int64_t>(1, knownNs / 256)) {
    step = (step + 1) / 2;
    if (!fits(low + step))
      low += step;
  }
  return low + 1;
}

} // namespace maestro::wavefront

// The lower bound's part for a section that trains on what a frozen one finishes: a student behind its teacher. The
// longer each of the student's micro-batches is on its way, the further its work is behind what it is supplied with;
// short ones cost constants.
//
// Take the student's first stage, on R devices, and as its load L what all samples make it work at least, W, and the
// constants c of N micro-batches; g(k) is the part of W in micro-batch k. For each bit of the load take the time when
// it is worked on, and sum up. While r of the load is left, there are r / R to go, and more where devices also do other
// things. So with the makespan T
//   R * the sum <= (T - tail) R L - L^2 / 2. (1)
// On the other hand the sum is at least that of:
//  - When each bit is supplied. Let all samples take at least `ratio` times as long on an M-th of the teacher's M
//  devices as on an
//    R-th of the student's. Were the samples of the teacher's micro-batches supplied evenly while it works on them,
//    then of W no more than R t / ratio by t; in truth all are there at the end, half the micro-batch's time later. So
//    this is at least ratio W^2 / 2R + the sum of samples' shares of W, each times half its time with the teacher. Or:
//    micro-batches in the order in which they are complete, the k-th no sooner than ratio / R * (g(1) + ... + g(k)),
//    which sums up to ratio (W^2 + the sum of g^2) / 2R. In either case that is also when the k-th's constants are
//    supplied, at the earliest.
//  - The way of what is worked on backward: forward and backward through all other stages, with the same micro-batch.
//  - What of the micro-batch itself comes before: (g + c)^2 / 2, as its tasks' parts follow each other.
// What depends on sizes is, times R, the sum of kappa g(k)^2 + slope (N - k + 1) g(k). No sizes, not even negative
// ones, have less than
//   kappa W^2 / N + slope W (N + 1) / 2 - slope^2 N (N^2 - 1) / 48 kappa, (2)
// where each is slope / 2 kappa more than the one before. Where the first were negative, they are 0: more of them do
// not help. And g^2 is at least what its samples' squares are. The least T for any N is the bound.
#include "wavefront/bound_units.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

using Wide = __int128;
constexpr Wide whole = PipelineFacts::wholePart;
constexpr int64_t longestLoadNs = int64_t{1} << 40; ///< 18 minutes: products stay within 128 bits.
constexpr int64_t largestRatio = 4 * PipelineFacts::wholePart;

/// Times are those of the student's first stage; parts are of wholePart.
struct SupplyFacts {
  int64_t machines = 1; ///< R.
  int64_t ratio = largestRatio;
  int64_t workNs = 0; ///< W,
  Wide squares = 0;   ///< the sum of the squares of samples' shares of it,
  Wide halves = 0;    ///< and of each times half its time with the teacher.
  int64_t others = 0; ///< Stages,
  int64_t wayPart = 0,
          wayConstantNs = 0; ///< what each has of a micro-batch's work there and back, at least, and of constants,
  int64_t hopsNs = 0;        ///< and what transfers take between them.
  int64_t backwardPart = 0;  ///< Of a micro-batch's work on the first.
  int64_t constantNs = 0, backwardConstantNs = 0;
  int64_t leastBatches = 1, mostBatches = 1;
};

/// As many micro-batches of the sizes in (2) have none that is negative, or one more.
Wide mostSizes(Wide kappa, Wide slope, Wide work, Wide most) {
  Wide low = 1, high = most; // `low` are not too many.
  while (low < high) {
    Wide middle = (low + high + 1) / 2;
    (middle - 1) * (middle - 1) *slope <= 4 *kappa *work ? low = middle : high = middle - 1;
  }
  return low;
}

/// The least R (T - heads and tails), or 0 if that is no more than `known`.
int64_t leastTime(const SupplyFacts &facts, int64_t known) {
  Wide work = facts.workNs, slope = Wide(facts.ratio) * facts.constantNs;
  Wide kappa = facts.machines * (Wide(facts.backwardPart) * facts.wayPart * facts.others / whole + whole / 2);
  Wide complete = kappa + facts.ratio / 2; // Where micro-batches are supplied as a whole.
  Wide most = mostSizes(kappa, slope, work, facts.mostBatches),
       mostComplete = mostSizes(complete, slope, work, facts.mostBatches);
  auto sizes = [&](Wide factor, Wide n) {
    Wide rise = slope * n,
         even = factor * work / n * work + slope * (n + 1) * work / 2 - (rise * rise / (48 * factor) + 1) * n;
    return std::max(even, factor * facts.squares + slope * work) / whole;
  };
  Wide least = never;
  for (Wide n = facts.leastBatches; n <= facts.mostBatches; ++n) {
    Wide load = work + n * facts.constantNs;
    if (load >= least)
      break;
    Wide onWay = Wide(facts.backwardPart) * work / whole +
                 n * facts.backwardConstantNs; // So much waits for constants and transfers,
    Wide waits = onWay * (Wide(facts.others) * facts.wayConstantNs + facts.hopsNs);
    waits += Wide(facts.backwardConstantNs) * facts.others * facts.wayPart / whole * work; // constants for all work,
    waits +=
        facts.constantNs * work + n * facts.constantNs * facts.constantNs / 2; // and one part of a task for the other.
    Wide sum = Wide(facts.ratio) * work / whole * work / 2 + facts.machines * waits;
    sum += std::max(sizes(complete, std::min(n, mostComplete)),
                    sizes(kappa, std::min(n, most)) + facts.machines * facts.halves);
    least = std::min(least, std::max(load, load / 2 + sum / load));
    if (least <= known)
      return 0;
  }
  return least == never ? 0 : static_cast<int64_t>(least);
}

} // namespace

/// For an edge from a frozen section to one that trains, and gets all its samples there: a bound, or 0 if it is no more
/// than `known`.
int64_t LowerBound::suppliedBound(const Problem &problem, const ProblemIndex &index, uint32_t e, int64_t known) {
  const EdgeFacts &edge = index.edges[e];
  const Section &teacher = problem.sections[edge.producer], &student = problem.sections[edge.consumer];
  size_t samples = problem.sampleCount(), dims = problem.dims.size();
  size_t place = index.place(edge.producer, edge.producerStage), first = index.firstPlace[edge.consumer];
  const uint8_t *supplied = active.data() + edge.producer * samples, *needed = active.data() + edge.consumer * samples;
  if (teacher.trains || !student.trains || edge.consumerStage != 0 || !isChain(problem, index, edge.consumer, true))
    return 0;
  for (size_t i = 0; i < samples; ++i)
    if (needed[i] && !supplied[i])
      return 0;
  PipelineFacts pipeline = measurePipeline(problem, edge.consumer);
  SupplyFacts facts;
  facts.machines = machinesAt(problem, edge.consumer, 0);
  facts.workNs = pipeline.workNs;
  facts.others = static_cast<int64_t>(student.stages.size()) - 1;
  facts.wayPart = student.splitsBackward ? pipeline.forwardPart + pipeline.backwardPart : PipelineFacts::wholePart;
  facts.wayConstantNs = constantNs(common) + constantNs(commonBackward);
  facts.hopsNs = hopsNs(problem, index, edge.consumer, true);
  facts.backwardPart = pipeline.backwardPart;
  facts.constantNs = pipeline.forwardNs + pipeline.backwardNs;
  facts.backwardConstantNs = pipeline.backwardNs;
  facts.leastBatches = std::max<int64_t>(1, leastGroups(problem, edge.consumer));
  facts.mostBatches = pipeline.mostBatches;
  if (facts.workNs <= 0 || known >= longestLoadNs ||
      addSaturated(facts.workNs, facts.mostBatches * facts.constantNs) >= longestLoadNs)
    return 0;
  Wide suppliers = machinesAt(problem, edge.producer, edge.producerStage);
  int64_t head = never, tail = never;
  for (size_t i = 0; i < samples; ++i) {
    if (!needed[i])
      continue;
    int64_t ps = 0, share = shares[i] - 1; // Of its micro-batch's constants a sample has its part there, too.
    for (const CostTerm &term : teacher.stages[edge.producerStage].forward.terms)
      if (hasSummedDim(problem.dims, term))
        ps = addSaturated(ps, termPs(term, aloneDims.data() + i * dims));
      else if (term.dims.empty())
        ps = addSaturated(ps, term.picoseconds / teacher.maxSamples);
    Wide ratio = Wide(ps / 1000) * facts.machines * whole / (suppliers * shares[i]);
    facts.ratio = static_cast<int64_t>(std::min<Wide>(facts.ratio, ratio));
    facts.squares += Wide(share) * share;
    facts.halves += Wide(share) * forwardNs[place * samples + i] / 2;
    head = std::min(head, headNs[place * samples + i]);
    tail = std::min(tail, student.splitsBackward ? 0 : tailBackwardNs[first * samples + i]);
  }
  if (facts.ratio == 0)
    return 0;
  int64_t ends = head + tail + constantNs(problem.edges[e].transfer);
  int64_t least = leastTime(facts, (known - ends) * facts.machines);
  return least == 0 ? 0 : least / facts.machines + ends;
}

} // namespace maestro::wavefront

// Ways to form micro-batches and to deal them to replicas.
#pragma once

#include "wavefront/groups.h"

namespace maestro::wavefront {

/// Every section in the samples' order, each micro-batch as full as its capacities and `mostSamples` allow.
void groupInOrder(const Problem &problem, const ProblemIndex &index, std::span<const uint32_t> order,
                  int64_t maxSamples, Groups &groups);

/// The samples' order cut at the same samples for all sections, so that each has at most one micro-batch in a block.
///
/// With one and the same order of blocks at every station, forward and backward, no schedule can be stuck, whatever the
/// slots (1 or more), depths (1 or more), replicas and devices: take the earliest unfinished block, and of its
/// unfinished tasks one with no unfinished predecessor inside the block. Every other predecessor of it (ring slots,
/// slots for what is in flight, earlier tasks in the station's orders) belongs to an earlier block, hence has ended.
void groupInBlocks(const Problem &problem, const ProblemIndex &index, std::span<const uint32_t> order, Groups &groups);

/// Each section's micro-batches to its replicas in turn.
void dealInTurn(const Problem &problem, Groups &groups);

/// Each section's micro-batches, in order, to whichever of its replicas has least work so far.
void dealByWork(const Problem &problem, Groups &groups);

} // namespace maestro::wavefront

// What collectives take on a machine's links, as the executor does them. n devices, B bytes that each has; β and α are
// a level's bandwidth and latency:
//
//   direct       2 α + 2 B · max over levels of (n − m)/(n β)     all-reduce: each device writes to every other one its
//                                                                 share, adds up its own, and writes that to all
//                (executor/world/exchange.h); m is the fewest devices that a group of the level inside has of them, so
//                that n − m of n shares leave a device over this level
//   in stages    sum over stages of 2 α + 2 (d − 1)/d · B'/β      sums of gradients (plan/sum_turns.h): d devices of a
//                                                                 level exchange directly what the stages inside left
//                to each, B' = B over the product of the degrees inside
//
// An all-gather is half an all-reduce of all that is gathered. Both move as many bytes over each level as rings do
// (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce"), the second also where several devices of a node have links
// of their own. Other traffic on the links is not counted.
#pragma once

#include "cost_models/machine.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace maestro::cost_models {

/// So many devices further on, equally many consecutive devices cross the same levels of links: the devices of a group
/// of the level inside the outermost one. Nothing where kinds of devices differ, or there are no links.
std::optional<uint32_t> linkPeriod(const Machine &machine);

enum class Collective : uint8_t { AllReduce, AllGather };

/// Of `devices`, by what each has (all-gather: its own share). In one process each writes what it has to every other
/// one: a wake, and (n − 1) B at a channel's bandwidth.
CommunicationCost collectiveCost(Collective collective, std::span<const uint32_t> devices, const Machine &machine);

/// In which stages gradients are summed over replicas at `devices` (one of each replica, in the order of the sum): the
/// degrees of plan/sum_turns.h. A stage a level, innermost first; several of at most four where more than eight devices
/// would meet; one stage where devices do not ascend, or groups of a level differ in size. Empty: there are fewer than
/// two.
std::vector<uint32_t> sumDegrees(std::span<const uint32_t> devices, const Machine &machine);

/// A step's gradients summed over these replicas. In one process each stages its own (read, written), adds its share of
/// all (read, a share written), and fetches the sum (read, written), at the slowest device's memory bandwidth.
CommunicationCost reductionCost(std::span<const uint32_t> devices, const Machine &machine);
Seconds reductionSeconds(uint64_t gradientBytes, std::span<const uint32_t> devices, const Machine &machine);

} // namespace maestro::cost_models

// What collectives take on a machine's links, by algorithm; the fastest is taken. n devices, B bytes that each has,
// bandwidth β and latency α of the outermost level that the devices cross:
//
//   ring          2 (n − 1) α + 2 (n − 1)/n · B/(r β)   all-reduce; Patarasuk and Yuan 2009, "Bandwidth optimal
//   all-reduce" tree          2 ⌈log₂ n⌉ α + 2 B/(r β)              two binary trees; Sanders, Speck and Träff 2009, as
//   NCCL has it hierarchical  per level, inner to outer: a ring's reduce-scatter and all-gather of the share that the
//   level inside left
//                 (B over the product of the degrees inside), and over the outermost level a ring or a tree of it
//
// Rings and trees are r at once, each over links of its own, as NCCL has one for each NIC
// (github.com/NVIDIA/nccl/issues/412): r is the fewest devices in a group of the level inside; r β is the slowest
// level's. An all-gather is half an all-reduce of all that is gathered. Hierarchical needs equal numbers of devices in
// the groups of every level. Other traffic on the links is not counted.
#pragma once

#include "cost_models/machine.h"

#include <cstdint>
#include <optional>
#include <span>

namespace maestro::cost_models {

/// So many devices further on, equally many consecutive devices cross the same levels of links: the devices of a group
/// of the level inside the outermost one. Nothing where kinds of devices differ, or there are no links.
std::optional<uint32_t> linkPeriod(const Machine &machine);

enum class Collective : uint8_t { AllReduce, AllGather };

/// Of `devices`, where every one has `bytes` (all-gather: its own share). In one process each writes what it has to
/// every other one: a wake, and (n − 1) B at a channel's bandwidth.
CommunicationCost collectiveCost(Collective collective, Bytes bytes, std::span<const uint32_t> devices,
                                 const Machine &machine);

/// A step's gradients summed over replicas at `devices` (one of each replica). On links an all-reduce; in one process
/// each stages its own (read, written), adds its share of all (read, a share written), and fetches the sum (read,
/// written), at the slowest device's memory bandwidth.
CommunicationCost reductionCost(Bytes gradients, std::span<const uint32_t> devices, const Machine &machine);
Seconds reductionSeconds(uint64_t gradientBytes, std::span<const uint32_t> devices, const Machine &machine);

} // namespace maestro::cost_models

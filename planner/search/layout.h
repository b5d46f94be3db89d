// A layout: which sections share devices, and how each of them runs. The search's one representation; device numbers
// follow from it in place() and nowhere else.
#pragma once

#include "cost_models/atoms.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace maestro::planner {

using cost_models::AtomicModel;
using cost_models::CompoundLayout;
using cost_models::CompoundModel;
using cost_models::SectionCut;

/// How one section runs on its group's devices. A further dimension (tensor, context, expert, ZeRO, offload) is a field
/// here, and, where it changes programs, one of cost_models::Variant.
struct SectionOption {
  SectionCut cut;          ///< Pipeline stages, recompute, and how many stages split their backward.
  uint32_t microBatch = 0; ///< AtomicModel.microBatches
  uint32_t replicas = 1;
  uint32_t moreInFlight = 0; ///< Micro-batches beyond the usual ones (cost_models/in_flight.h).
  uint32_t stages() const { return static_cast<uint32_t>(cut.stages()); }
  uint64_t stations() const { return uint64_t{replicas} * stages(); }
  auto operator<=>(const SectionOption &) const = default;
};

/// Sections that share devices, and nothing with other groups.
struct DeviceGroup {
  std::vector<uint32_t> sections; ///< Ascending.
  uint32_t devices = 1;
  uint32_t width = 1;   ///< Devices of one station; 1 today.
  bool byStage = false; ///< Devices go out stage by stage, so that replicas are neighbours; else replica by replica.
  std::vector<uint32_t>
      pinned; ///< These devices, which other groups may have, too; empty: consecutive ones of its own.
  auto operator<=>(const DeviceGroup &) const = default;
};

struct Layout {
  std::vector<DeviceGroup> groups;     ///< In the order in which devices are handed out, groups of whole nodes first.
  std::vector<SectionOption> sections; ///< By AtomicModel.sections.
  bool empty() const { return sections.empty(); }
  size_t groupOf(uint32_t section) const; ///< An index into groups.
  auto operator<=>(const Layout &) const = default;
};

/// The devices of every station. Where a group's stations outnumber its devices, they take turns.
CompoundLayout place(const Layout &layout, const cost_models::Machine &machine);
std::vector<SectionCut> cutsOf(const Layout &layout);
CompoundModel modelOf(const AtomicModel &model, const Layout &layout);

/// Devices of one node: what the innermost link joins; 1 where there are no links.
uint32_t nodeDevices(const cost_models::Machine &machine);
/// All devices of a section, each once.
std::set<uint32_t> devicesOf(const cost_models::SectionChoice &choice);

/// "16 samples", "64 samples, 16,384 padded tokens": what one micro-batch holds at most.
std::string describe(const cost_models::MicroBatchCapacity &capacity);
/// "0-2,5": numbers in order, each once.
std::string ranges(std::vector<uint32_t> numbers);
/// "teacher 2 on 0-1, 4 samples; student 1 x 2 stages on 2-3, 1 sample": replicas, devices, what a micro-batch holds.
std::string describe(const AtomicModel &model, const cost_models::Machine &machine, const Layout &layout);

} // namespace maestro::planner

// Layouts that differ from a layout in one decision of one section, and machines that differ in one thing. Internal to
// explain.
#pragma once

#include "planner/search/estimator.h"

#include <string>
#include <vector>

namespace maestro::planner {

/// What is decided of a section; as pins name it.
enum class Decided : uint8_t { MicroBatch, Replicas, Stages, Recompute, LossChunks, SplitBackward, InFlight, Devices };
const char *nameOf(Decided decided); ///< "micro_batch", "dp", "stages", "recompute", "loss_chunks", "split_backward",
                                     ///< "more_in_flight", "devices"

/// A layout, and in which words it differs.
struct Alternative {
  uint32_t section = 0;
  Layout layout;
  std::string choice; ///< "2 samples", "4 replicas on 0-3"
};

/// The layout with other values of one decision, whatever is pinned, each layout once.
std::vector<Alternative> alternativesOf(const SearchProblem &problem, const Cuts &cuts, const Layout &layout,
                                        uint32_t section, Decided decided);
/// The layout with `added` devices more in a section's group, for the section alone and for all that share them; where
/// that makes neither a replica nor a stage more: none. `problem` has the larger machine.
std::vector<Alternative> alternativesOnMore(const SearchProblem &problem, const Cuts &cuts, const Layout &layout,
                                            uint32_t section, uint32_t added);

/// What the fullest device lacks; 0: all fit.
uint64_t missingBytes(const CompoundModel &model, const cost_models::Machine &machine, const CompoundLayout &layout);
/// Of the layouts that a baseline may have (baselines.h) with no recompute, what the one lacks that lacks least.
uint64_t missingBytes(const SearchProblem &problem, const std::string &baseline);
/// A device's memory, 0 where it is not limited; and how much of it is taken.
double memoryLimit(const cost_models::Machine &machine, uint32_t device);
double fullness(const cost_models::Machine &machine, uint32_t device, uint64_t bytes);

/// As few devices more as the machine is made of; returns how many.
uint32_t addDevices(cost_models::Machine &machine);
void addMemory(cost_models::Machine &machine, uint64_t bytes);
void doubleStreams(cost_models::Machine &machine);

/// "teacher -> student", "student stage 1"
std::string edgeName(const CompoundModel &model, size_t edge);
std::string stationName(const CompoundModel &model, uint32_t section, uint32_t stage);

} // namespace maestro::planner

// What the search changes of a layout, one decision at a time. A further dimension of layouts is one more move here.
#pragma once

#include "planner/search/fill_memory.h"
#include "planner/search/groupings.h"

#include <string_view>
#include <vector>

namespace maestro::planner {

/// What moves look at.
struct MoveContext {
  const SearchProblem &problem;
  const Cuts &cuts;
  const Estimator &estimator;
  Candidates &candidates;
};

/// Layouts that differ from one in a decision, pins obeyed; they need not fit.
using Move = std::vector<Layout> (*)(const MoveContext &context, const Layout &layout);

std::vector<Layout> moveMicroBatch(const MoveContext &context, const Layout &layout);
std::vector<Layout> moveStages(const MoveContext &context, const Layout &layout);
std::vector<Layout> moveReplicas(const MoveContext &context, const Layout &layout);
std::vector<Layout> moveDevices(const MoveContext &context, const Layout &layout);
std::vector<Layout> moveGroupOrder(const MoveContext &context, const Layout &layout);
std::vector<Layout> moveSplitBackward(const MoveContext &context, const Layout &layout);
std::vector<Layout> moveRecompute(const MoveContext &context, const Layout &layout);

struct NamedMove {
  std::string_view name; ///< As bench/planning.py --without has it.
  Move move;
  bool keepsGroups; ///< Devices stay with their groups.
  bool refills;     ///< What the layout's memory is spent on is decided anew (fillMemory()).
};

inline constexpr NamedMove kMoves[] = {
    {"split_backward", moveSplitBackward, true, false}, ///< Backward in one task or two.
    {"micro_batch", moveMicroBatch, true, true},        ///< The next size.
    {"stages", moveStages, true, true},                 ///< Other stages, and the replicas that there is room for.
    {"replicas", moveReplicas, true, true},             ///< Fewer or more.
    {"devices", moveDevices, false, true},              ///< From one group to another, or that none has.
    {"group_order", moveGroupOrder, true, true},        ///< Which of two groups has which kind of devices.
    {"recompute", moveRecompute, true, false},          ///< The next heavier or lighter one, whatever memory is left.
};

} // namespace maestro::planner

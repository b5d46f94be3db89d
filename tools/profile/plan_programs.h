// Kernels of a plan where they stand: called by its own programs on the executor's own device, with operands where the
// calls before left them.
//
//   executable × some sizes of micro-batches ─▶ forward, backward, weight gradients, several times ─▶ a time for each
//   call
//                                            └▶ norm and update behind them all                    ─▶ a time for both
//
// Parameters are random, fields as synthetic data have them: how long kernels take hardly depends on values, except for
// masks, which hide nothing then but what comes later.
#pragma once

#include "cost_models/kernel_curves.h"
#include "plan/plan.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace maestro::profile {

/// Of one call, in pulses (stopwatch.h) that were measured between the tasks.
struct TimedCall {
  cost_models::CallSample work; ///< Its time is not set.
  double pulses = 0;
};
struct TimedUpdate {
  double bytes = 0; ///< cost_models::ParameterBytes::moved()
  double pulses = 0;
};
struct TimedCalls {
  std::map<std::string, std::vector<TimedCall>> kernels; ///< By callsOf(): each kind of call once.
  std::vector<double> pulses;                            ///< Seconds of each.
  /// Where several devices work at the same time: each time that they did all sizes of an executable, the slowest one's
  /// over the mean one's, and the first one's while the others idle over that beside it while they work, where no other
  /// programs took processors meanwhile.
  std::vector<double> togetherShares, aloneShares;
  /// Norm and optimizer of each executable that trains: what they move, and pulses that they took together.
  std::vector<TimedUpdate> updates;
};

class PlanPrograms {
public:
  static Result<PlanPrograms> load(const std::string &path);
  PlanPrograms(PlanPrograms &&) noexcept;
  ~PlanPrograms();

  /// On the first of `groups` devices of `threads` threads that do the same at once. Each size of micro-batches of an
  /// executable takes about `secondsEach`, and three rounds at least; each is repeated without company, if `withAlone`.
  Result<TimedCalls> time(int threads, int groups, double secondsEach, bool withAlone) const;
  /// Executables that need more memory than this machine has for that; or whose ranks share tensors, and so cannot run
  /// alone.
  size_t leftOut(int groups) const;
  const std::string &file() const { return path; }

private:
  PlanPrograms(plan::Plan plan, std::string path);
  std::unique_ptr<plan::Plan> plan; ///< Where it stays: kernels' names are in it.
  std::string path;
};

} // namespace maestro::profile

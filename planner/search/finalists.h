// Layouts with tuned schedules. A tuned schedule is up to a tenth shorter than the one that a step makes by itself, and
// layouts differ by less: so the best of many are told apart by these, and what is near them is searched with schedules
// that begin where theirs do.
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// This layout is the answer, and the first row.
void answerWith(const AtomicModel &model, RankedLayout layout, std::string winner, SearchResult &result);

/// What of a search another one of the same problem begins with: in `again.starts` the most promising layouts of each
/// way to share devices, all different in how the section with most work is cut, in `again.hints` where their schedules
/// begin.
void beginWith(const SearchProblem &problem, const SearchResult &found, SearchProblem &again);

/// Of the layouts of nearly the best step, and no longer one than any baseline's, the one that takes least with tuned
/// schedules: `result.tuned`. Nothing changes after a deadline.
void chooseTuned(const SearchProblem &problem, SearchResult &result);

/// The answer's schedules, as long as it is worth for a plan.
void tuneThoroughly(const SearchProblem &problem, SearchResult &result);

} // namespace maestro::planner

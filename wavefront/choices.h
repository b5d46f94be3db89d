// What the search tries: starts from theory, and changes of them.
#pragma once

#include "wavefront/recipe.h"

#include <cstddef>

namespace maestro::wavefront {

/// What decides where to start and what to try.
struct Traits {
  bool colocated = false; ///< Some device runs several stations.
  bool splits = false;    ///< Some section splits its backward.
  bool shelves = false;   ///< Regrouper::hasShelves, and
  bool below = false;     ///< hasBelow().
  bool far = false;       ///< The starts are far from the bound.
  int64_t pace = 1;       ///< Regrouper::goodPace(), and
  int64_t mostPace = 1;   ///< Regrouper::mostPace.
};

/// The starts, and then the changes, in the order in which they most often help: from 240 training problems, each
/// scheduled in all combinations. Where the starts are far from the bound, changes of several parts come first, and
/// last those that helped problems of other kinds, and starts beyond the first two.
constexpr size_t mostStartsWhenFar = 2;
size_t startCount(const Traits &traits);
Choice start(const Traits &traits, size_t index);
size_t changeCount(const Traits &traits);
Choice changed(const Traits &traits, const Choice &choice, size_t index);
/// The choice, as far as it makes sense for the problem.
Choice within(const Traits &traits, Choice choice);

} // namespace maestro::wavefront

// Which tensor crosses from section to section: of the values on the way back from what a consumer reads that mean
// the same, the one of fewest bytes, when the operators behind it can run on the consumer's side: views always, and
// a frozen producer's own (a teacher's head) when nothing else of the producer needs their results.
#pragma once

#include "passes/graph_facts.h"
#include "passes/outline_sections.h"

namespace maestro {

/// Writes `labels.repeated`. Between stages of one section only what moves data may move; without `moveTails`, nowhere
/// more.
void chooseCrossings(GraphFacts &facts, const DimTable &dims, bool moveTails, SectionLabels &labels);

} // namespace maestro

// Which tensor crosses from section to section: of the values on the way back from what a consumer reads that mean
// the same, the one of fewest bytes, when the operators behind it can run on the consumer's side: views always, and
// a frozen producer's own (a teacher's head) when nothing else of the producer needs their results. Where
// several cross to one consumer, and follow from one of them, or from one before them, by copies and elementwise
// operators, that one crosses alone.
#pragma once

#include "passes/graph_facts.h"
#include "passes/outline_sections.h"

namespace maestro {

/// Writes `labels.repeated` and `labels.reasons`. Between stages of one section only what moves data may move; without
/// `moveTails`, nowhere more.
void chooseCrossings(GraphFacts &facts, const DimTable &dims, bool moveTails, SectionLabels &labels);

} // namespace maestro

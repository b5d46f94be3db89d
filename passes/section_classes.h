// Which operators form a section. An operator's *class* is the component whose parameters it reads, how many of the
// user's cuts lie before it, whether a trainable parameter reaches it, and the rows that it works on (text, images,
// audio). Classes are ordered as data flows; an operator belongs to the latest class among its own and its
// operands'. A class of little work joins the one that reads it.
#pragma once

#include "passes/graph_facts.h"
#include "passes/outline_sections.h"
#include "passes/passes.h"

namespace maestro {

/// The sections, uncut, with names, components and active dims; fails, with a message, where one of the cuts has
/// nothing to cut.
mlir::FailureOr<SectionLabels> classifySections(mlir::func::FuncOp graph, GraphFacts &facts,
                                                const PartitionOptions &options);

} // namespace maestro

// The parts of the page. Each is well-formed XML, names what it draws in <title>, and has its numbers in text as well.
// Colours are CSS variables of the page, light and dark. Internal to plan/print.
#pragma once

#include "plan/print/formats.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace maestro::plan {

/// Sections as boxes with layout and devices, edges with what crosses.
std::string sectionGraph(const Plan &plan, const Selection &selection);
/// Devices by node, and what lies on each; folded where there are thousands.
std::string placement(const Plan &plan, const Selection &selection);
/// Devices that run the same and hold as much are one row: what runs there, and memory by kind against the limit.
std::string deviceTable(const Plan &plan, const Selection &selection);
/// Bars of a step's time: the layouts compared, and what more of the machine would bring.
std::string comparisonBars(const Plan &plan);
/// Decisions with their alternatives, what binds, numbers with their sources.
std::string explanationTables(const Plan &plan, const Selection &selection);

/// Rows of text; the first is the header. Columns in `numbers` (a bit each) are right-aligned.
std::string htmlTable(std::string_view caption, const std::vector<std::vector<std::string>> &rows,
                      unsigned numbers = 0);

} // namespace maestro::plan

// Plans as text, for people and for programs. Nothing here modifies a plan or reads other files.
#pragma once

#include "base/status.h"
#include "plan/plan.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::plan {

enum class Format {
  Summary, ///< What people want to know first: sections, memory, programs, training, decisions.
  Json,    ///< Every field of every table under its name in plan.fbs, defaults included, in that order.
  Mlir,    ///< The whole plan in the `plan` dialect, one operation a line; maestro-opt reads it (ir/plan).
  Dot,     ///< Sections, edges and stations for Graphviz.
  Html,    ///< The summary as one page that needs nothing else: section graph, timelines, memory bars.
};

/// "summary", "json", "mlir", "dot", "html"; nothing for other text.
std::optional<Format> formatFromName(std::string_view name);
const std::vector<std::string> &formatNames();

/// The sections that are shown: all, or one of them.
class Selection {
public:
  explicit Selection(const Plan &plan);
  /// InvalidInput, with the nearest name, when the plan has no section of this name.
  static Result<Selection> section(const Plan &plan, std::string_view name);

  bool all() const;
  bool hasSection(uint32_t section) const { return sections[section]; }
  bool hasExecutable(uint32_t executable) const { return executables[executable]; }
  bool hasComponent(uint32_t component) const { return components[component]; }

private:
  void follow(const Plan &plan);
  std::vector<bool> sections, executables, components;
};

/// The whole text, ending with a new line. Json always has everything, so that it can be read back by schema;
/// the other formats show the selection. `timelines`: what a page shows of them, as HTML.
std::string print(const Plan &plan, Format format, const Selection &selection, std::string_view timelines = {});

/// Every decision with its reason, in the order they were made. Of one section where the selection
/// has one: those whose subject starts with its name.
std::string explain(const Plan &plan, const Selection &selection);

/// What differs between two plans: training, decisions, sections, sizes, programs; one fact a line.
/// "the plans are the same" when their bytes are.
std::string diff(const Plan &before, const Plan &after);

/// What is allowed and yet looks wrong, a line each; empty when nothing does.
std::vector<std::string> lint(const Plan &plan);

} // namespace maestro::plan

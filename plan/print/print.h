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
  Mlir,    ///< The whole plan as generic operations, one for each row; any mlir-opt reads it.
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
  /// Also the numbers that explain the search and each step's scheduling rather than the plan (maestro-dump --all).
  bool hasTuning() const { return tuning; }
  void addTuning() { tuning = true; }
  bool hasSection(uint32_t section) const { return sections[section]; }
  bool hasExecutable(uint32_t executable) const { return executables[executable]; }
  bool hasComponent(uint32_t component) const { return components[component]; }

private:
  void follow(const Plan &plan);
  std::vector<bool> sections, executables, components;
  bool tuning = false;
};

/// The whole text, ending with a new line. Json always has everything, so that it can be read back by schema;
/// the other formats show the selection. `timelines`: what a page shows of them, as HTML.
std::string print(const Plan &plan, Format format, const Selection &selection, std::string_view timelines = {});

/// Every decision with its reason, in the order they were made, every edge's tensor with its, what binds, what more
/// would bring, and where numbers are from. Of one section where the selection has one: those whose subject starts with
/// its name, and its edges.
std::string explain(const Plan &plan, const Selection &selection);

/// A steady step as predicted for a plan (tools/timeline): what the plan does not state itself.
struct StepTimes {
  double stepSeconds = 0;
  struct Section {
    double busySeconds = 0, idleSeconds = 0; ///< Of one of its devices, on average.
  };
  std::vector<Section> sections; ///< By Plan.sections.
  struct Padding {
    uint32_t section = 0, symbol = 0;
    double own = 0,
           padded = 0; ///< A step's sizes along the symbol: those of the samples, and as micro-batches hold them.
  };
  std::vector<Padding> padding; ///< For each section and padded symbol that it uses.
};

/// What differs between two plans. First what people decide or pay for, with the predicted step, each section's busy
/// and idle time (where `times` are given: before, after) and peak memory; then every fact that differs: training,
/// decisions, sections, sizes, programs. "the plans are the same" when their bytes are.
std::string diff(const Plan &before, const Plan &after, const StepTimes *beforeTimes = nullptr,
                 const StepTimes *afterTimes = nullptr);

/// Something that is allowed and yet looks wrong.
struct Finding {
  std::string check;           ///< "idle-devices": the same for the same kind of thing.
  std::string place;           ///< "section teacher"
  double value = 0, limit = 0; ///< The figure, and what it would have to be below.
  std::string text, remedy;
};

/// Empty when nothing looks wrong. Without `times`: without what takes a step's prediction (idle devices, padding).
std::vector<Finding> lint(const Plan &plan, const StepTimes *times = nullptr);
/// Two lines each; and as a JSON array.
std::string lintText(const std::vector<Finding> &findings);
std::string lintJson(const std::vector<Finding> &findings);

} // namespace maestro::plan

// Which sections are shown, and the names of formats.
#include "base/nearest.h"
#include "plan/plan_generated.h"
#include "plan/print/formats.h"
#include "plan/print/print.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::plan {

const std::vector<std::string> &formatNames() {
  static const std::vector<std::string> names = {"summary", "json", "mlir", "dot", "html"};
  return names;
}

std::optional<Format> formatFromName(std::string_view name) {
  const auto &names = formatNames();
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return std::nullopt;
  return static_cast<Format>(found - names.begin());
}

Selection::Selection(const Plan &plan)
    : sections(plan->sections()->size(), true), executables(plan->executables()->size(), true),
      components(plan->components()->size(), true) {}

Result<Selection> Selection::section(const Plan &plan, std::string_view name) {
  Selection selection(plan);
  std::vector<std::string> names;
  bool found = false;
  for (uint32_t i = 0; i < plan->sections()->size(); ++i) {
    names.push_back(plan->sections()->Get(i)->name()->str());
    selection.sections[i] = names.back() == name;
    found |= names.back() == name;
  }
  if (!found)
    return Status::invalidInput(fmt::format("--section: the plan has no section '{}'; it has {}{}", name,
                                            fmt::join(names, ", "), didYouMean(name, names)));
  selection.follow(plan);
  return selection;
}

void Selection::follow(const Plan &plan) {
  for (uint32_t i = 0; i < executables.size(); ++i)
    executables[i] = sections[plan->executables()->Get(i)->section()];
  std::fill(components.begin(), components.end(), false);
  for (uint32_t i = 0; i < sections.size(); ++i)
    if (sections[i])
      for (uint32_t component : *plan->sections()->Get(i)->components())
        components[component] = true;
}

bool Selection::all() const { return std::find(sections.begin(), sections.end(), false) == sections.end(); }

std::string print(const Plan &plan, Format format, const Selection &selection, std::string_view timelines) {
  switch (format) {
  case Format::Json:
    return printJson(plan);
  case Format::Mlir:
    return printMlir(plan, selection);
  case Format::Dot:
    return printDot(plan, selection);
  case Format::Html:
    return printHtml(plan, selection, timelines);
  default:
    return printSummary(plan, selection);
  }
}

} // namespace maestro::plan

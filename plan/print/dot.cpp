// Graphviz: sections as boxes, edges between them, stations below the section they run.
#include "plan/print/formats.h"
#include "plan/print/text.h"

#include <fmt/format.h>

namespace maestro::plan {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (char character : text) {
    if (character == '"' || character == '\\')
      result += '\\';
    result += character;
  }
  return result;
}

std::string sectionLabel(const Plan &plan, const fb::Section &section) {
  uint64_t elements = 0;
  for (uint32_t component : *section.components())
    elements += parameterTotals(plan, component).elements;
  return fmt::format("{}\\n{}, {}\\n{} parameter elements", escaped(section.name()->string_view()),
                     section.trains() ? "trains" : "forward only", layoutPhrase(*section.layout()),
                     humanCount(static_cast<double>(elements)));
}

std::string stationLabel(const Plan &plan, const fb::Station &station) {
  const fb::Executable &executable = *plan->executables()->Get(station.executable());
  std::string ranks;
  for (uint32_t rank : *station.ranks())
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  return fmt::format("{}\\nstage {}, replica {}\\nrank {}\\npeak {}", escaped(executable.name()->string_view()),
                     executable.stage(), station.replica(), ranks, humanBytes(executable.peak_bytes()));
}

} // namespace

std::string printDot(const Plan &plan, const Selection &selection) {
  std::string text = fmt::format("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n",
                                 escaped(plan->name()->string_view()));
  for (uint32_t i = 0; i < plan->sections()->size(); ++i)
    if (selection.hasSection(i))
      text +=
          fmt::format("  section{} [label=\"{}\", style=rounded];\n", i, sectionLabel(plan, *plan->sections()->Get(i)));
  for (const fb::Edge *edge : *plan->edges())
    if (selection.hasSection(edge->producer()) && selection.hasSection(edge->consumer()))
      text +=
          fmt::format("  section{} -> section{} [label=\"{}\\n{}\"{}];\n", edge->producer(), edge->consumer(),
                      escaped(edge->name()->string_view()), escaped(tensorPhrase(plan, edge->dtype(), *edge->shape())),
                      edge->carries_gradient() ? ", dir=both" : "");
  for (uint32_t i = 0; i < plan->stations()->size(); ++i) {
    const fb::Station &station = *plan->stations()->Get(i);
    uint32_t section = plan->executables()->Get(station.executable())->section();
    if (selection.hasSection(section))
      text += fmt::format("  station{} [label=\"{}\"];\n  section{} -> station{} [style=dotted, arrowhead=none];\n", i,
                          stationLabel(plan, station), section, i);
  }
  return text + "}\n";
}

} // namespace maestro::plan

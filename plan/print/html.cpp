// The summary as one page that needs nothing else: section graph, memory bars, the summary's text.
#include "plan/print/formats.h"
#include "plan/print/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::plan {
namespace {

constexpr const char *kColors[] = {"#4e79a7", "#f28e2b", "#59a14f", "#bab0ac", "#edc948", "#76b7b2", "#b07aa1", "#e15759"};

/// Sections as columns by their distance from the sources.
std::vector<uint32_t> columns(const Plan &plan) {
  std::vector<uint32_t> column(plan->sections()->size(), 0);
  for (size_t round = 0; round < column.size(); ++round)
    for (const fb::Edge *edge : *plan->edges())
      if (edge->producer() != edge->consumer()) // Not between stages.
        column[edge->consumer()] = std::max(column[edge->consumer()], column[edge->producer()] + 1);
  return column;
}

std::string sectionGraph(const Plan &plan, const Selection &selection) {
  struct Box {
    uint32_t x = 0, y = 0;
  };
  std::vector<uint32_t> column = columns(plan), rows(column.size() + 1, 0);
  std::vector<Box> boxes(column.size());
  uint32_t width = 0, height = 0;
  for (uint32_t i = 0; i < column.size(); ++i) {
    if (!selection.hasSection(i))
      continue;
    boxes[i] = {20 + 280 * column[i], 20 + 90 * rows[column[i]]++};
    width = std::max(width, boxes[i].x + 220);
    height = std::max(height, boxes[i].y + 80);
  }
  std::string svg = fmt::format("<svg width=\"{}\" height=\"{}\" role=\"img\">\n", width, height);
  for (const fb::Edge *edge : *plan->edges()) {
    if (edge->producer() == edge->consumer() || !selection.hasSection(edge->producer()) ||
        !selection.hasSection(edge->consumer()))
      continue;
    Box from = boxes[edge->producer()], to = boxes[edge->consumer()];
    svg += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#888\" stroke-width=\"2\"><title>{}</title></line>\n",
                       from.x + 200, from.y + 30, to.x, to.y + 30,
                       escapeHtml(fmt::format("{}: {}", edge->name()->string_view(), tensorPhrase(plan, edge->dtype(), *edge->shape()))));
  }
  for (uint32_t i = 0; i < boxes.size(); ++i) {
    if (!selection.hasSection(i))
      continue;
    const fb::Section &section = *plan->sections()->Get(i);
    svg += fmt::format("<rect x=\"{0}\" y=\"{1}\" width=\"200\" height=\"60\" rx=\"6\" fill=\"{2}\" stroke=\"#888\"/>\n"
                       "<text x=\"{3}\" y=\"{4}\" font-weight=\"bold\">{5}</text><text x=\"{3}\" y=\"{6}\">{7}</text>\n",
                       boxes[i].x, boxes[i].y, section.trains() ? "#e8f1fa" : "#f4f4f4", boxes[i].x + 10, boxes[i].y + 25,
                       escapeHtml(section.name()->string_view()), boxes[i].y + 47,
                       section.trains() ? "trains" : "forward only");
  }
  return svg + "</svg>\n";
}

std::string memoryBar(const fb::Executable &executable) {
  uint64_t total = 0;
  for (const fb::Region *region : *executable.regions())
    total += region->bytes() * region->copies();
  std::string html = fmt::format("<h3>{} <small>predicted peak {}</small></h3>\n<div class=\"bar\">",
                                 escapeHtml(executable.name()->string_view()), humanBytes(executable.peak_bytes()));
  std::string legend;
  for (const fb::Region *region : *executable.regions()) {
    uint64_t bytes = region->bytes() * region->copies();
    const char *color = kColors[static_cast<size_t>(region->kind())];
    html += fmt::format("<div style=\"width:{:.2f}%;background:{}\" title=\"{} {}\"></div>",
                        total ? 100.0 * static_cast<double>(bytes) / static_cast<double>(total) : 0, color,
                        fb::EnumNameRegionKind(region->kind()), humanBytes(bytes));
    legend += fmt::format("<span><i style=\"background:{}\"></i>{} {}</span> ", color,
                          fb::EnumNameRegionKind(region->kind()), humanBytes(bytes));
  }
  return html + "</div>\n<p class=\"legend\">" + legend + "</p>\n";
}

} // namespace

std::string printHtml(const Plan &plan, const Selection &selection, std::string_view timelines) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>\n"
      "body{{font:15px sans-serif;margin:2em auto;max-width:70em;color:#222}} svg text{{font:14px sans-serif}}\n"
      ".bar{{display:flex;height:26px;border:1px solid #888}} .legend i{{display:inline-block;width:.8em;height:.8em;"
      "margin:0 .3em 0 .8em}}\npre{{background:#f6f6f6;padding:1em;overflow-x:auto}}\n</style></head><body>\n<h1>{0}</h1>\n"
      "<h2>Sections</h2>\n",
      escapeHtml(plan->name()->string_view()));
  html += sectionGraph(plan, selection);
  html += timelines;
  html += "<h2>Memory</h2>\n";
  for (uint32_t i = 0; i < plan->executables()->size(); ++i)
    if (selection.hasExecutable(i))
      html += memoryBar(*plan->executables()->Get(i));
  return html + "<h2>Everything</h2>\n<pre>" + escapeHtml(printSummary(plan, selection)) + "</pre>\n</body></html>\n";
}

} // namespace maestro::plan

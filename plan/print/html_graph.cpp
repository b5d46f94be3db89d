// The section graph.
#include "plan/dims.h"
#include "plan/print/html.h"

#include <algorithm>

namespace maestro::plan {
namespace {

constexpr uint32_t kBoxWidth = 250, kBoxHeight = 92, kGapX = 130, kGapY = 28, kMargin = 12;

/// Sections as columns by their distance from the sources.
std::vector<uint32_t> columns(const Plan &plan) {
  std::vector<uint32_t> column(plan->sections()->size(), 0);
  for (size_t round = 0; round < column.size(); ++round)
    for (const fb::Edge *edge : *plan->edges())
      if (edge->producer() != edge->consumer()) // Not between stages.
        column[edge->consumer()] = std::max(column[edge->consumer()], column[edge->producer()] + 1);
  return column;
}

class Graph {
public:
  Graph(const Plan &plan, const Selection &selection)
      : plan(plan), selection(selection), boxes(plan->sections()->size()) {}

  std::string text() {
    place();
    for (uint32_t e = 0; e < plan->edges()->size(); ++e)
      edge(e, *plan->edges()->Get(e));
    for (uint32_t s = 0; s < boxes.size(); ++s)
      if (selection.hasSection(s))
        box(s, *plan->sections()->Get(s));
    return fmt::format("<div class=\"wide\"><svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
                       "role=\"img\"><title>Sections and what "
                       "passes between them</title>\n",
                       width, height) +
           svg + "</svg></div>\n" + htmlTable("Edges", edgeRows, 0b1000);
  }

private:
  struct Box {
    uint32_t x = 0, y = 0;
  };

  void place() {
    std::vector<uint32_t> column = columns(plan), rows(column.size() + 1, 0);
    for (uint32_t s = 0; s < boxes.size(); ++s) {
      if (!selection.hasSection(s))
        continue;
      boxes[s] = {kMargin + (kBoxWidth + kGapX) * column[s], kMargin + (kBoxHeight + kGapY) * rows[column[s]]++};
      width = std::max(width, boxes[s].x + kBoxWidth + kMargin);
      height = std::max(height, boxes[s].y + kBoxHeight + kMargin);
    }
  }

  void edge(uint32_t number, const fb::Edge &edge) {
    if (!selection.hasSection(edge.producer()) || !selection.hasSection(edge.consumer()))
      return;
    std::string tensor = tensorPhrase(plan, edge.dtype(), *edge.shape()),
                bytes = humanBytes(messageBytes(plan, number));
    edgeRows.push_back({edge.name()->str(),
                        plan->sections()->Get(edge.producer())->name()->str() + " → " +
                            plan->sections()->Get(edge.consumer())->name()->str(),
                        tensor + (edge.carries_gradient() ? ", gradients back" : ""), bytes, edgeReason(plan, edge)});
    if (edge.producer() == edge.consumer())
      return;
    Box from = boxes[edge.producer()], to = boxes[edge.consumer()];
    uint32_t x1 = from.x + kBoxWidth, y1 = from.y + kBoxHeight / 2, x2 = to.x, y2 = to.y + kBoxHeight / 2;
    svg += fmt::format(
        "<g><title>{}</title><path d=\"M{} {} C{} {} {} {} {} {}\" fill=\"none\" stroke=\"var(--other)\" "
        "stroke-width=\"2\"/>"
        "<path d=\"M{} {} l-9 -5 v10 z\" fill=\"var(--other)\"/><text class=\"soft\" x=\"{}\" y=\"{}\">{}</text></g>\n",
        escapeHtml(edge.name()->str() + ": " + tensor), x1, y1, x1 + kGapX / 2, y1, x2 - kGapX / 2, y2, x2 - 2, y2, x2,
        y2, x1 + 10, (y1 + y2) / 2 - 8, bytes);
  }

  void box(uint32_t number, const fb::Section &section) {
    Box at = boxes[number];
    svg += fmt::format("<g><title>{0}</title><rect x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{4}\" rx=\"7\" "
                       "fill=\"var({5})\" stroke=\"var(--line)\"/>\n",
                       escapeHtml(section.name()->string_view()), at.x, at.y, kBoxWidth, kBoxHeight,
                       section.trains() ? "--learns" : "--box");
    std::string lines[] = {
        section.name()->str(), section.trains() ? "trains" : "forward only",
        fmt::format("{}, micro-batches of {}", layoutPhrase(*section.layout()), microBatchPhrase(plan, number)),
        deviceRanges(devicesOf(plan, number))};
    for (uint32_t i = 0; i < std::size(lines); ++i)
      svg += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", at.x + 12, at.y + 22 + 20 * i,
                         i == 0 ? " font-weight=\"bold\"" : " class=\"soft\"", escapeHtml(shortened(lines[i])));
    svg += "</g>\n";
  }

  /// What a box has room for.
  static std::string shortened(std::string text) {
    constexpr size_t kMost = 36;
    return text.size() <= kMost ? text : text.substr(0, kMost - 3) + "...";
  }

  const Plan &plan;
  const Selection &selection;
  std::vector<Box> boxes;
  uint32_t width = 0, height = 0;
  std::string svg;
  std::vector<std::vector<std::string>> edgeRows = {{"name", "between", "carries", "a message, at most", "why"}};
};

} // namespace

std::string sectionGraph(const Plan &plan, const Selection &selection) { return Graph(plan, selection).text(); }

} // namespace maestro::plan

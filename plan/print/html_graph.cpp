// The section graph.
#include "plan/dims.h"
#include "plan/print/html.h"

#include <algorithm>
#include <map>
#include <utility>

namespace maestro::plan {
namespace {

constexpr uint32_t kGapX = 130, kGapY = 28, kMargin = 12, kLine = 20, kPad = 12;
/// Of a text of 13 px in the widest of usual fonts; bold ones are wider.
constexpr uint32_t kCharacter = 8, kBoldCharacter = 9;
/// A line in a box has no more characters.
constexpr size_t kMostCharacters = 42;
/// Between edges that pass below boxes; between the sizes beside a box.
constexpr uint32_t kLane = 22, kLabel = 15;

/// Sections as columns by their distance from the sources.
std::vector<uint32_t> columns(const Plan &plan) {
  std::vector<uint32_t> column(plan->sections()->size(), 0);
  for (size_t round = 0; round < column.size(); ++round)
    for (const fb::Edge *edge : *plan->edges())
      if (edge->producer() != edge->consumer()) // Not between stages.
        column[edge->consumer()] = std::max(column[edge->consumer()], column[edge->producer()] + 1);
  return column;
}

/// In lines of at most so many characters, broken behind what separates words and parts of names.
std::vector<std::string> wrapped(std::string text) {
  std::vector<std::string> lines;
  while (text.size() > kMostCharacters) {
    size_t at = text.find_last_of(" _.-/", kMostCharacters - 1);
    size_t end = at == text.npos || at < kMostCharacters / 3 ? kMostCharacters : at + 1;
    while (end > 1 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) // Not within a character.
      --end;
    lines.push_back(text.substr(0, end));
    text.erase(0, end);
  }
  lines.push_back(text);
  return lines;
}

class Graph {
public:
  Graph(const Plan &plan, const Selection &selection)
      : plan(plan), selection(selection), column(columns(plan)), boxes(plan->sections()->size()) {}

  std::string text() {
    fill();
    place();
    for (uint32_t e = 0; e < plan->edges()->size(); ++e)
      add(e, *plan->edges()->Get(e));
    for (const auto &[ends, bundle] : bundles)
      draw(ends.first, ends.second, bundle);
    for (uint32_t s = 0; s < boxes.size(); ++s)
      if (selection.hasSection(s))
        draw(s, *plan->sections()->Get(s));
    return fmt::format("<div class=\"wide\"><svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
                       "role=\"img\"><title>Sections and what "
                       "passes between them</title>\n",
                       width, height) +
           svg + sizes + "</svg></div>\n" + htmlTable("Edges", edgeRows, 0b1000);
  }

private:
  struct Box {
    uint32_t x = 0, y = 0, labels = 0; ///< Labels beside it.
    std::vector<std::string> lines;
    size_t nameLines = 0;
  };
  /// All edges from one section to another.
  struct Bundle {
    uint64_t bytes = 0;
    size_t edges = 0;
    std::string title;
  };

  /// Words first, since boxes are as large as they ask for.
  void fill() {
    for (uint32_t s = 0; s < boxes.size(); ++s) {
      const fb::Section &section = *plan->sections()->Get(s);
      if (!selection.hasSection(s))
        continue;
      std::vector<std::string> &lines = boxes[s].lines = wrapped(section.name()->str());
      boxes[s].nameLines = lines.size();
      for (const std::string &line :
           {std::string(section.trains() ? "trains" : "forward only"), layoutPhrase(*section.layout()),
            "micro-batches of " + microBatchPhrase(plan, s), deviceRanges(devicesOf(plan, s))})
        for (std::string &part : wrapped(line))
          lines.push_back(std::move(part));
      for (size_t i = 0; i < lines.size(); ++i)
        boxWidth = std::max(boxWidth, 2 * kPad + static_cast<uint32_t>(lines[i].size()) *
                                                     (i < boxes[s].nameLines ? kBoldCharacter : kCharacter));
      boxHeight = std::max(boxHeight, kPad + kLine * static_cast<uint32_t>(lines.size()));
    }
  }

  void place() {
    std::vector<uint32_t> rows(column.size() + 1, 0);
    for (uint32_t s = 0; s < boxes.size(); ++s) {
      if (!selection.hasSection(s))
        continue;
      boxes[s].x = kMargin + (boxWidth + kGapX) * column[s];
      boxes[s].y = kMargin + (boxHeight + kGapY) * rows[column[s]]++;
      width = std::max(width, boxes[s].x + boxWidth + kMargin);
      height = std::max(height, boxes[s].y + boxHeight + kMargin);
    }
  }

  void add(uint32_t number, const fb::Edge &edge) {
    if (!selection.hasSection(edge.producer()) || !selection.hasSection(edge.consumer()))
      return;
    std::string tensor = tensorPhrase(plan, edge.dtype(), *edge.shape());
    uint64_t bytes = messageBytes(plan, number);
    edgeRows.push_back({edge.name()->str(),
                        plan->sections()->Get(edge.producer())->name()->str() + " → " +
                            plan->sections()->Get(edge.consumer())->name()->str(),
                        tensor + (edge.carries_gradient() ? ", gradients back" : ""), humanBytes(bytes),
                        edgeReason(plan, edge)});
    if (edge.producer() == edge.consumer())
      return;
    Bundle &bundle = bundles[{edge.producer(), edge.consumer()}];
    bundle.bytes += bytes;
    bundle.title +=
        fmt::format("{}{}: {}, {}", bundle.edges++ == 0 ? "" : "; ", edge.name()->str(), tensor, humanBytes(bytes));
  }

  /// Within the gap between neighbouring columns; else below all boxes, in a lane of its own.
  void draw(uint32_t producer, uint32_t consumer, const Bundle &bundle) {
    Box &from = boxes[producer], &to = boxes[consumer];
    uint32_t x1 = from.x + boxWidth, y1 = from.y + boxHeight / 2, x2 = to.x, y2 = to.y + boxHeight / 2;
    std::string path = fmt::format("M{} {} ", x1, y1);
    auto bend = [&](uint32_t left, uint32_t yLeft, uint32_t right, uint32_t yRight) {
      uint32_t middle = (left + right) / 2;
      path += fmt::format("C{} {} {} {} {} {} ", middle, yLeft, middle, yRight, right, yRight);
    };
    if (column[consumer] == column[producer] + 1) {
      bend(x1, y1, x2 - 2, y2);
    } else {
      uint32_t lane = height;
      height += kLane;
      bend(x1, y1, x1 + kGapX, lane);
      path += fmt::format("L{} {} ", x2 - kGapX, lane);
      bend(x2 - kGapX, lane, x2 - 2, y2);
    }
    std::string size = (bundle.edges == 1 ? "" : std::to_string(bundle.edges) + " x, ") + humanBytes(bundle.bytes);
    svg += fmt::format("<g><title>{}</title><path class=\"edge\" d=\"{}\" fill=\"none\" stroke=\"var(--other)\" "
                       "stroke-width=\"2\"/>"
                       "<path d=\"M{} {} l-9 -5 v10 z\" fill=\"var(--other)\"/></g>\n",
                       escapeHtml(bundle.title), path, x2, y2);
    sizes += fmt::format("<text class=\"soft halo\" x=\"{}\" y=\"{}\">{}</text>\n", x1 + 8,
                         y1 - 7 - kLabel * from.labels++, size);
  }

  void draw(uint32_t number, const fb::Section &section) {
    const Box &box = boxes[number];
    svg += fmt::format("<g><title>{0}</title><rect class=\"box\" x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{4}\" "
                       "rx=\"7\" fill=\"var({5})\" stroke=\"var(--line)\"/><rect x=\"{1}\" y=\"{6}\" width=\"4\" "
                       "height=\"{7}\" fill=\"{8}\"/>\n",
                       escapeHtml(section.name()->string_view()), box.x, box.y, boxWidth, boxHeight,
                       section.trains() ? "--learns" : "--box", box.y + 8, boxHeight - 16, sectionColor(number));
    for (size_t i = 0; i < box.lines.size(); ++i)
      svg +=
          fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", box.x + kPad, box.y + kLine * (i + 1),
                      i < box.nameLines ? " style=\"font-weight:bold\"" : " class=\"soft\"", escapeHtml(box.lines[i]));
    svg += "</g>\n";
  }

  const Plan &plan;
  const Selection &selection;
  std::vector<uint32_t> column; ///< By section.
  std::vector<Box> boxes;
  std::map<std::pair<uint32_t, uint32_t>, Bundle> bundles;
  uint32_t boxWidth = 180, boxHeight = 92, width = 0, height = 0;
  std::string svg, sizes;
  std::vector<std::vector<std::string>> edgeRows = {{"name", "between", "carries", "a message, at most", "why"}};
};

} // namespace

std::string sectionGraph(const Plan &plan, const Selection &selection) { return Graph(plan, selection).text(); }

} // namespace maestro::plan

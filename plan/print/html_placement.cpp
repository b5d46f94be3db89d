// Placement: which sections, stages and replicas lie on which devices of which node, as a picture. A cell is a device,
// or of large clusters several neighbours; a box is a node: what the innermost of several levels of links joins.
#include "plan/print/html.h"

#include <algorithm>
#include <map>

namespace maestro::plan {
namespace {

/// Cells have room for words up to so many devices; beyond the other number a cell is several devices.
constexpr uint32_t kFewDevices = 64, kMostCells = 1024;
constexpr double kLaneLabel = 90, kPageWidth = 980; ///< Of cells, beside the label.

/// A station's work on a device.
struct Work {
  uint32_t section = 0, stage = 0, replica = 0;
  auto operator<=>(const Work &) const = default;
};

/// Devices that reach each other over the innermost links, where there are further ones.
uint32_t devicesOfNode(const fb::Machine &machine) {
  bool hasNodes =
      machine.links() && machine.links()->size() > 0 && machine.links()->Get(0)->spans() < machine.devices();
  return hasNodes ? machine.links()->Get(0)->spans() : machine.devices();
}

class Placement {
public:
  Placement(const Plan &plan, const Selection &selection)
      : plan(plan), selection(selection), devices(plan->machine()->devices()), node(devicesOfNode(*plan->machine())) {
    while ((devices + unit - 1) / unit > kMostCells)
      unit *= 2;
    if (unit % node != 0 && node % unit != 0) // No cell of two nodes' parts.
      unit = (unit + node - 1) / node * node;
    works.resize((devices + unit - 1) / unit);
    for (const fb::Station *station : *plan->stations()) {
      const fb::Executable &executable = *plan->executables()->Get(station->executable());
      for (uint32_t rank : *station->ranks())
        if (selection.hasSection(executable.section()))
          works[plan->ranks()->Get(rank)->device() / unit].push_back(
              {executable.section(), executable.stage(), station->replica()});
    }
    for (std::vector<Work> &cell : works) {
      std::sort(cell.begin(), cell.end());
      cell.erase(std::unique(cell.begin(), cell.end()), cell.end());
      mostBands = std::max(mostBands, bandsOf(cell).size());
    }
    hasWords = devices <= kFewDevices;
    cellWidth = hasWords ? 54 : 13;
    cellHeight = std::max(13.0, static_cast<double>(mostBands) * (hasWords ? 19 : mostBands > 2 ? 6 : 9));
    cells = std::max(1u, node / unit);
    gap = cells > 1 ? 10 : 1;
    nodesARow = std::max(1u, static_cast<uint32_t>(kPageWidth / (cellWidth * std::min(cells, cellsARow()) + gap)));
  }

  std::string text() {
    for (uint32_t cell = 0; cell < works.size(); ++cell)
      draw(cell);
    std::string svg = fmt::format("<div class=\"wide\"><svg width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
                                  "{1:.0f}\" role=\"img\">"
                                  "<title>What lies on which device of which node</title>\n",
                                  width + 2, height + 2) +
                      idle;
    for (const auto &[section, rects] : bands)
      svg += fmt::format("<g fill=\"{}\">{}</g>\n", sectionColor(section), rects);
    return legend() + svg + words + "</svg></div>\n";
  }

private:
  using Bands = std::map<uint32_t, std::vector<Work>>; ///< By section.

  static Bands bandsOf(const std::vector<Work> &cell) {
    Bands found;
    for (const Work &work : cell)
      found[work.section].push_back(work);
    return found;
  }

  /// Later stages are darker, and words stay readable on all of them.
  double opacityOf(const Work &work) const {
    uint32_t stages = std::max(1u, plan->sections()->Get(work.section)->layout()->stages());
    return 0.25 + 0.5 * (work.stage + 1) / stages;
  }

  /// A node with more cells than fit a row takes several.
  uint32_t cellsARow() const { return std::max(1u, static_cast<uint32_t>(kPageWidth / cellWidth)); }
  uint32_t rowsOfNode() const { return (cells + cellsARow() - 1) / cellsARow(); }

  void draw(uint32_t cell) {
    uint32_t number = cell / cells, within = cell % cells;
    double nodeX = kLaneLabel + (number % nodesARow) * (cellWidth * std::min(cells, cellsARow()) + gap);
    double nodeY = (number / nodesARow) * (rowsOfNode() * cellHeight + gap);
    double x = nodeX + (within % cellsARow()) * cellWidth, y = nodeY + 1 + (within / cellsARow()) * cellHeight;
    width = std::max(width, x + cellWidth);
    height = std::max(height, y + cellHeight);
    if (within == 0 && number % nodesARow == 0)
      label(cell, number, nodeY);
    Bands work = bandsOf(works[cell]);
    std::string name = nameOf(cell, number);
    if (work.empty())
      idle += fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"var(--box)\" "
                          "stroke=\"var(--line)\"><title>{}: idle</title></rect>\n",
                          x, y, cellWidth, cellHeight, name);
    double bandHeight = cellHeight / static_cast<double>(std::max<size_t>(1, work.size()));
    for (const auto &[section, list] : work) {
      bands[section] += fmt::format("<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.1f}\" "
                                    "fill-opacity=\"{:.2f}\"><title>{}: {}</title></rect>\n",
                                    x + 1, y + 1, cellWidth - 2, bandHeight - 1.5, opacityOf(list.front()), name,
                                    escapeHtml(phrase(list)));
      if (hasWords)
        words += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" style=\"font-size:11px\">{}</text>\n", x + 4,
                             y + bandHeight / 2 + 4, brief(list.front()));
      y += bandHeight;
    }
  }

  /// The first node of a row; where rows are narrow, of every other one, and so on.
  void label(uint32_t cell, uint32_t number, double y) {
    if (y < nextLabelY)
      return;
    nextLabelY = y + 14;
    words +=
        fmt::format("<text class=\"soft\" x=\"0\" y=\"{:.0f}\">{} {}</text>\n", y + 12, hasNodes() ? "node" : "device",
                    !hasNodes()    ? cell * unit
                    : unit <= node ? number
                                   : cell * unit / node);
  }

  bool hasNodes() const { return node < devices; }

  std::string nameOf(uint32_t cell, uint32_t number) const {
    std::string name = unit == 1 ? fmt::format("device {}", cell)
                                 : fmt::format("devices {}-{}", cell * unit, std::min(devices, (cell + 1) * unit) - 1);
    return hasNodes() ? fmt::format("{}, node {}", name, unit <= node ? number : cell * unit / node) : name;
  }

  bool hasStages(const Work &work) const { return plan->sections()->Get(work.section)->layout()->stages() > 1; }
  std::string brief(const Work &work) const {
    return hasStages(work) ? fmt::format("r{} s{}", work.replica, work.stage) : fmt::format("r{}", work.replica);
  }

  std::string phrase(const std::vector<Work> &list) const {
    constexpr size_t kMost = 4;
    std::string text = plan->sections()->Get(list.front().section)->name()->str();
    for (size_t i = 0; i < std::min(kMost, list.size()); ++i)
      text += fmt::format("{} replica {}{}", i == 0 ? "" : ",", list[i].replica,
                          hasStages(list[i]) ? fmt::format(" stage {}", list[i].stage) : "");
    return list.size() > kMost ? text + fmt::format(" and {} more", list.size() - kMost) : text;
  }

  std::string legend() const {
    std::string html = "<p class=\"legend\">";
    for (uint32_t s = 0; s < plan->sections()->size(); ++s)
      if (selection.hasSection(s))
        html += fmt::format("<span><i style=\"background:{}\"></i>{}: {} on {}</span> ", sectionColor(s),
                            escapeHtml(plan->sections()->Get(s)->name()->string_view()),
                            layoutPhrase(*plan->sections()->Get(s)->layout()), deviceRanges(devicesOf(plan, s)));
    html += "<span><i style=\"background:var(--box)\"></i>idle</span></p>\n<p class=\"lead\">";
    if (hasNodes())
      html += fmt::format("{} nodes of {} devices; ", (devices + node - 1) / node, node);
    html += hasWords ? "r: replica, s: stage" : "replica and stage are said where the pointer rests";
    html += "; later stages are darker";
    return html + (unit > 1 ? fmt::format("; a cell is {} devices", unit) : "") + "</p>\n";
  }

  const Plan &plan;
  const Selection &selection;
  uint32_t devices, node, unit = 1;
  std::vector<std::vector<Work>> works; ///< By cell.
  size_t mostBands = 1;
  bool hasWords = false;
  double cellWidth = 0, cellHeight = 0, gap = 0, width = 0, height = 0;
  uint32_t cells = 1, nodesARow = 1; ///< Of a node; of a row.
  double nextLabelY = 0;
  std::string idle, words;
  std::map<uint32_t, std::string> bands; ///< By section.
};

} // namespace

std::string placement(const Plan &plan, const Selection &selection) {
  constexpr uint32_t kMostDrawn = 1 << 20; // More devices are no cluster.
  return plan->machine()->devices() > kMostDrawn ? "" : Placement(plan, selection).text();
}

} // namespace maestro::plan

// Timelines as people read them: a table, and drawings beneath each other on one scale.
#include "tools/timeline/timeline.h"

#include "plan/plan_generated.h"
#include "plan/print/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace maestro::timeline {
namespace {

constexpr std::array<const char *, 8> kColors = {"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#e15759", "#edc948", "#9c755f"};
constexpr const char *kUpdateColor = "#888888";
constexpr double kLeft = 80, kWidth = 1000, kRow = 26;

const char *colorOf(uint32_t section) { return kColors[section % kColors.size()]; }

std::string millis(double ns) { return fmt::format("{:.2f} ms", ns * 1e-6); }
std::string share(double ns, double whole) { return fmt::format("{:.1f} %", whole > 0 ? 100 * ns / whole : 0); }

/// "busy" and "idle" of one column of the table.
void addTimes(std::vector<std::string> &row, double busyNs, double idleNs, double stepNs) {
  row.push_back(millis(busyNs));
  row.push_back(millis(idleNs));
  row.push_back(share(idleNs, stepNs));
}

std::vector<std::vector<std::string>> usageRows(const plan::Plan &plan, const Usage &predicted, const Usage *measured) {
  std::vector<const Usage *> columns = {&predicted};
  if (measured)
    columns.push_back(measured);
  std::vector<std::vector<std::string>> rows = {{"", "predicted busy", "idle", "of the step"}};
  if (measured)
    rows.front().insert(rows.front().end(), {"measured busy", "idle", "of the step"});
  for (uint32_t s = 0; s < predicted.sections.size(); ++s) {
    rows.push_back({"section " + plan->sections()->Get(s)->name()->str()});
    for (const Usage *usage : columns)
      addTimes(rows.back(), usage->sections[s].busyNs, usage->sections[s].idleNs, usage->stepNs);
  }
  for (uint32_t rank = 0; rank < predicted.devices.size(); ++rank) {
    rows.push_back({fmt::format("device {}", plan->ranks()->Get(rank)->device())});
    for (const Usage *usage : columns)
      addTimes(rows.back(), usage->devices[rank].busyNs, std::max(0.0, usage->stepNs - usage->devices[rank].busyNs), usage->stepNs);
  }
  return rows;
}

std::string stepPhrase(const Usage &predicted, const Usage *measured) {
  std::string text = "a steady step: predicted " + millis(predicted.stepNs);
  if (measured)
    text += fmt::format(", measured {} ({:.2f} x predicted)", millis(measured->stepNs),
                        predicted.stepNs > 0 ? measured->stepNs / predicted.stepNs : 0);
  return text;
}

/// 1, 2 or 5 times a power of ten: about ten of them fill `ns`.
double tickNs(double ns) {
  double base = std::pow(10, std::floor(std::log10(std::max(ns, 1.0) / 10)));
  for (double factor : {1.0, 2.0, 5.0})
    if (ns / (base * factor) <= 12)
      return base * factor;
  return base * 10;
}

/// One step's window of a timeline.
class Drawing {
public:
  Drawing(const plan::Plan &plan, const executor::Topology &topology, const Timeline &timeline, size_t step, double scaleNs)
      : plan(plan), topology(topology), timeline(timeline), window(timeline.steps[step]), scale(kWidth / scaleNs) {}

  std::string text() {
    double bottom = kRow * topology.ranks;
    svg = fmt::format("<svg class=\"timeline\" width=\"{:.0f}\" height=\"{:.0f}\" role=\"img\">\n", kLeft + kWidth + 20, bottom + 24);
    for (uint32_t rank = 0; rank < topology.ranks; ++rank)
      svg += fmt::format("<text x=\"0\" y=\"{:.0f}\">device {}</text><line x1=\"{}\" x2=\"{}\" y1=\"{:.0f}\" y2=\"{:.0f}\"/>\n",
                         kRow * rank + 18, plan->ranks()->Get(rank)->device(), kLeft, kLeft + kWidth, kRow * (rank + 1) - 2,
                         kRow * (rank + 1) - 2);
    axis(bottom);
    for (const Span &span : timeline.spans)
      if (span.endNs > window.startNs && span.startNs < window.endNs)
        draw(span);
    return svg + "</svg>\n";
  }

private:
  double at(int64_t ns) const { return kLeft + static_cast<double>(ns - window.startNs) * scale; }

  void axis(double bottom) {
    auto length = static_cast<double>(window.ns());
    double tick = tickNs(kWidth / scale);
    for (double ns = 0; ns <= length; ns += tick)
      svg += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.0f}\"/><text x=\"{0:.1f}\" y=\"{2:.0f}\">{3:g} ms</text>\n",
                         kLeft + ns * scale, bottom, bottom + 18, ns * 1e-6);
    svg += fmt::format("<line class=\"end\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.0f}\"/>\n", at(window.endNs), bottom);
  }

  void draw(const Span &span) {
    const executor::StationFacts &station = topology.stations[span.station];
    double left = at(std::max(span.startNs, window.startNs)), right = at(std::min(span.endNs, window.endNs));
    bool ahead = span.step > window.number;
    svg += fmt::format("<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" class=\"{}{}\"><title>", left,
                       kRow * station.rank + 3, std::max(right - left, 0.4), kRow - 8,
                       span.isTask() ? colorOf(station.section) : kUpdateColor, metrics::kTaskNames[span.kind], ahead ? " ahead" : "");
    svg += plan::escapeHtml(executor::stationName(plan, station)) + fmt::format(": {}", metrics::kTaskNames[span.kind]);
    if (span.microBatch >= 0)
      svg += fmt::format(" of micro-batch {}", span.microBatch);
    svg += fmt::format(", step {}: {} from {}</title></rect>\n", span.step, millis(static_cast<double>(span.endNs - span.startNs)),
                       millis(static_cast<double>(span.startNs - window.startNs)));
  }

  const plan::Plan &plan;
  const executor::Topology &topology;
  const Timeline &timeline;
  const Step &window;
  double scale; ///< Pixels a nanosecond.
  std::string svg;
};

std::string tableHtml(const std::vector<std::vector<std::string>> &rows) {
  std::string html = "<table class=\"usage\">\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    html += "<tr>";
    for (const std::string &cell : rows[r])
      html += fmt::format("<{0}>{1}</{0}>", r == 0 ? "th" : "td", plan::escapeHtml(cell));
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string legend(const plan::Plan &plan) {
  std::string html = "<p class=\"legend\">";
  for (uint32_t s = 0; s < plan->sections()->size(); ++s)
    html += fmt::format("<span><i style=\"background:{}\"></i>{}</span> ", colorOf(s),
                        plan::escapeHtml(plan->sections()->Get(s)->name()->string_view()));
  return html + fmt::format("<span><i style=\"background:{}\"></i>reduction of gradients, norm, update</span>. Forward tasks are pale, "
                            "those of the next step, run ahead, have a broken edge. Idle is what is white.</p>\n", kUpdateColor);
}

/// The step of the same number, or the typical one.
size_t sameStep(const Timeline &timeline, uint64_t number) {
  for (size_t s = 0; s < timeline.steps.size(); ++s)
    if (timeline.steps[s].number == number)
      return s;
  return typicalStep(timeline);
}

} // namespace

std::string usageTable(const plan::Plan &plan, const Usage &predicted, const Usage *measured) {
  plan::TextTable table(0b1111110);
  for (std::vector<std::string> &row : usageRows(plan, predicted, measured))
    table.add(std::move(row));
  return "  " + stepPhrase(predicted, measured) + "\n\n" + table.str();
}

std::string timelinesHtml(const plan::Plan &plan, const executor::Topology &topology, const Timeline &predicted,
                          const Timeline *measured) {
  size_t typical = typicalStep(measured ? *measured : predicted);
  size_t foreseen = measured ? sameStep(predicted, measured->steps[typical].number) : typical;
  double scaleNs = static_cast<double>(std::max<int64_t>(1, predicted.steps[foreseen].ns()));
  if (measured)
    scaleNs = std::max(scaleNs, static_cast<double>(measured->steps[typical].ns()));
  std::string html =
      "<h2>Timeline of a steady step</h2>\n<style>svg.timeline line{stroke:#ddd} svg.timeline line.end{stroke:#c00} "
      "svg.timeline text{font:11px sans-serif;fill:#555} rect.forward{fill-opacity:.55} rect.ahead{stroke:#222;stroke-dasharray:2 2} "
      "table.usage{border-collapse:collapse} table.usage td,table.usage th{padding:.15em .8em;text-align:right;"
      "border-bottom:1px solid #ddd} table.usage td:first-child{text-align:left}</style>\n" +
      legend(plan);
  auto add = [&](const char *what, const Timeline &timeline, size_t step) {
    html += fmt::format("<h3>{}: step {}, {}</h3>\n", what, timeline.steps[step].number,
                        millis(static_cast<double>(timeline.steps[step].ns())));
    html += Drawing(plan, topology, timeline, step, scaleNs).text();
  };
  if (measured)
    add("Measured", *measured, typical);
  add("Predicted", predicted, foreseen);
  Usage foreseenUsage = usage(predicted, topology, plan), measuredUsage;
  if (measured)
    measuredUsage = usage(*measured, topology, plan);
  html += "<h3>Busy and idle</h3>\n<p>" + stepPhrase(foreseenUsage, measured ? &measuredUsage : nullptr) +
          "; means over steady steps. A device is idle when it is in no task, reduction or update. Of a section: the mean of its "
          "devices, busy in its own tasks, and idle whatever section they might have worked for.</p>\n" +
          tableHtml(usageRows(plan, foreseenUsage, measured ? &measuredUsage : nullptr));
  return html;
}

} // namespace maestro::timeline

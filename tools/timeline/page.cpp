// Timelines as people read them: a table, and drawings beneath each other on one scale.
#include "tools/timeline/timeline.h"

#include "plan/plan_generated.h"
#include "plan/print/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace maestro::timeline {
namespace {

constexpr const char *kUpdateColor = "#888888";
constexpr double kLeft = 80, kWidth = 1000, kRow = 26;

std::string millis(double ns) { return fmt::format("{:.2f} ms", ns * 1e-6); }
std::string share(double ns, double whole) { return fmt::format("{:.1f} %", whole > 0 ? 100 * ns / whole : 0); }

/// "busy" and "idle" of one column of the table.
void addTimes(std::vector<std::string> &row, double busyNs, double idleNs, double stepNs) {
  row.push_back(millis(busyNs));
  row.push_back(millis(idleNs));
  row.push_back(share(idleNs, stepNs));
}

/// Ranks that are drawn: all of a few; of many the first of each set of stages that ranks run, as far as a page goes.
std::vector<uint32_t> shownRanks(const executor::Topology &topology) {
  constexpr uint32_t kMostRanks = 32;
  std::vector<std::set<std::pair<uint32_t, uint32_t>>> runs(topology.ranks);
  for (const executor::StationFacts &station : topology.stations)
    runs[station.rank].emplace(station.section, station.stage);
  std::set<std::set<std::pair<uint32_t, uint32_t>>> seen;
  std::vector<uint32_t> shown;
  for (uint32_t rank = 0; rank < topology.ranks && shown.size() < kMostRanks; ++rank)
    if (topology.ranks <= kMostRanks || seen.insert(runs[rank]).second)
      shown.push_back(rank);
  return shown;
}

std::vector<std::vector<std::string>> usageRows(const plan::Plan &plan, const executor::Topology &topology,
                                                const Usage &predicted, const Usage *measured) {
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
  for (uint32_t rank : shownRanks(topology)) {
    rows.push_back({fmt::format("device {}", plan->ranks()->Get(rank)->device())});
    for (const Usage *usage : columns)
      addTimes(rows.back(), usage->devices[rank].busyNs, std::max(0.0, usage->stepNs - usage->devices[rank].busyNs),
               usage->stepNs);
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
  Drawing(const plan::Plan &plan, const executor::Topology &topology, const Timeline &timeline, size_t step,
          double scaleNs, std::string title)
      : plan(plan), topology(topology), timeline(timeline), window(timeline.steps[step]), scale(kWidth / scaleNs),
        title(std::move(title)) {}

  std::string text() {
    std::vector<uint32_t> shown = shownRanks(topology);
    double bottom = kRow * static_cast<double>(shown.size());
    svg = fmt::format("<div class=\"wide\"><svg class=\"timeline\" width=\"{:.0f}\" height=\"{:.0f}\" "
                      "role=\"img\"><title>{}</title>\n",
                      kLeft + kWidth + 40, bottom + 24, title);
    for (uint32_t i = 0; i < shown.size(); ++i) {
      rowOf[shown[i]] = i;
      svg += fmt::format(
          "<text x=\"0\" y=\"{:.0f}\">device {}</text><line x1=\"{}\" x2=\"{}\" y1=\"{:.0f}\" y2=\"{:.0f}\"/>\n",
          kRow * i + 18, plan->ranks()->Get(shown[i])->device(), kLeft, kLeft + kWidth, kRow * (i + 1) - 2,
          kRow * (i + 1) - 2);
    }
    axis(bottom);
    std::vector<const Span *> inWindow;
    for (const Span &span : timeline.spans)
      if (span.endNs > window.startNs && span.startNs < window.endNs &&
          rowOf.count(topology.stations[span.station].rank))
        inWindow.push_back(&span);
    // A page has room for so many; then a row has none closer to each other than this, unless they are longer.
    constexpr size_t kMostSpans = 8000;
    double apart = inWindow.size() > kMostSpans ? kWidth * static_cast<double>(shown.size()) / kMostSpans : 0;
    std::vector<double> next(shown.size(), 0);
    for (const Span *span : inWindow) {
      double left = at(std::max(span->startNs, window.startNs)), right = at(std::min(span->endNs, window.endNs));
      double &free = next[rowOf.at(topology.stations[span->station].rank)];
      if (left < free && right - left < apart)
        continue;
      free = left + apart;
      draw(*span);
    }
    return svg + "</svg></div>\n";
  }

private:
  double at(int64_t ns) const { return kLeft + static_cast<double>(ns - window.startNs) * scale; }

  void axis(double bottom) {
    auto length = static_cast<double>(window.ns());
    double tick = tickNs(kWidth / scale);
    for (double ns = 0; ns <= length; ns += tick)
      svg += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.0f}\"/><text x=\"{0:.1f}\" "
                         "y=\"{2:.0f}\">{3:g} ms</text>\n",
                         kLeft + ns * scale, bottom, bottom + 18, ns * 1e-6);
    svg += fmt::format("<line class=\"end\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.0f}\"/>\n",
                       at(window.endNs), bottom);
  }

  void draw(const Span &span) {
    const executor::StationFacts &station = topology.stations[span.station];
    double left = at(std::max(span.startNs, window.startNs)), right = at(std::min(span.endNs, window.endNs));
    bool ahead = span.step > window.number;
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" class=\"{}{}\"><title>", left,
        kRow * rowOf.at(station.rank) + 3, std::max(right - left, 0.4), kRow - 8,
        span.isTask() ? plan::sectionColor(station.section) : std::string(kUpdateColor), metrics::kTaskNames[span.kind],
        ahead ? " ahead" : "");
    svg += plan::escapeHtml(executor::stationName(plan, station)) + fmt::format(": {}", metrics::kTaskNames[span.kind]);
    if (span.microBatch >= 0)
      svg += fmt::format(" of micro-batch {}", span.microBatch);
    svg += fmt::format(", step {}: {} from {}</title></rect>\n", span.step,
                       millis(static_cast<double>(span.endNs - span.startNs)),
                       millis(static_cast<double>(span.startNs - window.startNs)));
  }

  const plan::Plan &plan;
  const executor::Topology &topology;
  const Timeline &timeline;
  const Step &window;
  double scale; ///< Pixels a nanosecond.
  std::string title, svg;
  std::map<uint32_t, uint32_t> rowOf; ///< By rank that is drawn.
};

std::string tableHtml(const std::vector<std::vector<std::string>> &rows) {
  std::string html = "<div class=\"wide\"><table class=\"usage\"><caption>Of a step, on average</caption>\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    html += "<tr>";
    for (const std::string &cell : rows[r])
      html += fmt::format("<{0}{2}>{1}</{0}>", r == 0 ? "th" : "td", plan::escapeHtml(cell),
                          r == 0 ? " scope=\"col\"" : "");
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string legend(const plan::Plan &plan, const executor::Topology &topology) {
  std::string html = "<p class=\"legend\">";
  for (uint32_t s = 0; s < plan->sections()->size(); ++s)
    html += fmt::format("<span><i style=\"background:{}\"></i>{}</span> ", plan::sectionColor(s),
                        plan::escapeHtml(plan->sections()->Get(s)->name()->string_view()));
  bool isFolded = shownRanks(topology).size() < topology.ranks;
  return html + fmt::format(
                    "<span><i style=\"background:{}\"></i>reduction of gradients, norm, update</span> Forward tasks "
                    "are pale, "
                    "those of the next step, run ahead, have a broken edge. Idle is what is empty; of thousands of "
                    "tasks, the very "
                    "short ones are thinned out.{}</p>\n",
                    kUpdateColor,
                    isFolded ? fmt::format(" Of {} devices one for each set of stages is drawn.", topology.ranks) : "");
}

/// The step of the same number, or the typical one.
size_t sameStep(const Timeline &timeline, uint64_t number) {
  for (size_t s = 0; s < timeline.steps.size(); ++s)
    if (timeline.steps[s].number == number)
      return s;
  return typicalStep(timeline);
}

} // namespace

std::string usageTable(const plan::Plan &plan, const executor::Topology &topology, const Usage &predicted,
                       const Usage *measured) {
  plan::TextTable table(0b1111110);
  for (std::vector<std::string> &row : usageRows(plan, topology, predicted, measured))
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
      "<section><h2>Timeline of a steady step</h2>\n<style>svg.timeline line{stroke:var(--line)} svg.timeline "
      "line.end{stroke:var(--limit)} "
      "svg.timeline text{font-size:11px;fill:var(--soft)} rect.forward{fill-opacity:.55} "
      "rect.weight_gradient{fill-opacity:.78} rect.ahead{stroke:var(--text);stroke-dasharray:2 2} "
      "table.usage td,table.usage th{text-align:right} table.usage td:first-child{text-align:left}</style>\n" +
      legend(plan, topology);
  auto add = [&](const char *what, const Timeline &timeline, size_t step) {
    html += fmt::format("<h3>{}: step {}, {}</h3>\n", what, timeline.steps[step].number,
                        millis(static_cast<double>(timeline.steps[step].ns())));
    html += Drawing(plan, topology, timeline, step, scaleNs,
                    fmt::format("{} tasks of step {}, by device", what, timeline.steps[step].number))
                .text();
  };
  if (measured)
    add("Measured", *measured, typical);
  add("Predicted", predicted, foreseen);
  Usage foreseenUsage = usage(predicted, topology, plan), measuredUsage;
  if (measured)
    measuredUsage = usage(*measured, topology, plan);
  html += "<h3>Busy and idle</h3>\n<p>" + stepPhrase(foreseenUsage, measured ? &measuredUsage : nullptr) +
          "; means over steady steps. A device is idle when it is in no task, reduction or update. Of a section: the "
          "mean of its "
          "devices, busy in its own tasks, and idle whatever section they might have worked for.</p>\n" +
          tableHtml(usageRows(plan, topology, foreseenUsage, measured ? &measuredUsage : nullptr)) + "</section>\n";
  return html;
}

} // namespace maestro::timeline

// A plan as one page that needs nothing else: section graph, devices and memory, timelines, comparison, explanation,
// summary.
#include "plan/print/html.h"

namespace maestro::plan {
namespace {

constexpr const char *kStyle = R"(
:root{color-scheme:light dark;--back:#fff;--text:#1d2430;--soft:#5b6472;--line:#c9ced6;--box:#f3f5f8;--learns:#e3eefb;--bar:#3b6fb6;--other:#9aa7b8;--less:#2e8b57;--limit:#c0392b}
@media(prefers-color-scheme:dark){:root{--back:#14181f;--text:#e6e9ee;--soft:#a3acba;--line:#3b4452;--box:#1f2630;--learns:#1d3350;--bar:#6ea2e6;--other:#5d6b7e;--less:#57b987;--limit:#e57368}}
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;padding:0 1em;max-width:76em;background:var(--back);color:var(--text)}
h1{margin-bottom:.1em} h1,p,td.t{overflow-wrap:anywhere} td{min-width:5em} td.t{min-width:15em} h2{margin-top:1.8em;border-bottom:1px solid var(--line)} p.lead{color:var(--soft);margin-top:0}
svg{max-width:100%;height:auto} svg text{font:13px system-ui,sans-serif;fill:var(--text)} svg text.soft{fill:var(--soft)} svg text.end{text-anchor:end}
svg text.halo{paint-order:stroke;stroke:var(--back);stroke-width:5px;stroke-linejoin:round}
div.wide{overflow-x:auto} div.wide svg{max-width:none}
table{border-collapse:collapse;margin:.6em 0} caption{text-align:left;color:var(--soft);padding-bottom:.2em}
td,th{padding:.2em .8em .2em 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)} td.n,th.n{text-align:right;white-space:nowrap}
.legend span{margin-right:1em} .legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em;outline:1px solid var(--line)}
pre{background:var(--box);padding:1em;overflow-x:auto;font-size:13px}
)";

/// A longer text has a column of some width, also in a narrow window, where tables are scrolled.
constexpr size_t kShortCell = 28;

std::string lead(const Plan &plan) {
  const fb::Machine &machine = *plan->machine();
  std::string text = fmt::format("for {}: {} x {}", machine.name()->string_view(), machine.devices(),
                                 machine.device_kind()->string_view());
  if (machine.memory_bytes() > 0)
    text += " with " + humanBytes(machine.memory_bytes()) + " each";
  if (const fb::Prediction *prediction = plan->prediction())
    text += fmt::format("; a step of {} samples is predicted to take {}{}", plan->training()->global_batch(),
                        humanSeconds(prediction->step_seconds()), assumptionPhrase(plan));
  return "<p class=\"lead\">" + escapeHtml(text) + "</p>\n";
}

void addPart(std::string &html, const char *heading, const std::string &part) {
  if (!part.empty())
    html += fmt::format("<section><h2>{}</h2>\n{}</section>\n", heading, part);
}

} // namespace

std::string htmlTable(std::string_view caption, const std::vector<std::vector<std::string>> &rows, unsigned numbers) {
  if (rows.size() < 2)
    return "";
  std::string html =
      "<div class=\"wide\"><table>" + (caption.empty() ? "" : "<caption>" + escapeHtml(caption) + "</caption>") + "\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    html += "<tr>";
    for (size_t column = 0; column < rows[r].size(); ++column)
      html += fmt::format("<{0}{1}>{2}</{3}>", r == 0 ? "th scope=\"col\"" : "td",
                          numbers >> column & 1                 ? " class=\"n\""
                          : rows[r][column].size() > kShortCell ? " class=\"t\""
                                                                : "",
                          escapeHtml(rows[r][column]), r == 0 ? "th" : "td");
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string printHtml(const Plan &plan, const Selection &selection, std::string_view timelines) {
  std::string name = escapeHtml(plan->name()->string_view());
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
      "content=\"width=device-width\"/><title>Plan of {0}</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      name, kStyle);
  html += lead(plan);
  addPart(html, "Sections", sectionGraph(plan, selection));
  addPart(html, "Compared", comparisonBars(plan));
  addPart(html, "Placement", placement(plan, selection));
  addPart(html, "Devices and memory", deviceTable(plan, selection));
  html += timelines;
  addPart(html, "Why", explanationTables(plan, selection));
  return html + "<section><h2>Everything</h2>\n<details><summary>The summary as text</summary>\n<pre>" +
         escapeHtml(printSummary(plan, selection)) + "</pre></details></section>\n</body></html>\n";
}

} // namespace maestro::plan

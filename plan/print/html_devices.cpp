// Devices: what runs on each, and memory by kind against the limit. Devices that are alike are folded.
#include "plan/print/html.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace maestro::plan {
namespace {

constexpr size_t kKinds = static_cast<size_t>(fb::RegionKind::MAX) + 1;
/// By region kind; the last is what is no region: process, staging, rings of others.
constexpr std::array<const char *, kKinds + 1> kColors = {"#4e79a7", "#f28e2b", "#59a14f", "#8c8c8c", "#d4b106",
                                                          "#5ba7a0", "#a0699a", "#d1605e", "#b5b5b5"};
constexpr double kBarWidth = 520;
/// More rows than this say nothing more.
constexpr size_t kMostRows = 64;

const char *kindName(size_t kind) {
  return kind < kKinds ? fb::EnumNameRegionKind(static_cast<fb::RegionKind>(kind)) : "process and staging";
}

/// Devices that run the same executables and hold as much.
struct Alike {
  std::vector<uint32_t> devices;
  std::vector<uint32_t> executables; ///< Sorted; one for each station.
  uint64_t peakBytes = 0;
};

std::vector<Alike> alike(const Plan &plan, const Selection &selection) {
  std::vector<std::vector<uint32_t>> runs(plan->ranks()->size());
  for (const fb::Station *station : *plan->stations())
    for (uint32_t rank : *station->ranks())
      runs[rank].push_back(station->executable());
  std::map<std::pair<std::vector<uint32_t>, uint64_t>, Alike> groups;
  for (uint32_t rank = 0; rank < runs.size(); ++rank) {
    std::sort(runs[rank].begin(), runs[rank].end());
    bool isShown = selection.all() || std::any_of(runs[rank].begin(), runs[rank].end(),
                                                  [&](uint32_t e) { return selection.hasExecutable(e); });
    if (!isShown)
      continue;
    uint64_t peak = plan->ranks()->Get(rank)->peak_bytes();
    Alike &group = groups[{runs[rank], peak}];
    group.devices.push_back(plan->ranks()->Get(rank)->device());
    group.executables = runs[rank];
    group.peakBytes = peak;
  }
  std::vector<Alike> list;
  for (auto &[key, group] : groups)
    list.push_back(std::move(group));
  std::sort(list.begin(), list.end(),
            [](const Alike &a, const Alike &b) { return a.devices.front() < b.devices.front(); });
  return list;
}

std::array<uint64_t, kKinds + 1> bytesByKind(const Plan &plan, const Alike &group) {
  std::array<uint64_t, kKinds + 1> bytes{};
  uint64_t sum = 0;
  for (uint32_t executable : group.executables)
    for (const fb::Region *region : *plan->executables()->Get(executable)->regions()) {
      bytes[static_cast<size_t>(region->kind())] += region->bytes() * region->copies();
      sum += region->bytes() * region->copies();
    }
  bytes[kKinds] = group.peakBytes - std::min(group.peakBytes, sum);
  return bytes;
}

/// Widths are shares of `scale` bytes; the limit, where there is one, is a line.
std::string memoryBar(const std::array<uint64_t, kKinds + 1> &bytes, uint64_t limit, uint64_t scale,
                      const std::string &title) {
  std::string svg =
      fmt::format("<svg width=\"{0}\" height=\"22\" viewBox=\"0 0 {0} 22\" role=\"img\"><title>{1}</title>",
                  kBarWidth + 4, escapeHtml(title));
  double x = 0, perByte = kBarWidth / static_cast<double>(std::max<uint64_t>(1, scale));
  svg += fmt::format("<rect x=\"0\" y=\"3\" width=\"{:.2f}\" height=\"16\" fill=\"var(--box)\"/>",
                     static_cast<double>(limit > 0 ? limit : scale) * perByte);
  for (size_t kind = 0; kind < bytes.size(); ++kind) {
    double width = static_cast<double>(bytes[kind]) * perByte;
    if (bytes[kind] > 0)
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"3\" width=\"{:.2f}\" height=\"16\" fill=\"{}\"><title>{} {}</title></rect>", x, width,
          kColors[kind], kindName(kind), humanBytes(bytes[kind]));
    x += width;
  }
  if (limit > 0)
    svg += fmt::format(
        "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"0\" y2=\"22\" stroke=\"var(--limit)\" stroke-width=\"2\"/>",
        static_cast<double>(limit) * perByte);
  return svg + "</svg>";
}

std::string runsPhrase(const Plan &plan, const Alike &group) {
  std::map<std::string, size_t> counts;
  for (uint32_t executable : group.executables)
    ++counts[plan->executables()->Get(executable)->name()->str()];
  std::string text;
  for (const auto &[name, count] : counts)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name, count > 1 ? fmt::format(" x {}", count) : "");
  return text;
}

std::string legend(const std::set<size_t> &kinds) {
  std::string html = "<p class=\"legend\">";
  for (size_t kind : kinds)
    html += fmt::format("<span><i style=\"background:{}\"></i>{}</span> ", kColors[kind], kindName(kind));
  return html + "<span><i style=\"background:var(--limit)\"></i>limit</span></p>\n";
}

} // namespace

std::string deviceTable(const Plan &plan, const Selection &selection) {
  std::vector<Alike> groups = alike(plan, selection);
  uint64_t limit = plan->machine()->memory_bytes(), scale = 0;
  std::vector<std::array<uint64_t, kKinds + 1>> bytes;
  std::set<size_t> kinds;
  for (const Alike &group : groups) {
    bytes.push_back(bytesByKind(plan, group));
    uint64_t sum = 0;
    for (size_t kind = 0; kind < bytes.back().size(); ++kind) {
      sum += bytes.back()[kind];
      if (bytes.back()[kind] > 0)
        kinds.insert(kind);
    }
    scale = std::max(scale, sum);
  }
  // A limit far above what is used would leave no room for what is used.
  bool isFar = limit > 4 * scale;
  scale = isFar ? scale : std::max(scale, limit);
  std::string html = legend(kinds) + "<div class=\"wide\"><table><caption>Predicted peak" +
                     (limit > 0 ? " of " + humanBytes(limit) + " each" +
                                      (isFar ? " (bars are drawn to the largest peak, the limit is beyond)" : "")
                                : "") +
                     "</caption>\n<tr><th scope=\"col\">devices</th><th scope=\"col\" class=\"n\">how many</th><th "
                     "scope=\"col\">run</th>"
                     "<th scope=\"col\" class=\"n\">peak</th><th scope=\"col\">memory</th></tr>\n";
  for (size_t g = 0; g < std::min(groups.size(), kMostRows); ++g) {
    std::string devices = deviceRanges(groups[g].devices), title;
    for (size_t kind = 0; kind < bytes[g].size(); ++kind)
      if (bytes[g][kind] > 0)
        title += fmt::format("{}{} {}", title.empty() ? "" : ", ", kindName(kind), humanBytes(bytes[g][kind]));
    html += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
                        devices, groups[g].devices.size(), escapeHtml(runsPhrase(plan, groups[g])),
                        humanBytes(groups[g].peakBytes),
                        memoryBar(bytes[g], isFar ? 0 : limit, scale, devices + ": " + title));
  }
  html += "</table></div>\n";
  return groups.size() <= kMostRows
             ? html
             : html + fmt::format("<p>{} more kinds of devices are not shown.</p>\n", groups.size() - kMostRows);
}

} // namespace maestro::plan

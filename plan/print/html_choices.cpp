// Comparison and explanation.
#include "plan/print/html.h"

#include <algorithm>

namespace maestro::plan {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr double kWidth = 560, kRow = 26, kBar = 16, kLabelCharacter = 8;
/// Labels with more characters stand above their bars.
constexpr size_t kMostLabelCharacters = 44;

void addRow(Rows &rows, const Plan &plan, const fb::Candidate &candidate, const std::string &name) {
  rows.push_back({name, candidatePhrase(plan, candidate), candidate.choice()->str(), candidate.reason()->str()});
}

} // namespace

std::string comparisonBars(const Plan &plan) {
  std::vector<const fb::Candidate *> shown = candidatesOf(plan, fb::CandidateKind::Layout);
  size_t layouts = shown.size();
  for (const fb::Candidate *candidate : candidatesOf(plan, fb::CandidateKind::WhatIf))
    shown.push_back(candidate);
  double most = 0;
  for (const fb::Candidate *candidate : shown)
    most = std::max(most, candidate->step_seconds());
  if (shown.empty() || most <= 0)
    return "";
  std::vector<std::string> labels;
  size_t longest = 0;
  Rows layoutRows = {{"layout", "a step", "what", "why"}}, moreRows = {{"with more", "a step", "how much", "what for"}};
  for (size_t i = 0; i < shown.size(); ++i) {
    std::string name = shown[i]->subject()->str() + (shown[i]->in_file_order() ? ", in file order" : "");
    addRow(i < layouts ? layoutRows : moreRows, plan, *shown[i], name);
    labels.push_back(i < layouts ? name : name + ": " + shown[i]->choice()->str());
    longest = std::max(longest, labels.back().size());
  }
  bool isAbove = longest > kMostLabelCharacters;
  double labelWidth = static_cast<double>(longest) * kLabelCharacter, left = isAbove ? 0 : labelWidth + 10;
  double row = isAbove ? 2 * kRow - 8 : kRow, top = isAbove ? kRow - 4 : 5;
  std::string svg = fmt::format("<div class=\"wide\"><svg width=\"{0:.0f}\" height=\"{1}\" viewBox=\"0 0 {0:.0f} {1}\" "
                                "role=\"img\"><title>Predicted time of a "
                                "step by layout, and with more of the machine</title>\n",
                                std::max(left + kWidth + 160, labelWidth), row * static_cast<double>(shown.size()) + 6);
  for (size_t i = 0; i < shown.size(); ++i) {
    double y = row * static_cast<double>(i), width = kWidth * shown[i]->step_seconds() / most;
    svg += fmt::format("<g><title>{0}: {1}</title><text x=\"{2}\" y=\"{3}\"{4}>{0}</text><rect x=\"{5}\" y=\"{6}\" "
                       "width=\"{7:.2f}\" height=\"{8}\" fill=\"var({9})\"/><text x=\"{10:.2f}\" y=\"{11}\" "
                       "class=\"soft\">{1}</text></g>\n",
                       escapeHtml(labels[i]), escapeHtml(candidatePhrase(plan, *shown[i])), isAbove ? 0 : labelWidth,
                       y + 17, isAbove ? "" : " class=\"end\"", left, y + top, width, kBar,
                       i == 0        ? "--bar"
                       : i < layouts ? "--other"
                                     : "--less",
                       left + width + 8, y + top + 13);
  }
  return svg + "</svg></div>\n" + htmlTable("", layoutRows, 0b10) + htmlTable("", moreRows, 0b10);
}

std::string explanationTables(const Plan &plan, const Selection &selection) {
  auto isShown = [&](std::string_view name) {
    uint32_t section = sectionNamedIn(plan, name);
    return selection.all() || (section != kNone && selection.hasSection(section));
  };
  Rows decisions = {{"decision", "choice", "why"}},
       alternatives = {{"decision", "a step", "next best", "what makes the difference"}};
  for (const fb::Decision *decision : *plan->decisions())
    if (!isOfEdge(*decision) && isShown(decision->subject()->string_view()))
      decisions.push_back({decision->subject()->str(),
                           decision->choice()->str() + (decision->is_default() ? "" : " (given)"),
                           decision->reason()->str()});
  for (const fb::Candidate *candidate : candidatesOf(plan, fb::CandidateKind::Alternative))
    if (isShown(candidate->subject()->string_view()))
      addRow(alternatives, plan, *candidate, candidate->subject()->str());
  Rows limits = {{"where", "used", "of", "by what"}};
  for (uint32_t i = 0; plan->limits() && i < plan->limits()->size(); ++i) {
    const fb::Limit &limit = *plan->limits()->Get(i);
    const char *unit = limit.kind() == fb::LimitKind::Time ? "s" : "B";
    limits.push_back({limit.place()->str(), quantityPhrase(limit.used(), unit),
                      limit.limit() > 0 ? quantityPhrase(limit.limit(), unit) : "", limit.reason()->str()});
  }
  Rows numbers = {{"number", "value", "where it is from"}};
  for (uint32_t i = 0; plan->quantities() && i < plan->quantities()->size(); ++i) {
    const fb::Quantity &quantity = *plan->quantities()->Get(i);
    if (isOfTuning(quantity.name()->string_view()) && !selection.hasTuning())
      continue;
    if (sectionNamedIn(plan, quantity.name()->string_view()) == kNone || isShown(quantity.name()->string_view()))
      numbers.push_back({quantity.name()->str(), quantityPhrase(quantity.value(), quantity.unit()->string_view()),
                         quantity.source()->str()});
  }
  return htmlTable("Decisions", decisions) + htmlTable("One decision changed, the rest as it is", alternatives, 0b10) +
         htmlTable("What binds", limits, 0b110) + htmlTable("Numbers", numbers, 0b10);
}

} // namespace maestro::plan

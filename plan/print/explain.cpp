// Why the plan is as it is: each decision with what else it could have been, what binds, what more would bring, and
// where every number is from.
#include "plan/print/formats.h"

#include <fmt/format.h>

namespace maestro::plan {
namespace {

class Explanation {
public:
  Explanation(const Plan &plan, const Selection &selection) : plan(plan), selection(selection) {}

  std::string take() {
    if (selection.all() && plan->prediction())
      line("predicted: {} a step{}\n", humanSeconds(plan->prediction()->step_seconds()), assumptionPhrase(plan));
    decisions();
    edges();
    limits();
    whatIfs();
    if (selection.all())
      comparison();
    quantities();
    programs();
    return text.empty() ? "The plan records no decisions here.\n" : std::move(text);
  }

private:
  template <typename... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    text += fmt::format(format, std::forward<Args>(args)...);
    text += '\n';
  }

  void table(std::string_view name, const TextTable &rows) {
    if (!rows.empty())
      text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", name, rows.str());
  }

  /// Of one section: what is named after it; of all: everything.
  bool isShown(std::string_view name) const {
    uint32_t section = sectionNamedIn(plan, name);
    return selection.all() || (section != kNone && selection.hasSection(section));
  }

  /// Whether a selected section is spoken of.
  bool isMentioned(std::string_view text) const {
    bool mentioned = selection.all();
    for (uint32_t i = 0; i < plan->sections()->size(); ++i)
      mentioned |= selection.hasSection(i) && text.find(plan->sections()->Get(i)->name()->string_view()) != text.npos;
    return mentioned;
  }

  void decisions() {
    std::vector<const fb::Candidate *> left = candidatesOf(plan, fb::CandidateKind::Alternative);
    for (const fb::Decision *decision : *plan->decisions()) {
      if (isOfEdge(*decision) || !isShown(decision->subject()->string_view()))
        continue;
      line("{} = {}{}\n    {}", decision->subject()->string_view(), decision->choice()->string_view(),
           decision->is_default() ? " (default)" : "", decision->reason()->string_view());
      std::erase_if(left, [&](const fb::Candidate *candidate) {
        bool isOf = candidate->subject()->string_view() == decision->subject()->string_view();
        if (isOf)
          line("    next best: {}", alternative(*candidate));
        return isOf;
      });
    }
    for (const fb::Candidate *candidate : left) // Of what is a decision only in the search.
      if (isShown(candidate->subject()->string_view()))
        line("{}\n    next best: {}", candidate->subject()->string_view(), alternative(*candidate));
  }

  std::string alternative(const fb::Candidate &candidate) const {
    return fmt::format("{}: {}; {}", candidate.choice()->string_view(), candidatePhrase(plan, candidate),
                       candidate.reason()->string_view());
  }

  void edges() {
    TextTable rows(0b100);
    for (uint32_t e = 0; e < plan->edges()->size(); ++e)
      if (const fb::Edge &edge = *plan->edges()->Get(e);
          selection.hasSection(edge.producer()) || selection.hasSection(edge.consumer()))
        rows.add({edge.name()->str(),
                  tensorPhrase(plan, edge.dtype(), *edge.shape()) + (edge.carries_gradient() ? ", gradients back" : ""),
                  humanBytes(messageBytes(plan, e)), edgeReason(plan, edge)});
    table("What crosses, a message at most, and why", rows);
  }

  void limits() {
    TextTable rows(0b10);
    for (uint32_t i = 0; plan->limits() && i < plan->limits()->size(); ++i) {
      const fb::Limit &limit = *plan->limits()->Get(i);
      const char *unit = limit.kind() == fb::LimitKind::Time ? "s" : "B";
      std::string share = limit.limit() > 0 ? fmt::format("{:.0f} %", 100 * limit.used() / limit.limit()) : "";
      if (isMentioned(limit.place()->string_view()) || isMentioned(limit.reason()->string_view()))
        rows.add({limit.place()->str(), share,
                  quantityPhrase(limit.used(), unit) +
                      (limit.limit() > 0 ? " of " + quantityPhrase(limit.limit(), unit) : ""),
                  limit.reason()->str()});
    }
    table("What binds", rows);
  }

  void whatIfs() {
    TextTable rows;
    for (const fb::Candidate *candidate : candidatesOf(plan, fb::CandidateKind::WhatIf))
      if (isMentioned(candidate->subject()->string_view()) || isMentioned(candidate->reason()->string_view()))
        rows.add({candidate->subject()->str(), candidate->choice()->str(), candidatePhrase(plan, *candidate),
                  candidate->reason()->str()});
    table("With more", rows);
  }

  void comparison() { table("Compared (* in file order)", comparisonTable(plan)); }

  void quantities() {
    TextTable rows(0b10);
    for (uint32_t i = 0; plan->quantities() && i < plan->quantities()->size(); ++i) {
      const fb::Quantity &quantity = *plan->quantities()->Get(i);
      bool isGeneral = sectionNamedIn(plan, quantity.name()->string_view()) == kNone;
      if (isOfTuning(quantity.name()->string_view()) && !selection.hasTuning())
        continue;
      if (isGeneral || isShown(quantity.name()->string_view()))
        rows.add({quantity.name()->str(), quantityPhrase(quantity.value(), quantity.unit()->string_view()),
                  quantity.source()->str()});
    }
    table(selection.hasTuning() ? "Numbers, and where they are from"
                                : "Numbers, and where they are from (--all: also those of the search and the schedule)",
          rows);
  }

  /// From the sums over a program's calls.
  void programs() {
    TextTable rows(0b11110);
    for (uint32_t i = 0; i < plan->executables()->size(); ++i) {
      const fb::Executable &executable = *plan->executables()->Get(i);
      for (const fb::Program *program : *executable.programs())
        if (selection.hasExecutable(i) && program->cost())
          rows.add({fmt::format("{} {}", executable.name()->string_view(), fb::EnumNameProgramKind(program->kind())),
                    humanSeconds(secondsAtBounds(plan, executable, program->cost())),
                    humanFlops(static_cast<double>(valueAtBounds(plan, executable, program->flops()))),
                    humanBytes(static_cast<uint64_t>(
                        std::max<int64_t>(0, valueAtBounds(plan, executable, program->memory_bytes())))),
                    fmt::format("{} calls", program->calls()->size())});
    }
    table("Programs with full micro-batches: the sum over calls of the longer of arithmetic and memory, and the calls' "
          "own time",
          rows);
  }

  const Plan &plan;
  const Selection &selection;
  std::string text;
};

} // namespace

std::string explain(const Plan &plan, const Selection &selection) { return Explanation(plan, selection).take(); }

} // namespace maestro::plan

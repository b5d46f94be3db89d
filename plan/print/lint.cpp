// What is allowed and yet looks wrong: values, buffers, programs; and what the parts find.
#include "plan/print/lint.h"
#include "plan/print/json_writer.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::plan {
namespace {

class Lint {
public:
  explicit Lint(const Plan &plan) : plan(plan) {}

  std::vector<Finding> take() {
    parameters();
    for (const fb::Executable *executable : *plan->executables()) {
      buffers(*executable);
      regions(*executable);
      programs(*executable);
    }
    return std::move(findings);
  }

private:
  void find(const char *check, std::string place, double value, std::string text, const char *remedy) {
    findings.push_back({check, std::move(place), value, 0, std::move(text), remedy});
  }

  static std::string placeOf(const fb::Executable &executable) { return "executable " + executable.name()->str(); }

  void parameters() {
    for (uint32_t i = 0; i < plan->components()->size(); ++i)
      if (size_t missing = parameterTotals(plan, i).withoutValue)
        find("no-value", "component " + plan->components()->Get(i)->name()->str(), static_cast<double>(missing),
             fmt::format("{} parameters have no value and no initializer", missing),
             "maestro-run --weights COMPONENT=FILE must give them");
  }

  void buffers(const fb::Executable &executable) {
    std::vector<bool> used(executable.buffers()->size(), false);
    for (const fb::Binding *binding : *executable.bindings())
      used[binding->buffer()] = true;
    for (const fb::Program *program : *executable.programs())
      for (const fb::Call *call : *program->calls())
        for (const auto *operands : {call->inputs(), call->outputs()})
          for (uint32_t buffer : *operands)
            if (buffer != kNone)
              used[buffer] = true;
    if (auto unused = std::count(used.begin(), used.end(), false))
      find("unused-buffers", placeOf(executable), static_cast<double>(unused),
           fmt::format("{} buffers are used by no call and no binding", unused), kReport);
  }

  void regions(const fb::Executable &executable) {
    std::vector<uint64_t> ends(executable.regions()->size(), 0);
    for (const fb::Buffer *buffer : *executable.buffers())
      ends[buffer->region()] = std::max(ends[buffer->region()], buffer->offset() + buffer->bytes());
    for (uint32_t i = 0; i < ends.size(); ++i) {
      uint64_t left = executable.regions()->Get(i)->bytes() - ends[i];
      if (left >= 4096)
        find("unused-memory", placeOf(executable), static_cast<double>(left),
             fmt::format("no buffer lies in the last {} of region {} ({})", humanBytes(left), i,
                         fb::EnumNameRegionKind(executable.regions()->Get(i)->kind())),
             kReport);
    }
  }

  void programs(const fb::Executable &executable) {
    bool evaluates = false;
    for (const fb::Program *program : *executable.programs()) {
      evaluates |= program->kind() == fb::ProgramKind::Evaluate;
      if (program->calls()->size() == 0)
        find("empty-program", placeOf(executable), 0,
             fmt::format("the {} program calls nothing", fb::EnumNameProgramKind(program->kind())), kReport);
    }
    if (!evaluates)
      find("no-evaluate", placeOf(executable), 0, "there is no Evaluate program, so --evaluate cannot run",
           "make the plan again with maestro-plan");
  }

  static constexpr const char *kReport = "maestro-plan does not make such plans; please report it with the workload";
  const Plan &plan;
  std::vector<Finding> findings;
};

} // namespace

std::vector<Finding> lint(const Plan &plan, const StepTimes *times) {
  std::vector<Finding> findings = Lint(plan).take();
  lintCosts(plan, times, findings);
  return findings;
}

std::string lintText(const std::vector<Finding> &findings) {
  std::string text;
  for (const Finding &finding : findings)
    text += fmt::format("{}: {}: {}\n    {}\n", finding.check, finding.place, finding.text, finding.remedy);
  return text;
}

std::string lintJson(const std::vector<Finding> &findings) {
  JsonWriter json;
  json.array([&] {
    for (const Finding &finding : findings)
      json.object(
          [&] {
            json.key("check").string(finding.check);
            json.key("place").string(finding.place);
            json.key("value").number(finding.value);
            json.key("limit").number(finding.limit);
            json.key("text").string(finding.text);
            json.key("remedy").string(finding.remedy);
          },
          true);
  });
  return json.take();
}

} // namespace maestro::plan

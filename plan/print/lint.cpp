// What is allowed and yet looks wrong.
#include "plan/print/formats.h"
#include "plan/print/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::plan {
namespace {

class Lint {
public:
  explicit Lint(const Plan &plan) : plan(plan) {}

  std::vector<std::string> take() {
    parameters();
    for (const fb::Executable *executable : *plan->executables()) {
      buffers(*executable);
      regions(*executable);
      programs(*executable);
    }
    return std::move(findings);
  }

private:
  template <typename... Args> void find(fmt::format_string<Args...> format, Args &&...args) {
    findings.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void parameters() {
    for (uint32_t i = 0; i < plan->components()->size(); ++i)
      if (size_t missing = parameterTotals(plan, i).withoutValue)
        find("component '{}': {} parameters have no value and no initializer: --weights {}=FILE must give them",
             plan->components()->Get(i)->name()->string_view(), missing, plan->components()->Get(i)->name()->string_view());
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
      find("executable '{}': {} buffers are used by no call and no binding", executable.name()->string_view(), unused);
  }

  void regions(const fb::Executable &executable) {
    std::vector<uint64_t> ends(executable.regions()->size(), 0);
    for (const fb::Buffer *buffer : *executable.buffers())
      ends[buffer->region()] = std::max(ends[buffer->region()], buffer->offset() + buffer->bytes());
    for (uint32_t i = 0; i < ends.size(); ++i) {
      uint64_t bytes = executable.regions()->Get(i)->bytes();
      if (bytes - ends[i] >= 4096)
        find("executable '{}': no buffer lies in the last {} of region {} ({})", executable.name()->string_view(),
             humanBytes(bytes - ends[i]), i, fb::EnumNameRegionKind(executable.regions()->Get(i)->kind()));
    }
  }

  void programs(const fb::Executable &executable) {
    bool evaluates = false;
    for (const fb::Program *program : *executable.programs()) {
      evaluates |= program->kind() == fb::ProgramKind::Evaluate;
      if (program->calls()->size() == 0)
        find("executable '{}': the {} program calls nothing", executable.name()->string_view(),
             fb::EnumNameProgramKind(program->kind()));
    }
    if (!evaluates)
      find("executable '{}': there is no Evaluate program, so --evaluate cannot run", executable.name()->string_view());
  }

  const Plan &plan;
  std::vector<std::string> findings;
};

} // namespace

std::vector<std::string> lint(const Plan &plan) { return Lint(plan).take(); }

} // namespace maestro::plan

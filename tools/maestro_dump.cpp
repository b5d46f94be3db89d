// maestro-dump: shows plans, checks them, compares them. A thin main; reads only.
#include "base/log.h"
#include "base/nearest.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/print/print.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

using namespace maestro;

namespace {

struct Arguments {
  std::vector<std::string> words; ///< [command] plan…
  std::string format = "summary", section;
  bool explain = false;
};

const std::vector<std::string> kCommands = {"show", "verify", "diff", "lint"};

void declare(CLI::App &app, Arguments &arguments) {
  app.footer("Commands:\n  maestro-dump plan.mpl           shows it\n"
             "  maestro-dump verify plan.mpl    says whether it is valid\n"
             "  maestro-dump diff A.mpl B.mpl   says what differs\n"
             "  maestro-dump lint plan.mpl      says what looks wrong\n\n"
             "Examples:\n  maestro-dump plan.mpl\n  maestro-dump plan.mpl --format json | jq .training\n"
             "  maestro-dump plan.mpl --explain --section student");
  app.set_version_flag("--version", "maestro-dump " MAESTRO_VERSION);
  app.add_option("words", arguments.words, "A plan; or verify, diff, lint and their plans");
  app.add_option("--format", arguments.format, fmt::format("{}", fmt::join(plan::formatNames(), ", ")));
  app.add_option("--section", arguments.section, "Show this section alone");
  app.add_flag("--explain", arguments.explain, "Show the decisions and their reasons");
  app.allow_extras();
}

/// Misspelt options, with the nearest right one.
Status refuseExtras(const CLI::App &app) {
  if (app.remaining().empty())
    return Status();
  const std::string extra = app.remaining().front();
  return Status::invalidInput(fmt::format("unknown option '{}' (see maestro-dump --help){}", extra,
                                          didYouMean(extra, std::vector<std::string>{"--format", "--section", "--explain",
                                                                                     "--help", "--version"})));
}

/// The text to standard output. A reader that went away has read what it wanted.
Status writeOut(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return Status();
  if (errno == EPIPE)
    return Status();
  return Status::unavailable(fmt::format("standard output: {}", std::strerror(errno)));
}

Result<plan::Selection> select(const plan::Plan &plan, const std::string &section) {
  if (section.empty())
    return plan::Selection(plan);
  return plan::Selection::section(plan, section);
}

Status show(const Arguments &arguments, const std::string &path) {
  auto format = plan::formatFromName(arguments.format);
  if (!format)
    return Status::invalidInput(fmt::format("--format {}: not one of {}{}", arguments.format,
                                            fmt::join(plan::formatNames(), ", "),
                                            didYouMean(arguments.format, plan::formatNames())));
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  MAESTRO_ASSIGN(plan::Selection selection, select(plan, arguments.section));
  if (arguments.explain)
    return writeOut(plan::explain(plan, selection));
  return writeOut(plan::print(plan, *format, selection));
}

Status verify(const std::string &path) {
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  return writeOut(fmt::format("{}: valid, format {}.{}, {} bytes, hash {:016x}\n", path, plan->version_major(),
                              plan->version_minor(), plan.bytes().size(), plan.hash()));
}

Status diff(const std::string &before, const std::string &after) {
  MAESTRO_ASSIGN(plan::Plan first, plan::Plan::load(before));
  MAESTRO_ASSIGN(plan::Plan second, plan::Plan::load(after));
  return writeOut(plan::diff(first, second));
}

Status lint(const std::string &path) {
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  std::string text;
  for (const std::string &finding : plan::lint(plan))
    text += finding + "\n";
  return writeOut(text.empty() ? path + ": nothing looks wrong\n" : text);
}

Status run(const Arguments &arguments) {
  std::vector<std::string> paths = arguments.words;
  if (paths.empty())
    return Status::invalidInput("no plan given; for example: maestro-dump plan.mpl");
  std::string command = "show";
  if (std::find(kCommands.begin(), kCommands.end(), paths.front()) != kCommands.end()) {
    command = paths.front();
    paths.erase(paths.begin());
  }
  size_t expected = command == "diff" ? 2 : 1;
  if (command == "show" && paths.size() > 1)
    return Status::invalidInput(fmt::format("'{}' is no command; give one plan, or verify, diff or lint and their plans{}",
                                            paths.front(), didYouMean(paths.front(), kCommands)));
  if (paths.size() != expected)
    return Status::invalidInput(fmt::format("maestro-dump {} takes {} plan{}, and {} were given", command, expected,
                                            expected == 1 ? "" : "s", paths.size()));
  if (command == "verify")
    return verify(paths[0]);
  if (command == "diff")
    return diff(paths[0], paths[1]);
  return command == "lint" ? lint(paths[0]) : show(arguments, paths[0]);
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Shows what a plan holds.", "maestro-dump"};
  Arguments arguments;
  std::signal(SIGPIPE, SIG_IGN);
  try {
    declare(app, arguments);
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  Status status = refuseExtras(app);
  if (status.isOk())
    status = run(arguments);
  if (!status.isOk())
    logError(status.message());
  return status.exitStatus();
}

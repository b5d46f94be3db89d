// maestro-dump: shows plans, checks them, compares them. A thin main; reads only.
#include "base/log.h"
#include "base/nearest.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/print/print.h"
#include "tools/arguments.h"
#include "tools/timeline/timeline.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <numeric>

using namespace maestro;

namespace {

struct Arguments {
  std::vector<std::string> words; ///< [command] plan…
  std::string format = "summary", section, measured;
  uint32_t lostNodes = 0;
  bool explain = false, all = false, fileOrder = false;
};

const std::vector<std::string> kCommands = {"show", "verify", "diff", "lint"};
constexpr const char *kTrace = "trace"; ///< A timeline; the other formats are plan/print's.

std::vector<std::string> formatNames() {
  std::vector<std::string> names = plan::formatNames();
  names.push_back(kTrace);
  return names;
}

void declare(CLI::App &app, Arguments &arguments) {
  app.footer("Commands:\n  maestro-dump plan.mpl           shows it\n"
             "  maestro-dump verify plan.mpl    says whether it is valid\n"
             "  maestro-dump diff A.mpl B.mpl   says what differs, and what that is worth\n"
             "  maestro-dump lint plan.mpl      says what looks wrong or wasteful, and what to do\n\n"
             "Examples:\n  maestro-dump plan.mpl\n  maestro-dump plan.mpl --format json | jq .training\n"
             "  maestro-dump plan.mpl --format html --measured trace.json > plan.html\n"
             "  maestro-dump plan.mpl --explain --section student");
  app.set_version_flag("--version", "maestro-dump " MAESTRO_VERSION);
  app.add_option("words", arguments.words, "A plan; or verify, diff, lint and their plans");
  app.add_option("--format", arguments.format, fmt::format("{}", fmt::join(formatNames(), ", ")));
  app.add_option("--measured", arguments.measured, "What maestro-run --trace wrote: show it beside its prediction");
  app.add_flag("--file-order", arguments.fileOrder, "Predict the baseline's order, in which samples come as they are");
  app.add_option("--section", arguments.section, "Show this section alone");
  app.add_option("--lost-nodes", arguments.lostNodes, "Show the plan for so many nodes less")
      ->check(wholeNumber<'1'>, "");
  app.add_flag(
      "--explain", arguments.explain,
      "Show why: each decision and its next best value, what binds, what more would bring, where numbers are from");
  app.add_flag("--all", arguments.all,
               "With --explain or --format html: also the numbers of the search and of each step's scheduling");
  app.allow_extras();
}

/// Misspelt options, with the nearest right one.
Status refuseExtras(const CLI::App &app) {
  if (app.remaining().empty())
    return Status();
  const std::string extra = app.remaining().front();
  return Status::invalidInput(fmt::format(
      "unknown option '{}' (see maestro-dump --help){}", extra,
      didYouMean(extra, std::vector<std::string>{"--format", "--section", "--explain", "--all", "--measured",
                                                 "--lost-nodes", "--file-order", "--help", "--version"})));
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

/// What is predicted, and what was measured where that is given: then of the same samples.
struct Timelines {
  metrics::TraceRun run;
  timeline::Timeline predicted;
  std::optional<timeline::Measured> measured;
};

Result<Timelines> timelines(const plan::Plan &plan, const executor::Topology &topology, const Arguments &arguments) {
  constexpr size_t kMostSteps = 200;
  Timelines result;
  std::vector<uint64_t> steps;
  std::vector<std::vector<int64_t>> sizes;
  if (arguments.measured.empty()) {
    MAESTRO_ASSIGN(sizes, timeline::typicalSizes(plan));
    steps.resize(sizes.size());
    std::iota(steps.begin(), steps.end(), 1);
    result.run.planHash = plan.hash();
    result.run.fileOrder = arguments.fileOrder;
  } else {
    MAESTRO_ASSIGN(result.measured, timeline::readTrace(arguments.measured, plan, topology));
    result.run = result.measured->run;
    size_t first = result.measured->steps.size() - std::min(kMostSteps, result.measured->steps.size());
    steps.assign(result.measured->steps.begin() + static_cast<ptrdiff_t>(first), result.measured->steps.end());
    sizes.assign(result.measured->sizes.begin() + static_cast<ptrdiff_t>(first), result.measured->sizes.end());
  }
  MAESTRO_ASSIGN(result.predicted, timeline::predict(plan, topology, result.run, steps, sizes));
  return result;
}

Status showTimelines(const Arguments &arguments, const plan::Plan &plan, const plan::Selection &selection) {
  executor::Topology topology(plan);
  MAESTRO_ASSIGN(Timelines found, timelines(plan, topology, arguments));
  const timeline::Timeline *measured = found.measured ? &found.measured->timeline : nullptr;
  if (arguments.format == kTrace)
    return writeOut(timeline::traceText(found.predicted, plan, topology, found.run));
  if (arguments.format == "html")
    return writeOut(plan::print(plan, plan::Format::Html, selection,
                                timeline::timelinesHtml(plan, topology, found.predicted, measured)));
  timeline::Usage predicted = timeline::usage(found.predicted, topology, plan), actual;
  if (measured)
    actual = timeline::usage(*measured, topology, plan);
  return writeOut(timeline::usageTable(plan, topology, predicted, measured ? &actual : nullptr));
}

Status show(const Arguments &arguments, const std::string &path) {
  auto format = plan::formatFromName(arguments.format);
  if (!format && arguments.format != kTrace)
    return Status::invalidInput(fmt::format("--format {}: not one of {}{}", arguments.format,
                                            fmt::join(formatNames(), ", "),
                                            didYouMean(arguments.format, formatNames())));
  if (arguments.all && !arguments.explain && format != plan::Format::Html)
    return Status::invalidInput("--all goes with --explain or --format html");
  bool drawsTime = !format || format == plan::Format::Html;
  if (!arguments.measured.empty() && !drawsTime && format != plan::Format::Summary)
    return Status::invalidInput(
        fmt::format("--measured goes with --format summary, trace or html, not {}", arguments.format));
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  if (arguments.lostNodes > 0) {
    MAESTRO_ASSIGN(plan, plan.spare(arguments.lostNodes));
  }
  MAESTRO_ASSIGN(plan::Selection selection, select(plan, arguments.section));
  if (arguments.all)
    selection.addTuning();
  if (arguments.explain)
    return writeOut(plan::explain(plan, selection));
  if (drawsTime || !arguments.measured.empty())
    return showTimelines(arguments, plan, selection);
  return writeOut(plan::print(plan, *format, selection));
}

Status verify(const std::string &path) {
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  return writeOut(fmt::format("{}: valid, format {}.{}, {} bytes, hash {:016x}\n", path, plan->version_major(),
                              plan->version_minor(), plan.bytes().size(), plan.hash()));
}

/// Of samples of the sizes that the plan was made for.
Result<plan::StepTimes> stepTimes(const plan::Plan &plan) {
  executor::Topology topology(plan);
  MAESTRO_ASSIGN(Timelines found, timelines(plan, topology, {}));
  return timeline::stepTimes(found.predicted, timeline::usage(found.predicted, topology, plan));
}

Status diff(const std::string &before, const std::string &after) {
  MAESTRO_ASSIGN(plan::Plan first, plan::Plan::load(before));
  MAESTRO_ASSIGN(plan::Plan second, plan::Plan::load(after));
  MAESTRO_ASSIGN(plan::StepTimes firstTimes, stepTimes(first));
  MAESTRO_ASSIGN(plan::StepTimes secondTimes, stepTimes(second));
  return writeOut(plan::diff(first, second, &firstTimes, &secondTimes));
}

Status lint(const std::string &path, const std::string &format) {
  if (format != "summary" && format != "json")
    return Status::invalidInput(fmt::format("lint writes --format json, or lines for people, not {}", format));
  MAESTRO_ASSIGN(plan::Plan plan, plan::Plan::load(path));
  MAESTRO_ASSIGN(plan::StepTimes times, stepTimes(plan));
  std::vector<plan::Finding> findings = plan::lint(plan, &times);
  if (format == "json")
    return writeOut(plan::lintJson(findings));
  return writeOut(findings.empty() ? path + ": nothing looks wrong\n" : plan::lintText(findings));
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
    return Status::invalidInput(
        fmt::format("'{}' is no command; give one plan, or verify, diff or lint and their plans{}", paths.front(),
                    didYouMean(paths.front(), kCommands)));
  if (command != "show" &&
      (!arguments.section.empty() || arguments.explain || !arguments.measured.empty() || arguments.lostNodes > 0))
    return Status::invalidInput(
        fmt::format("--section, --explain, --measured and --lost-nodes show a plan; they do not go with {}", command));
  if (paths.size() != expected)
    return Status::invalidInput(fmt::format("maestro-dump {} takes {} plan{}, and {} were given", command, expected,
                                            expected == 1 ? "" : "s", paths.size()));
  if (command == "verify")
    return verify(paths[0]);
  if (command == "diff")
    return diff(paths[0], paths[1]);
  return command == "lint" ? lint(paths[0], arguments.format) : show(arguments, paths[0]);
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Shows what a plan holds.", "maestro-dump"};
  Arguments arguments;
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN); // As on a full disk.
  try {
    declare(app, arguments);
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return endParsing(app, error);
  }
  Status status = refuseExtras(app);
  if (status.isOk())
    status = run(arguments);
  if (!status.isOk())
    logError(status.message());
  return status.exitStatus();
}

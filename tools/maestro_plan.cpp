// maestro-plan: models and a workload in, a plan file out. A thin main.
#include "base/log.h"
#include "executor/data/data_files.h"
#include "executor/data/dataset_sizes.h"
#include "planner/driver/plan_command.h"
#include "planner/workload/reference.h"
#include "tools/arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <csignal>

using namespace maestro;

namespace {

struct Arguments {
  planner::PlanOptions options;
  std::vector<std::string> pins, data;
  std::string stopAfter, deadline, logFormat = "text";
  int topK = 1, spareNodes = 0;
  bool quiet = false, showsKeys = false;
};

void declare(CLI::App &app, Arguments &arguments) {
  app.footer("Examples:\n  maestro-plan model.onnx -o plan.mpl\n"
             "  maestro-plan workload.yaml -o plan.mpl --set train.global_batch=64 --pin '*.micro_batch=4'\n"
             "  maestro-plan workload.yaml -o plan.mpl --data 'shards/*.tar'");
  app.set_version_flag("--version", "maestro-plan " MAESTRO_VERSION);
  app.add_option("inputs", arguments.options.inputs, "MODEL.onnx… or WORKLOAD.yaml");
  app.add_option("--workload", arguments.options.inputs, "The workload file (the same as giving it alone)");
  app.add_option("-o,--output", arguments.options.output, "The plan file to write");
  app.add_option("--cluster", arguments.options.cluster, "Cluster description; without it this machine");
  app.add_option("--set", arguments.options.settings, "A value of the workload or cluster file: train.global_batch=64");
  app.add_option("--pin", arguments.pins,
                 "Fix a decision: "
                 "SECTION.{dp,stages,tensor,micro_batch,micro_batch_tokens,more_in_flight,devices,recompute,loss_"
                 "chunks,split_backward,precision}=VALUE");
  app.add_option("--data", arguments.data,
                 "Data, as maestro-run has it: plan for the sizes of its samples, read from headers");
  app.add_option("--deadline", arguments.deadline,
                 "Time for the whole command, for example 10s: the search ends early");
  app.add_option("--spare-nodes", arguments.spareNodes,
                 "Also plan for clusters that lost up to so many nodes, for maestro-run --restarts to go on with")
      ->check(wholeNumber<'1'>, "");
  app.add_option("--top-k", arguments.topK, "Keep the K best plans: plan.mpl, plan.2.mpl, …")
      ->check(wholeNumber<'1'>, "");
  app.add_option("--stop-after", arguments.stopAfter, "Print the IR after a phase: " + phaseNames());
  app.add_option("--log-format", arguments.logFormat, "text or json")->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--keys", arguments.showsKeys,
               "Print every key that workload, cluster and device files may have, and do nothing else");
  app.add_flag("--quiet", arguments.quiet, "Warnings and errors only");
}

/// The executor's reader, in the planner's terms: one way of reading for both.
Result<planner::DataSizes> readSizes(const std::vector<std::string> &patterns, const planner::DataQuestion &question) {
  std::vector<data::SymbolSpec> symbols;
  for (const planner::DataQuestion::Dim &dim : question.dims)
    symbols.push_back({dim.name, dim.sum ? data::Combine::Sum : data::Combine::Max, dim.max, dim.multipleOf});
  std::vector<data::FieldSpec> fields;
  for (const planner::DataQuestion::Field &field : question.fields) {
    data::FieldSpec &spec = fields.emplace_back();
    spec.name = field.name;
    spec.dtype = field.dtype;
    spec.optional = field.optional;
    spec.ownPositions = field.ownPositions;
    for (const planner::DataQuestion::Size &size : field.shape)
      spec.dims.push_back(size.dim < 0 ? data::DimSpec::fixed(size.fixed) : data::DimSpec::of(size.dim));
  }
  MAESTRO_ASSIGN(data::DataFiles files, data::findData(patterns));
  MAESTRO_ASSIGN(data::DatasetSizes sizes, data::readDatasetSizes(files, symbols, fields));
  bool areShards = files.kind == data::DataFiles::Kind::Shards;
  const char *kind = areShards ? "shard" : "file";
  std::string in = sizes.shards < sizes.among ? fmt::format("{} of {} {}s", sizes.shards, sizes.among, kind)
                   : sizes.shards == 1        ? fmt::format("1 {}", kind)
                                              : fmt::format("{} {}s", sizes.shards, kind);
  std::string looked = sizes.areAlike ? "all samples are alike" : fmt::format("{} samples looked at", sizes.samples);
  std::string which = sizes.areAlike  ? "all samples, which are alike,"
                      : !areShards    ? "a sample of each source"
                      : sizes.isWhole ? fmt::format("all {} samples", sizes.samples)
                                      : fmt::format("the first {} samples", sizes.samples);
  std::string table = data::describeFields(sizes);
  logInfo(fmt::format("--data: {}\n{}", looked, std::string_view(table).substr(0, table.size() - 1)));
  return planner::DataSizes{std::move(sizes.values),
                            fmt::format("{} of {} ('{}'){}", which, in, fmt::join(patterns, "', '"),
                                        files.mixture.empty() ? "" : ", by weight"),
                            sizes.isWhole && areShards};
}

/// "10s", "500ms", "2m": a number above zero and its unit, in seconds.
Result<double> readDeadline(const std::string &text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  double factor = unit == "ms" ? 1e-3 : unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error == std::errc() && std::isfinite(value) && value > 0 && factor > 0)
    return value * factor;
  return Status::invalidInput("--deadline " + text + ": write a time above zero and its unit: 500ms, 10s, 2m or 1h");
}

Status interpret(Arguments &arguments) {
  planner::PlanOptions &options = arguments.options;
  if (options.inputs.empty())
    return Status::invalidInput("no model or workload given; for example: maestro-plan model.onnx -o plan.mpl");
  for (const std::string &text : arguments.pins) {
    MAESTRO_ASSIGN(planner::Pin pin, planner::parsePin(text));
    options.pins.push_back(std::move(pin));
  }
  if (!arguments.deadline.empty()) {
    MAESTRO_ASSIGN(options.deadlineSeconds, readDeadline(arguments.deadline));
  }
  if (!arguments.data.empty())
    options.readSizes = [&](const planner::DataQuestion &question) { return readSizes(arguments.data, question); };
  options.topK = static_cast<uint32_t>(arguments.topK);
  options.spareNodes = static_cast<uint32_t>(arguments.spareNodes);
  if (!arguments.stopAfter.empty()) {
    options.stopAfter = phaseFromName(arguments.stopAfter);
    if (!options.stopAfter)
      return Status::invalidInput("--stop-after " + arguments.stopAfter + ": no such phase; one of " + phaseNames());
  } else if (options.output.empty()) {
    return Status::invalidInput("no output given; add -o plan.mpl");
  }
  return Status();
}

Status showKeys() {
  MAESTRO_ASSIGN(std::string reference, planner::keyReference());
  fmt::print("{}", reference);
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Plans the training of a model or a compound workload.", "maestro-plan"};
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return endParsing(app, error);
  }
  setLogFormat(arguments.logFormat == "json" ? LogFormat::Json : LogFormat::Text);
  setLogQuiet(arguments.quiet);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN); // Beyond a file size limit a write then fails as on a full disk.
  Status status = arguments.showsKeys ? showKeys() : interpret(arguments);
  if (status.isOk() && !arguments.showsKeys)
    status = planner::runPlan(arguments.options);
  if (!status.isOk())
    logError(status.message());
  return status.exitStatus();
}

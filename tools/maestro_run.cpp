// maestro-run: trains what a plan says. A thin main: options in, exit status out.
#include "base/guarded.h"
#include "base/log.h"
#include "executor/core/run.h"
#include "tools/arguments.h"
#include "tools/bound_spinning.h"
#include "tools/restarts.h"
#include "transport/control/pmix.h"

#include <CLI/CLI.hpp>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <unistd.h>

using namespace maestro;

namespace {

void onSignal(int signal) {
  executor::requestStop();
  std::signal(signal, SIG_DFL); // The second one ends the process at once.
}

/// For what is thrown where nobody can catch it, with no memory left to say so in: status 2 and a
/// message, as for all that the machine fails at. Other ends of the program are bugs and stay what
/// they are.
[[noreturn]] void onTerminate() {
  try {
    if (std::exception_ptr thrown = std::current_exception())
      std::rethrow_exception(thrown);
  } catch (const std::bad_alloc &) {
    static std::atomic_flag isSaid;
    while (isSaid.test_and_set()) // Another thread says it, and ends the process.
      ::pause();
    for (const char *text : {"error: ", kOutOfMemory, "\n"})
      (void)!::write(STDERR_FILENO, text, std::strlen(text));
    ::_exit(2);
  } catch (...) {
  }
  std::abort();
}

Status parseWeights(const std::vector<std::string> &texts, executor::WeightFiles &weights) {
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return Status::invalidInput("--weights " + text +
                                  ": write component=PATH, a safetensors file, its index or a folder with either");
    auto [given, isFirst] = weights.emplace(text.substr(0, equals), text.substr(equals + 1));
    if (!isFirst)
      return Status::invalidInput("--weights " + text + ": component '" + given->first + "' has its weights from " +
                                  given->second +
                                  " already; give one, a folder or an index where they are several files");
  }
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  std::set_terminate(onTerminate);
  boundSpinning(argv);
  CLI::App app{"Trains a plan that maestro-plan wrote.", "maestro-run"};
  app.footer("Example:\n  maestro-run plan.mpl --data 'shards/*.tar' --steps 100 --out run1");
  app.set_version_flag("--version", "maestro-run " MAESTRO_VERSION);

  executor::RunOptions options;
  options.version = MAESTRO_VERSION;
  std::vector<std::string> weights, nextToken;
  std::string logFormat = "text", ranks = "threads", transport = "auto", resume;
  uint64_t steps = 0, seed = 0;
  uint32_t restarts = 0;
  bool quiet = false, adapt = false;
  app.add_option("plan", options.planPath, "The plan to run")->required();
  app.add_option(
      "--data", options.data,
      "WebDataset tar shards, files of tokens (.bin) or folders of .npy: paths, globs, {000..012}; path=weight mixes "
      "sources; without it synthetic samples");
  auto *nextTokenOption =
      app.add_option("--next-token", nextToken,
                     "Of tokens: the fields that hold the token behind each (those of the plan's losses); or none");
  app.add_option(
      "--cache", options.cache,
      "Folder where an index of each shard is kept: made once, read by every process and run after; the shards' "
      "own folder will do");
  auto *stepsOption = app.add_option("--steps", steps, "Stop after this step; without it one pass over the data")
                          ->check(wholeNumber<'1'>, "");
  app.add_option("--out", options.out, "Folder for metrics, checkpoints and the plan; one run writes there at a time");
  app.add_flag("--resume{now}", resume,
               "Continue from the newest whole checkpoint in --out; --resume=auto also starts "
               "where there is none")
      ->check(CLI::IsMember({"now", "auto"}));
  app.add_flag("--overwrite", options.overwrite,
               "Replace what an older run left in --out, once the first step is done");
  app.add_flag("--accept-changed-data", options.acceptsChangedData, "Resume with other shards, sizes, order or seed");
  app.add_option("--weights", weights,
                 "component=PATH: initial values, a safetensors file, the index of several, or a folder with either");
  app.add_option("--save-every", options.saveEvery, "Steps between checkpoints (the last step is always saved)")
      ->check(wholeNumber<'1'>, "");
  app.add_option("--keep-last", options.keepLast, "Keep this many checkpoints, the newest (all)")
      ->check(wholeNumber<'1'>, "");
  app.add_option("--validate", options.validation.data, "Data, as for --data, over which the losses are evaluated");
  app.add_option("--validate-every", options.validation.every, "Steps between validations (the last step always is)")
      ->check(wholeNumber<'1'>, "");
  app.add_option("--keep-best", options.validation.keepBest,
                 "Keep the checkpoint whose validation loss of this name is the best; `loss` is the weighted sum");
  app.add_option("--stop-after-no-gain", options.validation.stopAfterNoGain,
                 "End after so many validations in a row without a better one")
      ->check(wholeNumber<'1'>, "");
  app.add_flag("--save-gradients", options.saveGradients, "Write the first step's gradients to --out");
  app.add_flag("--self-check", options.selfCheck, "Also evaluate the first step in one piece and compare");
  app.add_flag("--evaluate", options.evaluate, "No update: print the mean losses over the data");
  app.add_flag("--shuffle", options.shuffle, "A seeded permutation of the samples in every pass");
  app.add_flag("--tensorboard", options.tensorboard,
               "Also write TensorBoard's event files, to --out's folder tensorboard");
  app.add_option("--trace", options.trace, "Write a Chrome trace of every kernel call");
  auto *seedOption = app.add_option("--seed", seed, "Overrides the plan's seed")->check(wholeNumber<'0'>, "");
  app.add_option("--ranks", ranks, "Ranks as threads or processes; results do not depend on it")
      ->check(CLI::IsMember({"threads", "processes"}));
  app.add_option(
         "--transport", transport,
         "Between processes: auto takes memory on one machine (local), else RDMA (verbs) where it reaches all, "
         "else TCP (libfabric), and between machines' GPUs NCCL where all have it; or one of them for all: nccl "
         "moves what GPUs write, and hosts do as with auto")
      ->check(CLI::IsMember({"auto", "local", "verbs", "libfabric", "nccl"}));
  app.add_option("--restarts", restarts,
                 "Start again from the last checkpoint, up to so many times, when the machine or a peer failed")
      ->check(wholeNumber<'1'>, "");
  app.add_flag("--adapt", adapt, "Let measured times steer the grouping of samples (gives bitwise repetition up)");
  app.add_option("--log-format", logFormat, "text or json")->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--quiet", quiet, "Warnings and errors only");
  app.add_option("--late-device", options.lateDeviceSeed, "For tests: a device that completes late, seeded")->group("");
  app.add_option("--sleep-kernels", options.sleepScale, "For tests: tasks sleep for this many times their planned time")
      ->check(CLI::PositiveNumber)
      ->group("");
  app.add_flag("--file-order", options.fileOrder, "For comparison: samples and tasks in file order")->group("");
  app.add_flag("--wait-for-steps", options.waitsForSteps, "For comparison: nothing runs ahead into the next step")
      ->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return endParsing(app, error);
  }
  if (stepsOption->count())
    options.steps = steps;
  if (nextTokenOption->count())
    options.nextToken = nextToken == std::vector<std::string>{"none"} ? std::vector<std::string>() : nextToken;
  if (seedOption->count())
    options.seed = seed;
  options.resume = resume.empty()     ? executor::RunOptions::Resume::No
                   : resume == "auto" ? executor::RunOptions::Resume::IfAny
                                      : executor::RunOptions::Resume::Yes;
  options.processes = ranks == "processes";
  options.transport = transport == "local"       ? executor::TransportChoice::Local
                      : transport == "verbs"     ? executor::TransportChoice::Verbs
                      : transport == "libfabric" ? executor::TransportChoice::Libfabric
                      : transport == "nccl"      ? executor::TransportChoice::Nccl
                                                 : executor::TransportChoice::Auto;
  options.adapts = adapt;
  options.quiet = quiet;
  setLogFormat(logFormat == "json" ? LogFormat::Json : LogFormat::Text);
  setLogQuiet(quiet);

  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN); // Beyond a file size limit a write then fails as on a full disk.
  Status status = parseWeights(weights, options.weights);
  if (status.isOk())
    status = transport::meetThroughPmix();
  options.restarts = restarts;
  if (status.isOk() && restarts > 0)
    status = executor::beforeRestarts(options);
  auto run = [&](bool isRestart) {
    std::signal(SIGINT, onSignal);
    std::signal(SIGTERM, onSignal);
    options.isRestart = isRestart;
    if (status.isOk())
      status = guarded([&] { return executor::run(options); });
    if (!status.isOk())
      logError(status.message());
    return status.exitStatus();
  };
  return restarts > 0 && status.isOk() ? runWithRestarts(restarts, run) : run(false);
}

#include "executor/core/run_options.h"

#include "base/log.h"

#include <fmt/format.h>

#include <utility>

namespace maestro::executor {
namespace {

Status checkValidation(const RunOptions &options) {
  const ValidationOptions &own = options.validation;
  if (!own.data.empty() && (options.evaluate || options.sleepScale > 0))
    return Status::invalidInput(fmt::format("--validate looks at what training changes; run it without {}",
                                            options.evaluate ? "--evaluate" : "--sleep-kernels"));
  for (auto [isGiven, flag] :
       {std::pair(own.every > 0, "--validate-every"), std::pair(!own.keepBest.empty(), "--keep-best"),
        std::pair(own.stopAfterNoGain > 0, "--stop-after-no-gain")})
    if (isGiven && own.data.empty())
      return Status::invalidInput(fmt::format("{} needs --validate, the data that it is about", flag));
  if (own.stopAfterNoGain > 0 && own.every == 0)
    return Status::invalidInput("--stop-after-no-gain needs --validate-every, the steps between validations");
  return Status();
}

} // namespace

Status checkOptions(const RunOptions &options) {
  bool resumes = options.resume != RunOptions::Resume::No;
  if (options.sleepScale > 0 && (resumes || options.saveGradients || options.selfCheck || options.evaluate))
    return Status::invalidInput(
        "--sleep-kernels computes nothing; run it without --resume, --save-gradients, --self-check "
        "and --evaluate");
  if (options.waitsForSteps && options.processes)
    return Status::invalidInput("--wait-for-steps works with --ranks threads only");
  MAESTRO_TRY(checkValidation(options));
  if (resumes && options.overwrite)
    return Status::invalidInput("--resume goes on with what --overwrite replaces; give one of them");
  if (options.sleepScale > 0)
    logWarning("--sleep-kernels: nothing is computed; losses are 0, and no checkpoint is written");
  if (!options.out.empty())
    return Status();
  for (auto [isGiven, flag] :
       {std::pair(resumes, "--resume"), std::pair(options.overwrite, "--overwrite"),
        std::pair(options.saveGradients, "--save-gradients"), std::pair(options.keepLast > 0, "--keep-last"),
        std::pair(!options.validation.keepBest.empty(), "--keep-best"),
        std::pair(options.tensorboard, "--tensorboard")})
    if (isGiven)
      return Status::invalidInput(fmt::format("{} needs --out, the folder of the run", flag));
  if (!options.evaluate)
    logInfo("no --out: neither checkpoints nor metrics will be kept");
  return Status();
}

} // namespace maestro::executor

#include "executor/core/training_data.h"

#include "base/log.h"
#include "executor/core/data_specs.h"
#include "executor/data/open_data.h"
#include "executor/data/synthetic.h"
#include "plan/plan_generated.h"

#include <fmt/format.h>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

Result<std::unique_ptr<data::SampleReader>> openSynthetic(const plan::Plan &plan, const RunOptions &options,
                                                          uint64_t seed) {
  if (const auto *reason = plan->no_synthetic(); reason && reason->size() > 0)
    return Status::invalidInput(fmt::format("{}: {}; give --data", options.planPath, reason->string_view()));
  data::SyntheticOptions synthetic;
  synthetic.symbols = symbolSpecs(plan);
  synthetic.fields = fieldSpecs(plan);
  synthetic.seed = seed;
  for (const fb::Field *field : *plan->fields())
    if (field->synthetic()) {
      MAESTRO_ASSIGN(auto sizes, data::parseSyntheticSizes(field->synthetic()->string_view()));
      synthetic.sizes.insert(synthetic.sizes.end(), sizes.begin(), sizes.end());
    }
  return data::openSynthetic(std::move(synthetic));
}

} // namespace

Result<TrainingData> openTrainingData(const plan::Plan &plan, const RunOptions &options, uint64_t seed, bool isShared) {
  TrainingData result;
  if (options.data.empty()) {
    logInfo("no --data: training on synthetic samples");
    result.identity.synthetic = true;
    MAESTRO_ASSIGN(result.reader, openSynthetic(plan, options, seed));
    return result;
  }
  data::DataRequest request{fieldSpecs(plan), symbolSpecs(plan), options.nextToken, false, options.shuffle, seed,
                            options.cache,    isShared};
  for (const fb::Loss *loss : *plan->losses())
    request.graphComputesLoss |= loss->from_graph();
  MAESTRO_ASSIGN(data::DataFiles files, data::findData(options.data));
  MAESTRO_ASSIGN(result.identity, data::identify(files, options.shuffle));
  MAESTRO_ASSIGN(result.reader, data::openData(files, request));
  return result;
}

Result<data::DataPosition> resumedPosition(const checkpoint::FoundCheckpoint &found, const data::DataIdentity &now,
                                           const ResumeOptions &options) {
  const checkpoint::TrainingState &state = found.state;
  std::string difference = state.data ? data::differenceOf(*state.data, now) : "";
  bool dataDiffers = !difference.empty();
  if (!dataDiffers && options.seed != state.seed)
    difference = fmt::format("seed {} then, --seed {} now", state.seed, options.seed);
  if (difference.empty())
    return state.position;
  if (!options.acceptsChangedData)
    return Status::invalidInput(fmt::format(
        "--resume: {} was made with other data: {}; give the same, or --accept-changed-data", found.path, difference));
  auto isInOrder = [](const data::DataIdentity &data) { return !data.shuffled && !data.synthetic; };
  bool readsOn = !dataDiffers || (isInOrder(now) && isInOrder(*state.data) &&
                                  data::beginAlike(*state.data, now, state.position.shard + 1));
  logWarning(fmt::format("resuming with other data ({}): {}, and not bitwise", difference,
                         readsOn ? "reading goes on where it was" : "it is read from its beginning"));
  return readsOn ? state.position : data::DataPosition{.pass = state.position.pass};
}

} // namespace maestro::executor

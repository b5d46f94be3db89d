// What is done where the answer does not fit the devices' memory, or fits with less of it for next to nothing.
#include "planner/driver/planner.h"

#include "base/log.h"
#include "planner/explain/phrases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace maestro::planner {
namespace {

/// With less memory, where the answer needs more than its layers add up to.
constexpr int kSearchesAgain = 4;

/// Where nothing is searched, losses are done in chunks where that saves so much of the fullest device's peak, and
/// tasks take so many times as long at most.
constexpr double kLeastSaving = 0.05, kMostSlower = 1.02;

/// Of a micro-batch's tasks, at the bounds.
double taskSeconds(const EmittedPlan &plan) {
  double seconds = 0;
  for (const LoweringReport &report : plan.reports)
    for (const ProgramCost &program : report.costs)
      if (program.kind == plan::fb::ProgramKind::Forward || program.kind == plan::fb::ProgramKind::Backward ||
          program.kind == plan::fb::ProgramKind::WeightGradient)
        seconds += program.seconds;
  return seconds;
}

} // namespace

bool Planner::halveMicroBatches() {
  SectionLayout *largest = nullptr;
  for (auto &[name, layout] : layouts)
    if (!layout.microBatchIsPinned && layout.microBatch > 1 && (!largest || layout.microBatch > largest->microBatch))
      largest = &layout;
  if (!largest)
    return false;
  largest->microBatch /= 2;
  largest->microBatchReason = "halved until the plan fits the device's memory";
  return true;
}

Result<Planner::Tried> Planner::tryLossChunks(uint32_t count) {
  Tried tried;
  PartitionOptions partition = pins.partition(workload);
  for (const SectionChain &chain : atoms.sections) {
    std::vector<uint32_t> counts = lossChunksOf(*programs, chain.name);
    auto end = std::upper_bound(counts.begin(), counts.end(), count);
    if (end == counts.begin() || pins.of(chain.name, &SectionPins::lossChunks))
      continue;
    partition.lossChunks[chain.name] = *std::prev(end);
    tried.chunking.push_back({chain.name + ".loss_chunks", std::to_string(*std::prev(end)), "", true});
  }
  MAESTRO_ASSIGN(tried.programs, makePrograms(partition));
  input.sections = *tried.programs;
  MAESTRO_ASSIGN(tried.emitted, emitPlan(input));
  return tried;
}

Status Planner::chooseLossChunks() {
  std::set<uint32_t> counts;
  for (const SectionChain &chain : atoms.sections)
    if (!search && !pins.of(chain.name, &SectionPins::lossChunks))
      for (uint32_t count : lossChunksOf(*programs, chain.name))
        counts.insert(count);
  uint64_t before = emitted.fullest().peakBytes, most = static_cast<uint64_t>((1 - kLeastSaving) * double(before));
  double seconds = taskSeconds(emitted);
  std::optional<Tried> best;
  for (uint32_t count : counts) {
    if (best && !emitted.fits && best->emitted.fits)
      break;
    MAESTRO_ASSIGN(Tried tried, tryLossChunks(count));
    uint64_t after = tried.emitted.fullest().peakBytes;
    double slower = taskSeconds(tried.emitted) / seconds;
    if (emitted.fits && (slower > kMostSlower || after > most))
      continue;
    if (best && after >= best->emitted.fullest().peakBytes)
      continue;
    for (Decision &decision : tried.chunking)
      decision.reason = fmt::format("heads and losses over chunks of rows: a device needs {:.3f} GiB instead of "
                                    "{:.3f}, tasks take {:.3f} times as long",
                                    gib(after), gib(before), slower);
    best = std::move(tried);
  }
  if (!best) {
    input.sections = *programs;
    return Status();
  }
  programs = std::move(best->programs);
  chunking = std::move(best->chunking);
  return tryLayouts(0);
}

Status Planner::searchAgain() {
  uint64_t allowed = deviceBytes();
  for (int attempt = 0; !emitted.fits && search && attempt < kSearchesAgain; ++attempt) {
    uint64_t excess = emitted.fullest().peakBytes - deviceBytes(),
             further = attempt > 0 ? deviceBytes() >> (10 - 2 * attempt) : 0;
    allowed -= std::min(allowed, std::max(excess + (excess >> 3), further));
    logInfo(fmt::format("the layout that was found needs {:.2f} GiB more than its layers add up to; searching again "
                        "with {:.2f} GiB a device",
                        gib(excess), gib(allowed)));
    MAESTRO_TRY(useSearch(allowed));
    MAESTRO_TRY(tryLayouts(0));
  }
  return Status();
}

Status Planner::makeFit() {
  if (!emitted.fits && search) {
    search.reset();
    MAESTRO_TRY(chooseLayouts());
    MAESTRO_TRY(useDefaults());
    MAESTRO_TRY(tryLayouts(0));
    MAESTRO_TRY(chooseLossChunks());
  }
  while (!emitted.fits && halveMicroBatches())
    MAESTRO_TRY(tryLayouts(0));
  // A model that no micro-batch makes small enough for the machine it is planned on is meant for another one.
  const DeviceMemory &fullest = emitted.fullest();
  if (emitted.fits || !cluster.isThisMachine || fullest.residentBytes <= deviceBytes())
    return Status();
  logWarning(fmt::format("parameters, gradients and optimizer state need {:.1f} GiB, a device of this machine has "
                         "{:.1f}: the plan is for devices of {:.1f} GiB",
                         gib(fullest.residentBytes), gib(deviceBytes()), gib(fullest.peakBytes)));
  input.machine.kinds.front().memoryBytes = fullest.peakBytes;
  return tryLayouts(0);
}

Status Planner::tooLarge() const {
  const DeviceMemory &fullest = emitted.fullest();
  std::string kept;
  for (const cost_models::KeptMemory &own : target.machine.kinds.front().kept)
    kept += fmt::format(", {:.2f} are kept for {}", gib(own.bytes), own.what);
  return Status::invalidInput(fmt::format(
      "device {} needs {:.2f} GiB and has {:.2f} ({:.2f} GiB too much; it runs {}; parameters, gradients and "
      "optimizer state take {:.2f}{}); lower --pin micro_batch or the dims' max, or use devices of more memory",
      &fullest - emitted.devices.data(), gib(fullest.peakBytes), gib(deviceBytes()),
      gib(fullest.peakBytes - deviceBytes()), fmt::join(fullest.stations, ", "), gib(fullest.residentBytes), kept));
}

} // namespace maestro::planner

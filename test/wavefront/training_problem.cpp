// Training steps like those of real compound workloads. Sizes per sample come first; then sections, each with the dims
// that its costs depend on; then the stations are dealt by the sections' work.
#include "test/wavefront/random_problems.h"

#include "cost_models/in_flight.h"
#include "cost_models/tuner.h"
#include "wavefront/scheduler.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

/// Of a device that sustains 100 TFLOP/s: two operations for each of a million parameters and each token; and of a
/// kernel call.
constexpr int64_t psPerMillion = 20'000, callPs = 5'000'000;

/// What the planner spends on plans of fewer than 256 devices, but, so that many problems can be looked at, only where
/// the steps to tune on are a 20th above their bounds. And the micro-batches that it takes beside the usual ones where
/// they make these steps a 200th shorter.
constexpr uint64_t kPlannedSteps = 12;
constexpr int64_t kTunedNs = 500'000'000;
constexpr int64_t kTunedFrom = 20;
constexpr uint32_t kMoreInFlight = 16;

enum DimIndex : uint32_t { batch, seq, images, clips, frames, outputs, dimCount };

class Builder {
public:
  Builder(Family family, uint64_t seed, int64_t wantedDevices = 0)
      : family(family), wantedDevices(wantedDevices), seed(seed * 8 + static_cast<uint64_t>(family)),
        random(this->seed) {}
  Problem build();
  /// Another step of what was built: as many samples, no larger than its largest.
  Problem otherStep(const Problem &built, uint64_t number) const;

private:
  void makeSizes();
  std::vector<int64_t> drawSample(Random &from) const;
  uint32_t addSection(std::string name, std::vector<uint32_t> active, bool trains, bool fullBackward);
  void cost(uint32_t section, uint32_t rows, uint32_t length, int64_t millions, int64_t tokensPerRow);
  void connect(uint32_t producer, uint32_t consumer);
  void layOut();
  void splitLastStages(uint32_t index);
  void finishStages();
  void limitFlight();
  uint32_t addEncoder(const char *name, bool vision, bool trains);
  uint32_t addLanguage(const char *name, bool trains, bool fullBackward, int64_t millions);
  int64_t workOf(const Section &section) const;
  static int64_t lengthOf(Random &from, int64_t median, int64_t most);

  Family family;
  int64_t wantedDevices; ///< 0: as it comes.
  uint64_t seed;
  Random random;
  int64_t withImages = 0, withAudio = 0, withOutputs = 0, median = 0; ///< Of 100 samples; of lengths.
  bool imagesInText = false;
  Problem problem;
  std::vector<Edge> joints; ///< Between sections, stages still to be set.
  std::vector<uint32_t> stagesWanted;
  std::vector<bool> fullBackward;
};

/// Skewed: the product of a few uniform factors is close to log-normal.
int64_t Builder::lengthOf(Random &from, int64_t median, int64_t most) {
  int64_t value = median * 64;
  for (int i = 0; i < 3; ++i)
    value = value * from.in(55, 165) / 100;
  return std::clamp<int64_t>(value / 64, 8, most);
}

void Builder::makeSizes() {
  problem.dims = {{"batch", true, 1},   {"seq", false, random.chance(50) ? 8 : 64},
                  {"images", true, 1},  {"clips", true, 1},
                  {"frames", false, 8}, {"outputs", true, 1}};
  int64_t samples = random.in(2, 16) * 64;
  if (wantedDevices)
    samples = std::clamp<int64_t>(wantedDevices * 16, 128, 1024);
  withImages = random.in(30, 90), withAudio = random.in(10, 70), withOutputs = random.in(20, 60);
  median = random.in(2, 12) * 64;
  imagesInText = random.chance(50);
  for (int64_t i = 0; i < samples; ++i) {
    std::vector<int64_t> sizes = drawSample(random);
    problem.sizes.insert(problem.sizes.end(), sizes.begin(), sizes.end());
  }
}

std::vector<int64_t> Builder::drawSample(Random &from) const {
  std::vector<int64_t> sizes(dimCount, 0);
  sizes[batch] = 1;
  sizes[seq] = lengthOf(from, median, 4096);
  if (from.chance(static_cast<int>(withImages)))
    for (sizes[images] = 1; sizes[images] < 12 && from.chance(45);)
      ++sizes[images];
  if (from.chance(static_cast<int>(withAudio))) {
    sizes[clips] = 1;
    sizes[frames] = lengthOf(from, 300, 3000);
  }
  sizes[outputs] = from.chance(static_cast<int>(withOutputs)) ? from.in(1, 3) : 0;
  if (imagesInText)
    sizes[seq] = std::min<int64_t>(4096, sizes[seq] + sizes[images] * 64 + sizes[frames] / 8);
  return sizes;
}

Problem Builder::otherStep(const Problem &built, uint64_t number) const {
  Problem other = built;
  Random from(seed ^ number << 48);
  std::vector<int64_t> largest(dimCount, 0);
  for (size_t i = 0; i < built.sizes.size(); ++i)
    largest[i % dimCount] = std::max(largest[i % dimCount], built.sizes[i]);
  for (size_t sample = 0; sample < built.sampleCount(); ++sample) {
    std::vector<int64_t> sizes = drawSample(from);
    for (size_t d = 0; d < dimCount; ++d)
      other.sizes[sample * dimCount + d] = std::min(sizes[d], largest[d]);
  }
  return other;
}

uint32_t Builder::addSection(std::string name, std::vector<uint32_t> active, bool trains, bool full) {
  Section section;
  section.name = std::move(name);
  section.trains = trains;
  section.splitsBackward = trains && full && random.chance(85); // Where finishStages() finds that it may help.
  section.activeDims = std::move(active);
  section.maxSamples = random.in(2, 16);
  section.stages.resize(1);
  problem.sections.push_back(std::move(section));
  fullBackward.push_back(full);
  return static_cast<uint32_t>(problem.sections.size() - 1);
}

/// The time of a model of so many million parameters: 8 to 64 kernel calls, a part linear in tokens and one quadratic
/// in the length; backward as usual twice that, once where only inputs need gradients.
void Builder::cost(uint32_t index, uint32_t rows, uint32_t length, int64_t millions, int64_t tokensPerRow) {
  Section &section = problem.sections[index];
  Stage &stage = section.stages[0];
  int64_t psPerToken = millions * psPerMillion;
  auto scaled = [&](int64_t factor) {
    Cost cost;
    cost.terms.push_back({random.in(8, 64) * callPs, {}});
    if (length == dimCount) {
      cost.terms.push_back({factor * psPerToken * tokensPerRow, {rows}});
    } else {
      cost.terms.push_back({factor * psPerToken, {rows, length}});
      cost.terms.push_back({factor * psPerToken / 4096, {rows, length, length}});
    }
    return cost;
  };
  stage.forward = scaled(1);
  if (section.splitsBackward) {
    stage.backward = scaled(1);
    stage.weightGradient = scaled(1);
  } else if (section.trains) {
    stage.backward = scaled(fullBackward[index] ? 2 : 1);
  }
  if (section.trains && random.chance(30)) // Recompute.
    for (CostTerm &term : stage.backward.terms)
      term.picoseconds += term.picoseconds / (section.splitsBackward ? 1 : 2);
}

void Builder::connect(uint32_t producer, uint32_t consumer) {
  Edge edge;
  edge.producer = producer, edge.consumer = consumer;
  edge.gradient = problem.sections[producer].trains && problem.sections[consumer].trains;
  edge.heldUntilBackward = random.chance(50);
  edge.transfer.terms = {{5'000'000, {}}, {random.in(1, 20) * 5'000'000, {batch}}}; // 2 MB a sample at 20 to 400 GB/s.
  edge.gradientTransfer = edge.transfer;
  joints.push_back(std::move(edge));
}

uint32_t Builder::addEncoder(const char *name, bool vision, bool trains) {
  uint32_t index = addSection(name, {vision ? images : clips}, trains, true);
  vision ? cost(index, images, dimCount, random.in(1, 8) * 80, 576)
         : cost(index, clips, frames, random.in(1, 8) * 80, 0);
  return index;
}

uint32_t Builder::addLanguage(const char *name, bool trains, bool full, int64_t millions) {
  uint32_t index = addSection(name, {}, trains, full);
  cost(index, batch, seq, millions, 0);
  return index;
}

/// All tasks of all samples, each alone.
int64_t Builder::workOf(const Section &section) const {
  int64_t work = 0;
  for (size_t sample = 0; sample < problem.sampleCount(); ++sample) {
    const int64_t *sizes = problem.sizes.data() + sample * dimCount;
    if (takesPart(section, sizes))
      for (const Cost *cost :
           {&section.stages[0].forward, &section.stages[0].backward, &section.stages[0].weightGradient})
        work += section.trains || cost == &section.stages[0].forward ? evaluate(*cost, sizes) : 0;
  }
  return work;
}

/// Stations by work: every section gets one, then whoever has most work a station gets the next. Each section's
/// stations are then split in replicas and stages.
void Builder::layOut() {
  size_t sections = problem.sections.size();
  std::vector<int64_t> work, stations(sections, 1);
  for (const Section &section : problem.sections)
    work.push_back(workOf(section) * random.in(85, 118) / 100);
  int64_t total =
      std::clamp<int64_t>(static_cast<int64_t>(problem.sampleCount()) / 16, static_cast<int64_t>(sections), 64);
  total = random.in(static_cast<int64_t>(sections), total);
  if (wantedDevices)
    total = std::max(wantedDevices, static_cast<int64_t>(sections));
  for (int64_t dealt = static_cast<int64_t>(sections); dealt < total; ++dealt) {
    size_t most = 0;
    for (size_t s = 1; s < sections; ++s)
      if (work[s] * stations[most] > work[most] * stations[s])
        most = s;
    ++stations[most];
  }
  bool colocated = random.chance(25) && sections > 1;
  if (wantedDevices)
    colocated = wantedDevices < static_cast<int64_t>(sections);
  static constexpr int64_t pools[] = {1, 2, 4, 8};
  int64_t pool = 1; // Colocated sections all use the same devices, mostly a replica a device.
  for (int64_t candidate : pools)
    if (candidate * static_cast<int64_t>(sections) <= total)
      pool = candidate;
  pool = wantedDevices ? wantedDevices : pool;
  uint32_t next = 0;
  for (size_t s = 0; s < sections; ++s) {
    Section &section = problem.sections[s];
    int64_t stages = 1, count = colocated ? pool : stations[s];
    for (int64_t candidate : {2, 3, 4, 8})
      if (count % candidate == 0 && random.chance(colocated ? 25 : 40))
        stages = candidate;
    next = colocated ? 0 : next;
    for (int64_t replica = 0; replica < count / stages; ++replica) {
      std::vector<uint32_t> devices;
      for (int64_t stage = 0; stage < stages; ++stage)
        devices.push_back(next++);
      section.devices.push_back(std::move(devices));
    }
    stagesWanted.push_back(static_cast<uint32_t>(stages));
  }
  problem.devices = next;
}

/// As the planner has it (planner/search/search.cpp): weight gradients are tasks of their own in all stages, or in the
/// last ones where memory is short, and only where gradients are sent on.
void Builder::splitLastStages(uint32_t index) {
  Section &section = problem.sections[index];
  if (!section.splitsBackward)
    return;
  auto stages = static_cast<int64_t>(section.stages.size());
  bool sends = stages > 1 || std::any_of(joints.begin(), joints.end(),
                                         [&](const Edge &edge) { return edge.consumer == index && edge.gradient; });
  int64_t whole = !sends ? stages : random.chance(60) ? 0 : random.in(0, stages - 1);
  for (int64_t stage = 0; stage < whole; ++stage) {
    Stage &own = section.stages[static_cast<size_t>(stage)];
    own.backward.terms.insert(own.backward.terms.end(), own.weightGradient.terms.begin(),
                              own.weightGradient.terms.end());
    own.weightGradient.terms.clear();
  }
  section.splitsBackward = whole < stages;
}

/// Splits each section's cost over its stages, and joins the stages.
void Builder::finishStages() {
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    Section &section = problem.sections[s];
    uint32_t stages = stagesWanted[s];
    Stage whole = section.stages[0];
    for (Cost *cost : {&whole.forward, &whole.backward, &whole.weightGradient})
      for (CostTerm &term : cost->terms)
        if (!term.dims.empty())
          term.picoseconds = term.picoseconds / stages + 1;
    section.stages.assign(stages, whole);
    splitLastStages(s);
    for (uint32_t stage = 0; stage + 1 < stages; ++stage) {
      Edge edge;
      edge.producer = edge.consumer = s;
      edge.producerStage = stage, edge.consumerStage = stage + 1;
      edge.gradient = section.trains;
      edge.heldUntilBackward = section.trains;
      edge.transfer.terms = {{5'000'000, {}}};
      edge.gradientTransfer = edge.transfer;
      problem.edges.push_back(std::move(edge));
    }
    for (size_t d = 0; d < problem.dims.size(); ++d) {
      int64_t largest = 0;
      for (size_t sample = 0; sample < problem.sampleCount(); ++sample)
        largest = std::max(largest, alone(problem.dims[d], problem.sizes[sample * dimCount + d]));
      section.capacity.push_back(problem.dims[d].sum && d != batch ? std::max(largest, random.in(8, 24)) : largest);
    }
    section.capacity[batch] = section.maxSamples;
  }
  for (Edge &edge : joints) {
    edge.producerStage = stagesWanted[edge.producer] - 1;
    problem.edges.push_back(edge);
  }
}

/// Micro-batches in flight and rings, by the planner's own rule; a user may ask for a few more.
void Builder::limitFlight() {
  std::vector<cost_models::StageFlow> flows;
  std::vector<uint32_t> first;
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    const Section &section = problem.sections[s];
    first.push_back(static_cast<uint32_t>(flows.size()));
    flows.insert(flows.end(), stagesWanted[s], {s, section.maxSamples, static_cast<uint32_t>(section.devices.size())});
  }
  std::vector<cost_models::EdgeFlow> edgeFlows;
  for (const Edge &edge : problem.edges)
    edgeFlows.push_back(
        {first[edge.producer] + edge.producerStage, first[edge.consumer] + edge.consumerStage, edge.gradient});
  cost_models::InFlight limits =
      cost_models::microBatchesInFlight(flows, edgeFlows, static_cast<int64_t>(problem.sampleCount()));
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    auto more = static_cast<uint32_t>(random.in(0, 2));
    for (uint32_t stage = 0; stage < stagesWanted[s]; ++stage)
      problem.sections[s].stages[stage].slots = limits.slots[first[s] + stage] + more;
  }
  for (size_t e = 0; e < problem.edges.size(); ++e) {
    uint32_t more = static_cast<uint32_t>(random.in(0, 2));
    problem.edges[e].depth = limits.depth[e] + more;
    problem.edges[e].gradientDepth = limits.gradientDepth[e] + more;
  }
}

Problem Builder::build() {
  makeSizes();
  int64_t large = random.in(4, 10) * 200, small = random.in(1, 4) * 100;
  switch (family) {
  case Family::Language:
    addLanguage("language", true, true, large);
    break;
  case Family::Distillation: {
    int64_t teachers = random.in(1, 2);
    for (int64_t t = 0; t < teachers; ++t)
      addLanguage(t ? "second_teacher" : "teacher", false, false, large);
    uint32_t student = addLanguage("student", true, true, small);
    for (uint32_t t = 0; t < student; ++t)
      connect(t, student);
    break;
  }
  case Family::Vision: {
    bool trains = random.chance(60);
    uint32_t vision = addEncoder("vision", true, trains);
    uint32_t language = addLanguage("language", true, random.chance(60), large);
    connect(vision, language);
    break;
  }
  case Family::Multimodal: {
    uint32_t vision = addEncoder("vision", true, random.chance(60)),
             audio = addEncoder("audio", false, random.chance(60));
    uint32_t projector = addEncoder("projector", true, true);
    uint32_t language = addLanguage("language", true, random.chance(60), large);
    connect(vision, projector);
    connect(projector, language);
    connect(audio, language);
    break;
  }
  case Family::Generation: {
    uint32_t vision = addEncoder("vision", true, random.chance(60));
    uint32_t language = addLanguage("language", true, true, large);
    uint32_t speech = addSection("speech", {clips}, true, true), painter = addSection("painter", {outputs}, true, true);
    cost(speech, clips, frames, random.in(1, 4) * 80, 0);
    cost(painter, outputs, dimCount, random.in(1, 8) * 80, 576);
    connect(vision, language);
    connect(language, speech);
    connect(language, painter);
    break;
  }
  case Family::Ensemble: {
    uint32_t vision = addEncoder("vision", true, true), audio = addEncoder("audio", false, true);
    int64_t teachers = random.in(1, 3);
    uint32_t first = static_cast<uint32_t>(problem.sections.size());
    for (int64_t t = 0; t < teachers; ++t)
      addLanguage("teacher", false, false, large);
    uint32_t language = addLanguage("student", true, true, small);
    uint32_t painter = addSection("painter", {outputs}, true, true);
    cost(painter, outputs, dimCount, random.in(1, 8) * 80, 576);
    for (uint32_t t = first; t < language; ++t)
      connect(t, language);
    connect(vision, language);
    connect(audio, language);
    connect(language, painter);
    break;
  }
  }
  layOut();
  finishStages();
  limitFlight();
  return std::move(problem);
}

} // namespace

const char *name(Family family) {
  static const char *names[] = {"language", "distillation", "vision", "multimodal", "generation", "ensemble"};
  return names[static_cast<int>(family)];
}

Problem withTightRings(Problem problem) {
  for (Edge &edge : problem.edges)
    if (edge.producer == edge.consumer) {
      edge.depth = edge.heldUntilBackward ? problem.sections[edge.consumer].stages[edge.consumerStage].slots + 1 : 2;
      edge.gradientDepth = 2;
    }
  return problem;
}

Problem withPaddedTokens(Problem problem) {
  for (Section &section : problem.sections)
    for (const CostTerm &term : section.stages[0].forward.terms) {
      if (term.dims.size() != 2) // Rows, and the length that they are padded to.
        continue;
      uint32_t rows = term.dims[0], length = term.dims[1];
      int64_t total = 0, active = 0, largest = 0;
      for (size_t sample = 0; sample < problem.sampleCount(); ++sample) {
        const int64_t *sizes = problem.sizes.data() + sample * dimCount;
        int64_t tokens = takesPart(section, sizes) ? sizes[rows] * alone(problem.dims[length], sizes[length]) : 0;
        active += tokens > 0;
        total += tokens;
        largest = std::max(largest, tokens);
      }
      int64_t most = std::max(largest, section.maxSamples * total / std::max<int64_t>(1, active));
      section.areas = {{rows, length, most}};
      section.maxSamples *= 8;
      section.capacity[rows] *= 8;
      section.capacity[batch] = section.maxSamples;
    }
  return problem;
}

Problem trainingProblem(Family family, uint64_t seed) { return Builder(family, seed).build(); }

namespace {

struct PlannedSteps {
  std::vector<Problem> steps;
  int64_t ns = 0, boundNs = 0; ///< What they take together, and their bounds.
};

void schedule(PlannedSteps &planned, std::vector<Choice> hints, uint64_t fixedParts) {
  Scheduler scheduler(fixedParts);
  Schedule schedule;
  planned.ns = planned.boundNs = 0;
  for (Problem &step : planned.steps) {
    step.hints = hints;
    scheduler.run(step, Order::Wavefront, schedule);
    planned.ns += schedule.makespanNs;
    planned.boundNs += schedule.lowerBoundNs;
  }
}

Problem withMoreInFlight(Problem problem, uint32_t more) {
  for (Section &section : problem.sections)
    for (Stage &stage : section.stages)
      stage.slots += more;
  for (Edge &edge : problem.edges)
    edge.depth += more, edge.gradientDepth += more;
  return problem;
}

} // namespace

Problem plannedProblem(Family family, uint64_t seed, uint64_t fixedParts) {
  Builder builder(family, seed);
  Problem problem = builder.build();
  auto plan = [&](uint32_t more) {
    PlannedSteps planned;
    for (uint64_t number = 1; number <= kPlannedSteps; ++number)
      planned.steps.push_back(withMoreInFlight(builder.otherStep(problem, number), more));
    schedule(planned, {}, fixedParts);
    if (planned.ns - planned.boundNs > planned.boundNs / kTunedFrom)
      schedule(planned, cost_models::tune(planned.steps, {.budgetNs = kTunedNs, .fixedParts = fixedParts}), fixedParts);
    return planned;
  };
  PlannedSteps usual = plan(0);
  problem.hints = usual.steps.front().hints;
  if (usual.ns - usual.boundNs <= usual.boundNs / kTunedFrom)
    return problem;
  PlannedSteps roomy = plan(kMoreInFlight);
  if (roomy.ns < usual.ns - usual.ns / 200) {
    problem = withMoreInFlight(std::move(problem), kMoreInFlight);
    problem.hints = roomy.steps.front().hints;
  }
  return problem;
}

Problem plannedProblem(uint64_t seed) {
  return plannedProblem(families[seed % std::size(families)], seed / std::size(families));
}

Problem multimodalMix(uint32_t devices, uint64_t seed) { return Builder(Family::Multimodal, seed, devices).build(); }

Problem trainingProblem(uint64_t seed) {
  return trainingProblem(families[seed % std::size(families)], seed / std::size(families));
}

} // namespace maestro::wavefront

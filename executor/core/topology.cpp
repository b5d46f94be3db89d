#include "executor/core/topology.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {

namespace fb = plan::fb;
using plan::kNone;

Topology::Topology(const plan::Plan &plan) : plan(plan) {
  ranks = plan->ranks()->size();
  for (uint32_t rank = 0; rank < ranks; ++rank)
    deviceOf.push_back(rank);
  addStations();
  for (uint32_t edge = 0; edge < plan->edges()->size(); ++edge)
    addRings(edge);
}

void Topology::addStations() {
  for (const fb::Station *table : *plan->stations()) {
    const fb::Executable &executable = *plan->executables()->Get(table->executable());
    const auto &group = *table->ranks();
    auto lead = static_cast<uint32_t>(stations.size());
    leads.push_back(lead);
    auto [place, isNew] = places.emplace(key(executable.section(), executable.stage()), stationsAt.size());
    if (isNew)
      stationsAt.emplace_back();
    leadAt.emplace(key(place->second, table->replica()), lead);
    for (uint32_t member = 0; member < group.size(); ++member) {
      stationsAt[place->second].push_back(lead + member);
      stations.push_back({executable.section(), executable.stage(), table->replica(), table->executable(),
                          group.Get(member), member, group.size()});
      deviceOf[group.Get(member)] = *std::min_element(group.begin(), group.end());
    }
  }
}

std::span<const uint32_t> Topology::stationsOf(uint32_t section, uint32_t stage) const {
  auto place = places.find(key(section, stage));
  return place == places.end() ? std::span<const uint32_t>() : stationsAt[place->second];
}

void Topology::addRings(uint32_t e) {
  const fb::Edge &edge = *plan->edges()->Get(e);
  std::vector<std::pair<uint32_t, bool>> ends; // Receivers, in the order of stations; of activations first.
  for (uint32_t station : stationsOf(edge.consumer(), edge.consumer_stage()))
    ends.emplace_back(station, false);
  if (edge.carries_gradient())
    for (uint32_t station : stationsOf(edge.producer(), edge.producer_stage()))
      ends.emplace_back(station, true);
  std::sort(ends.begin(), ends.end());
  for (auto [station, gradient] : ends)
    addRing(e, gradient, station);
}

void Topology::addRing(uint32_t edgeIndex, bool gradient, uint32_t receiver) {
  const fb::Edge &edge = *plan->edges()->Get(edgeIndex);
  RingFacts ring;
  ring.edge = edgeIndex;
  ring.gradient = gradient;
  ring.receiver = receiver;
  uint32_t section = gradient ? edge.consumer() : edge.producer();
  uint32_t stage = gradient ? edge.consumer_stage() : edge.producer_stage();
  bool sameSection = edge.producer() == edge.consumer();
  for (uint32_t s : stationsOf(section, stage))
    if (stations[s].isLead() && (!sameSection || stations[s].replica == stations[receiver].replica))
      ring.senders.push_back(s);
  const fb::Executable &own = executable(receiver);
  for (uint32_t r = 0; r < own.regions()->size(); ++r) {
    const fb::Region &region = *own.regions()->Get(r);
    if (region.kind() != fb::RegionKind::Channel || region.edge() != edgeIndex || region.gradient() != gradient)
      continue;
    ring.region = r;
    ring.slots = region.copies();
    ring.slotBytes = region.bytes();
  }
  ring.mostPosts = sameSection ? 1 : static_cast<uint32_t>(std::min<int64_t>(own.samples(), 4096));
  ringOf.emplace(key(2 * edgeIndex + gradient, receiver), static_cast<uint32_t>(rings.size()));
  rings.push_back(std::move(ring));
}

uint32_t Topology::stationAt(uint32_t section, uint32_t stage, uint32_t replica) const {
  auto place = places.find(key(section, stage));
  auto lead = place == places.end() ? leadAt.end() : leadAt.find(key(place->second, replica));
  return lead == leadAt.end() ? kNone : lead->second;
}

uint32_t Topology::ringAt(uint32_t edge, bool gradient, uint32_t receiver) const {
  auto ring = ringOf.find(key(2 * edge + gradient, receiver));
  return ring == ringOf.end() ? kNone : ring->second;
}

const fb::Executable &Topology::executable(uint32_t station) const {
  return *plan->executables()->Get(stations[station].executable);
}

const fb::Program *Topology::program(uint32_t station, fb::ProgramKind kind) const {
  for (const fb::Program *candidate : *executable(station).programs())
    if (candidate->kind() == kind)
      return candidate;
  return nullptr;
}

const fb::Program *Topology::forward(uint32_t station, bool evaluates) const {
  const fb::Program *training = evaluates ? nullptr : program(station, fb::ProgramKind::Forward);
  return training ? training : program(station, fb::ProgramKind::Evaluate);
}

namespace {

wavefront::Cost costOf(const flatbuffers::Vector<flatbuffers::Offset<fb::CostTerm>> *terms) {
  wavefront::Cost cost;
  for (uint32_t i = 0; terms && i < terms->size(); ++i)
    cost.terms.push_back(
        {terms->Get(i)->picoseconds(), {terms->Get(i)->symbols()->begin(), terms->Get(i)->symbols()->end()}});
  return cost;
}

wavefront::Cost costOf(const fb::Program *program) { return program ? costOf(program->cost()) : wavefront::Cost(); }

wavefront::Stage makeStage(const Topology &topology, uint32_t station, const ProblemOptions &options) {
  wavefront::Stage stage;
  stage.forward = costOf(topology.forward(station, options.evaluates));
  if (!options.evaluates) {
    stage.backward = costOf(topology.program(station, fb::ProgramKind::Backward));
    stage.weightGradient = costOf(topology.program(station, fb::ProgramKind::WeightGradient));
    stage.update = costOf(topology.program(station, fb::ProgramKind::Update));
    std::erase_if(stage.update.terms, [](const wavefront::CostTerm &term) { return !term.dims.empty(); });
  }
  for (const fb::Region *region : *topology.executable(station).regions())
    if (region->kind() == fb::RegionKind::Slot)
      stage.slots = std::max(region->copies(), 1u);
  return stage;
}

/// A micro-batch must fit all stages.
void narrow(wavefront::Section &section, const fb::Executable &executable) {
  section.maxSamples = std::min<int64_t>(section.maxSamples, executable.samples());
  for (const fb::Bound *bound : *executable.bounds())
    section.capacity[bound->symbol()] = std::min(section.capacity[bound->symbol()], bound->value());
  for (uint32_t i = 0; executable.areas() && i < executable.areas()->size(); ++i) {
    const fb::Area &table = *executable.areas()->Get(i);
    auto area = std::find_if(section.areas.begin(), section.areas.end(), [&](const wavefront::Area &other) {
      return other.rows == table.rows() && other.padded == table.padded();
    });
    if (area == section.areas.end())
      section.areas.push_back({table.rows(), table.padded(), table.value()});
    else
      area->capacity = std::min(area->capacity, table.value());
  }
}

/// What the plan says of where scheduling begins: parts of recipes, those of all but the first behind "2." and so on.
std::vector<wavefront::Choice> hintsOf(const plan::Plan &plan) {
  std::vector<wavefront::Choice> hints;
  for (uint32_t i = 0; plan->quantities() && i < plan->quantities()->size(); ++i) {
    const fb::Quantity &quantity = *plan->quantities()->Get(i);
    std::string_view name = quantity.name()->string_view();
    if (!name.starts_with(plan::kHintPrefix))
      continue;
    name.remove_prefix(sizeof plan::kHintPrefix - 1);
    size_t number = 1;
    if (name.size() > 2 && name[1] == '.') {
      number = static_cast<size_t>(name[0] - '0');
      name.remove_prefix(2);
    }
    for (const wavefront::ChoicePart &part : wavefront::choiceParts())
      if (number >= 1 && number <= wavefront::kMaxHints && name == part.name) {
        hints.resize(std::max(hints.size(), number));
        double value = std::clamp(quantity.value(), static_cast<double>(part.min), static_cast<double>(part.max));
        part.set(hints[number - 1], static_cast<int64_t>(value));
      }
  }
  return hints;
}

} // namespace

wavefront::Problem makeProblem(const plan::Plan &plan, const Topology &topology, const ProblemOptions &options) {
  constexpr int64_t kUnbounded = int64_t{1} << 40;
  wavefront::Problem problem;
  problem.devices = topology.ranks;
  for (const fb::Symbol *symbol : *plan->symbols())
    problem.dims.push_back({symbol->name()->str(), symbol->combine() == fb::Combine::Sum, symbol->multiple_of(),
                            symbol->unpadded() != nullptr});
  for (uint32_t s = 0; s < plan->sections()->size(); ++s) {
    const fb::Section &table = *plan->sections()->Get(s);
    wavefront::Section section;
    section.name = table.name()->str();
    section.trains = table.trains() && !options.evaluates;
    section.splitsBackward = section.trains && table.layout()->split_backward() > 0;
    if (table.active())
      section.activeDims.assign(table.active()->begin(), table.active()->end());
    if (table.unpadded())
      section.unpadded.assign(table.unpadded()->begin(), table.unpadded()->end());
    section.capacity.assign(problem.dims.size(), kUnbounded);
    section.maxSamples = kUnbounded;
    for (uint32_t stage = 0; stage < table.layout()->stages(); ++stage) {
      uint32_t station = topology.stationAt(s, stage, 0);
      section.stages.push_back(makeStage(topology, station, options));
      if (!options.onePiece)
        narrow(section, topology.executable(station));
    }
    for (uint32_t replica = 0; replica < table.layout()->data_parallel(); ++replica) {
      section.devices.emplace_back();
      for (uint32_t stage = 0; stage < table.layout()->stages(); ++stage)
        section.devices.back().push_back(
            topology.deviceOf[topology.stations[topology.stationAt(s, stage, replica)].rank]);
    }
    problem.sections.push_back(std::move(section));
  }
  for (uint32_t e = 0; e < plan->edges()->size(); ++e) {
    const fb::Edge &table = *plan->edges()->Get(e);
    wavefront::Edge edge;
    edge.producer = table.producer();
    edge.producerStage = table.producer_stage();
    edge.consumer = table.consumer();
    edge.consumerStage = table.consumer_stage();
    edge.gradient = table.carries_gradient() && !options.evaluates;
    edge.heldUntilBackward = table.held_until_backward() && !options.evaluates;
    edge.transfer = costOf(table.cost());
    edge.gradientTransfer = edge.transfer;
    uint32_t consumer = topology.stationAt(table.consumer(), table.consumer_stage(), 0);
    uint32_t producer = topology.stationAt(table.producer(), table.producer_stage(), 0);
    edge.depth = topology.rings[topology.ringAt(e, false, consumer)].slots;
    if (table.carries_gradient())
      edge.gradientDepth = topology.rings[topology.ringAt(e, true, producer)].slots;
    problem.edges.push_back(std::move(edge));
  }
  if (!options.evaluates && !options.onePiece)
    problem.hints = hintsOf(plan);
  return problem;
}

void scale(wavefront::Cost &cost, const wavefront::Cost &from, double factor) {
  for (size_t i = 0; i < cost.terms.size(); ++i)
    cost.terms[i].picoseconds = static_cast<int64_t>(static_cast<double>(from.terms[i].picoseconds) * factor);
}

void scaleTasks(wavefront::Problem &problem, double factor) {
  for (wavefront::Section &section : problem.sections)
    for (wavefront::Stage &stage : section.stages)
      for (wavefront::Cost *cost : {&stage.forward, &stage.backward, &stage.weightGradient, &stage.update})
        scale(*cost, *cost, factor);
}

int64_t longestUpdateNs(const wavefront::Problem &problem) {
  std::vector<int64_t> updates(problem.devices, 0);
  for (const wavefront::Section &section : problem.sections)
    for (const std::vector<uint32_t> &replica : section.devices)
      for (size_t stage = 0; section.trains && stage < replica.size(); ++stage)
        updates[replica[stage]] += wavefront::evaluate(section.stages[stage].update, nullptr);
  return *std::max_element(updates.begin(), updates.end());
}

std::string stationName(const plan::Plan &plan, const StationFacts &station) {
  const fb::Section &section = *plan->sections()->Get(station.section);
  std::string name = section.name()->str();
  if (section.layout()->stages() > 1)
    name += fmt::format(" stage {}", station.stage);
  if (section.layout()->data_parallel() > 1)
    name += fmt::format(" replica {}", station.replica);
  if (station.members > 1)
    name += fmt::format(" part {}", station.member);
  return name;
}

} // namespace maestro::executor

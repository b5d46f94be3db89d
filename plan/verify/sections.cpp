// Sections, the edges between them, and who runs what.
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

namespace maestro::plan {
namespace {

constexpr uint32_t kMostDegree = 1 << 20;

Status verifyLayout(const fb::Layout &layout, const Place &place) {
  MAESTRO_TRY(checkRange(place / "data_parallel", layout.data_parallel(), 1, kMostDegree));
  MAESTRO_TRY(checkRange(place / "stages", layout.stages(), 1, kMostDegree));
  MAESTRO_TRY(checkRange(place / "tensor_parallel", layout.tensor_parallel(), 1, kMostDegree));
  MAESTRO_TRY(checkRange(place / "context_parallel", layout.context_parallel(), 1, kMostDegree));
  MAESTRO_TRY(checkRange(place / "expert_parallel", layout.expert_parallel(), 1, kMostDegree));
  MAESTRO_TRY(checkRange(place / "zero_stage", layout.zero_stage(), 0, 3));
  MAESTRO_TRY(checkRange(place / "full_recompute", layout.full_recompute(), 0, layout.recompute()));
  MAESTRO_TRY(checkRange(place / "lighter_layers", layout.lighter_layers(), 0, layout.recompute() ? kMostDegree : 0));
  MAESTRO_TRY(checkRange(place / "lighter_evenly", layout.lighter_evenly(), 0, layout.lighter_layers() > 0));
  return checkRange(place / "loss_chunks", layout.loss_chunks(), 1, kMostDegree);
}

Status verifySectionTables(const fb::Plan &plan, const Place &root, Work &work) {
  UniqueNames names;
  if (plan.sections()->size() == 0)
    return wrong(root / "sections", "there is none");
  for (uint32_t i = 0; i < plan.sections()->size(); ++i) {
    const fb::Section &section = *plan.sections()->Get(i);
    Place place = root.item("sections", i);
    MAESTRO_TRY(checkName(place / "name", section.name(), work));
    MAESTRO_TRY(names.add(place / "name", section.name()));
    MAESTRO_TRY(work.spend(place / "components", section.components()->size()));
    for (uint32_t c = 0; c < section.components()->size(); ++c)
      MAESTRO_TRY(checkIndex(place.item("components", c), section.components()->Get(c), "components",
                             plan.components()->size()));
    MAESTRO_TRY(verifyLayout(*section.layout(), place / "layout"));
    MAESTRO_TRY(checkRange(place / "layout" / "split_backward", section.layout()->split_backward(), 0,
                           section.trains() ? section.layout()->stages() : 0));
    MAESTRO_TRY(checkRange(place / "micro_batch_samples", section.micro_batch_samples(), 1, int64_t{1} << 31));
    uint32_t scopes = section.scopes() ? section.scopes()->size() : 0;
    for (uint32_t s = 0; s < scopes; ++s)
      MAESTRO_TRY(checkText(place.item("scopes", s), section.scopes()->Get(s), work));
    uint32_t active = section.active() ? section.active()->size() : 0;
    MAESTRO_TRY(work.spend(place / "active", active));
    for (uint32_t s = 0; s < active; ++s) {
      MAESTRO_TRY(checkIndex(place.item("active", s), section.active()->Get(s), "symbols", plan.symbols()->size()));
      if (plan.symbols()->Get(section.active()->Get(s))->combine() != fb::Combine::Sum)
        return wrong(place.item("active", s), "symbols[{}] does not sum over samples", section.active()->Get(s));
    }
    uint32_t unpadded = section.unpadded() ? section.unpadded()->size() : 0;
    MAESTRO_TRY(work.spend(place / "unpadded", unpadded));
    for (uint32_t s = 0; s < unpadded; ++s) {
      MAESTRO_TRY(checkIndex(place.item("unpadded", s), section.unpadded()->Get(s), "symbols", plan.symbols()->size()));
      if (!plan.symbols()->Get(section.unpadded()->Get(s))->unpadded())
        return wrong(place.item("unpadded", s), "symbols[{}] does not say `unpadded`", section.unpadded()->Get(s));
    }
  }
  return {};
}

/// Whether an expression contains a symbol that combines so. Expressions refer to earlier ones only.
bool isIn(const fb::Plan &plan, uint32_t expr, fb::Combine combine) {
  std::vector<uint32_t> pending{expr};
  std::unordered_set<uint32_t> seen;
  while (!pending.empty()) {
    uint32_t next = pending.back();
    pending.pop_back();
    if (!seen.insert(next).second)
      continue;
    const fb::DimExpr &node = *plan.exprs()->Get(next);
    if (node.op() == fb::DimOp::Constant)
      continue;
    if (node.op() == fb::DimOp::Symbol) {
      if (plan.symbols()->Get(static_cast<uint32_t>(node.a()))->combine() == combine)
        return true;
      continue;
    }
    pending.push_back(static_cast<uint32_t>(node.a()));
    pending.push_back(static_cast<uint32_t>(node.b()));
  }
  return false;
}

/// What a copy of one sample's rows (executor/device/box.h) holds beside what is contiguous.
constexpr uint32_t kMostEdgeDims = 7;

/// One dim holds the rows; no dim mixes rows with padding.
Status verifyEdgeShape(const fb::Edge &edge, const fb::Plan &plan, const Place &place, Work &work) {
  if (edge.shape()->size() > kMostEdgeDims)
    return wrong(place / "shape", "{} dims are more than {}", edge.shape()->size(), kMostEdgeDims);
  unsigned rows = 0;
  for (uint32_t i = 0; i < edge.shape()->size(); ++i) {
    MAESTRO_TRY(checkIndex(place.item("shape", i), edge.shape()->Get(i), "expressions", plan.exprs()->size()));
    MAESTRO_TRY(work.spend(place / "shape", plan.exprs()->size()));
    bool sums = isIn(plan, edge.shape()->Get(i), fb::Combine::Sum);
    if (sums && isIn(plan, edge.shape()->Get(i), fb::Combine::Max))
      return wrong(place.item("shape", i), "it mixes a sum over samples with a padded dim");
    rows += sums;
  }
  return rows == 1 ? Status() : wrong(place / "shape", "{} dims are sums over samples, and it must be one", rows);
}

Status verifyEdge(const fb::Edge &edge, const fb::Plan &plan, const Place &place, Work &work) {
  MAESTRO_TRY(checkName(place / "name", edge.name(), work));
  MAESTRO_TRY(checkIndex(place / "producer", edge.producer(), "sections", plan.sections()->size()));
  MAESTRO_TRY(checkIndex(place / "consumer", edge.consumer(), "sections", plan.sections()->size()));
  const fb::Section &producer = *plan.sections()->Get(edge.producer()),
                    &consumer = *plan.sections()->Get(edge.consumer());
  MAESTRO_TRY(checkIndex(place / "producer_stage", edge.producer_stage(), "the producer's stages",
                         producer.layout()->stages()));
  MAESTRO_TRY(checkIndex(place / "consumer_stage", edge.consumer_stage(), "the consumer's stages",
                         consumer.layout()->stages()));
  if (edge.producer() == edge.consumer() && edge.producer_stage() >= edge.consumer_stage())
    return wrong(place / "consumer_stage", "{} is not behind producer_stage {}", edge.consumer_stage(),
                 edge.producer_stage());
  MAESTRO_TRY(checkDType(place / "dtype", edge.dtype()));
  MAESTRO_TRY(verifyEdgeShape(edge, plan, place, work));
  for (uint32_t i = 0; edge.cost() && i < edge.cost()->size(); ++i) {
    MAESTRO_TRY(work.spend(place / "cost", 1 + size_t{edge.cost()->Get(i)->symbols()->size()}));
    MAESTRO_TRY(checkCostTerm(place.item("cost", i), *edge.cost()->Get(i), plan.symbols()->size()));
  }
  if (edge.carries_gradient() && !(producer.trains() && consumer.trains()))
    return wrong(place / "carries_gradient", "sections[{}] or sections[{}] does not train", edge.producer(),
                 edge.consumer());
  return {};
}

/// Removes sections whose producers are all removed; what stays lies on or behind a cycle.
Status verifyAcyclic(const fb::Plan &plan, const Place &root) {
  size_t count = plan.sections()->size();
  std::vector<std::vector<uint32_t>> consumers(count);
  std::vector<uint32_t> producersLeft(count, 0), ready;
  for (const fb::Edge *edge : *plan.edges()) {
    if (edge->producer() == edge->consumer()) // From a stage to a later one.
      continue;
    consumers[edge->producer()].push_back(edge->consumer());
    ++producersLeft[edge->consumer()];
  }
  for (uint32_t section = 0; section < count; ++section)
    if (producersLeft[section] == 0)
      ready.push_back(section);
  size_t removed = 0;
  for (; !ready.empty(); ++removed) {
    uint32_t section = ready.back();
    ready.pop_back();
    for (uint32_t consumer : consumers[section])
      if (--producersLeft[consumer] == 0)
        ready.push_back(consumer);
  }
  return removed == count ? Status() : wrong(root / "edges", "the sections form a cycle");
}

Status verifyEdges(const fb::Plan &plan, const Place &root, Work &work) {
  UniqueNames names;
  for (uint32_t i = 0; i < plan.edges()->size(); ++i) {
    MAESTRO_TRY(verifyEdge(*plan.edges()->Get(i), plan, root.item("edges", i), work));
    MAESTRO_TRY(names.add(root.item("edges", i) / "name", plan.edges()->Get(i)->name()));
  }
  return verifyAcyclic(plan, root);
}

/// Each section has executables for all its stages, and each executable fits the machine.
Status verifyExecutablePlaces(const fb::Plan &plan, const Place &root, Work &work) {
  std::set<std::pair<uint32_t, uint32_t>> stages;
  for (uint32_t i = 0; i < plan.executables()->size(); ++i) {
    const fb::Executable &executable = *plan.executables()->Get(i);
    Place place = root.item("executables", i);
    MAESTRO_TRY(checkName(place / "name", executable.name(), work));
    MAESTRO_TRY(checkIndex(place / "section", executable.section(), "sections", plan.sections()->size()));
    uint32_t stageCount = plan.sections()->Get(executable.section())->layout()->stages();
    MAESTRO_TRY(checkIndex(place / "stage", executable.stage(), "the section's stages", stageCount));
    MAESTRO_TRY(checkRange(place / "samples", executable.samples(), 1, int64_t{1} << 31));
    uint64_t memory = plan.machine()->memory_bytes();
    if (memory != 0 && executable.peak_bytes() > memory)
      return wrong(place / "peak_bytes", "{} exceeds the machine's memory_bytes, {}", executable.peak_bytes(), memory);
    if (!stages.insert({executable.section(), executable.stage()}).second)
      return wrong(place, "an earlier executable serves stage {} of sections[{}], too", executable.stage(),
                   executable.section());
  }
  size_t expected = 0;
  for (const fb::Section *section : *plan.sections())
    expected += section->layout()->stages();
  if (stages.size() != expected)
    return wrong(root / "executables", "they serve {} of the sections' {} stages", stages.size(), expected);
  return {};
}

Status verifyStation(const fb::Station &station, const fb::Plan &plan, const Place &place, Work &work) {
  MAESTRO_TRY(checkIndex(place / "executable", station.executable(), "executables", plan.executables()->size()));
  const fb::Section &section = *plan.sections()->Get(plan.executables()->Get(station.executable())->section());
  MAESTRO_TRY(
      checkIndex(place / "replica", station.replica(), "the section's replicas", section.layout()->data_parallel()));
  MAESTRO_TRY(work.spend(place / "ranks", station.ranks()->size()));
  if (station.ranks()->size() == 0)
    return wrong(place / "ranks", "there is none");
  if (station.ranks()->size() != section.layout()->tensor_parallel())
    return wrong(place / "ranks", "there are {}, and the section's tensor_parallel is {}", station.ranks()->size(),
                 section.layout()->tensor_parallel());
  std::unordered_set<uint32_t> seen;
  for (uint32_t i = 0; i < station.ranks()->size(); ++i) {
    uint32_t rank = station.ranks()->Get(i);
    MAESTRO_TRY(checkIndex(place.item("ranks", i), rank, "ranks", plan.ranks()->size()));
    if (!seen.insert(rank).second)
      return wrong(place.item("ranks", i), "rank {} is there twice", rank);
  }
  return {};
}

/// Ranks that share one station's work share that of all their stations.
Status verifyGroups(const fb::Plan &plan, const Place &root) {
  std::vector<const flatbuffers::Vector<uint32_t> *> groupOf(plan.ranks()->size(), nullptr);
  for (uint32_t i = 0; i < plan.stations()->size(); ++i) {
    const auto *group = plan.stations()->Get(i)->ranks();
    const auto *first = groupOf[group->Get(0)];
    bool same = !first || std::equal(first->begin(), first->end(), group->begin(), group->end());
    for (uint32_t rank : *group) // Equal groups were given to all their ranks alike.
      if (const auto *earlier = std::exchange(groupOf[rank], group); !same || earlier != first)
        return wrong(root.item("stations", i) / "ranks", "rank {} is in an earlier station with other ranks",
                     earlier ? rank : group->Get(0));
  }
  return {};
}

/// Of the tensor axis one for each group of ranks that share stations.
Status verifyCommunicators(const fb::Plan &plan, const Place &root, Work &work) {
  if (!plan.communicators())
    return Status();
  std::set<std::pair<fb::MeshAxis, uint32_t>> members;
  std::set<std::vector<uint32_t>> groups, known;
  for (const fb::Station *station : *plan.stations())
    if (station->ranks()->size() > 1)
      groups.insert({station->ranks()->begin(), station->ranks()->end()});
  for (uint32_t i = 0; i < plan.communicators()->size(); ++i) {
    const fb::Communicator &communicator = *plan.communicators()->Get(i);
    Place place = root.item("communicators", i);
    MAESTRO_TRY(checkEnum(place / "axis", communicator.axis()));
    MAESTRO_TRY(work.spend(place / "ranks", communicator.ranks()->size()));
    if (communicator.ranks()->size() < 2)
      return wrong(place / "ranks", "there are fewer than two");
    for (uint32_t m = 0; m < communicator.ranks()->size(); ++m) {
      uint32_t rank = communicator.ranks()->Get(m);
      MAESTRO_TRY(checkIndex(place.item("ranks", m), rank, "ranks", plan.ranks()->size()));
      if (!members.insert({communicator.axis(), rank}).second)
        return wrong(place.item("ranks", m), "rank {} is in a communicator of the {} axis already", rank,
                     fb::EnumNameMeshAxis(communicator.axis()));
    }
    std::vector<uint32_t> ranks(communicator.ranks()->begin(), communicator.ranks()->end());
    if (communicator.axis() == fb::MeshAxis::Tensor && !groups.count(ranks))
      return wrong(place / "ranks", "no station has these ranks");
    if (communicator.axis() == fb::MeshAxis::Tensor)
      known.insert(std::move(ranks));
  }
  if (known.size() < groups.size())
    return wrong(root / "communicators", "{} of the tensor axis, and {} groups of ranks share stations", known.size(),
                 groups.size());
  return Status();
}

/// Every (section, stage, replica) runs at exactly one station, so that every executable runs somewhere.
Status verifyStations(const fb::Plan &plan, const Place &root, Work &work) {
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> places;
  for (uint32_t i = 0; i < plan.stations()->size(); ++i) {
    const fb::Station &station = *plan.stations()->Get(i);
    Place place = root.item("stations", i);
    MAESTRO_TRY(verifyStation(station, plan, place, work));
    const fb::Executable &executable = *plan.executables()->Get(station.executable());
    if (!places.insert({executable.section(), executable.stage(), station.replica()}).second)
      return wrong(place, "an earlier station runs replica {} of stage {} of sections[{}], too", station.replica(),
                   executable.stage(), executable.section());
  }
  uint64_t expected = 0;
  for (const fb::Section *section : *plan.sections())
    expected += uint64_t{section->layout()->stages()} * section->layout()->data_parallel();
  if (places.size() != expected)
    return wrong(root / "stations", "{} stations do not run the sections' {} stages and replicas", places.size(),
                 expected);
  return {};
}

Status verifyRanks(const fb::Plan &plan, const Place &root) {
  for (uint32_t i = 0; i < plan.ranks()->size(); ++i) {
    const fb::Rank &rank = *plan.ranks()->Get(i);
    Place place = root.item("ranks", i);
    MAESTRO_TRY(checkIndex(place / "device", rank.device(), "the machine's devices", plan.machine()->devices()));
    MAESTRO_TRY(checkRange(place / "threads", rank.threads(), 0, 4096));
  }
  return {};
}

} // namespace

Status verifySections(const fb::Plan &plan, Work &work) {
  Place root = Place::root();
  MAESTRO_TRY(verifySectionTables(plan, root, work));
  MAESTRO_TRY(verifyEdges(plan, root, work));
  MAESTRO_TRY(verifyExecutablePlaces(plan, root, work));
  MAESTRO_TRY(verifyRanks(plan, root));
  MAESTRO_TRY(verifyStations(plan, root, work));
  MAESTRO_TRY(verifyGroups(plan, root));
  return verifyCommunicators(plan, root, work);
}

} // namespace maestro::plan

#include "planner/search/shapes.h"

#include "cost_models/collectives.h"
#include "cost_models/in_flight.h"
#include "planner/search/search_space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace maestro::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Options of less that are looked at where a shape does not fit.
constexpr size_t kMostShrunk = 16;
/// Options of a section for one number of devices.
constexpr size_t kMostOptions = 16;
/// Groups of no more devices are estimated device by device.
constexpr uint32_t kEveryDevice = 1024;
/// More sections than this are grouped two by two only.
constexpr size_t kEveryGrouping = 9;

uint64_t lowestMemory(const cost_models::Machine &machine) {
  uint64_t least = UINT64_MAX;
  for (const cost_models::DeviceModel &kind : machine.kinds)
    least = std::min(least, kind.memoryBytes);
  return least;
}

/// Ways to part `count` things: for each its part's number, parts in the order of their first things.
std::vector<std::vector<uint32_t>> partitions(size_t count) {
  std::vector<std::vector<uint32_t>> all;
  std::vector<uint32_t> part(count, 0);
  auto assign = [&](auto &self, size_t index, uint32_t parts) -> void {
    if (index == count) {
      all.push_back(part);
      return;
    }
    for (part[index] = 0; part[index] <= parts; ++part[index])
      self(self, index + 1, std::max(parts, part[index] + 1));
  };
  if (count <= kEveryGrouping) {
    assign(assign, 0, 0);
    return all;
  }
  all.push_back(part); // Together, apart, and two of them together.
  std::iota(part.begin(), part.end(), 0u);
  all.push_back(part);
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b) {
      std::vector<uint32_t> merged = part;
      merged[b] = merged[a];
      for (size_t i = b + 1; i < count; ++i)
        --merged[i];
      all.push_back(std::move(merged));
    }
  return all;
}

bool everyCut(const SectionCut &) { return true; }

} // namespace

Shapes::Shapes(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work)
    : problem(problem), cuts(cuts), work(work), ways(problem), deviceBytes(lowestMemory(problem.machine)) {
  gradientsFrom.resize(problem.pins.size());
  least.assign(problem.pins.size(), UINT64_MAX);
  for (const cost_models::AtomTensor &tensor : problem.model.tensors)
    for (auto [consumer, atom] : tensor.consumers)
      if (tensor.gradient && consumer != tensor.section)
        gradientsFrom[tensor.section].insert(consumer);
  for (uint32_t s = 0; s < problem.pins.size(); ++s) {
    updates.emplace_back(cuts.of(s).size());
    auto &own = measured.emplace_back(cuts.of(s).size());
    for (uint32_t cut = 0; cut < own.size(); ++cut) {
      double least = kNever;
      for (uint32_t m = 0; m < problem.model.microBatches.size(); ++m) {
        Facts &facts = own[cut].emplace_back(measure(s, cut, m));
        facts.leastFill = least = std::min(least, facts.fill);
      }
    }
  }
}

// ---- one section ----------------------------------------------------------------------------------------------------

double Shapes::updateSeconds(uint32_t section, uint32_t cut, uint32_t replicas, bool byStage) const {
  if (!problem.model.sections[section].trains)
    return 0;
  auto [found, isNew] = updates[section][cut].try_emplace({replicas, byStage}, 0);
  if (!isNew)
    return found->second;
  const CutFacts &facts = cuts.of(section)[cut];
  auto stages = static_cast<uint32_t>(facts.stages.size());
  std::optional<uint32_t> period =
      uint64_t{replicas} * stages <= problem.machine.devices ? cost_models::linkPeriod(problem.machine) : std::nullopt;
  std::set<std::tuple<uint32_t, uint64_t, uint64_t>> known; // Stages that take as long.
  std::vector<uint32_t> column(replicas);
  for (uint32_t i = 0; i < stages; ++i) {
    const cost_models::StageModel &stage = facts.stages[i];
    uint32_t first = byStage ? i * replicas : 0;
    if (!known.insert({period ? first % *period : first, stage.gradientBytes, stage.updateBytes}).second)
      continue;
    for (uint32_t replica = 0; replica < replicas; ++replica)
      column[replica] = std::min(byStage ? first + replica : replica * stages, problem.machine.devices - 1);
    cost_models::Seconds own = cost_models::updateSeconds(stage, column, problem.machine) +
                               cost_models::reductionSeconds(stage.gradientBytes, column, problem.machine);
    found->second = std::max(found->second, own.value);
  }
  return found->second;
}

Shapes::Facts Shapes::measure(uint32_t section, uint32_t cut, uint32_t microBatch) const {
  const CutFacts &own = cuts.of(section)[cut];
  const std::vector<double> &stages = own.work[microBatch];
  Facts result;
  result.groups = std::max(1.0, work.microBatches(section, microBatch));
  result.longest = *std::max_element(stages.begin(), stages.end());
  double others = std::accumulate(stages.begin(), stages.end(), 0.0) - result.longest;
  // Others wait for the first micro-batch of a section before them, and it for their last gradients.
  result.fill = (others + (gradientsFrom[section].empty() ? 0 : result.longest)) / result.groups;
  if (problem.model.sections[section].trains)
    result.way = ways.longest(ways.of(section, own.cut.recompute, microBatch));
  // What waits in another section is of the same micro-batches and replicas here; at least it is in one of this
  // section's.
  bool waits = !gradientsFrom[section].empty();
  uint64_t fewest = waits ? cost_models::kOwnSlots : 0,
           beyond = waits ? fewest + cost_models::kWaitingForSection / 2 : 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    result.bytes = std::max(result.bytes, stageBytes(problem, section, own, microBatch, stage, beyond));
    result.leastBytes = std::max(result.leastBytes, stageBytes(problem, section, own, microBatch, stage, fewest));
  }
  return result;
}

/// Micro-batches go through the busiest stage one after the other, and the first of them through all others. Sizes are
/// limits: those may be smaller. So large sizes look best, and where no shape fits, memory being scarce, they fill with
/// their own size.
Shapes::Estimate Shapes::estimate(uint32_t section, const ShapeOption &option, bool byStage) const {
  const Facts &own = measured[section][option.cut][option.microBatch];
  double rounds = std::ceil(own.groups / option.replicas);
  return {option,
          own.longest / own.groups * rounds,
          share < 1 ? own.fill : own.leastFill,
          updateSeconds(section, option.cut, option.replicas, byStage),
          own.way,
          own.bytes};
}

Shapes::Estimate Shapes::estimate(uint32_t section, const ShapeOption &option) const {
  Estimate byReplica = estimate(section, option, false), byStage = estimate(section, option, true);
  return byStage.update < byReplica.update ? byStage : byReplica;
}

/// As many as pins say, or the devices and samples are enough for; 0: there is no room. Where pins say the devices,
/// too, so many uncut replicas share them, or replicas of so many stages as they say.
uint32_t Shapes::replicasOf(uint32_t section, uint32_t stages, uint32_t devices) const {
  const SearchPins &pins = problem.pins[section];
  auto most = static_cast<uint32_t>(std::max(1.0, std::ceil(work.samples(section))));
  if (held && held->section == section)
    return stages == held->stages && held->replicas * stages <= devices ? held->replicas : 0;
  uint32_t replicas = pins.dataParallel.value_or(std::min(devices / stages, most));
  if (pins.devices && pins.stages)
    return std::max(replicas, 1u);
  return replicas * stages <= devices || (pins.devices && stages == 1) ? replicas : 0;
}

/// Every cut and size of micro-batches that pins leave and there is room for.
template <typename Visit>
void Shapes::forEachOption(uint32_t section, uint32_t devices, Filter filter, Visit visit) const {
  const SearchPins &pins = problem.pins[section];
  const std::vector<cost_models::MicroBatchCapacity> &capacities = problem.model.sections[section].capacities;
  for (uint32_t cut = 0; cut < cuts.of(section).size(); ++cut) {
    const CutFacts &facts = cuts.of(section)[cut];
    uint32_t replicas = replicasOf(section, static_cast<uint32_t>(facts.cut.stages()), devices);
    if (replicas == 0 || !(filter(facts.cut) || pins.stages))
      continue;
    for (uint32_t m = 0; m < capacities.size(); ++m) {
      bool repeated = m + 1 < capacities.size() && isSame(capacities[m], capacities[m + 1]);
      if (pins.microBatch ? *pins.microBatch == m : !repeated)
        visit(ShapeOption{cut, m, replicas});
    }
  }
}

std::vector<Shapes::Estimate> Shapes::options(uint32_t section, uint32_t devices, Filter filter) const {
  std::vector<Estimate> all, mayFit;
  auto fits = [&](const Estimate &own) {
    return static_cast<double>(own.bytes) <= share * static_cast<double>(deviceBytes);
  };
  forEachOption(section, devices, filter, [&](const ShapeOption &option) {
    Estimate own = estimate(section, option), atLeast = own;
    atLeast.bytes = measured[section][option.cut][option.microBatch].leastBytes;
    least[section] = std::min(least[section], atLeast.bytes);
    if (fits(own))
      all.push_back(own);
    else if (fits(atLeast))
      mayFit.push_back(atLeast);
  });
  if (all.empty()) // Pins leave only what fits beside few.
    all = std::move(mayFit);
  std::stable_sort(all.begin(), all.end(),
                   [](const Estimate &a, const Estimate &b) { return a.seconds() < b.seconds(); });
  std::vector<Estimate> kept;
  for (const Estimate &own : all)
    if (kept.empty() || own.bytes < kept.back().bytes)
      kept.push_back(own);
  if (kept.size() > kMostOptions) { // The fastest, and evenly from the others down to the smallest.
    std::vector<Estimate> some;
    for (size_t i = 0; i < kMostOptions; ++i)
      some.push_back(kept[i * (kept.size() - 1) / (kMostOptions - 1)]);
    kept = std::move(some);
  }
  return kept;
}

const std::vector<Shapes::Estimate> &Shapes::tabled(uint32_t section, uint32_t devices) {
  auto [found, isNew] = table.try_emplace({section, devices});
  if (isNew)
    found->second = options(section, devices, everyCut);
  return found->second;
}

// ---- groups ---------------------------------------------------------------------------------------------------------

/// The fastest options together, and while they do not fit, the change that costs least.
Shapes::GroupEstimate Shapes::fit(const std::vector<const std::vector<Estimate> *> &lists) const {
  std::vector<size_t> at(lists.size(), 0);
  GroupEstimate result{kNever, {}};
  for (const auto *list : lists)
    if (list->empty())
      return result;
  while (true) {
    double bytes = 0;
    for (size_t i = 0; i < lists.size(); ++i)
      bytes += static_cast<double>((*lists[i])[at[i]].bytes -
                                   std::min(problem.machine.processBytes * (i > 0), (*lists[i])[at[i]].bytes));
    if (bytes <= share * static_cast<double>(deviceBytes))
      break;
    size_t best = lists.size();
    double least = kNever;
    for (size_t i = 0; i < lists.size(); ++i) {
      if (at[i] + 1 >= lists[i]->size())
        continue;
      const Estimate &now = (*lists[i])[at[i]], &then = (*lists[i])[at[i] + 1];
      double price = (then.seconds() - now.seconds()) / static_cast<double>(now.bytes - then.bytes);
      if (price < least) {
        least = price;
        best = i;
      }
    }
    if (best == lists.size())
      return result;
    ++at[best];
  }
  Estimate all;
  for (size_t i = 0; i < lists.size(); ++i) {
    result.chosen.push_back((*lists[i])[at[i]]);
    all.add(result.chosen.back());
  }
  result.seconds = all.seconds();
  return result;
}

Shapes::GroupEstimate Shapes::group(const std::vector<uint32_t> &sections, uint32_t devices, Filter filter) const {
  std::vector<std::vector<Estimate>> own;
  std::vector<const std::vector<Estimate> *> lists;
  for (uint32_t section : sections)
    own.push_back(options(section, devices, filter));
  for (const auto &list : own)
    lists.push_back(&list);
  return fit(lists);
}

bool Shapes::chooseOptions(Filter filter, Shape &shape) const {
  for (const ShapeGroup &own : shape.groups) {
    GroupEstimate found = group(own.sections, own.devices, filter);
    for (size_t i = 0; i < found.chosen.size(); ++i)
      shape.options[own.sections[i]] = found.chosen[i].option;
    if (found.chosen.empty())
      return false;
  }
  return true;
}

/// The device of a group that has most to do; of large groups the busiest stages together.
double Shapes::busiest(const Shape &shape, const ShapeGroup &group) const {
  std::vector<double> busy(group.devices <= kEveryDevice ? group.devices : 1, 0);
  for (uint32_t section : group.sections) {
    const ShapeOption &option = shape.options[section];
    const std::vector<double> &stages = cuts.of(section)[option.cut].work[option.microBatch];
    double groups = measured[section][option.cut][option.microBatch].groups,
           share = std::ceil(groups / option.replicas) / groups;
    if (busy.size() < group.devices) {
      busy.front() += *std::max_element(stages.begin(), stages.end()) * share;
      continue;
    }
    for (uint32_t replica = 0; replica < option.replicas; ++replica)
      for (uint32_t stage = 0; stage < stages.size(); ++stage)
        busy[(shape.byStage ? stage * option.replicas + replica : replica * stages.size() + stage) % busy.size()] +=
            stages[stage] * share;
  }
  return *std::max_element(busy.begin(), busy.end());
}

double Shapes::evaluate(Shape &shape) const {
  shape.seconds = 0;
  std::vector<const Ways::Times *> chosen(shape.options.size(), nullptr);
  std::vector<double> before(shape.options.size(), 0); // Until the sections before it have filled.
  std::vector<Estimate> own;
  for (uint32_t s = 0; s < shape.options.size(); ++s) {
    own.push_back(estimate(s, shape.options[s], shape.byStage));
    own[s].fill += before[s];
    for (uint32_t reader : gradientsFrom[s])
      before[reader] = std::max(before[reader], own[s].fill);
  }
  for (const ShapeGroup &group : shape.groups) {
    Estimate all;
    for (uint32_t section : group.sections) {
      const ShapeOption &option = shape.options[section];
      all.add(own[section]);
      if (problem.model.sections[section].trains)
        chosen[section] = &ways.of(section, cuts.of(section)[option.cut].cut.recompute, option.microBatch);
    }
    all.busy = busiest(shape, group);
    shape.seconds = std::max(shape.seconds, all.seconds());
  }
  return shape.seconds = std::max(shape.seconds, ways.longest(chosen));
}

double Shapes::evaluatePlaced(Shape &shape) const {
  Shape other = shape;
  other.byStage = !shape.byStage;
  if (evaluate(other) < evaluate(shape))
    shape = std::move(other);
  return shape.seconds;
}

// ---- all groupings --------------------------------------------------------------------------------------------------

std::vector<uint32_t> Shapes::menu(uint32_t stride, uint32_t devices) const {
  std::vector<uint32_t> sizes;
  for (uint32_t size = stride; size <= devices; size += stride)
    sizes.push_back(size);
  if (sizes.empty() || sizes.back() != devices)
    sizes.push_back(devices);
  return sizes;
}

/// Sections pinned to devices have these; the others share what is left, or everything where nothing is.
std::vector<ShapeGroup> Shapes::pinnedGroups(std::vector<uint32_t> &open, uint32_t &devices) const {
  std::vector<ShapeGroup> groups;
  std::set<uint32_t> taken;
  for (uint32_t s = 0; s < problem.pins.size(); ++s) {
    if (!problem.pins[s].devices) {
      open.push_back(s);
      continue;
    }
    const std::vector<uint32_t> &list = *problem.pins[s].devices;
    auto same =
        std::find_if(groups.begin(), groups.end(), [&](const ShapeGroup &group) { return group.pinned == list; });
    if (same == groups.end())
      same = groups.insert(groups.end(), {{}, static_cast<uint32_t>(list.size()), list});
    same->sections.push_back(s);
    taken.insert(list.begin(), list.end());
  }
  devices = problem.machine.devices - static_cast<uint32_t>(taken.size());
  if (devices == 0 && !open.empty()) {
    groups.front().sections.insert(groups.front().sections.end(), open.begin(), open.end());
    open.clear();
  }
  return groups;
}

const std::vector<double> &Shapes::timesOf(const std::vector<uint32_t> &group, const std::vector<uint32_t> &sizes) {
  auto [found, isNew] = times.try_emplace(group);
  if (!isNew)
    return found->second;
  double best = kNever;
  for (uint32_t size : sizes) {
    std::vector<const std::vector<Estimate> *> lists;
    for (uint32_t section : group)
      if (!problem.pins[section].devices)
        lists.push_back(&tabled(section, size));
    best = std::min(best, fit(lists).seconds);
    found->second.push_back(best);
  }
  return found->second;
}

/// The least time for which the groups' fewest devices are no more than there are, by halving; what is left over goes
/// where most time is spent.
bool Shapes::allocate(const std::vector<std::vector<uint32_t>> &groups, const std::vector<uint32_t> &sizes,
                      uint32_t devices, Shape &shape) {
  std::vector<const std::vector<double> *> lists;
  double low = 0, high = 0;
  for (std::vector<uint32_t> group : groups) {
    std::sort(group.begin(), group.end()); // In one order each, however it was grown.
    lists.push_back(&timesOf(group, sizes));
    low = std::max(low, lists.back()->back());
  }
  std::vector<size_t> at(groups.size(), 0);
  auto isEnough = [&](double seconds) {
    uint64_t sum = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      auto first =
          std::partition_point(lists[g]->begin(), lists[g]->end(), [&](double time) { return time > seconds; });
      if (first == lists[g]->end())
        return false;
      at[g] = static_cast<size_t>(first - lists[g]->begin());
      sum += sizes[at[g]];
    }
    return sum <= devices;
  };
  if (low == kNever)
    return false;
  for (high = std::max(low, 1e-9); !isEnough(high); high *= 2)
    if (high > 1e12)
      return false;
  for (int halving = 0; halving < 30; ++halving) {
    double middle = (low + high) / 2;
    (isEnough(middle) ? high : low) = middle;
  }
  if (!isEnough(high))
    return false;
  auto used = [&] {
    uint64_t sum = 0;
    for (size_t g = 0; g < groups.size(); ++g)
      sum += sizes[at[g]];
    return sum;
  };
  for (bool given = true; given;) {
    given = false;
    size_t slowest = 0;
    for (size_t g = 1; g < groups.size(); ++g)
      if ((*lists[g])[at[g]] > (*lists[slowest])[at[slowest]])
        slowest = g;
    if (at[slowest] + 1 < sizes.size() && used() - sizes[at[slowest]] + sizes[at[slowest] + 1] <= devices) {
      ++at[slowest];
      given = true;
    }
  }
  // The size at which that time was reached first: more devices than it uses would idle, and others may use them.
  for (size_t g = 0; g < groups.size(); ++g)
    while (at[g] > 0 && (*lists[g])[at[g] - 1] <= (*lists[g])[at[g]])
      --at[g];
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t more = sizes.size(); more-- > at[g] + 1;)
      if (used() - sizes[at[g]] + sizes[more] <= devices && (*lists[g])[more] < (*lists[g])[at[g]]) {
        at[g] = more;
        while ((*lists[g])[at[g] - 1] <= (*lists[g])[at[g]])
          --at[g];
        break;
      }
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<const std::vector<Estimate> *> own;
    for (uint32_t section : groups[g])
      own.push_back(&tabled(section, sizes[at[g]]));
    GroupEstimate found = fit(own);
    shape.groups.push_back({groups[g], sizes[at[g]], {}});
    for (size_t i = 0; i < groups[g].size(); ++i)
      shape.options[groups[g][i]] = found.chosen[i].option;
  }
  return true;
}

std::vector<Shape> Shapes::best(size_t most, uint32_t stride, double memoryShare) {
  table.clear();
  share = memoryShare;
  std::vector<Shape> all = ofAllGroupings(stride);
  if (all.size() > most)
    all.resize(most);
  return all;
}

std::vector<Shape> Shapes::bestWith(const HeldShape &theHeld, uint32_t stride, double memoryShare) {
  auto forget = [&] { std::erase_if(table, [&](const auto &entry) { return entry.first.first == theHeld.section; }); };
  double before = std::exchange(share, memoryShare);
  held = theHeld;
  forget();
  std::vector<Shape> all = ofAllGroupings(stride);
  held.reset();
  forget();
  share = before;
  return all;
}

/// Best first.
std::vector<Shape> Shapes::ofAllGroupings(uint32_t stride) {
  times.clear();
  std::vector<uint32_t> open;
  uint32_t devices = 0;
  Shape base{pinnedGroups(open, devices), std::vector<ShapeOption>(problem.pins.size()), 0, false};
  if (!chooseOptions(everyCut, base))
    return {};
  if (open.empty()) {
    evaluatePlaced(base);
    return {base};
  }
  std::vector<uint32_t> sizes = menu(stride, devices);
  std::vector<Shape> all;
  for (const std::vector<uint32_t> &parts : partitions(open.size())) {
    uint32_t count = *std::max_element(parts.begin(), parts.end()) + 1;
    std::vector<std::vector<uint32_t>> groups(count);
    for (size_t i = 0; i < open.size(); ++i)
      groups[parts[i]].push_back(open[i]);
    Shape shape = base;
    if (uint64_t{count} * sizes.front() > devices || !allocate(groups, sizes, devices, shape))
      continue;
    evaluatePlaced(shape);
    all.push_back(std::move(shape));
  }
  std::stable_sort(all.begin(), all.end(), [](const Shape &a, const Shape &b) { return a.seconds < b.seconds; });
  return all;
}

// ---- bytes ---------------------------------------------------------------------------------------------------------

/// Places that a section's stages need beyond its own: what other sections hold or have waiting of its samples
/// (in_flight.h).
uint64_t Shapes::placesBeyond(const Shape &shape, uint32_t section, const ShapeOption &option) const {
  auto flow = [&](uint32_t s, const ShapeOption &own) {
    const cost_models::AtomicSection &of = problem.model.sections[s];
    return cost_models::StageFlow{s, of.capacities[own.microBatch].samples, own.replicas, 0, of.presence};
  };
  uint64_t places = 0;
  cost_models::StageFlow producer = flow(section, option);
  auto each = static_cast<uint64_t>(producer.microBatch) * producer.replicas;
  for (uint32_t reader : gradientsFrom[section]) {
    const ShapeOption &own = shape.options[reader];
    uint32_t holds = cuts.of(reader)[own.cut].slots.front() + cost_models::kWaitingForSection / 2;
    auto held =
        static_cast<uint64_t>(cost_models::samplesFrom(producer, flow(reader, own), holds, problem.model.stepSamples));
    places = std::max(places, (held + each - 1) / each + cost_models::kOwnSlots - 1);
  }
  return places;
}

uint64_t Shapes::bytesIn(const Shape &shape, uint32_t section, const ShapeOption &option) const {
  uint64_t most = 0, beyond = placesBeyond(shape, section, option);
  const CutFacts &facts = cuts.of(section)[option.cut];
  for (size_t stage = 0; stage < facts.stages.size(); ++stage)
    most = std::max(most, stageBytes(problem, section, facts, option.microBatch, stage, beyond));
  return most;
}

/// Of a section's options on so many devices, the fastest that hold no more than `most`.
std::vector<ShapeOption> Shapes::fastestWithin(const Shape &shape, uint32_t section, uint32_t devices,
                                               uint64_t most) const {
  std::vector<std::pair<double, ShapeOption>> all;
  forEachOption(section, devices, everyCut, [&](const ShapeOption &option) {
    if (measured[section][option.cut][option.microBatch].leastBytes <= most && bytesIn(shape, section, option) <= most)
      all.push_back({estimate(section, option).seconds(), option});
  });
  size_t count = std::min(kMostShrunk, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(count), all.end());
  std::vector<ShapeOption> fastest;
  for (size_t i = 0; i < count; ++i)
    fastest.push_back(all[i].second);
  return fastest;
}

/// Groups of whole nodes come first, so that theirs begin where a node does.
Layout Shapes::layoutOf(const Shape &shape) const {
  std::set<uint32_t> taken;
  for (const ShapeGroup &group : shape.groups)
    taken.insert(group.pinned.begin(), group.pinned.end());
  std::vector<uint32_t> free;
  for (uint32_t device = 0; device < problem.machine.devices; ++device)
    if (!taken.count(device))
      free.push_back(device);
  uint32_t node = problem.machine.links.empty() ? 1 : problem.machine.links.front().spans;
  std::vector<const ShapeGroup *> order;
  for (const ShapeGroup &group : shape.groups)
    order.push_back(&group);
  std::stable_sort(order.begin(), order.end(), [&](const ShapeGroup *a, const ShapeGroup *b) {
    return (a->devices % node == 0) > (b->devices % node == 0);
  });
  Layout layout(shape.options.size());
  size_t next = 0;
  for (const ShapeGroup *group : order) {
    std::vector<uint32_t> devices = group->pinned;
    if (devices.empty()) {
      devices.assign(free.begin() + static_cast<ptrdiff_t>(next),
                     free.begin() + static_cast<ptrdiff_t>(next + group->devices));
      next += group->devices;
    }
    for (uint32_t section : group->sections) {
      const ShapeOption &option = shape.options[section];
      layout[section] =
          placed(cuts.of(section)[option.cut].cut, option.microBatch, option.replicas, devices, shape.byStage);
      layout[section].moreInFlight = problem.pins[section].moreInFlight.value_or(0);
    }
  }
  return layout;
}

} // namespace maestro::planner

#include "planner/search/family_bound.h"

#include "planner/search/divisible_work.h"
#include "planner/search/option_bounds.h"
#include "planner/search/schedule_bound.h"

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

namespace maestro::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// More devices have more families than it is worth to look at.
constexpr uint32_t kMostDevices = 64;
/// Families that are looked at for one time; with more it counts as possible.
constexpr uint64_t kMostFamilies = 5'000'000;
/// Bounds of schedules that are asked for; then none is.
constexpr uint64_t kMostSchedules = 4000;
/// Nanoseconds are rounded up.
constexpr double kRounded = 1 - 1e-6;
/// So many of divide()'s prices are tried on the next groups, which takes a hundredth of a division.
constexpr size_t kMostPrices = 16;
/// The bound is within so much of what these families prove.
constexpr double kPrecision = 2e-4;

/// An option of a section, where so many samples are on the way behind it.
struct Pick {
  uint32_t section = 0;
  BoundedOption *option = nullptr;
  std::vector<uint64_t> bytes;          ///< By stage, less what a device has once for all that it runs.
  std::vector<double> work, alike;      ///< By stage; the second of what all stages have in common.
  uint64_t held = 0;                    ///< Samples, as the sections before it see it.
  std::array<ReplicatedWork, 2> shares; ///< With devices replica by replica, and stage by stage.
  bool isRelaxed = false; ///< Of each of several options the least: none of them is possible where this is not.
};

/// Options of as many stages and replicas: what is possible with none of them at once.
struct Alternatives {
  Pick relaxed;
  BoundedOption option; ///< The relaxed one's.
  std::vector<const Pick *> picks;
};
using Shapes = std::vector<std::unique_ptr<Alternatives>>; ///< Ascending in devices.

/// Whether whatever is possible with `b` is with `a`, schedules apart.
bool isNoWorse(const Pick &a, const Pick &b) {
  auto isLess = [](const auto &x, const auto &y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), std::less_equal<>());
  };
  return a.option->replicas == b.option->replicas && a.bytes.size() == b.bytes.size() &&
         a.option->tasks <= b.option->tasks && isLess(a.option->update, b.option->update) &&
         isLess(a.option->updates, b.option->updates) && isLess(a.bytes, b.bytes) && isLess(a.work, b.work) &&
         isLess(a.alike, b.alike) && a.held <= b.held;
}

/// Sections on the first devices of a group.
struct Group {
  std::vector<const Pick *> members;
  std::vector<uint64_t> bytes;  ///< By device.
  double training = 0, all = 0; ///< Seconds of all devices: of what trains; of everything, with updates.
};

/// Times in which a group's work is known to be possible, and not to be.
struct Divided {
  double possible = kNever, impossible = 0;
};

class Families {
public:
  /// `most`: the longest time that will be asked for.
  Families(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work, double most)
      : problem(problem), bounds(problem, cuts, work), schedules(problem, cuts) {
    if (!problem.machine.kindOf
             .empty()) // A stage's costs are those of its devices' kind, and families do not say which that is.
      schedulesLeft = 0;
    for (uint32_t s = 0; s < problem.pins.size(); ++s)
      options.push_back(bounds.options(s, most));
    for (const cost_models::DeviceModel &kind : problem.machine.kinds)
      memory = std::max(memory, kind.memoryBytes);
    findOrder(work);
  }

  /// With devices replica by replica, or stage by stage.
  bool isPossible(double time, bool isByStage) {
    seconds = time;
    byStage = isByStage;
    families = 0;
    groups.clear();
    inTime.clear();
    beside.clear();
    chosen.assign(options.size(), nullptr);
    rest.assign(1, 0);
    for (size_t i = order.size(); i-- > 0;) {
      double least = kNever;
      for (const BoundedOption &option : options[order[i]])
        if (option.tasks + option.update[byStage] <= seconds)
          least = std::min(least, option.work);
      rest.push_back(rest.back() + least);
    }
    return rest.back() <= problem.machine.devices * seconds && place(0, 0, 0);
  }

private:
  bool trains(const Pick &pick) const { return problem.model.sections[pick.section].trains; }

  /// What places others have on the way comes first; of the rest what has most work, since it fits least.
  void findOrder(const WorkTable &work) {
    std::vector<uint8_t> isPlaced(options.size(), 0);
    auto isReady = [&](uint32_t s) {
      return !isPlaced[s] && std::all_of(problem.model.tensors.begin(), problem.model.tensors.end(),
                                         [&](const cost_models::AtomTensor &tensor) {
                                           return tensor.section != s ||
                                                  std::all_of(tensor.consumers.begin(), tensor.consumers.end(),
                                                              [&](const auto &consumer) {
                                                                return consumer.first == s || isPlaced[consumer.first];
                                                              });
                                         });
    };
    while (order.size() < options.size()) {
      uint32_t next = UINT32_MAX;
      for (uint32_t s = 0; s < options.size(); ++s)
        if (isReady(s) && (next == UINT32_MAX || work.least(s) > work.least(next)))
          next = s;
      isPlaced[next] = 1;
      order.push_back(next);
    }
  }

  /// Of a section where `held` samples are on the way behind it: those that fit, without those that another one makes
  /// needless.
  const std::vector<Pick> &picksOf(uint32_t s, uint64_t held) {
    auto [found, isNew] = picks.try_emplace({s, held});
    if (!isNew)
      return found->second;
    std::vector<Pick> &kept = found->second;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> alike; // By stages and replicas.
    for (BoundedOption &option : options[s]) {
      Pick pick = makePick(s, option, held);
      std::vector<size_t> &others = alike[{option.stages, option.replicas}];
      if (pick.bytes.empty() ||
          std::any_of(others.begin(), others.end(), [&](size_t other) { return isNeedless(pick, kept[other]); }))
        continue;
      for (bool placedByStage : {false, true})
        pick.shares[placedByStage] = sharesOf(pick, placedByStage);
      others.push_back(kept.size());
      kept.push_back(std::move(pick));
    }
    return kept;
  }

  /// Whether `other`, in as many stages and replicas, makes it so.
  bool isNeedless(const Pick &pick, const Pick &other) {
    auto cutOf = [](const Pick &own) { return PlacedCut{own.section, own.option->cut, own.option->microBatch, {}}; };
    return isNoWorse(other, pick) &&
           (schedulesLeft == 0 || !trains(pick) || schedules.isNoWorse(cutOf(other), cutOf(pick)));
  }

  /// No bytes: it does not fit.
  Pick makePick(uint32_t s, BoundedOption &option, uint64_t held) const {
    Pick pick;
    pick.section = s;
    pick.option = &option;
    for (size_t stage = 0; stage < option.stages; ++stage) {
      uint64_t bytes = bounds.bytes(s, option, stage, held);
      if (bytes > memory) {
        pick.bytes.clear();
        return pick;
      }
      pick.bytes.push_back(bytes - bounds.processBytes(s, option, stage));
      pick.work.push_back(bounds.stageWork(s, option, stage));
      pick.alike.push_back(bounds.alikeWork(s, option, stage));
    }
    for (uint32_t producer = 0; producer < s; ++producer)
      pick.held = std::max(pick.held, bounds.held(producer, s, option));
    return pick;
  }

  /// Chooses for the sections from the order's `next` on, in every way; `longest` and `update` are of those before. Of
  /// as many stages and replicas the least of all options is looked at before each of them is.
  bool place(size_t next, double longest, double update) {
    if (next == order.size())
      return std::all_of(groups.begin(), groups.end(), [&](const Group &group) { return isInTime(group, update); }) &&
             (relaxes || canBeScheduled(update));
    uint32_t s = order[next];
    uint64_t held = 0, used = 0;
    for (const Pick *reader : chosen)
      held = std::max(held, reader && !reader->isRelaxed ? bounds.held(s, reader->section, *reader->option) : 0);
    for (const Group &group : groups)
      used += group.bytes.size();
    if (next == 1)
      beside.clear();
    for (size_t g = 0; g <= groups.size(); ++g) {
      uint64_t room = problem.machine.devices - used + (g < groups.size() ? groups[g].bytes.size() : 0);
      for (const auto &shape : g == 0 && next > 0 ? besideFirst(s, held) : inTimeOf(s, held)) {
        if (shape->option.devices > room)
          break;
        bool probes = !relaxes && next > 0;
        relaxes |= probes;
        bool mayBe = next == 0 || tryIn(g, shape->relaxed, next + 1, longest, update);
        relaxes &= !probes;
        if (mayBe && (relaxes || std::any_of(shape->picks.begin(), shape->picks.end(), [&](const Pick *pick) {
                        return tryIn(g, *pick, next + 1, longest, update);
                      })))
          return true;
      }
    }
    return false;
  }

  /// In one of the groups, or a new one; `longest` and `update` as place() has them.
  bool tryIn(size_t g, const Pick &pick, size_t next, double longest, double update) {
    longest = std::max(longest, trains(pick) ? pick.option->tasks : 0);
    update = std::max(update, pick.option->update[byStage]);
    if (longest + update > seconds)
      return false;
    if (++families > kMostFamilies)
      return true;
    if (!hasRoom(g, pick, next, update) || (next == 1 && !canBeScheduledAlone(pick, 0, update)))
      return false;
    if (g == groups.size())
      groups.emplace_back();
    chosen[pick.section] = &pick;
    bool mayBe = add(groups[g], pick) && isInTime(groups[g], update) && place(next, longest, update);
    if (mayBe && !relaxes) // That is all that is asked.
      return true;
    chosen[pick.section] = nullptr;
    remove(groups[g]);
    if (groups.back().members.empty())
      groups.pop_back();
    return mayBe;
  }

  /// Of picksOf(), those that take no longer.
  const Shapes &inTimeOf(uint32_t s, uint64_t held) {
    auto [found, isNew] = inTime.try_emplace({s, held});
    if (isNew)
      for (const Pick &pick : picksOf(s, held))
        if (pick.option->tasks + pick.option->update[byStage] <= seconds)
          addTo(found->second, pick);
    return found->second;
  }

  /// Of these, those that fit beside the order's first section, which is chosen.
  const Shapes &besideFirst(uint32_t s, uint64_t held) {
    const Pick *first = groups.front().members.front();
    auto [found, isNew] = beside.try_emplace({s, held});
    if (isNew)
      for (const auto &shape : inTimeOf(s, held))
        for (const Pick *pick : shape->picks) {
          ++families;
          if (allOf(*first) + allOf(*pick) > problem.machine.devices * seconds)
            continue;
          Group both;
          add(both, *first);
          if (add(both, *pick))
            addTo(found->second, *pick);
        }
    return found->second;
  }

  /// Among its like.
  void addTo(Shapes &shapes, const Pick &pick) const {
    const BoundedOption &option = *pick.option;
    auto same = std::find_if(shapes.begin(), shapes.end(), [&](const auto &shape) {
      return shape->option.stages == option.stages && shape->option.replicas == option.replicas;
    });
    if (same == shapes.end()) {
      shapes.push_back(std::make_unique<Alternatives>(Alternatives{pick, option, {&pick}}));
      shapes.back()->relaxed.option = &shapes.back()->option;
      shapes.back()->relaxed.isRelaxed = true;
      return;
    }
    Alternatives &own = **same;
    own.picks.push_back(&pick);
    Pick &relaxed = own.relaxed;
    auto lower = [](auto &to, const auto &from) {
      for (size_t i = 0; i < to.size(); ++i)
        to[i] = std::min(to[i], from[i]);
    };
    lower(relaxed.bytes, pick.bytes);
    lower(own.option.update, option.update);
    lower(own.option.updates, option.updates);
    own.option.tasks = std::min(own.option.tasks, option.tasks);
    for (size_t placed = 0; placed < relaxed.shares.size(); ++placed) {
      lower(relaxed.shares[placed].alike, pick.shares[placed].alike);
      lower(relaxed.shares[placed].rest, pick.shares[placed].rest);
      lower(relaxed.shares[placed].fixed, pick.shares[placed].fixed);
    }
    const ReplicatedWork &work = relaxed.shares.front();
    own.option.work = std::accumulate(work.alike.begin(), work.alike.end(), 0.0) +
                      std::accumulate(work.rest.begin(), work.rest.end(), 0.0);
  }

  /// Seconds of all devices, with the update.
  double allOf(const Pick &pick) const { return pick.option->work + pick.option->updates[byStage]; }

  uint32_t device(const Pick &pick, uint32_t replica, uint32_t stage, bool placedByStage) const {
    return (placedByStage ? stage * pick.option->replicas + replica : replica * pick.option->stages + stage) %
           problem.machine.devices;
  }

  template <typename Visit> void forEachStage(const Pick &pick, Visit visit) const {
    for (uint32_t stage = 0; stage < pick.option->stages; ++stage)
      for (uint32_t replica = 0; replica < pick.option->replicas; ++replica)
        visit(stage, device(pick, replica, stage, byStage));
  }

  /// Whether the devices still hold everything.
  bool add(Group &group, const Pick &pick) const {
    const BoundedOption &option = *pick.option;
    group.members.push_back(&pick);
    group.training += trains(pick) ? option.work : 0;
    group.all += allOf(pick);
    group.bytes.resize(std::max<size_t>(group.bytes.size(), option.devices), 0);
    bool fits = true;
    forEachStage(pick, [&](uint32_t stage, uint32_t on) { fits &= (group.bytes[on] += pick.bytes[stage]) <= memory; });
    return fits;
  }

  void remove(Group &group) const {
    const Pick &pick = *group.members.back();
    group.members.pop_back();
    group.training -= trains(pick) ? pick.option->work : 0;
    group.all -= allOf(pick);
    forEachStage(pick, [&](uint32_t stage, uint32_t on) { group.bytes[on] -= pick.bytes[stage]; });
    size_t devices = 0;
    for (const Pick *member : group.members)
      devices = std::max<size_t>(devices, member->option->devices);
    group.bytes.resize(devices);
  }

  /// Devices for the groups once this one has the pick, too, and time on all of them for the sections from the order's
  /// `next` on.
  bool hasRoom(size_t g, const Pick &pick, size_t next, double update) const {
    size_t own = g < groups.size() ? groups[g].bytes.size() : 0,
           devices = std::max<size_t>(own, pick.option->devices) - own;
    double all = rest[order.size() - next] + allOf(pick), training = trains(pick) ? pick.option->work : 0;
    for (const Group &group : groups) {
      devices += group.bytes.size();
      all += group.all;
      training += group.training;
    }
    return devices <= problem.machine.devices && all <= problem.machine.devices * seconds &&
           training <= problem.machine.devices * (seconds - update);
  }

  /// Tasks of sections that train end before updates begin; what does not may run ahead.
  bool isInTime(const Group &group, double update) {
    auto devices = static_cast<double>(group.bytes.size());
    if (group.training > devices * (seconds - update) || group.all > devices * seconds)
      return false;
    bool allTrain =
        std::all_of(group.members.begin(), group.members.end(), [&](const Pick *pick) { return trains(*pick); });
    return group.members.size() < 2 ||
           (canBeDivided(group, true, seconds - update) && (allTrain || canBeDivided(group, false, seconds)));
  }

  /// What trains, as the scheduler sees it: each section alone, which rules most families out that it does, then all
  /// together.
  bool canBeScheduled(double update) {
    std::vector<PlacedCut> all;
    std::vector<const Pick *> training;
    uint32_t first = 0;
    for (const Group &group : groups) {
      for (const Pick *pick : group.members)
        if (trains(*pick)) {
          if (!canBeScheduledAlone(*pick, first, update))
            return false;
          all.push_back(placedAt(*pick, first));
          training.push_back(pick);
        }
      training.push_back(nullptr);
      first += static_cast<uint32_t>(group.bytes.size());
    }
    auto [known, isNew] = scheduled.try_emplace({byStage, training}, 0);
    if (isNew) {
      if (schedulesLeft == 0)
        return true;
      --schedulesLeft;
      std::sort(all.begin(), all.end(), [](const PlacedCut &a, const PlacedCut &b) { return a.section < b.section; });
      known->second = schedules.seconds(all) * kRounded;
    }
    return known->second + update <= seconds;
  }

  /// Of the order's first section it is asked before any other is beside it.
  bool canBeScheduledAlone(const Pick &pick, uint32_t first, double update) {
    BoundedOption &option = *pick.option;
    if (!option.isScheduled && trains(pick) && schedulesLeft > 0) {
      --schedulesLeft;
      option.tasks = std::max(option.tasks, schedules.seconds({placedAt(pick, first)}) * kRounded);
      option.isScheduled = true;
    }
    return !trains(pick) || option.tasks + update <= seconds;
  }

  PlacedCut placedAt(const Pick &pick, uint32_t first) const {
    const BoundedOption &option = *pick.option;
    PlacedCut placed{pick.section, option.cut, option.microBatch, {}};
    placed.devices.assign(option.replicas, std::vector<uint32_t>(option.stages));
    for (uint32_t replica = 0; replica < option.replicas; ++replica)
      for (uint32_t stage = 0; stage < option.stages; ++stage)
        placed.devices[replica][stage] = (first + device(pick, replica, stage, byStage)) % problem.machine.devices;
    return placed;
  }

  /// With updates, unless `trainingOnly`. The same group is met beside others many times, and what cannot be done in
  /// some time cannot in less.
  bool canBeDivided(const Group &group, bool trainingOnly, double time) {
    shared.clear();
    for (const Pick *pick : group.members)
      if (!trainingOnly || trains(*pick))
        shared.push_back(&pick->shares[byStage]);
    auto devices = static_cast<uint32_t>(group.bytes.size());
    bool isRelaxed =
        std::any_of(group.members.begin(), group.members.end(), [](const Pick *pick) { return pick->isRelaxed; });
    for (auto own = prices.begin(); own != prices.end(); ++own)
      if (isTooDear(shared, devices, time, *own, !trainingOnly)) {
        std::rotate(prices.begin(), own, own + 1); // It comes first the next time.
        return false;
      }
    Divided once;
    Divided &known = isRelaxed ? once : divided[{byStage, trainingOnly, group.members}];
    if (time <= known.impossible || time >= known.possible)
      return time >= known.possible;
    Division division = divide(shared, devices, time, !trainingOnly);
    (division.isPossible ? known.possible : known.impossible) = time;
    if (!division.isPossible) {
      prices.insert(prices.begin(), std::move(division.prices));
      prices.resize(std::min(prices.size(), kMostPrices));
    }
    return division.isPossible;
  }

  ReplicatedWork sharesOf(const Pick &pick, bool placedByStage) {
    ReplicatedWork own{pick.alike, {}, {}, {}};
    if (trains(pick))
      own.fixed = bounds.stageUpdates(pick.section, *pick.option, placedByStage);
    for (size_t stage = 0; stage < pick.work.size(); ++stage)
      own.rest.push_back(pick.work[stage] - pick.alike[stage]);
    own.devices.assign(pick.option->replicas, std::vector<uint32_t>(pick.option->stages));
    for (uint32_t replica = 0; replica < pick.option->replicas; ++replica)
      for (uint32_t stage = 0; stage < pick.option->stages; ++stage)
        own.devices[replica][stage] = device(pick, replica, stage, placedByStage);
    return own;
  }

  const SearchProblem &problem;
  OptionBounds bounds;
  ScheduleBound schedules;
  uint64_t schedulesLeft = kMostSchedules;
  std::map<std::tuple<bool, std::vector<const Pick *>>, double>
      scheduled; ///< By placement and members that train, group by group.
  std::vector<std::vector<BoundedOption>> options;
  std::vector<uint32_t> order;                                      ///< Of sections.
  std::map<std::pair<uint32_t, uint64_t>, std::vector<Pick>> picks; ///< By section and samples held behind it.
  std::map<std::pair<uint32_t, uint64_t>, Shapes> inTime;           ///< Likewise, of the time that is asked for.
  std::map<std::pair<uint32_t, uint64_t>, Shapes> beside;           ///< Of these, what fits beside the first section's.
  std::map<std::tuple<bool, bool, std::vector<const Pick *>>, Divided>
      divided; ///< By placement, whether frozen sections are left out, and members.
  uint64_t memory = 0;
  double seconds = 0;
  bool byStage = false;
  bool relaxes = false;                       ///< Of the sections that are chosen now, each option is a relaxed one.
  std::vector<std::vector<double>> prices;    ///< Of divisions that are not possible (divisible_work.h).
  std::vector<const ReplicatedWork *> shared; ///< canBeDivided's own, kept for its memory.
  std::vector<double> rest;                   ///< Work of the order's last so many sections, at least.
  std::vector<const Pick *> chosen;           ///< By section.
  std::vector<Group> groups;
  uint64_t families = 0;
};

} // namespace

double familyBound(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work, double low, double most) {
  bool isPinned = std::any_of(problem.pins.begin(), problem.pins.end(),
                              [](const SearchPins &pins) { return pins.devices.has_value(); });
  auto isOver = [&] { return problem.isOver && problem.isOver(); };
  if (isPinned || problem.machine.devices > kMostDevices || isOver())
    return low;
  // Placements on a processor each: what rules most families out for one says little of the other.
  auto boundOf = [&](bool byStage) {
    const WorkTable own = work; // It remembers what it is asked.
    double least = low, high = std::min(most, 2 * low);
    Families families(problem, cuts, own, high);
    if (high < most && !families.isPossible(high, byStage))
      return high;
    while (high - least > kPrecision * least && !isOver()) {
      double middle = (least + high) / 2;
      (families.isPossible(middle, byStage) ? high : least) = middle;
    }
    return least;
  };
  std::future<double> stageByStage = std::async(std::launch::async, boundOf, true);
  double replicaByReplica = boundOf(false);
  return std::min(replicaByReplica, stageByStage.get());
}

} // namespace maestro::planner

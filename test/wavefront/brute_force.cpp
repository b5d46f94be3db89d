#include "test/wavefront/brute_force.h"

#include "test/wavefront/random_problems.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

struct Group {
  uint32_t section = 0, replica = 0;
  std::vector<uint32_t> samples;
  std::vector<int64_t> dims;
};

struct Node {
  uint32_t device = 0, station = 0, slots = 0;
  int64_t ns = 0, tailNs = 0; ///< Tail: with its own time.
  bool opens = false, closes = false;
  std::vector<std::pair<uint32_t, int64_t>> before, after; ///< With the time in between.
};

class Search {
public:
  Search(const Problem &problem, int64_t known) : problem(problem), bestNs(known) {}

  int64_t run() {
    groupSection(0);
    return bestNs;
  }

private:
  bool isActive(uint32_t section, uint32_t sample) const {
    return takesPart(problem.sections[section], problem.sizes.data() + sample * problem.dims.size());
  }

  void groupSection(uint32_t section) {
    if (section == problem.sections.size())
      return orderAll();
    placeSample(section, 0, groups.size());
  }

  /// Sample by sample: into each open group of the section that it fits, or into a new one on each replica.
  void placeSample(uint32_t section, uint32_t sample, size_t firstGroup) {
    if (sample == problem.sampleCount())
      return groupSection(section + 1);
    if (!isActive(section, sample))
      return placeSample(section, sample + 1, firstGroup);
    for (size_t g = firstGroup; g < groups.size(); ++g) {
      Group saved = groups[g];
      if (join(groups[g], sample))
        placeSample(section, sample + 1, firstGroup);
      groups[g] = saved;
    }
    for (uint32_t replica = 0; replica < problem.sections[section].devices.size(); ++replica) {
      groups.push_back({section, replica, {}, std::vector<int64_t>(problem.dims.size(), 0)});
      if (join(groups.back(), sample))
        placeSample(section, sample + 1, firstGroup);
      groups.pop_back();
    }
  }

  bool join(Group &group, uint32_t sample) const {
    const Section &section = problem.sections[group.section];
    group.samples.push_back(sample);
    bool fits = static_cast<int64_t>(group.samples.size()) <= section.maxSamples;
    for (size_t d = 0; d < problem.dims.size(); ++d) {
      group.dims[d] = combine(problem.dims[d], group.dims[d], problem.sizes[sample * problem.dims.size() + d]);
      fits &= group.dims[d] <= section.capacity[d];
    }
    for (const Area &area : section.areas)
      fits &= group.dims[area.rows] * group.dims[area.padded] <= area.capacity;
    return fits;
  }

  void link(uint32_t from, uint32_t to, int64_t lag) {
    nodes[from].after.push_back({to, lag});
    nodes[to].before.push_back({from, lag});
  }

  void buildNodes() {
    nodes.clear();
    std::vector<uint32_t> first;
    uint32_t stations = 0;
    std::vector<uint32_t> firstStation;
    for (const Section &section : problem.sections) {
      firstStation.push_back(stations);
      stations += static_cast<uint32_t>(section.devices.size() * section.stages.size());
    }
    auto kinds = [&](uint32_t s) {
      return problem.sections[s].splitsBackward ? 3u : problem.sections[s].trains ? 2u : 1u;
    };
    for (const Group &group : groups) {
      const Section &section = problem.sections[group.section];
      first.push_back(static_cast<uint32_t>(nodes.size()));
      for (uint32_t stage = 0; stage < section.stages.size(); ++stage)
        for (uint32_t kind = 0; kind < kinds(group.section); ++kind) {
          const Stage &costs = section.stages[stage];
          Node node;
          node.device = section.devices[group.replica][stage];
          node.station =
              firstStation[group.section] + group.replica * static_cast<uint32_t>(section.stages.size()) + stage;
          node.slots = costs.slots;
          node.ns = evaluate(kind == 0   ? costs.forward
                             : kind == 1 ? costs.backward
                                         : costs.weightGradient,
                             group.dims.data());
          node.opens = kind == 0;
          node.closes = kind + 1 == kinds(group.section);
          nodes.push_back(node);
          if (kind > 0)
            link(static_cast<uint32_t>(nodes.size() - 2), static_cast<uint32_t>(nodes.size() - 1), 0);
        }
    }
    auto shares = [](const Group &a, const Group &b) {
      return std::any_of(a.samples.begin(), a.samples.end(), [&](uint32_t sample) {
        return std::find(b.samples.begin(), b.samples.end(), sample) != b.samples.end();
      });
    };
    for (const Edge &edge : problem.edges)
      for (size_t p = 0; p < groups.size(); ++p)
        for (size_t c = 0; c < groups.size(); ++c) {
          if (groups[p].section != edge.producer || groups[c].section != edge.consumer ||
              (edge.producer == edge.consumer ? p != c : !shares(groups[p], groups[c])))
            continue;
          uint32_t from = first[p] + edge.producerStage * kinds(edge.producer),
                   to = first[c] + edge.consumerStage * kinds(edge.consumer);
          link(from, to, evaluate(edge.transfer, groups[p].dims.data()));
          if (edge.gradient)
            link(to + 1, from + 1, evaluate(edge.gradientTransfer, groups[c].dims.data()));
        }
    computeTails();
    inFlight.assign(stations, 0);
  }

  void computeTails() {
    bool changed = true;
    for (Node &node : nodes)
      node.tailNs = node.ns;
    while (changed) {
      changed = false;
      for (Node &node : nodes)
        for (auto [after, lag] : node.after)
          if (node.tailNs < node.ns + lag + nodes[after].tailNs) {
            node.tailNs = node.ns + lag + nodes[after].tailNs;
            changed = true;
          }
    }
  }

  void orderAll() {
    buildNodes();
    startNs.assign(nodes.size(), -1);
    freeNs.assign(problem.devices, 0);
    std::vector<int64_t> work(problem.devices, 0);
    for (const Node &node : nodes) {
      work[node.device] += node.ns;
      if (node.tailNs >= bestNs)
        return;
    }
    if (*std::max_element(work.begin(), work.end()) >= bestNs)
      return;
    extend(0, 0, 0, 0);
  }

  /// Appends tasks by rising start, so that each schedule is met once.
  void extend(size_t done, int64_t lastNs, uint32_t lastDevice, int64_t endNs) {
    if (done == nodes.size()) {
      bestNs = std::min(bestNs, endNs);
      return;
    }
    std::vector<int64_t> left(problem.devices, 0);
    for (uint32_t n = 0; n < nodes.size(); ++n)
      if (startNs[n] < 0) {
        left[nodes[n].device] += nodes[n].ns;
        if (std::max(lastNs, freeNs[nodes[n].device]) + nodes[n].tailNs >= bestNs)
          return;
      }
    for (uint32_t d = 0; d < problem.devices; ++d)
      if (left[d] > 0 && std::max(freeNs[d], lastNs) + left[d] >= bestNs)
        return;
    for (uint32_t n = 0; n < nodes.size(); ++n) {
      Node &node = nodes[n];
      if (startNs[n] >= 0 || (node.opens && inFlight[node.station] >= node.slots))
        continue;
      int64_t start = freeNs[node.device];
      bool ready = true;
      for (auto [before, lag] : node.before) {
        ready &= startNs[before] >= 0;
        start = std::max(start, startNs[before] + nodes[before].ns + lag);
      }
      if (!ready || start < lastNs || (start == lastNs && node.device < lastDevice) || start + node.tailNs >= bestNs)
        continue;
      int64_t savedFree = freeNs[node.device];
      startNs[n] = start;
      freeNs[node.device] = start + node.ns;
      inFlight[node.station] += node.opens;
      inFlight[node.station] -= node.closes;
      extend(done + 1, start, node.device, std::max(endNs, start + node.ns));
      inFlight[node.station] += node.closes;
      inFlight[node.station] -= node.opens;
      freeNs[node.device] = savedFree;
      startNs[n] = -1;
    }
  }

  const Problem &problem;
  int64_t bestNs;
  std::vector<Group> groups;
  std::vector<Node> nodes;
  std::vector<int64_t> startNs, freeNs;
  std::vector<uint32_t> inFlight;
};

} // namespace

int64_t bruteForce(const Problem &problem, int64_t knownNs) { return Search(problem, knownNs).run(); }

/// Steps of some seconds: what scheduling may cost is a part of that.
Problem tinyProblem(uint64_t seed) {
  constexpr int64_t tickPs = 20'000'000'000;
  Random random(seed);
  Problem problem;
  problem.dims = {{"batch", true, 1}, {"length", false, random.in(1, 4)}, {"images", true, 1}};
  int64_t sections = random.in(1, 3), samples = random.in(2, sections == 3 ? 3 : 4);
  for (int64_t i = 0; i < samples; ++i) {
    int64_t sizes[] = {1, random.in(1, 12), random.chance(60) ? random.in(1, 4) : 0};
    problem.sizes.insert(problem.sizes.end(), std::begin(sizes), std::end(sizes));
  }
  bool disjoint = random.chance(70);
  problem.devices = disjoint ? 0 : static_cast<uint32_t>(random.in(1, 2));
  int64_t tasks = 0;
  for (int64_t s = 0; s < sections; ++s) {
    Section section;
    section.name = "s" + std::to_string(s);
    bool encoder = s == 0 && sections > 1, trained = s + 1 == sections || random.chance(50);
    section.trains = trained;
    section.splitsBackward = trained && sections == 1 && random.chance(30);
    if (encoder && random.chance(60))
      section.activeDims = {2};
    section.maxSamples = random.in(1, 3);
    section.capacity = {section.maxSamples, 12, 8};
    uint32_t stages = tasks < 8 && random.chance(40) ? 2 : 1, replicas = random.chance(50) ? 2 : 1;
    auto cost = [&](int64_t factor) {
      Cost made{{{random.in(0, 3) * tickPs, {}}, {factor * random.in(1, 4) * tickPs, {0, 1}}}};
      if (!section.activeDims.empty())
        made.terms[1].dims = {2};
      return made;
    };
    for (uint32_t stage = 0; stage < stages; ++stage) {
      section.stages.push_back(
          {cost(1), cost(2), cost(1), stages - stage + static_cast<uint32_t>(random.in(0, 3)), {}});
      tasks += samples * (trained ? 2 : 1);
    }
    for (uint32_t r = 0; r < replicas; ++r) {
      section.devices.emplace_back();
      for (uint32_t stage = 0; stage < stages; ++stage)
        section.devices.back().push_back(disjoint ? problem.devices++
                                                  : static_cast<uint32_t>(random.in(0, problem.devices - 1)));
    }
    problem.sections.push_back(std::move(section));
  }
  auto join = [&](uint32_t producer, uint32_t from, uint32_t consumer, uint32_t to) {
    Edge edge;
    edge.producer = producer, edge.producerStage = from, edge.consumer = consumer, edge.consumerStage = to;
    edge.gradient = problem.sections[producer].trains && problem.sections[consumer].trains;
    edge.depth = edge.gradientDepth = static_cast<uint32_t>(samples);
    edge.transfer.terms = {{random.in(0, 2) * tickPs, {}}};
    edge.gradientTransfer = edge.transfer;
    problem.edges.push_back(std::move(edge));
  };
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    uint32_t stages = static_cast<uint32_t>(problem.sections[s].stages.size());
    if (stages == 2)
      join(s, 0, s, 1);
    if (s + 1 < problem.sections.size())
      join(s, stages - 1, static_cast<uint32_t>(random.chance(70) ? problem.sections.size() - 1 : s + 1), 0);
  }
  return problem;
}

Problem withTinyAreas(Problem problem, uint64_t seed) {
  Random random(~seed);
  for (Section &section : problem.sections) {
    section.maxSamples = section.capacity[0] = random.in(3, 4);
    section.areas = {{0, 1, random.in(12, 24)}};
  }
  return problem;
}

} // namespace maestro::wavefront

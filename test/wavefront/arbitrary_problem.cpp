#include "test/wavefront/random_problems.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

Cost randomCost(Random &random, size_t dims) {
  Cost cost;
  for (int64_t terms = random.in(0, 3); terms > 0; --terms) {
    CostTerm term{random.in(0, 5) * random.in(0, 2000), {}};
    for (int64_t factors = random.in(0, 2); factors > 0; --factors)
      term.dims.push_back(static_cast<uint32_t>(random.in(0, static_cast<int64_t>(dims) - 1)));
    cost.terms.push_back(std::move(term));
  }
  return cost;
}

/// Of any two dims that can have one: what the largest sample needs, or a little more.
std::vector<Area> randomAreas(Random &random, const Problem &problem) {
  std::vector<Area> areas;
  for (uint32_t rows = 0; rows < problem.dims.size(); ++rows)
    for (uint32_t padded = 0; padded < problem.dims.size(); ++padded) {
      if (!problem.dims[rows].sum || problem.dims[padded].sum || random.chance(60))
        continue;
      int64_t largest = 0;
      for (size_t sample = 0; sample < problem.sampleCount(); ++sample) {
        const int64_t *sizes = problem.sizes.data() + sample * problem.dims.size();
        largest = std::max(largest, sizes[rows] * alone(problem.dims[padded], sizes[padded]));
      }
      areas.push_back({rows, padded, largest + random.in(0, 60)});
    }
  return areas;
}

int64_t smallOr(Random &random, int64_t small, int64_t large) {
  return random.chance(50) ? small : random.in(small, large);
}

Section randomSection(Random &random, const Problem &problem, size_t index) {
  Section section;
  section.name = "s" + std::to_string(index);
  section.trains = random.chance(60);
  section.splitsBackward = section.trains && random.chance(30);
  if (random.chance(50))
    section.activeDims = {static_cast<uint32_t>(random.in(0, static_cast<int64_t>(problem.dims.size()) - 1))};
  section.maxSamples = random.in(1, 6);
  for (size_t d = 0; d < problem.dims.size(); ++d) {
    int64_t largest = 0;
    for (size_t sample = 0; sample < problem.sampleCount(); ++sample)
      largest = std::max(largest, alone(problem.dims[d], problem.sizes[sample * problem.dims.size() + d]));
    section.capacity.push_back(largest + random.in(0, 12));
  }
  section.areas = randomAreas(random, problem);
  for (int64_t stages = random.in(1, 3); stages > 0; --stages) {
    Stage stage;
    stage.forward = randomCost(random, problem.dims.size());
    stage.backward = randomCost(random, problem.dims.size());
    stage.weightGradient = randomCost(random, problem.dims.size());
    stage.slots = static_cast<uint32_t>(smallOr(random, 1, 4));
    section.stages.push_back(std::move(stage));
  }
  for (int64_t replicas = random.in(1, 3); replicas > 0; --replicas) {
    std::vector<uint32_t> devices;
    for (size_t stage = 0; stage < section.stages.size(); ++stage)
      devices.push_back(static_cast<uint32_t>(random.in(0, problem.devices - 1)));
    section.devices.push_back(std::move(devices));
  }
  return section;
}

Edge randomEdge(Random &random, const Problem &problem, uint32_t producer, uint32_t from, uint32_t consumer,
                uint32_t to) {
  Edge edge;
  edge.producer = producer, edge.producerStage = from;
  edge.consumer = consumer, edge.consumerStage = to;
  edge.gradient = problem.sections[producer].trains && problem.sections[consumer].trains && random.chance(80);
  edge.heldUntilBackward = random.chance(50);
  edge.depth = static_cast<uint32_t>(smallOr(random, 1, 4));
  edge.gradientDepth = static_cast<uint32_t>(smallOr(random, 1, 4));
  edge.transfer = randomCost(random, problem.dims.size());
  edge.gradientTransfer = randomCost(random, problem.dims.size());
  return edge;
}

/// A section that does not read the dim.
void removeDim(Problem &problem, uint32_t s, uint32_t dim) {
  auto remove = [dim](Cost &cost) {
    std::erase_if(cost.terms, [dim](const CostTerm &term) {
      return std::find(term.dims.begin(), term.dims.end(), dim) != term.dims.end();
    });
  };
  Section &section = problem.sections[s];
  std::erase_if(section.areas, [dim](const Area &area) { return area.padded == dim; });
  for (Stage &stage : section.stages)
    for (Cost *cost : {&stage.forward, &stage.backward, &stage.weightGradient})
      remove(*cost);
  for (Edge &edge : problem.edges) {
    if (edge.producer == s)
      remove(edge.transfer);
    if (edge.consumer == s)
      remove(edge.gradientTransfer);
  }
}

} // namespace

Problem arbitraryProblem(uint64_t seed) {
  Random random(seed);
  Problem problem;
  for (int64_t d = 0, dims = random.in(1, 3); d < dims; ++d)
    problem.dims.push_back({"d" + std::to_string(d), random.chance(50), random.chance(50) ? 1 : random.in(2, 4)});
  int64_t samples = random.chance(5) ? 0 : random.in(1, 24);
  for (int64_t i = 0; i < samples * static_cast<int64_t>(problem.dims.size()); ++i)
    problem.sizes.push_back(random.chance(30) ? 0 : random.in(0, 7));
  problem.devices = static_cast<uint32_t>(random.in(1, 6));
  for (int64_t s = 0, sections = random.in(1, 5); s < sections; ++s)
    problem.sections.push_back(randomSection(random, problem, static_cast<size_t>(s)));
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    uint32_t stages = static_cast<uint32_t>(problem.sections[s].stages.size());
    for (uint32_t from = 0; from < stages; ++from)
      for (uint32_t to = from + 1; to < stages; ++to)
        if (random.chance(to == from + 1 ? 90 : 20))
          problem.edges.push_back(randomEdge(random, problem, s, from, s, to));
    for (uint32_t consumer = s + 1; consumer < problem.sections.size(); ++consumer)
      for (int64_t count = random.in(0, 2); count > 0; --count)
        problem.edges.push_back(randomEdge(
            random, problem, s, static_cast<uint32_t>(random.in(0, stages - 1)), consumer,
            static_cast<uint32_t>(random.in(0, static_cast<int64_t>(problem.sections[consumer].stages.size()) - 1))));
  }
  // Behind all that is drawn, so that problems of other seeds stay what they are.
  for (uint32_t d = 0; seed % 3 == 0 && d < problem.dims.size(); ++d) {
    problem.dims[d].unpadded = !problem.dims[d].sum && problem.dims[d].multipleOf == 1;
    for (uint32_t s = 0; problem.dims[d].unpadded && s < problem.sections.size(); ++s)
      if (s % 2 == 0)
        problem.sections[s].unpadded.push_back(d);
      else
        removeDim(problem, s, d);
  }
  return problem;
}

} // namespace maestro::wavefront

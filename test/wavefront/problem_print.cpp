// Problems and schedules as text, and schedules as a Gantt chart; problem_text.cpp reads them.
#include "test/wavefront/problem_text.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

void printCost(const Problem &problem, std::string_view name, const Cost &cost, std::string &text) {
  if (cost.terms.empty())
    return;
  text.append(" ").append(name).append(" ");
  for (size_t t = 0; t < cost.terms.size(); ++t) {
    text.append(t ? "+" : "").append(std::to_string(cost.terms[t].picoseconds));
    for (uint32_t dim : cost.terms[t].dims)
      text.append("*").append(problem.dims[dim].name);
  }
}

void printSection(const Problem &problem, const Section &section, std::string &text) {
  text.append("section ").append(section.name).append(section.trains ? " trains" : "");
  text.append(section.splitsBackward ? " split\n" : "\n");
  auto printDims = [&](const char *what, const std::vector<uint32_t> &dims) {
    if (dims.empty())
      return;
    text.append("  ").append(what);
    for (uint32_t dim : dims)
      text.append(" ").append(problem.dims[dim].name);
    text.append("\n");
  };
  printDims("active", section.activeDims);
  printDims("unpadded", section.unpadded);
  text.append("  max_samples ").append(std::to_string(section.maxSamples)).append("\n  capacity");
  for (int64_t capacity : section.capacity)
    text.append(" ").append(std::to_string(capacity));
  text.append("\n");
  for (const Area &area : section.areas) {
    text.append("  area ").append(problem.dims[area.rows].name).append(" ").append(problem.dims[area.padded].name);
    text.append(" ").append(std::to_string(area.capacity)).append("\n");
  }
  for (const Stage &stage : section.stages) {
    text.append("  stage slots ").append(std::to_string(stage.slots));
    printCost(problem, "forward", stage.forward, text);
    printCost(problem, "backward", stage.backward, text);
    printCost(problem, "weight_gradient", stage.weightGradient, text);
    printCost(problem, "update", stage.update, text);
    text.append("\n");
  }
  for (const std::vector<uint32_t> &replica : section.devices) {
    text.append("  replica");
    for (uint32_t device : replica)
      text.append(" ").append(std::to_string(device));
    text.append("\n");
  }
}

void printEdge(const Problem &problem, const Edge &edge, std::string &text) {
  text.append("edge ")
      .append(problem.sections[edge.producer].name)
      .append(" ")
      .append(std::to_string(edge.producerStage));
  text.append(" -> ")
      .append(problem.sections[edge.consumer].name)
      .append(" ")
      .append(std::to_string(edge.consumerStage));
  text.append(edge.gradient ? " gradient" : "").append(edge.heldUntilBackward ? " held" : "");
  text.append(" depth ").append(std::to_string(edge.depth));
  text.append(" gradient_depth ").append(std::to_string(edge.gradientDepth));
  printCost(problem, "transfer", edge.transfer, text);
  printCost(problem, "gradient_transfer", edge.gradientTransfer, text);
  text.append("\n");
}

} // namespace

std::string print(const Problem &problem) {
  std::string text = "devices " + std::to_string(problem.devices) + "\n";
  for (const Dim &dim : problem.dims) {
    text.append("dim ").append(dim.name).append(dim.sum ? " sum" : " max");
    text.append(dim.unpadded ? " unpadded" : "");
    if (!dim.sum)
      text.append(" ").append(std::to_string(dim.multipleOf));
    text.append("\n");
  }
  for (const Section &section : problem.sections)
    printSection(problem, section, text);
  for (const Edge &edge : problem.edges)
    printEdge(problem, edge, text);
  for (const Choice &hint : problem.hints) {
    text.append("hint");
    for (const ChoicePart &part : choiceParts())
      text.append(" ").append(part.name).append(" ").append(std::to_string(part.get(hint)));
    text.append("\n");
  }
  for (size_t sample = 0; sample < problem.sampleCount(); ++sample) {
    text.append("sample");
    for (size_t d = 0; d < problem.dims.size(); ++d)
      text.append(" ").append(std::to_string(problem.sizes[sample * problem.dims.size() + d]));
    text.append("\n");
  }
  return text;
}

std::string print(const Problem &problem, const Schedule &schedule) {
  std::string text;
  for (const MicroBatch &group : schedule.microBatches) {
    text.append("microbatch ").append(problem.sections[group.section].name).append(" ");
    text.append(std::to_string(group.replica)).append(" samples");
    for (uint32_t sample : schedule.samplesOf(group))
      text.append(" ").append(std::to_string(sample));
    text.append("\n");
  }
  for (uint32_t device = 0; device < problem.devices; ++device) {
    text.append("device ").append(std::to_string(device));
    for (const Task &task : schedule.tasksOf(device)) {
      text.append(" ")
          .append(1, "FBW"[static_cast<int>(task.kind)])
          .append(std::to_string(task.microBatch))
          .append(".");
      text.append(std::to_string(task.stage)).append("@").append(std::to_string(task.startNs)).append("-");
      text.append(std::to_string(task.endNs));
    }
    text.append("\n");
  }
  text.append("makespan ").append(std::to_string(schedule.makespanNs)).append("\n");
  return text.append("bound ").append(std::to_string(schedule.lowerBoundNs)).append("\n");
}

std::string drawGantt(const Problem &problem, const Schedule &schedule, size_t columns) {
  std::string text;
  columns = std::max<size_t>(columns, 1);
  int64_t span = std::max<int64_t>(1, schedule.makespanNs);
  auto column = [&](int64_t ns) {
    return std::min(columns,
                    static_cast<size_t>(static_cast<unsigned __int128>(ns) * columns / static_cast<uint64_t>(span)));
  };
  auto letter = [&](uint32_t section, TaskKind kind) {
    char base = static_cast<char>(section % 26);
    return kind == TaskKind::Forward    ? static_cast<char>('A' + base)
           : kind == TaskKind::Backward ? static_cast<char>('a' + base)
                                        : 'w';
  };
  std::vector<int64_t> busy(problem.sections.size(), 0);
  for (uint32_t device = 0; device < problem.devices; ++device) {
    std::string line(columns, '.');
    for (const Task &task : schedule.tasksOf(device)) {
      uint32_t section = schedule.microBatches[task.microBatch].section;
      busy[section] += task.endNs - task.startNs;
      // A task that is shorter than a column still shows where nothing else does.
      size_t first = std::min(column(task.startNs), columns - 1), last = std::max(column(task.endNs), first + 1);
      std::fill(line.begin() + static_cast<int64_t>(first), line.begin() + static_cast<int64_t>(last),
                letter(section, task.kind));
    }
    text.append("device ").append(std::to_string(device)).append(device < 10 ? "   |" : device < 100 ? "  |" : " |");
    text.append(line).append("|\n");
  }
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    const Section &section = problem.sections[s];
    int64_t stations = static_cast<int64_t>(section.devices.size() * section.stages.size());
    text.append(1, letter(s, TaskKind::Forward)).append(" ").append(section.name).append(": busy ");
    text.append(std::to_string(busy[s] * 100 / stations / span))
        .append(" % of ")
        .append(std::to_string(span))
        .append(" ns\n");
  }
  return text;
}

} // namespace maestro::wavefront

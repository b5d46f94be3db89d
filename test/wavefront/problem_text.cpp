#include "test/wavefront/problem_text.h"

#include <algorithm>
#include <charconv>

namespace maestro::wavefront {
namespace {

/// The words of one line, and the errors that name it.
class Line {
public:
  Line(std::string_view text, size_t number) : number(number) {
    text = text.substr(0, text.find('#'));
    for (size_t i = 0; i < text.size();) {
      size_t start = text.find_first_not_of(" \t\r", i);
      if (start == std::string_view::npos)
        break;
      size_t end = std::min(text.find_first_of(" \t\r", start), text.size());
      words.push_back(text.substr(start, end - start));
      i = end;
    }
  }

  bool isEmpty() const { return words.empty(); }
  bool atEnd() const { return next == words.size(); }
  std::string_view peek() const { return atEnd() ? std::string_view() : words[next]; }
  std::string_view take() { return atEnd() ? std::string_view() : words[next++]; }
  bool accept(std::string_view word) {
    bool same = !atEnd() && words[next] == word;
    next += same;
    return same;
  }

  Status fault(const std::string &what) const {
    return Status::invalidInput("line " + std::to_string(number) + ": " + what);
  }
  Status expect(std::string_view word) {
    return accept(word) ? Status() : fault("expected '" + std::string(word) + "', found '" + std::string(peek()) + "'");
  }
  Status expectEnd() const { return atEnd() ? Status() : fault("unexpected '" + std::string(peek()) + "'"); }

  template <typename Number> Status takeNumber(Number &value, std::string_view what) {
    std::string_view word = take();
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || error != std::errc() || end != word.data() + word.size())
      return fault("expected " + std::string(what) + ", found '" + std::string(word) + "'");
    return Status();
  }

private:
  std::vector<std::string_view> words;
  size_t next = 0, number;
};

template <typename Visit> Status forEachLine(std::string_view text, Visit visit) {
  size_t number = 0;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    Line line(text.substr(0, end), ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.isEmpty())
      MAESTRO_TRY(visit(line));
  }
  return Status();
}

class ProblemParser {
public:
  Result<Problem> run(std::string_view text) {
    MAESTRO_TRY(forEachLine(text, [&](Line &line) { return parseLine(line); }));
    return std::move(problem);
  }

private:
  Status parseLine(Line &line) {
    std::string_view keyword = line.take();
    if (keyword == "devices")
      MAESTRO_TRY(line.takeNumber(problem.devices, "a number of devices"));
    else if (keyword == "dim")
      MAESTRO_TRY(parseDim(line));
    else if (keyword == "section")
      MAESTRO_TRY(parseSection(line));
    else if (keyword == "edge")
      MAESTRO_TRY(parseEdge(line));
    else if (keyword == "hint")
      MAESTRO_TRY(parseHint(line));
    else if (keyword == "sample")
      MAESTRO_TRY(parseNumbers(line, problem.sizes));
    else
      MAESTRO_TRY(parseDetail(line, keyword));
    return line.expectEnd();
  }

  Status parseDim(Line &line) {
    Dim dim;
    dim.name = line.take();
    if (dim.name.empty())
      return line.fault("a dim needs a name");
    dim.sum = line.accept("sum");
    if (!dim.sum) {
      MAESTRO_TRY(line.expect("max"));
      dim.unpadded = line.accept("unpadded");
      if (!line.atEnd())
        MAESTRO_TRY(line.takeNumber(dim.multipleOf, "a multiple"));
    }
    if (!problem.sizes.empty() || !problem.sections.empty())
      return line.fault("dims stand before sections and samples");
    problem.dims.push_back(std::move(dim));
    return Status();
  }

  Status parseSection(Line &line) {
    Section section;
    section.name = line.take();
    if (section.name.empty())
      return line.fault("a section needs a name");
    for (const Section &other : problem.sections)
      if (other.name == section.name)
        return line.fault("section " + section.name + " is there twice");
    section.trains = line.accept("trains");
    section.splitsBackward = line.accept("split");
    problem.sections.push_back(std::move(section));
    return Status();
  }

  Status parseDetail(Line &line, std::string_view keyword) {
    if (keyword != "active" && keyword != "unpadded" && keyword != "max_samples" && keyword != "capacity" &&
        keyword != "area" && keyword != "stage" && keyword != "replica")
      return line.fault("unknown keyword '" + std::string(keyword) + "'");
    if (problem.sections.empty())
      return line.fault(std::string(keyword) + " outside of a section");
    Section &section = problem.sections.back();
    if (keyword == "max_samples")
      return line.takeNumber(section.maxSamples, "a number of samples");
    if (keyword == "capacity")
      return parseNumbers(line, section.capacity);
    if (keyword == "area")
      return parseArea(line, section);
    if (keyword == "stage")
      return parseStage(line, section);
    if (keyword == "active" || keyword == "unpadded") {
      while (!line.atEnd()) {
        uint32_t dim = 0;
        MAESTRO_TRY(findDim(line, line.take(), dim));
        (keyword == "active" ? section.activeDims : section.unpadded).push_back(dim);
      }
      return Status();
    }
    section.devices.emplace_back();
    while (!line.atEnd()) {
      uint32_t device = 0;
      MAESTRO_TRY(line.takeNumber(device, "a device"));
      section.devices.back().push_back(device);
    }
    return Status();
  }

  Status parseArea(Line &line, Section &section) {
    Area area;
    MAESTRO_TRY(findDim(line, line.take(), area.rows));
    MAESTRO_TRY(findDim(line, line.take(), area.padded));
    MAESTRO_TRY(line.takeNumber(area.capacity, "a number of padded tokens"));
    section.areas.push_back(area);
    return Status();
  }

  Status parseNumbers(Line &line, std::vector<int64_t> &numbers) {
    for (size_t d = 0; d < problem.dims.size(); ++d) {
      int64_t value = 0;
      MAESTRO_TRY(line.takeNumber(value, "a value of " + problem.dims[d].name));
      numbers.push_back(value);
    }
    return Status();
  }

  Status findDim(const Line &line, std::string_view name, uint32_t &dim) const {
    for (dim = 0; dim < problem.dims.size(); ++dim)
      if (problem.dims[dim].name == name)
        return Status();
    return line.fault("no dim is called '" + std::string(name) + "'");
  }

  /// PICOSECONDS*dim*dim+…
  Status parseCost(Line &line, Cost &cost) {
    std::string_view text = line.take();
    if (text.empty())
      return line.fault("expected a cost");
    while (!text.empty()) {
      std::string_view sum = text.substr(0, text.find('+'));
      text.remove_prefix(std::min(sum.size() + 1, text.size()));
      CostTerm term;
      auto [end, error] = std::from_chars(sum.data(), sum.data() + sum.size(), term.picoseconds);
      if (error != std::errc())
        return line.fault("expected picoseconds in '" + std::string(sum) + "'");
      sum.remove_prefix(static_cast<size_t>(end - sum.data()));
      while (!sum.empty()) {
        if (sum[0] != '*')
          return line.fault("expected '*' before '" + std::string(sum) + "'");
        sum.remove_prefix(1);
        std::string_view name = sum.substr(0, sum.find('*'));
        sum.remove_prefix(name.size());
        uint32_t dim = 0;
        MAESTRO_TRY(findDim(line, name, dim));
        term.dims.push_back(dim);
      }
      cost.terms.push_back(std::move(term));
    }
    return Status();
  }

  Status parseStage(Line &line, Section &section) {
    Stage stage;
    while (!line.atEnd()) {
      if (line.accept("slots"))
        MAESTRO_TRY(line.takeNumber(stage.slots, "a number of slots"));
      else if (line.accept("forward"))
        MAESTRO_TRY(parseCost(line, stage.forward));
      else if (line.accept("backward"))
        MAESTRO_TRY(parseCost(line, stage.backward));
      else if (line.accept("weight_gradient"))
        MAESTRO_TRY(parseCost(line, stage.weightGradient));
      else if (line.accept("update"))
        MAESTRO_TRY(parseCost(line, stage.update));
      else
        return line.expectEnd();
    }
    section.stages.push_back(std::move(stage));
    return Status();
  }

  Status parseEnd(Line &line, uint32_t &section, uint32_t &stage) {
    std::string_view name = line.take();
    for (section = 0; section < problem.sections.size(); ++section)
      if (problem.sections[section].name == name)
        return line.takeNumber(stage, "a stage");
    return line.fault("no section is called '" + std::string(name) + "'");
  }

  Status parseEdge(Line &line) {
    Edge edge;
    MAESTRO_TRY(parseEnd(line, edge.producer, edge.producerStage));
    MAESTRO_TRY(line.expect("->"));
    MAESTRO_TRY(parseEnd(line, edge.consumer, edge.consumerStage));
    while (!line.atEnd()) {
      if (line.accept("gradient"))
        edge.gradient = true;
      else if (line.accept("held"))
        edge.heldUntilBackward = true;
      else if (line.accept("depth"))
        MAESTRO_TRY(line.takeNumber(edge.depth, "a number of slots"));
      else if (line.accept("gradient_depth"))
        MAESTRO_TRY(line.takeNumber(edge.gradientDepth, "a number of slots"));
      else if (line.accept("transfer"))
        MAESTRO_TRY(parseCost(line, edge.transfer));
      else if (line.accept("gradient_transfer"))
        MAESTRO_TRY(parseCost(line, edge.gradientTransfer));
      else
        return line.expectEnd();
    }
    problem.edges.push_back(std::move(edge));
    return Status();
  }

  Status parseHint(Line &line) {
    Choice hint;
    while (!line.atEnd()) {
      std::string_view name = line.take();
      std::span<const ChoicePart> parts = choiceParts();
      auto part = std::find_if(parts.begin(), parts.end(), [&](const ChoicePart &each) { return each.name == name; });
      if (part == parts.end())
        return line.fault("no part of a choice is called '" + std::string(name) + "'");
      int64_t value = 0;
      MAESTRO_TRY(line.takeNumber(value, "a number"));
      if (value < part->min || value > part->max)
        return line.fault(std::string(name) + " " + std::to_string(value) + " is not in [" + std::to_string(part->min) +
                          ", " + std::to_string(part->max) + "]");
      part->set(hint, value);
    }
    problem.hints.push_back(hint);
    return Status();
  }

  Problem problem;
};

class ScheduleParser {
public:
  explicit ScheduleParser(const Problem &problem) : problem(problem), tasks(problem.devices) {}

  Result<Schedule> run(std::string_view text) {
    MAESTRO_TRY(forEachLine(text, [&](Line &line) { return parseLine(line); }));
    schedule.deviceTasks.assign(1, 0);
    for (const std::vector<Task> &list : tasks) {
      schedule.tasks.insert(schedule.tasks.end(), list.begin(), list.end());
      schedule.deviceTasks.push_back(static_cast<uint32_t>(schedule.tasks.size()));
    }
    return std::move(schedule);
  }

private:
  Status parseLine(Line &line) {
    std::string_view keyword = line.take();
    if (keyword == "makespan")
      MAESTRO_TRY(line.takeNumber(schedule.makespanNs, "nanoseconds"));
    else if (keyword == "bound")
      MAESTRO_TRY(line.takeNumber(schedule.lowerBoundNs, "nanoseconds"));
    else if (keyword == "microbatch")
      MAESTRO_TRY(parseMicroBatch(line));
    else if (keyword == "device")
      MAESTRO_TRY(parseDevice(line));
    else
      return line.fault("unknown keyword '" + std::string(keyword) + "'");
    return line.expectEnd();
  }

  Status parseMicroBatch(Line &line) {
    MicroBatch group;
    std::string_view name = line.take();
    while (group.section < problem.sections.size() && problem.sections[group.section].name != name)
      ++group.section;
    if (group.section == problem.sections.size())
      return line.fault("no section is called '" + std::string(name) + "'");
    MAESTRO_TRY(line.takeNumber(group.replica, "a replica"));
    MAESTRO_TRY(line.expect("samples"));
    group.firstSample = static_cast<uint32_t>(schedule.samples.size());
    group.firstDim = static_cast<uint32_t>(schedule.dims.size());
    schedule.dims.resize(schedule.dims.size() + problem.dims.size(), 0);
    while (!line.atEnd()) {
      uint32_t sample = 0;
      MAESTRO_TRY(line.takeNumber(sample, "a sample"));
      if (sample >= problem.sampleCount() || group.samples >= problem.sampleCount())
        return line.fault("sample " + std::to_string(sample) + ": the batch has " +
                          std::to_string(problem.sampleCount()));
      for (size_t d = 0; d < problem.dims.size(); ++d) {
        int64_t &dim = schedule.dims[group.firstDim + d];
        dim = combineLargest(problem.dims[d], dim, problem.sizes[sample * problem.dims.size() + d]);
      }
      schedule.samples.push_back(sample);
      ++group.samples;
    }
    schedule.microBatches.push_back(group);
    return Status();
  }

  /// F12.0@100-250
  Status parseTask(Line &line, Task &task) {
    std::string_view text = line.take(), whole = text;
    auto bad = [&] { return line.fault("expected a task such as F12.0@100-250, found '" + std::string(whole) + "'"); };
    auto number = [&](auto &value, std::string_view after) {
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc())
        return false;
      text.remove_prefix(static_cast<size_t>(end - text.data()));
      if (!text.starts_with(after) || (after.empty() && !text.empty()))
        return false;
      text.remove_prefix(after.size());
      return true;
    };
    size_t kind = std::string_view("FBW").find(text.empty() ? ' ' : text[0]);
    if (kind == std::string_view::npos)
      return bad();
    task.kind = static_cast<TaskKind>(kind);
    text.remove_prefix(1);
    if (!number(task.microBatch, ".") || !number(task.stage, "@") || !number(task.startNs, "-") ||
        !number(task.endNs, ""))
      return bad();
    if (task.microBatch >= schedule.microBatches.size())
      return line.fault("micro-batch " + std::to_string(task.microBatch) + " of " +
                        std::to_string(schedule.microBatches.size()));
    return Status();
  }

  Status parseDevice(Line &line) {
    uint32_t device = 0;
    MAESTRO_TRY(line.takeNumber(device, "a device"));
    if (device >= tasks.size())
      return line.fault("device " + std::to_string(device) + " of " + std::to_string(tasks.size()));
    while (!line.atEnd()) {
      Task task;
      MAESTRO_TRY(parseTask(line, task));
      tasks[device].push_back(task);
    }
    return Status();
  }

  const Problem &problem;
  Schedule schedule;
  std::vector<std::vector<Task>> tasks; ///< By device.
};

} // namespace

Result<Problem> parseProblem(std::string_view text) { return ProblemParser().run(text); }

Result<Schedule> parseSchedule(const Problem &problem, std::string_view text) {
  return ScheduleParser(problem).run(text);
}

} // namespace maestro::wavefront

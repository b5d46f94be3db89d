// Reads traces. They may have millions of kernel calls, which are dropped while parsing.
#include "tools/timeline/timeline.h"

#include "plan/plan_generated.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

namespace maestro::timeline {
namespace {

using nlohmann::json;

class Reader {
public:
  Reader(const std::string &path, const plan::Plan &plan, const executor::Topology &topology)
      : path(path), plan(plan), topology(topology) {}

  Result<Measured> read() {
    MAESTRO_ASSIGN(json document, parse());
    if (!document.is_object() || !document.contains("traceEvents") || !document["traceEvents"].is_array())
      return wrong("is no Chrome trace");
    try {
      for (const json &event : document["traceEvents"])
        MAESTRO_TRY(take(event));
    } catch (const json::exception &error) {
      return wrong(fmt::format("has an event that maestro-run does not write ({})", error.what()));
    }
    if (!knowsRun)
      return wrong("does not say which run it is of");
    if (measured.sizes.empty() || measured.timeline.spans.empty())
      return wrong("holds no steps");
    finish();
    return std::move(measured);
  }

private:
  Status wrong(const std::string &what) const {
    return Status::invalidInput(
        fmt::format("--measured {}: the file {}; give one that `maestro-run --trace` wrote for this plan", path, what));
  }

  Result<json> parse() const {
    std::ifstream file(path);
    if (!file)
      return Status::invalidInput(fmt::format("--measured {}: cannot be opened: {}", path, std::strerror(errno)));
    auto isKernel = [](const json &value) {
      auto category = value.find("cat");
      return category != value.end() && category->is_string() && *category == "kernel";
    };
    json document = json::parse(
        file,
        [&](int, json::parse_event_t event, json &value) {
          return event != json::parse_event_t::object_end || !value.is_object() || !isKernel(value);
        },
        false);
    if (document.is_discarded())
      return wrong("is not JSON");
    return document;
  }

  Status take(const json &event) {
    const std::string name = event.at("name");
    const json &arguments = event.at("args");
    if (event.at("ph") == "M" && name == "run")
      return takeRun(arguments);
    if (event.at("ph") == "M" && name == "step_sizes")
      return takeSizes(arguments);
    if (event.at("ph") == "X" && event.at("cat") == "task")
      return takeSpan(event, name, arguments);
    return Status();
  }

  Status takeRun(const json &arguments) {
    measured.run = {arguments.at("plan"), arguments.at("evaluate"), arguments.at("file_order"),
                    arguments.at("wait_for_steps"), arguments.at("sleep_kernels")};
    knowsRun = true;
    if (measured.run.planHash != plan.hash())
      return wrong(fmt::format("is of a run of another plan (hash {:016x}, this plan's is {:016x})",
                               measured.run.planHash, plan.hash()));
    return Status();
  }

  Status takeSizes(const json &arguments) {
    auto sizes = arguments.at("sizes").get<std::vector<int64_t>>();
    if (sizes.empty() || sizes.size() % plan->symbols()->size() != 0)
      return wrong(fmt::format("has {} sizes in a step, no multiple of the plan's {} symbols", sizes.size(),
                               plan->symbols()->size()));
    measured.steps.push_back(arguments.at("step"));
    measured.sizes.push_back(std::move(sizes));
    return Status();
  }

  Status takeSpan(const json &event, const std::string &name, const json &arguments) {
    Span span;
    auto kind = std::find(metrics::kTaskNames.begin(), metrics::kTaskNames.end(), name);
    if (kind == metrics::kTaskNames.end())
      return wrong(fmt::format("has a task '{}'", name));
    span.kind = static_cast<uint32_t>(kind - metrics::kTaskNames.begin());
    int64_t row = event.at("tid");
    if (row < 1 || row > static_cast<int64_t>(topology.stations.size()))
      return wrong(fmt::format("has a task of station {}, and the plan has {}", row - 1, topology.stations.size()));
    span.station = static_cast<uint32_t>(row - 1);
    span.step = arguments.at("step");
    span.microBatch = arguments.value("microbatch", int64_t{-1});
    span.startNs = std::llround(event.at("ts").get<double>() * 1e3);
    span.endNs = span.startNs + std::llround(event.at("dur").get<double>() * 1e3);
    measured.timeline.spans.push_back(span);
    return Status();
  }

  /// Times from the first task on, and each step's window.
  void finish() {
    std::vector<Span> &spans = measured.timeline.spans;
    std::stable_sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) { return a.startNs < b.startNs; });
    int64_t origin = spans.front().startNs;
    for (Span &span : spans) {
      span.startNs -= origin;
      span.endNs -= origin;
    }
    measured.timeline.steps = windows(spans);
  }

  const std::string &path;
  const plan::Plan &plan;
  const executor::Topology &topology;
  Measured measured;
  bool knowsRun = false;
};

} // namespace

Result<Measured> readTrace(const std::string &path, const plan::Plan &plan, const executor::Topology &topology) {
  return Reader(path, plan, topology).read();
}

} // namespace maestro::timeline

#include "executor/device/cuda/launch_graphs.h"

#include "base/log.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace maestro::executor {

GraphMode graphModeFromEnvironment() {
  const char *text = std::getenv("MAESTRO_CUDA_GRAPHS");
  std::string_view wanted = text ? text : "";
  return wanted == "always" ? GraphMode::Always : wanted == "never" ? GraphMode::Never : GraphMode::ByCalls;
}

void GraphPool::drop(CUgraphExec graph) {
  if (!context || graphs.erase(graph) == 0)
    return;
  context->makeCurrent();
  (void)context->driver().cuGraphExecDestroy(graph);
}

void GraphPool::close() {
  while (!graphs.empty())
    drop(*graphs.begin());
  context = nullptr;
}

LaunchGraphs::LaunchGraphs(const cuda::Context &context, std::shared_ptr<GraphPool> pool, GraphMode mode, size_t calls,
                           uint64_t bytes, size_t regions)
    : context(context), pool(std::move(pool)),
      isWanted(mode == GraphMode::Always ||
               (mode == GraphMode::ByCalls && calls >= kMinCalls && bytes <= calls * kMaxMeanBytes)),
      regions(regions), variants(isWanted && calls > 0 ? kMaxVariants : 0) {
  for (Variant &variant : variants)
    variant.bases.reserve(regions);
}

LaunchGraphs::~LaunchGraphs() {
  for (const Variant &variant : variants)
    if (variant.graph)
      pool->drop(variant.graph);
}

LaunchGraphs::Way LaunchGraphs::next(std::span<const CUdeviceptr> bases) {
  for (current = 0; current < used; ++current)
    if (const Variant &variant = variants[current]; std::ranges::equal(variant.bases, bases))
      return variant.isFailed ? Way::CallByCall : variant.graph ? Way::Replay : Way::Record;
  if (used < variants.size() && bases.size() <= regions)
    variants[used++].bases.assign(bases.begin(), bases.end());
  return Way::CallByCall;
}

bool LaunchGraphs::begin(CUstream recorder) {
  // Other threads of the process go on as they do: nothing of theirs is recorded.
  CUresult result = context.driver().cuStreamBeginCapture(recorder, CU_STREAM_CAPTURE_MODE_RELAXED);
  variants[current].isFailed = result != CUDA_SUCCESS;
  return result == CUDA_SUCCESS;
}

bool LaunchGraphs::end(CUstream recorder, Status enqueued) {
  const cuda::Driver &driver = context.driver();
  CUgraph graph = nullptr;
  Status status = driver.check(driver.cuStreamEndCapture(recorder, &graph), "cuStreamEndCapture");
  if (!enqueued.isOk())
    status = std::move(enqueued);
  Variant &variant = variants[current];
  if (status.isOk())
    status = driver.check(driver.cuGraphInstantiateWithFlags(&variant.graph, graph, 0), "cuGraphInstantiateWithFlags");
  if (graph)
    (void)driver.cuGraphDestroy(graph);
  if (status.isOk())
    pool->add(variant.graph);
  variant.isFailed = !status.isOk();
  if (!status.isOk())
    logWarning("a program's launches cannot be recorded as a graph, and are made one by one: " +
               std::string(status.message()));
  return status.isOk();
}

Status LaunchGraphs::launch(CUstream stream) const {
  const cuda::Driver &driver = context.driver();
  return driver.check(driver.cuGraphLaunch(variants[current].graph, stream), "cuGraphLaunch");
}

} // namespace maestro::executor

// trace.json in Chrome's trace event format (chrome://tracing, Perfetto): the timeline of a run, or of a prediction. A
// rank is a process of the trace; its first row has kernels, then each of its stations has a row of tasks.
//
// The file is valid JSON after every write: what closes it is written with each block of events and
// overwritten by the next block. An interrupted run loses at most the block in memory.
#pragma once

#include "base/status.h"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace maestro::metrics {

class Line;

/// Something that took time. Nanoseconds since any common origin.
struct TraceEvent {
  std::string_view
      name; ///< Task ("forward", "backward", "weight_gradient", "reduce", "norm", "update") or kernel ("matmul").
  std::string_view category; ///< "task", "kernel", "data", "checkpoint".
  std::string_view detail;   ///< Shown as an argument: a module scope. May be empty.
  uint32_t rank = 0;
  uint32_t station = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  int64_t step = -1;       ///< -1: not said.
  int64_t microbatch = -1; ///< -1: not said.
};

/// Names of what is no kernel: tasks, and what follows them at a step's end.
inline constexpr uint32_t kMicroBatchTasks =
    3; ///< Of these, tasks of a micro-batch, in the order of wavefront::TaskKind.
inline constexpr std::array<std::string_view, 6> kTaskNames = {"forward", "backward", "weight_gradient",
                                                               "reduce",  "norm",     "update"};

/// How a run was made, so that its prediction can be computed from the trace and the plan alone.
struct TraceRun {
  uint64_t planHash = 0;
  bool evaluates = false; ///< Forward tasks alone.
  bool fileOrder = false;
  bool waitsForSteps = false;
  double sleepScale = 0; ///< > 0: tasks slept for so many times their planned time.
};

inline constexpr std::string_view kTraceOpening = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
inline constexpr std::string_view kTraceClosing = "\n]}\n";

/// Events as JSON objects, without what is between them: for traces that are no file of a run.
void formatRankName(Line &line, uint32_t rank, std::string_view name);
void formatStationName(Line &line, uint32_t rank, uint32_t station, std::string_view name);
void formatRun(Line &line, const TraceRun &run);
void formatSizes(Line &line, uint64_t step, std::span<const int64_t> sizes);
void formatEvent(Line &line, const TraceEvent &event);

/// Thread-safe. Adding an event formats it into a fixed block and writes the block when it is full.
class TraceFile {
public:
  static Result<std::unique_ptr<TraceFile>> create(const std::string &path);
  /// Goes on with a file that create() made: where ranks are processes, each adds its own, one after the other.
  static Result<std::unique_ptr<TraceFile>> append(const std::string &path);
  ~TraceFile(); ///< Writes out what is left.

  /// Names shown instead of numbers: "rank 0", "student (stage 0)".
  void nameRank(uint32_t rank, std::string_view name);
  void nameStation(uint32_t rank, uint32_t station, std::string_view name);
  void describe(const TraceRun &run);
  /// The samples of a step: samples × the plan's symbols.
  void addSizes(uint64_t step, std::span<const int64_t> sizes);
  void add(const TraceEvent &event);
  /// Writes out what is in memory. The first failure of any write is reported here.
  Status flush();

private:
  TraceFile(std::string path, int fd, uint64_t offset);
  static Result<std::unique_ptr<TraceFile>> open(const std::string &path, int flags);
  Line &beginEvent();
  void writeBlock();

  std::mutex mutex;
  std::string path;
  int fd;
  uint64_t offset = 0; ///< Where the next block goes.
  bool isFirst = true;
  int error = 0; ///< Of the first write that failed.
  std::unique_ptr<Line> block;
};

} // namespace maestro::metrics

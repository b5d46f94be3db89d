// trace.json in Chrome's trace event format (chrome://tracing, Perfetto): the timeline of a run.
//
// The file is valid JSON after every write: what closes it is written with each block of events and
// overwritten by the next block. An interrupted run loses at most the block in memory.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace maestro::metrics {

class Line;

/// Something that took time. Nanoseconds since any common origin.
struct TraceEvent {
  std::string_view name;     ///< Task or kernel: "forward", "matmul".
  std::string_view category; ///< "task", "kernel", "data", "checkpoint".
  std::string_view detail;   ///< Shown as an argument: a module scope. May be empty.
  uint32_t rank = 0;
  uint32_t station = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  int64_t step = -1;       ///< -1: not said.
  int64_t microbatch = -1; ///< -1: not said.
};

/// Thread-safe. Adding an event formats it into a fixed block and writes the block when it is full.
class TraceFile {
public:
  static Result<std::unique_ptr<TraceFile>> create(const std::string &path);
  ~TraceFile(); ///< Writes out what is left.

  /// Names shown instead of numbers: "rank 0", "student (stage 0)".
  void nameRank(uint32_t rank, std::string_view name);
  void nameStation(uint32_t rank, uint32_t station, std::string_view name);
  void add(const TraceEvent &event);
  /// Writes out what is in memory. The first failure of any write is reported here.
  Status flush();

private:
  TraceFile(std::string path, int fd);
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

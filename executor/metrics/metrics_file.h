// metrics.jsonl: one JSON object a line, a line a step.
#pragma once

#include "base/status.h"
#include "executor/metrics/step_record.h"

#include <memory>
#include <string>

namespace maestro::metrics {

class Line;

/// Appends lines; each is written whole and at once, so that a reader never sees half of one. A
/// number that is not finite becomes null. Allocates only while lines grow.
class MetricsFile {
public:
  /// Keeps the lines of steps up to `lastStep` (0: none) that an earlier run left and drops what
  /// follows them: steps that a resumed run does again, and a torn last line.
  static Result<std::unique_ptr<MetricsFile>> open(const std::string &path, uint64_t lastStep);
  ~MetricsFile();

  Status append(const StepRecord &record);

private:
  MetricsFile(std::string path, int fd);
  std::string path;
  int fd;
  std::unique_ptr<Line> line;
};

/// The line without its newline.
std::string formatMetrics(const StepRecord &record);

} // namespace maestro::metrics

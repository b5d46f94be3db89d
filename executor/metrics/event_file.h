// TensorBoard's event files: what a run's steps came to, as scalars by step.
//
// A file is TFRecords (length, its checksum, bytes, their checksum: CRC-32C, masked), each an Event of
// tensorflow/core/util/event.proto: the wall time, the step, and values by tag. TensorBoard reads all files of a
// folder, in the order of their names; one that begins with a session's start takes the place of what others have of
// its steps.
#pragma once

#include "base/status.h"
#include "executor/metrics/step_record.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace maestro::metrics {

class EventFile {
public:
  /// A new file in the folder, which is made where it is missing. `after`: steps of earlier runs.
  static Result<std::unique_ptr<EventFile>> create(const std::string &folder, uint64_t after);
  ~EventFile();

  /// Each step is written at once. Allocates only while records grow.
  Status append(const StepRecord &record);

private:
  EventFile(std::string path, int fd);
  void beginEvent(double unixSeconds, uint64_t step);
  void addScalar(std::string_view tag, double value);
  Status endEvent();

  std::string path;
  int fd;
  std::string event, summary, block; ///< Being made.
};

/// CRC-32C (Castagnoli), as RFC 3720 has it.
uint32_t crc32c(std::string_view bytes);

} // namespace maestro::metrics

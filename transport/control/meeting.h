// How the processes of a job find each other and prove who they are, before anything else.
#pragma once

#include "base/status.h"
#include "transport/control/connection.h"
#include "transport/control/control.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace maestro::transport {

/// Between signs of life.
inline constexpr auto kBeatEvery = std::chrono::milliseconds(250);

struct Meeting {
  /// In process 0 by process, its own empty; elsewhere that to process 0 alone.
  std::vector<std::optional<Connection>> connections;
  std::vector<std::string> names; ///< By process, as far as known.
  Seat seat;
  std::string address; ///< Of this machine, by which the others reach it.
};

/// See Control::meet().
Result<Meeting> meetOthers(const ControlOptions &options);

} // namespace maestro::transport

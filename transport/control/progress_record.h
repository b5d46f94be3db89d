// What a process's ranks do, as it travels to the process that watches all of them.
#pragma once

#include "base/bytes.h"
#include "transport/progress.h"
#include "transport/rank_range.h"

#include <set>
#include <string>

namespace maestro::transport {

/// The lanes of the ranks, with ages in place of times: machines' clocks have nothing in common.
std::vector<std::byte> encodeProgress(const Progress &progress, RankRange ranks);

/// Enters what other processes say into this one's table.
class ProgressReceiver {
public:
  explicit ProgressReceiver(const Progress &progress) : progress(progress) {}
  /// InvalidInput where the bytes are not lanes of the ranks; the table is then as before.
  Status enter(RankRange ranks, std::span<const std::byte> record);

private:
  const char *keep(std::string text);

  const Progress &progress;
  std::set<std::string> texts; ///< The table points to them, so they stay.
};

} // namespace maestro::transport

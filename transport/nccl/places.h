// Where ranks tell each other what NCCL moves between them: rings of records, in the host parts of their segments.
#pragma once

#include "transport/segments.h"

#include <map>
#include <utility>

namespace maestro::transport {

/// Places of the records that each rank writes to its peers; the same in every process.
class NcclPlaces {
public:
  static constexpr uint64_t kRecords = 256;                 ///< Of a pair and direction, under way.
  static constexpr uint64_t kRecordBytes = kBlockAlignment; ///< A line each.

  /// For all pairs of ranks that meet, in any order; once.
  void plan(SegmentPlan &plan, uint32_t one, uint32_t other);

  struct Way {
    Place ring;         ///< At the receiver.
    WordPlace arrived;  ///< There: records.
    WordPlace consumed; ///< At the sender: records.
  };
  using Pair = std::pair<uint32_t, uint32_t>; ///< Sender and receiver.
  const std::map<Pair, Way> &ways() const { return all; }

private:
  std::map<Pair, Way> all;
};

} // namespace maestro::transport

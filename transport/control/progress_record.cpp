#include "transport/control/progress_record.h"

#include <algorithm>

namespace maestro::transport {
namespace {

constexpr LaneKind kLanes[] = {LaneKind::Host, LaneKind::Device, LaneKind::Driver};
constexpr int64_t kMostExpectedNs = int64_t{24 * 3600} * 1'000'000'000; ///< A day; it is multiplied.
constexpr size_t kMostTextBytes = 256, kMostTexts = 4096;

} // namespace

std::vector<std::byte> encodeProgress(const Progress &progress, RankRange ranks) {
  ByteWriter writer;
  int64_t now = nowNs();
  for (uint32_t rank = ranks.first; rank < ranks.end; ++rank)
    for (LaneKind kind : kLanes) {
      Progress::Snapshot lane = progress.snapshot(rank, kind);
      writer.number(lane.count)
          .number(now - lane.sinceNs)
          .number(lane.expectedNs)
          .number(lane.index)
          .number(static_cast<uint32_t>(lane.activity))
          .text(std::string_view(lane.what ? lane.what : "").substr(0, kMostTextBytes));
    }
  return writer.take();
}

const char *ProgressReceiver::keep(std::string text) {
  if (text.empty())
    return nullptr;
  if (auto known = texts.find(text); known != texts.end())
    return known->c_str();
  return texts.size() < kMostTexts ? texts.insert(std::move(text)).first->c_str() : "…";
}

Status ProgressReceiver::enter(RankRange ranks, std::span<const std::byte> record) {
  for (bool enters : {false, true}) { // Looked through first.
    ByteReader reader(record);
    int64_t now = nowNs();
    for (uint32_t rank = ranks.first; rank < ranks.end; ++rank)
      for (LaneKind kind : kLanes) {
        Progress::Snapshot lane;
        lane.count = reader.number<uint64_t>();
        lane.sinceNs = now - std::clamp<int64_t>(reader.number<int64_t>(), 0, now);
        lane.expectedNs = std::clamp<int64_t>(reader.number<int64_t>(), 0, kMostExpectedNs);
        lane.index = reader.number<uint64_t>();
        auto activity = reader.number<uint32_t>();
        std::string text = reader.text();
        if (!reader.isOk() || activity > static_cast<uint32_t>(Activity::Finished) || text.size() > kMostTextBytes)
          return Status::invalidInput("a record of what ranks " + std::to_string(ranks.first) + " to " +
                                      std::to_string(ranks.end - 1) + " do cannot be read");
        lane.activity = static_cast<Activity>(activity);
        if (enters) {
          lane.what = keep(std::move(text));
          progress.restore(rank, kind, lane);
        }
      }
    if (!reader.isWhole())
      return Status::invalidInput("a record of what ranks do has bytes behind its end");
  }
  for (uint32_t rank = ranks.first; rank < ranks.end; ++rank)
    progress.beat(rank);
  return Status();
}

} // namespace maestro::transport

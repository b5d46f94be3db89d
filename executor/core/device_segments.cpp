#include "executor/core/device_segments.h"

#include "base/bytes.h"
#include "base/log.h"
#include "executor/core/rank_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace maestro::executor {
namespace {

using transport::PostBox;
using transport::RankRange;

enum class Kind : uint8_t { Offer, Answer, Verdict };

struct Letter {
  Kind kind = Kind::Offer;
  uint32_t rank = 0;  ///< Whose segment.
  std::string text;   ///< Of answers: why not; empty: it can.
  bool holds = false; ///< Of offers and verdicts: it is on its device.
  transport::OwnDescriptor descriptor;
};

class Placement {
public:
  Placement(const plan::Plan &plan, World &world, const Seats &seats, BulkWay *way)
      : plan(plan), world(world), segments(world.reach()), here(seats.here()), post(world.post(seats.here().first)),
        way(way) {
    for (uint32_t rank : world.bulkPeersOf(here))
      if (segments.isMapped(rank) && !segments.isBulkApart(rank))
        others.insert({seats.beside(rank).first, seats.beside(rank).end});
  }

  Result<DeviceSegments> run() {
    for (uint32_t rank = here.first; rank < here.end; ++rank)
      if (segments.bulkBytes(rank) > 0)
        MAESTRO_TRY(create(rank));
    if (!others.empty()) {
      offer();
      MAESTRO_TRY(answerOffers());
      MAESTRO_TRY(decide());
      MAESTRO_TRY(hearVerdicts());
      MAESTRO_TRY(post->flush(world.abort()));
    }
    if (way)
      MAESTRO_TRY(way->exchange());
    DeviceSegments placed;
    for (auto *list : {&own, &theirs})
      for (auto &[rank, segment] : *list) {
        world.placeBulk(rank, segment->address());
        placed.push_back(std::move(segment));
      }
    return placed;
  }

private:
  using ByRank = std::map<uint32_t, std::unique_ptr<DeviceSegment>>;

  Status create(uint32_t rank) {
    std::optional<uint32_t> far; // A rank that has no address of it.
    for (uint32_t peer : world.bulkPeersOf({rank, rank + 1}))
      if (!here.has(peer) && (!segments.isMapped(peer) || segments.isBulkApart(peer)))
        far = peer;
    if (far && !way) {
      giveUp(rank, fmt::format("rank {} writes there over a network", *far));
      return Status();
    }
    MAESTRO_ASSIGN(auto made, createDeviceSegment(plan, rank, segments.bulkBytes(rank)));
    Status isUsable = allowAll(*made);
    if (isUsable.isOk() && !others.empty())
      isUsable = made->descriptor().takeStatus();
    if (isUsable.isOk() && far) {
      auto placed = way->place(rank, std::move(made));
      isUsable = placed ? Status() : std::move(placed).takeStatus();
      made = placed ? std::move(*placed) : nullptr;
    }
    if (isUsable.isOk())
      own.emplace(rank, std::move(made));
    else
      giveUp(rank, std::string(isUsable.message()));
    return Status();
  }
  /// Every device here may have to write there.
  Status allowAll(DeviceSegment &segment) const {
    for (uint32_t rank = here.first; rank < here.end; ++rank)
      MAESTRO_TRY(allowRank(plan, rank, segment));
    return Status();
  }
  void giveUp(uint32_t rank, const std::string &why) {
    own.erase(rank);
    if (!std::exchange(hasSaid, true))
      logInfo(fmt::format("what other ranks send to rank {} goes through the host's memory: {}", rank, why));
  }

  // ---- between processes

  void offer() {
    for (const auto &[first, end] : others)
      for (uint32_t rank = here.first; rank < here.end; ++rank)
        if (segments.bulkBytes(rank) > 0) {
          auto found = own.find(rank);
          bool isOffered = found != own.end();
          send(first, Kind::Offer, rank, isOffered, "", isOffered ? *found->second->descriptor() : -1);
        }
  }
  Status answerOffers() {
    for (const auto &[first, end] : others)
      for (uint32_t rank = first; rank < end; ++rank) {
        if (segments.bulkBytes(rank) == 0)
          continue;
        MAESTRO_ASSIGN(Letter letter, take(first, Kind::Offer, rank));
        if (!letter.holds)
          continue;
        auto opened = openDeviceSegment(plan, here.first, letter.descriptor.get(), segments.bulkBytes(rank));
        Status isUsable = opened ? allowAll(**opened) : std::move(opened).takeStatus();
        send(first, Kind::Answer, rank, isUsable.isOk(), std::string(isUsable.message()));
        if (isUsable.isOk())
          theirs.emplace(rank, std::move(*opened));
      }
    return Status();
  }
  Status decide() {
    for (uint32_t rank = here.first; rank < here.end; ++rank) {
      std::string why;
      for (const auto &[first, end] : others)
        if (own.contains(rank)) {
          MAESTRO_ASSIGN(Letter letter, take(first, Kind::Answer, rank));
          if (!letter.holds && why.empty())
            why = fmt::format("rank {} cannot write there: {}", first, letter.text);
        }
      if (!own.contains(rank))
        continue;
      for (const auto &[first, end] : others)
        send(first, Kind::Verdict, rank, why.empty());
      if (!why.empty())
        giveUp(rank, why);
    }
    return Status();
  }
  Status hearVerdicts() {
    for (const auto &[first, end] : others)
      for (uint32_t rank = first; rank < end; ++rank)
        if (offered.contains(rank)) {
          MAESTRO_ASSIGN(Letter letter, take(first, Kind::Verdict, rank));
          if (!letter.holds)
            theirs.erase(rank);
        }
    return Status();
  }

  void send(uint32_t to, Kind kind, uint32_t rank, bool holds, const std::string &text = "", int descriptor = -1) {
    constexpr size_t kMaxText = 512;
    ByteWriter writer;
    writer.number(here.first).number(static_cast<uint8_t>(kind)).number(rank).number<uint8_t>(holds);
    writer.text(std::string_view(text).substr(0, kMaxText));
    post->send(world.postName(to), writer.take(), descriptor);
  }
  /// From the process with this first rank; what comes before is kept.
  Result<Letter> take(uint32_t from, Kind kind, uint32_t rank) {
    while (true) {
      for (auto each = kept.begin(); each != kept.end(); ++each)
        if (each->first == from && each->second.kind == kind && each->second.rank == rank) {
          Letter found = std::move(each->second);
          kept.erase(each);
          if (kind == Kind::Offer && found.holds)
            offered.insert(rank);
          return found;
        }
      MAESTRO_ASSIGN(PostBox::Letter received, post->receive(world.abort()));
      ByteReader reader(received.bytes);
      Letter letter;
      auto sender = reader.number<uint32_t>();
      letter.kind = static_cast<Kind>(reader.number<uint8_t>());
      letter.rank = reader.number<uint32_t>();
      letter.holds = reader.number<uint8_t>() != 0;
      letter.text = reader.text();
      letter.descriptor = std::move(received.descriptor);
      if (reader.isWhole())
        kept.emplace_back(sender, std::move(letter));
    }
  }

  const plan::Plan &plan;
  World &world;
  const transport::Segments &segments;
  const RankRange here;
  PostBox *const post;                            ///< Null where all ranks are here.
  BulkWay *const way;                             ///< Null where addresses are all that it takes.
  std::set<std::pair<uint32_t, uint32_t>> others; ///< Processes of this machine: first rank, end.
  ByRank own, theirs;
  std::set<uint32_t> offered;                  ///< Ranks of others.
  std::list<std::pair<uint32_t, Letter>> kept; ///< By sender.
  bool hasSaid = false;
};

} // namespace

Result<DeviceSegments> placeBulkOnDevices(const plan::Plan &plan, World &world, const Seats &seats, BulkWay *way) {
  if (!haveOwnMemory(plan))
    return DeviceSegments();
  return Placement(plan, world, seats, way).run();
}

} // namespace maestro::executor

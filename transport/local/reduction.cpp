#include "transport/local/reduction.h"

#include <algorithm>
#include <cstring>

namespace maestro::transport::local {
namespace {

constexpr uint64_t kPieceAlignment = 16; ///< Floats of a cache line: owners do not share lines of staging.
constexpr uint64_t kBlockFloats = 2048;  ///< Summed at a time, so that partial sums stay in the first cache.

struct alignas(64) MemberWords {
  std::atomic<uint64_t> scattered{0}; ///< Turns whose pieces this member has written.
  std::atomic<uint64_t> gathered{0};  ///< Turns whose piece this member has summed and written to all.
};

/// How the vector is cut.
struct Cut {
  uint64_t elements = 0, pieceElements = 0, turns = 0, halves = 1;
};

Cut cutVector(const ReductionDescription &description) {
  Cut cut;
  uint64_t members = description.members.size();
  for (const ReductionSegment &segment : description.members[0].segments)
    cut.elements += segment.count;
  if (members < 2 || cut.elements == 0)
    return cut;
  auto roundUp = [](uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; };
  uint64_t whole = roundUp((cut.elements + members - 1) / members, kPieceAlignment);
  uint64_t rowBytes = (members - 1) * sizeof(float);
  if (whole * rowBytes <= description.stagingBytes) {
    cut.pieceElements = whole;
  } else {
    cut.halves = 2;
    uint64_t most = description.stagingBytes / 2 / rowBytes / kPieceAlignment * kPieceAlignment;
    cut.pieceElements = std::clamp(most, kPieceAlignment, whole);
  }
  cut.turns = (cut.elements + members * cut.pieceElements - 1) / (members * cut.pieceElements);
  return cut;
}

} // namespace

struct ReductionState {
  ReductionDescription description;
  Cut cut;
  const char *name = nullptr;
  std::vector<uint64_t> starts; ///< Of each segment in the concatenated vector, and its end.
  MemberWords *words = nullptr;
  std::vector<float *> staging;        ///< By member.
  std::vector<WaitPoint *> waitPoints; ///< By member: its words have moved.

  uint32_t members() const { return static_cast<uint32_t>(description.members.size()); }
  float *place(uint32_t member, size_t segment, uint64_t element) const {
    const ReductionMember &of = description.members[member];
    return reinterpret_cast<float *>(static_cast<char *>(of.base) + of.segments[segment].offset) + element;
  }
  /// Where `from`'s contribution to `owner`'s piece is staged; an owner's own is not.
  float *row(uint32_t owner, uint32_t from, uint64_t turn) const {
    uint64_t half = turn % cut.halves, index = from < owner ? from : from - 1;
    return staging[owner] + (half * (members() - 1) + index) * cut.pieceElements;
  }

  struct Piece {
    uint64_t begin, end;
  };
  Piece piece(uint32_t owner, uint64_t turn) const {
    uint64_t begin = (turn % cut.turns * members() + owner) * cut.pieceElements;
    return {std::min(begin, cut.elements), std::min(begin + cut.pieceElements, cut.elements)};
  }
  /// Calls with (segment, element in it, position in the piece, count) for each part of the piece that is contiguous
  /// in every member.
  template <class Visit> void forRuns(Piece piece, Visit visit) const {
    if (piece.begin == piece.end)
      return;
    size_t segment = std::upper_bound(starts.begin(), starts.end(), piece.begin) - starts.begin() - 1;
    for (uint64_t at = piece.begin; at < piece.end; ++segment) {
      uint64_t end = std::min(piece.end, starts[segment + 1]);
      if (end > at)
        visit(segment, at - starts[segment], at - piece.begin, end - at);
      at = std::max(at, end);
    }
  }
};

namespace {

Status check(const ReductionDescription &description, const SharedMemory &memory) {
  auto fail = [&](const std::string &text) {
    return Status::internal("reduction '" + description.name + "': " + text);
  };
  if (description.members.empty())
    return fail("no members");
  const auto &first = description.members[0].segments;
  for (size_t m = 0; m < description.members.size(); ++m) {
    const ReductionMember &member = description.members[m];
    if (member.segments.size() != first.size())
      return fail("member " + std::to_string(m) + " has " + std::to_string(member.segments.size()) +
                  " segments, member 0 " + std::to_string(first.size()));
    for (size_t s = 0; s < first.size(); ++s) {
      const ReductionSegment &segment = member.segments[s];
      std::string where = "member " + std::to_string(m) + ", segment " + std::to_string(s);
      if (segment.count != first[s].count)
        return fail(where + " has " + std::to_string(segment.count) + " floats, member 0 " +
                    std::to_string(first[s].count));
      const char *begin = static_cast<const char *>(member.base) + segment.offset;
      if (segment.offset % sizeof(float) != 0 || segment.count > memory.bytes() ||
          (segment.count && (!memory.contains(begin) || !memory.contains(begin + segment.count * sizeof(float) - 1))))
        return fail(where + " (offset " + std::to_string(segment.offset) + ", " + std::to_string(segment.count) +
                    " floats) is not aligned or not in the shared memory");
    }
  }
  return {};
}

} // namespace

uint64_t Reduction::stagingBytesPerMember(const ReductionDescription &description) {
  Cut cut = cutVector(description);
  return cut.turns ? cut.halves * (description.members.size() - 1) * cut.pieceElements * sizeof(float) : 0;
}

uint64_t Reduction::bytesNeeded(const ReductionDescription &description) {
  return description.members.size() * (stagingBytesPerMember(description) + sizeof(MemberWords) + sizeof(WaitPoint)) +
         alignBlock(description.name.size() + 1);
}

Result<Reduction> Reduction::create(SharedMemory &memory, const Abort &abort, const ReductionDescription &description) {
  MAESTRO_TRY(check(description, memory));
  auto state = std::make_shared<ReductionState>();
  state->description = description;
  state->cut = cutVector(description);
  state->starts.push_back(0);
  for (const ReductionSegment &segment : description.members[0].segments)
    state->starts.push_back(state->starts.back() + segment.count);
  std::string purpose = "reduction '" + description.name + "'";
  MAESTRO_ASSIGN(state->name, memory.name(description.name));
  MAESTRO_ASSIGN(state->words, memory.make<MemberWords>(state->members(), purpose));
  for (uint32_t member = 0; member < state->members(); ++member) {
    MAESTRO_ASSIGN(void *staging, memory.allocate(stagingBytesPerMember(description), purpose + ": staging"));
    MAESTRO_ASSIGN(WaitPoint * point, abort.makeWaitPoint(memory, purpose));
    state->staging.push_back(static_cast<float *>(staging));
    state->waitPoints.push_back(point);
  }
  Reduction reduction;
  reduction.state = std::move(state);
  return reduction;
}

uint64_t Reduction::Member::turns() const { return state->cut.turns; }

/// Until every member's words satisfy `reached`.
template <class Reached> Status Reduction::Member::awaitAll(Reached reached, uint64_t turn, const Abort &abort) {
  for (uint32_t member = 0; member < state->members(); ++member) {
    const MemberWords &words = state->words[member];
    MAESTRO_TRY(awaitUntil(
        *state->waitPoints[member], [&] { return reached(words); }, abort, spin,
        {state->description.members[self].rank, Activity::AwaitingReduction, state->name, turn, LaneKind::Device}));
  }
  return {};
}

Status Reduction::Member::awaitStaging(uint64_t turn, const Abort &abort) {
  uint64_t halves = state->cut.halves;
  return awaitAll([=](const MemberWords &words) { return words.gathered + halves > turn; }, turn, abort);
}

Status Reduction::Member::awaitScattered(uint64_t turn, const Abort &abort) {
  return awaitAll([=](const MemberWords &words) { return words.scattered > turn; }, turn, abort);
}

Status Reduction::Member::awaitGathered(uint64_t turn, const Abort &abort) {
  return awaitAll([=](const MemberWords &words) { return words.gathered > turn; }, turn, abort);
}

Status Reduction::Member::requireTurn(bool ready, uint64_t turn, const char *text) const {
  if (ready)
    return {};
  return Status::internal("reduction '" + state->description.name + "', rank " +
                          std::to_string(state->description.members[self].rank) + ", turn " + std::to_string(turn) +
                          ": " + text);
}

Status Reduction::Member::scatter(uint64_t turn) {
  const ReductionState &all = *state;
  MemberWords &mine = all.words[self];
  MAESTRO_TRY(requireTurn(mine.scattered == turn, turn, "scattered out of order"));
  for (uint32_t i = 1; i < all.members(); ++i) { // Each starts at another owner.
    uint32_t owner = (self + i) % all.members();
    MAESTRO_TRY(
        requireTurn(all.words[owner].gathered + all.cut.halves > turn, turn, "scattered before staging was awaited"));
    float *row = all.row(owner, self, turn);
    all.forRuns(all.piece(owner, turn), [&](size_t segment, uint64_t element, uint64_t position, uint64_t count) {
      std::memcpy(row + position, all.place(self, segment, element), count * sizeof(float));
    });
  }
  mine.scattered = turn + 1;
  notify(*all.waitPoints[self]);
  return {};
}

Status Reduction::Member::gather(uint64_t turn) {
  const ReductionState &all = *state;
  MemberWords &mine = all.words[self];
  MAESTRO_TRY(requireTurn(mine.gathered == turn, turn, "gathered out of order"));
  for (uint32_t member = 0; member < all.members(); ++member)
    MAESTRO_TRY(
        requireTurn(all.words[member].scattered > turn, turn, "gathered before the members' writes were awaited"));
  auto sumBlock = [&](size_t segment, uint64_t element, uint64_t position, uint64_t count) {
    alignas(64) float sum[kBlockFloats];
    for (uint32_t member = 0; member < all.members(); ++member) {
      const float *from = member == self ? all.place(self, segment, element) : all.row(self, member, turn) + position;
      if (member == 0)
        std::memcpy(sum, from, count * sizeof(float));
      else
        for (uint64_t i = 0; i < count; ++i)
          sum[i] += from[i];
    }
    for (uint32_t member = 0; member < all.members(); ++member)
      std::memcpy(all.place(member, segment, element), sum, count * sizeof(float));
  };
  all.forRuns(all.piece(self, turn), [&](size_t segment, uint64_t element, uint64_t position, uint64_t count) {
    for (uint64_t done = 0; done < count; done += kBlockFloats)
      sumBlock(segment, element + done, position + done, std::min(kBlockFloats, count - done));
  });
  mine.gathered = turn + 1;
  notify(*all.waitPoints[self]);
  return {};
}

Status Reduction::Member::reduce(uint64_t call, const Abort &abort) {
  uint64_t first = call * turns(), end = first + turns();
  for (uint64_t turn = first; turn < end; ++turn) {
    MAESTRO_TRY(awaitStaging(turn, abort));
    MAESTRO_TRY(scatter(turn));
    if (turn > first) { // One turn behind, so that writing and waiting overlap.
      MAESTRO_TRY(awaitScattered(turn - 1, abort));
      MAESTRO_TRY(gather(turn - 1));
    }
  }
  if (first == end)
    return {};
  MAESTRO_TRY(awaitScattered(end - 1, abort));
  MAESTRO_TRY(gather(end - 1));
  return awaitGathered(end - 1, abort);
}

} // namespace maestro::transport::local

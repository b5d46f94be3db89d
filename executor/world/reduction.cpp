#include "executor/world/reduction.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {
namespace {

constexpr uint64_t kPieceAlignment = 16;    ///< Floats of a cache line: owners do not share lines of staging.
constexpr uint64_t kBlockFloats = 64 << 10; ///< Summed and then written to all, so that they stay in the second cache.
constexpr uint64_t kHalves = 2;
constexpr uint32_t kMemberWords = 2 * kHalves; ///< Of a member: scattered, then gathered, for each half.

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
  std::vector<uint64_t> starts; ///< Of each segment in the concatenated vector, and its end.
  /// By member, in its segment. Of the words at which it waits there is one for each half of staging, so that nobody
  /// who is a turn ahead counts for one behind.
  std::vector<transport::Place> staging;
  std::vector<transport::WordPlace> words;

  uint32_t members() const { return static_cast<uint32_t>(description.members.size()); }
  uint64_t half(uint64_t turn) const { return turn % cut.halves; }
  /// How many earlier turns had the same half.
  uint64_t round(uint64_t turn) const { return turn / cut.halves; }

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

Status check(const ReductionDescription &description, const transport::SegmentPlan &plan) {
  auto fail = [&](const std::string &text) {
    return Status::internal("reduction '" + description.name + "': " + text);
  };
  if (description.members.empty())
    return fail("no members");
  const auto &first = description.members[0].segments;
  for (size_t m = 0; m < description.members.size(); ++m) {
    const ReductionMember &member = description.members[m];
    if (member.segments.size() != first.size())
      return fail(fmt::format("member {} has {} segments, member 0 {}", m, member.segments.size(), first.size()));
    uint64_t room = plan.room(member.base);
    for (size_t s = 0; s < first.size(); ++s) {
      const ReductionSegment &segment = member.segments[s];
      if (segment.count != first[s].count)
        return fail(
            fmt::format("member {}, segment {} has {} floats, member 0 {}", m, s, segment.count, first[s].count));
      if (segment.offset % sizeof(float) != 0 || segment.offset > room ||
          segment.count > (room - segment.offset) / sizeof(float))
        return fail(fmt::format("member {}, segment {} (offset {}, {} floats) is not aligned or not in its memory", m,
                                s, segment.offset, segment.count));
    }
  }
  return {};
}

} // namespace

uint64_t Reduction::stagingBytesPerMember(const ReductionDescription &description) {
  Cut cut = cutVector(description);
  return cut.turns ? cut.halves * (description.members.size() - 1) * cut.pieceElements * sizeof(float) : 0;
}

Result<Reduction> Reduction::plan(transport::SegmentPlan &plan, const ReductionDescription &description) {
  MAESTRO_TRY(check(description, plan));
  auto state = std::make_shared<ReductionState>();
  state->description = description;
  state->cut = cutVector(description);
  state->starts.push_back(0);
  for (const ReductionSegment &segment : description.members[0].segments)
    state->starts.push_back(state->starts.back() + segment.count);
  for (const ReductionMember &member : description.members) {
    state->words.push_back(plan.reserveWords(member.base.rank, kMemberWords));
    state->staging.push_back(plan.reserveBulk(member.base.rank, stagingBytesPerMember(description)));
  }
  Reduction reduction;
  reduction.state = std::move(state);
  return reduction;
}

Result<Reduction::Member> Reduction::member(const transport::Segments &segments, uint32_t index, Device &device) const {
  Member member(state, index, device);
  MAESTRO_TRY(member.open(segments));
  return member;
}

Reduction::Member::Member(std::shared_ptr<const ReductionState> state, uint32_t self, Device &device)
    : state(std::move(state)), self(self), device(&device) {}

/// What this member writes and reads: everybody's segments, and staging.
Status Reduction::Member::open(const transport::Segments &segments) {
  uint64_t stagingBytes = stagingBytesPerMember(state->description);
  for (uint32_t member = 0; member < state->members(); ++member) {
    const ReductionMember &theirs = state->description.members[member];
    uint64_t bytes = 0;
    for (const ReductionSegment &segment : theirs.segments)
      bytes = std::max(bytes, segment.offset + segment.count * sizeof(float));
    MAESTRO_ASSIGN(Address base, device->adopt(segments.target(theirs.base), bytes));
    MAESTRO_ASSIGN(Address rows, device->adopt(segments.target(state->staging[member]), stagingBytes));
    bases.push_back(base);
    staging.push_back(rows);
    for (uint32_t i = 0; i < kMemberWords; ++i)
      words.push_back(segments.target(state->words[member] + i));
  }
  parts.resize(state->members());
  return Status();
}

uint64_t Reduction::Member::turns() const { return state->cut.turns; }

Address Reduction::Member::place(uint32_t member, size_t segment, uint64_t element) const {
  return bases[member] + (state->description.members[member].segments[segment].offset + element * sizeof(float));
}

/// Where `from`'s contribution to `owner`'s piece is staged; an owner's own is not.
Address Reduction::Member::row(uint32_t owner, uint32_t from, uint64_t turn) const {
  uint64_t index = from < owner ? from : from - 1;
  return staging[owner] +
         (state->half(turn) * (state->members() - 1) + index) * state->cut.pieceElements * sizeof(float);
}

const transport::WordTarget &Reduction::Member::scatteredWord(uint32_t member, uint64_t turn) const {
  return words[member * kMemberWords + state->half(turn)];
}

const transport::WordTarget &Reduction::Member::gatheredWord(uint32_t member, uint64_t turn) const {
  return words[member * kMemberWords + kHalves + state->half(turn)];
}

void Reduction::Member::await(Queue queue, const transport::WordTarget &own, uint64_t atLeast, uint64_t turn) {
  if (atLeast > 0)
    device->awaitWord(queue, *own.word, atLeast,
                      {state->description.members[self].base.rank, transport::Activity::AwaitingReduction,
                       state->description.name.c_str(), turn, transport::LaneKind::Device});
}

void Reduction::Member::awaitStaging(Queue queue, uint64_t turn) {
  await(queue, gatheredWord(self, turn), state->members() * state->round(turn), turn);
}

void Reduction::Member::awaitScattered(Queue queue, uint64_t turn) {
  await(queue, scatteredWord(self, turn), (state->members() - 1) * (state->round(turn) + 1), turn);
}

void Reduction::Member::awaitGathered(Queue queue, uint64_t turn) {
  await(queue, gatheredWord(self, turn), state->members() * (state->round(turn) + 1), turn);
  device->await(queue, device->record(queue)); // What was sent of the segments has left, too.
}

Status Reduction::Member::failure(uint64_t turn, const char *text) const {
  return Status::internal(fmt::format("reduction '{}', rank {}, turn {}: {}", state->description.name,
                                      state->description.members[self].base.rank, turn, text));
}

Status Reduction::Member::scatter(Queue queue, uint64_t turn) {
  if (scattered != turn)
    return failure(turn, "scattered out of order");
  for (uint32_t i = 1; i < state->members(); ++i) { // Each starts at another owner.
    uint32_t owner = (self + i) % state->members();
    Address to = row(owner, self, turn);
    state->forRuns(state->piece(owner, turn), [&](size_t segment, uint64_t element, uint64_t position, uint64_t count) {
      device->copy(queue, to + position * sizeof(float), place(self, segment, element), count * sizeof(float));
    });
    device->signal(queue, scatteredWord(owner, turn), 1);
  }
  scattered = turn + 1;
  return Status();
}

/// Adds up one block of a run and writes it to all.
void Reduction::Member::sumBlock(Queue queue, uint64_t turn, size_t segment, uint64_t element, uint64_t position,
                                 uint64_t count) {
  for (uint32_t member = 0; member < state->members(); ++member)
    parts[member] = member == self ? place(self, segment, element) : row(self, member, turn) + position * sizeof(float);
  device->sum(queue, parts[self], parts, count);
  for (uint32_t member = 0; member < state->members(); ++member)
    if (member != self)
      device->copy(queue, place(member, segment, element), parts[self], count * sizeof(float));
}

Status Reduction::Member::gather(Queue queue, uint64_t turn) {
  if (gathered != turn || scattered <= turn)
    return failure(turn, "gathered out of order");
  state->forRuns(state->piece(self, turn), [&](size_t segment, uint64_t element, uint64_t position, uint64_t count) {
    for (uint64_t done = 0; done < count; done += kBlockFloats)
      sumBlock(queue, turn, segment, element + done, position + done, std::min(kBlockFloats, count - done));
  });
  for (uint32_t member = 0; member < state->members(); ++member)
    device->signal(queue, gatheredWord(member, turn), 1);
  gathered = turn + 1;
  return Status();
}

Status Reduction::Member::reduce(Queue queue, uint64_t call) {
  uint64_t first = call * turns(), end = first + turns();
  for (uint64_t turn = first; turn < end; ++turn) {
    awaitStaging(queue, turn);
    MAESTRO_TRY(scatter(queue, turn));
    if (turn > first) { // One turn behind, so that writing and waiting overlap.
      awaitScattered(queue, turn - 1);
      MAESTRO_TRY(gather(queue, turn - 1));
    }
  }
  if (first == end)
    return Status();
  awaitScattered(queue, end - 1);
  MAESTRO_TRY(gather(queue, end - 1));
  awaitGathered(queue, end - 1);
  return Status();
}

} // namespace maestro::executor

#include "executor/world/reduction.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {

struct ReductionState {
  ReductionDescription description; ///< With degrees.
  plan::SumTurns cut;
  std::vector<uint64_t> starts; ///< Of each segment in the concatenated vector, and its end.
  /// By member, in its segment. Of the words at which it waits there are two for each stage and slot, scattered and
  /// gathered, so that nobody who is a turn ahead counts for one behind.
  std::vector<transport::Place> staging;
  std::vector<transport::WordPlace> words;

  uint32_t members() const { return static_cast<uint32_t>(description.members.size()); }
  plan::SumStages stages() const { return plan::SumStages(description.degrees); }
  uint64_t slot(uint64_t turn) const { return turn % cut.slots; }
  /// How many earlier turns had the same slot.
  uint64_t round(uint64_t turn) const { return turn / cut.slots; }

  /// Elements of the concatenated vector.
  struct Range {
    uint64_t begin, end;
  };
  /// What is left of a turn to a member behind so many stages.
  Range left(uint32_t member, uint32_t stagesDone, uint64_t turn) const {
    uint64_t first = turn % cut.turns * members() + stages().firstPiece(member, stagesDone);
    return {std::min(first * cut.pieceElements, starts.back()),
            std::min((first + stages().width(stagesDone)) * cut.pieceElements, starts.back())};
  }
  /// Calls with (segment, element in it, position in the range, count) for each part of the range that is contiguous
  /// in every member.
  template <class Visit> void forRuns(Range range, Visit visit) const {
    if (range.begin == range.end)
      return;
    size_t segment = std::upper_bound(starts.begin(), starts.end(), range.begin) - starts.begin() - 1;
    for (uint64_t at = range.begin; at < range.end; ++segment) {
      uint64_t end = std::min(range.end, starts[segment + 1]);
      if (end > at)
        visit(segment, at - starts[segment], at - range.begin, end - at);
      at = std::max(at, end);
    }
  }
  /// Where a member stages, in its memory, what the one with this number in its group brings to this stage.
  uint64_t rowOffset(uint32_t stage, uint32_t ownNumber, uint32_t number, uint64_t turn) const {
    uint64_t before = members() - stages().width(stage), // Pieces that the stages before have staged.
        index = number < ownNumber ? number : number - 1;
    return (slot(turn) * (members() - 1) + before + index * stages().width(stage + 1)) * cut.pieceElements *
           sizeof(float);
  }
};

namespace {

/// Segments that lie behind one another in every member are one.
void join(ReductionDescription &description) {
  size_t kept = 0, count = description.members[0].segments.size();
  auto follows = [&](size_t s) {
    return kept > 0 && std::all_of(description.members.begin(), description.members.end(), [&](const auto &member) {
             const ReductionSegment &last = member.segments[kept - 1];
             return last.offset + last.count * sizeof(float) == member.segments[s].offset;
           });
  };
  for (size_t s = 0; s < count; ++s) {
    bool joins = follows(s);
    for (ReductionMember &member : description.members)
      if (joins)
        member.segments[kept - 1].count += member.segments[s].count;
      else
        member.segments[kept] = member.segments[s];
    kept += joins ? 0 : 1;
  }
  for (ReductionMember &member : description.members)
    member.segments.resize(kept);
}

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
  uint64_t product = 1;
  for (uint32_t degree : description.degrees)
    product = degree < 2 || product > description.members.size() ? 0 : product * degree;
  if (product != description.members.size())
    return fail(fmt::format("stages of {} do not make {} members", fmt::join(description.degrees, ", "),
                            description.members.size()));
  return {};
}

} // namespace

Result<Reduction> Reduction::plan(transport::SegmentPlan &plan, const ReductionDescription &asked) {
  ReductionDescription description = asked;
  if (description.degrees.empty() && description.members.size() > 1)
    description.degrees = {static_cast<uint32_t>(description.members.size())};
  MAESTRO_TRY(check(description, plan));
  join(description);
  auto state = std::make_shared<ReductionState>();
  state->starts.push_back(0);
  for (const ReductionSegment &segment : description.members[0].segments)
    state->starts.push_back(state->starts.back() + segment.count);
  plan::SumStages stages(description.degrees);
  state->cut = plan::sumTurns(state->starts.back(), stages, description.stagingBytes);
  uint64_t words = 2 * stages.count() * state->cut.slots;
  for (const ReductionMember &member : description.members) {
    state->words.push_back(plan.reserveWords(member.base.rank, static_cast<uint32_t>(words)));
    state->staging.push_back(plan.reserveBulk(member.base.rank, state->cut.stagingBytes(description.members.size())));
  }
  state->description = std::move(description);
  Reduction reduction;
  reduction.state = std::move(state);
  return reduction;
}

uint64_t Reduction::stagingBytes() const { return state->cut.stagingBytes(state->members()); }

void Reduction::forEachGroup(const std::function<void(const std::vector<uint32_t> &)> &visit) const {
  plan::SumStages stages = state->stages();
  std::vector<uint32_t> group;
  for (uint32_t stage = 0; stage < stages.count(); ++stage)
    for (uint32_t first = 0; first < state->members(); ++first)
      if (stages.number(first, stage) == 0) {
        group.clear();
        for (uint32_t number = 0; number < stages.degree(stage); ++number)
          group.push_back(stages.peer(first, stage, number));
        visit(group);
      }
}

Result<Reduction::Member> Reduction::member(const transport::Segments &segments, uint32_t index, Device &device) const {
  Member member(state, index, device);
  MAESTRO_TRY(member.open(segments));
  return member;
}

Reduction::Member::Member(std::shared_ptr<const ReductionState> state, uint32_t self, Device &device)
    : state(std::move(state)), self(self), device(&device) {}

/// What this member writes and reads: its own and its peers' segments, and staging.
Status Reduction::Member::open(const transport::Segments &segments) {
  plan::SumStages stages = state->stages();
  uint64_t stagingBytes = state->cut.stagingBytes(state->members());
  uint32_t slots = static_cast<uint32_t>(state->cut.slots), most = 0;
  groups.resize(stages.count());
  for (uint32_t stage = 0; stage < stages.count(); ++stage) {
    most = std::max(most, stages.degree(stage));
    for (uint32_t number = 0; number < stages.degree(stage); ++number) {
      Peer &peer = groups[stage].emplace_back();
      peer.member = stages.peer(self, stage, number);
      const ReductionMember &theirs = state->description.members[peer.member];
      uint64_t bytes = 0;
      for (const ReductionSegment &segment : theirs.segments)
        bytes = std::max(bytes, segment.offset + segment.count * sizeof(float));
      MAESTRO_ASSIGN(peer.base, device->adopt(segments.target(theirs.base), bytes));
      MAESTRO_ASSIGN(peer.staging, device->adopt(segments.target(state->staging[peer.member]), stagingBytes));
      for (uint32_t slot = 0; slot < slots; ++slot) {
        transport::WordPlace first = state->words[peer.member] + 2 * (stage * slots + slot);
        peer.scattered.push_back(segments.target(first));
        peer.gathered.push_back(segments.target(first + 1));
      }
    }
  }
  parts.resize(most);
  done.resize(phases());
  return Status();
}

uint64_t Reduction::Member::turns() const { return state->cut.turns; }

uint32_t Reduction::Member::phases() const { return 2 * state->stages().count(); }

const Reduction::Member::Peer &Reduction::Member::own(uint32_t stage) const {
  return groups[stage][state->stages().number(self, stage)];
}

Address Reduction::Member::place(const Peer &peer, size_t segment, uint64_t element) const {
  return peer.base + (state->description.members[peer.member].segments[segment].offset + element * sizeof(float));
}

void Reduction::Member::awaitCount(Queue queue, const transport::WordTarget &own, uint64_t atLeast, uint64_t turn) {
  if (atLeast > 0)
    device->awaitWord(queue, *own.word, atLeast,
                      {state->description.members[self].base.rank, transport::Activity::AwaitingReduction,
                       state->description.name.c_str(), turn, transport::LaneKind::Device});
}

void Reduction::Member::await(Queue queue, uint32_t phase, uint64_t turn) {
  plan::SumStages stages = state->stages();
  uint64_t slot = state->slot(turn), round = state->round(turn);
  if (phase > stages.count()) // The sums of the stage behind.
    return awaitCount(queue, own(phases() - phase).gathered[slot], stages.degree(phases() - phase) * (round + 1), turn);
  if (phase > 0)
    awaitCount(queue, own(phase - 1).scattered[slot], (stages.degree(phase - 1) - 1) * (round + 1), turn);
  if (phase < stages.count()) // Peers have read what was staged in the slot before.
    awaitCount(queue, own(phase).gathered[slot], stages.degree(phase) * round, turn);
}

Status Reduction::Member::work(Queue queue, uint32_t phase, uint64_t turn) {
  if (done[phase] != turn || (phase > 0 && done[phase - 1] <= turn))
    return Status::internal(fmt::format("reduction '{}', rank {}, turn {}: phase {} is out of order",
                                        state->description.name, state->description.members[self].base.rank, turn,
                                        phase));
  uint32_t stages = state->stages().count();
  if (phase > stages) {
    gather(queue, phases() - 1 - phase, turn);
  } else {
    if (phase > 0)
      add(queue, phase - 1, turn);
    if (phase < stages)
      scatter(queue, phase, turn);
  }
  done[phase] = turn + 1;
  return Status();
}

void Reduction::Member::awaitSum(Queue queue, uint64_t turn) {
  awaitCount(queue, own(0).gathered[state->slot(turn)], state->stages().degree(0) * (state->round(turn) + 1), turn);
  device->await(queue, device->record(queue)); // What was sent of the segments has left, too.
}

/// Writes what of this member's is left to each peer, each member beginning with another one.
void Reduction::Member::scatter(Queue queue, uint32_t stage, uint64_t turn) {
  uint32_t ownNumber = state->stages().number(self, stage), degree = state->stages().degree(stage);
  for (uint32_t i = 1; i < degree; ++i) {
    uint32_t number = (ownNumber + i) % degree;
    const Peer &peer = groups[stage][number];
    Address to = peer.staging + state->rowOffset(stage, number, ownNumber, turn);
    state->forRuns(state->left(peer.member, stage + 1, turn), [&](size_t segment, uint64_t element, uint64_t position,
                                                                  uint64_t count) {
      device->copy(queue, to + position * sizeof(float), place(own(stage), segment, element), count * sizeof(float));
    });
    device->signal(queue, peer.scattered[state->slot(turn)], 1);
  }
}

/// Adds up what is left to this member. What the last stage adds up goes to its peers at once.
void Reduction::Member::add(Queue queue, uint32_t stage, uint64_t turn) {
  bool isLast = stage + 1 == state->stages().count();
  uint64_t block = isLast ? state->description.blockFloats : UINT64_MAX;
  state->forRuns(state->left(self, stage + 1, turn),
                 [&](size_t segment, uint64_t element, uint64_t position, uint64_t count) {
                   for (uint64_t at = 0, floats; at < count; at += floats) {
                     floats = std::min(block, count - at);
                     addBlock(queue, stage, turn, place(own(stage), segment, element + at), position + at, floats);
                     if (isLast)
                       tell(queue, stage, segment, element + at, floats);
                   }
                 });
  if (isLast)
    signalGathered(queue, stage, turn);
}

void Reduction::Member::addBlock(Queue queue, uint32_t stage, uint64_t turn, Address sum, uint64_t position,
                                 uint64_t count) {
  uint32_t ownNumber = state->stages().number(self, stage), degree = state->stages().degree(stage);
  for (uint32_t number = 0; number < degree; ++number)
    parts[number] = number == ownNumber ? sum
                                        : own(stage).staging + state->rowOffset(stage, ownNumber, number, turn) +
                                              position * sizeof(float);
  device->sum(queue, sum, std::span(parts).first(degree), count);
}

/// Writes a part of the sum to its place in every peer.
void Reduction::Member::tell(Queue queue, uint32_t stage, size_t segment, uint64_t element, uint64_t count) {
  for (const Peer &peer : groups[stage])
    if (peer.member != self)
      device->copy(queue, place(peer, segment, element), place(own(stage), segment, element), count * sizeof(float));
}

/// Writes what this member has of the sums, which is what was left to it behind the stage, to its peers.
void Reduction::Member::gather(Queue queue, uint32_t stage, uint64_t turn) {
  state->forRuns(state->left(self, stage + 1, turn), [&](size_t segment, uint64_t element, uint64_t, uint64_t count) {
    tell(queue, stage, segment, element, count);
  });
  signalGathered(queue, stage, turn);
}

void Reduction::Member::signalGathered(Queue queue, uint32_t stage, uint64_t turn) {
  for (const Peer &peer : groups[stage])
    device->signal(queue, peer.gathered[state->slot(turn)], 1);
}

Status Reduction::Member::reduce(Queue queue, uint64_t call) {
  uint64_t first = call * turns(), end = first + turns();
  if (first == end)
    return Status();
  for (uint64_t tick = first; tick < end + phases() - 1; ++tick)
    for (uint32_t phase = 0; phase < phases(); ++phase)
      if (tick >= first + phase && tick - phase < end) {
        await(queue, phase, tick - phase);
        MAESTRO_TRY(work(queue, phase, tick - phase));
      }
  awaitSum(queue, end - 1);
  return Status();
}

} // namespace maestro::executor

#include "executor/world/exchange.h"

#include "transport/word.h"

#include <algorithm>

namespace maestro::executor {

struct ExchangeState {
  ExchangeDescription description;
  /// By member: turns whose bytes others have written to it, a word for each half, so that nobody who is a turn ahead
  /// counts for one behind; and half × sender × turnBytes.
  std::vector<transport::WordPlace> words;
  std::vector<transport::Place> staging;

  uint32_t members() const { return static_cast<uint32_t>(description.ranks.size()); }
};

namespace {

constexpr uint64_t kTurnHalves = 2;

uint64_t stagingBytes(const ExchangeDescription &description) {
  return kTurnHalves * (description.ranks.size() - 1) * description.turnBytes;
}

} // namespace

Result<Exchange> Exchange::plan(transport::SegmentPlan &plan, const ExchangeDescription &description) {
  if (description.ranks.size() < 2 || description.turnBytes == 0 ||
      description.turnBytes % transport::kBlockAlignment != 0)
    return Status::internal("an exchange of one member, or with turns of uneven bytes");
  auto state = std::make_shared<ExchangeState>();
  state->description = description;
  for (uint32_t rank : description.ranks) {
    state->words.push_back(plan.reserveWords(rank, kTurnHalves));
    state->staging.push_back(plan.reserveBulk(rank, stagingBytes(description)));
  }
  Exchange exchange;
  exchange.state = std::move(state);
  return exchange;
}

Result<Exchange::Member> Exchange::member(const transport::Segments &segments, uint32_t index, Device &device) const {
  Member member(state, index, device);
  MAESTRO_TRY(member.open(segments));
  return member;
}

Exchange::Member::Member(std::shared_ptr<const ExchangeState> state, uint32_t self, Device &device)
    : state(std::move(state)), self(self), device(&device) {}

Status Exchange::Member::open(const transport::Segments &segments) {
  for (uint32_t member = 0; member < members(); ++member) {
    MAESTRO_ASSIGN(Address theirs,
                   device->adopt(segments.target(state->staging[member]), stagingBytes(state->description)));
    staging.push_back(theirs);
    for (uint32_t half = 0; half < kTurnHalves; ++half)
      words.push_back(segments.target(state->words[member] + half));
  }
  parts.resize(members());
  return Status();
}

uint32_t Exchange::Member::members() const { return state->members(); }

/// Where `from`'s bytes of a turn lie at `at`; nobody stages its own.
Address Exchange::Member::row(uint32_t at, uint32_t from, uint64_t turn) const {
  uint64_t senders = members() - 1, index = from < at ? from : from - 1;
  return staging[at] + (turn % kTurnHalves * senders + index) * state->description.turnBytes;
}

/// A member's bytes of the turn that was queued last.
Address Exchange::Member::part(uint32_t member, Address own) const {
  return member == self ? own : row(self, member, turns - 1);
}

void Exchange::Member::turn(Queue queue, Address own, uint64_t bytes) {
  uint64_t half = turns % kTurnHalves, round = turns / kTurnHalves;
  for (uint32_t i = 1; i < members(); ++i) { // Each starts at another member.
    uint32_t to = (self + i) % members();
    device->copy(queue, row(to, self, turns), own, bytes);
    device->signal(queue, words[to * kTurnHalves + half], 1);
  }
  ++turns;
  device->awaitWord(queue, *words[self * kTurnHalves + half].word, (members() - 1) * (round + 1),
                    {state->description.ranks[self], transport::Activity::AwaitingReduction,
                     state->description.name.c_str(), turns, transport::LaneKind::Device});
  device->await(queue, device->record(queue)); // The program may write its own part again.
}

void Exchange::Member::sum(Queue queue, Address own, Address result, uint64_t count) {
  uint64_t most = state->description.turnBytes / sizeof(float);
  for (uint64_t begin = 0; begin < count; begin += most) {
    uint64_t floats = std::min(most, count - begin), at = begin * sizeof(float);
    turn(queue, own + at, floats * sizeof(float));
    for (uint32_t member = 0; member < members(); ++member)
      parts[member] = part(member, own + at);
    device->sum(queue, result + at, parts, floats);
  }
}

/// One turn: runs that lie one after the other, to every `stride` bytes of the result.
void Exchange::Member::placeRuns(Queue queue, Address own, Address result, uint64_t runs, uint64_t runBytes,
                                 uint64_t stride) {
  turn(queue, own, runs * runBytes);
  Box box = Box::contiguous(0, 0, runBytes);
  box.rank = 1;
  box.extents[0] = runs;
  box.sourceStrides[0] = static_cast<int64_t>(runBytes);
  box.destinationStrides[0] = static_cast<int64_t>(members() * stride);
  for (uint32_t member = 0; member < members(); ++member)
    device->copy(queue, result + member * stride, part(member, own), box);
}

void Exchange::Member::gather(Queue queue, Address own, Address result, uint64_t runs, uint64_t runBytes) {
  uint64_t most = state->description.turnBytes, runsPerTurn = runBytes > 0 ? most / runBytes : 0;
  if (runBytes == 0)
    return;
  for (uint64_t run = 0; run < runs && runsPerTurn > 0; run += runsPerTurn)
    placeRuns(queue, own + run * runBytes, result + run * members() * runBytes, std::min(runsPerTurn, runs - run),
              runBytes, runBytes);
  for (uint64_t run = 0; run < runs && runsPerTurn == 0; ++run)
    for (uint64_t at = 0; at < runBytes; at += most) // A part of one run.
      placeRuns(queue, own + run * runBytes + at, result + run * members() * runBytes + at, 1,
                std::min(most, runBytes - at), runBytes);
}

} // namespace maestro::executor

#include "executor/world/agreement.h"

#include <fmt/format.h>

#include <cstring>

namespace maestro::executor {

constexpr uint64_t kHalves = 2;

struct AgreementState {
  AgreementDescription description;
  std::vector<transport::Place> cells;     ///< By member.
  std::vector<transport::WordPlace> words; ///< By member.

  uint32_t members() const { return static_cast<uint32_t>(description.ranks.size()); }
  uint64_t stride() const;
  uint64_t wordsPerMember() const { return description.kinds * kHalves; }
};

/// A record, and of which step it is.
struct Agreement::Member::Cell {
  uint64_t step, bytes;
  std::byte *record() { return reinterpret_cast<std::byte *>(this + 1); }
};

uint64_t AgreementState::stride() const {
  return transport::alignBlock(2 * sizeof(uint64_t) + description.recordBytes);
}

Result<Agreement> Agreement::plan(transport::SegmentPlan &plan, const AgreementDescription &description) {
  if (description.ranks.empty() || description.kinds == 0 || description.recordBytes == 0)
    return Status::internal(
        fmt::format("agreement '{}': members, kinds and record bytes must be positive", description.name));
  auto state = std::make_shared<AgreementState>();
  state->description = description;
  for (uint32_t rank : description.ranks) {
    state->words.push_back(plan.reserveWords(rank, static_cast<uint32_t>(state->wordsPerMember())));
    state->cells.push_back(plan.reserve(rank, state->wordsPerMember() * state->members() * state->stride()));
  }
  Agreement agreement;
  agreement.state = std::move(state);
  return agreement;
}

Agreement::Member::Member(std::shared_ptr<const AgreementState> own, const transport::Segments &segments, uint32_t self)
    : state(std::move(own)), self(self), published(state->description.kinds), read(state->description.kinds) {
  for (uint32_t member = 0; member < state->members(); ++member) {
    cells.push_back(segments.target(state->cells[member]));
    for (uint32_t i = 0; i < state->wordsPerMember(); ++i)
      words.push_back(segments.target(state->words[member] + i));
  }
}

uint64_t Agreement::Member::cellOffset(uint32_t kind, uint64_t turn, uint32_t from) const {
  return ((kind * kHalves + turn % kHalves) * state->members() + from) * state->stride();
}

Agreement::Member::Cell &Agreement::Member::cell(uint32_t kind, uint64_t turn, uint32_t from) const {
  return *reinterpret_cast<Cell *>(cells[self].memory + cellOffset(kind, turn, from));
}

const transport::WordTarget &Agreement::Member::word(uint32_t member, uint32_t kind, uint64_t turn) const {
  return words[member * state->wordsPerMember() + kind * kHalves + turn % kHalves];
}

Status Agreement::Member::failure(uint64_t step, uint32_t kind, const std::string &text) const {
  return Status::internal(fmt::format("agreement '{}', rank {}, kind {}, step {}: {}", state->description.name,
                                      state->description.ranks[self], kind, step, text));
}

Status Agreement::Member::publish(uint64_t step, uint32_t kind, std::span<const std::byte> record,
                                  const transport::Abort &abort) {
  if (kind >= state->description.kinds || record.size() > state->description.recordBytes)
    return failure(step, kind,
                   fmt::format("a record of {} bytes; there are {} kinds of at most {} bytes", record.size(),
                               state->description.kinds, state->description.recordBytes));
  if (published[kind] != read[kind])
    return failure(step, kind, "published before the last one was read");
  uint64_t turn = published[kind]++;
  Cell &own = cell(kind, turn, self);
  own.step = step;
  own.bytes = record.size();
  std::memcpy(own.record(), record.data(), record.size());
  auto bytes = reinterpret_cast<const std::byte *>(&own);
  for (uint32_t i = 0; i < state->members(); ++i) { // Each starts at itself, and goes on with another member.
    uint32_t to = (self + i) % state->members();
    transport::Target theirs = cells[to] + cellOffset(kind, turn, self);
    if (to != self && theirs.memory)
      std::memcpy(theirs.memory, bytes, sizeof(Cell) + record.size());
    else if (to != self) // Who answers has it; so it has left when this half is written again.
      theirs.fabric->write(theirs.place, bytes, sizeof(Cell) + record.size(), nullptr);
    transport::signal(word(to, kind, turn), 1);
  }
  return abort.status();
}

Status Agreement::Member::awaitAll(uint64_t step, uint32_t kind, std::span<std::byte> into,
                                   const transport::Abort &abort) {
  uint64_t members = state->members(), each = into.size() / members;
  if (each * members != into.size())
    return failure(step, kind, fmt::format("{} bytes do not hold equal records of {} members", into.size(), members));
  if (kind >= state->description.kinds || published[kind] != read[kind] + 1)
    return failure(step, kind, "read before its own record was published");
  uint64_t turn = read[kind]++;
  MAESTRO_TRY(transport::awaitWord(
      *word(self, kind, turn).word, members * (turn / kHalves + 1), abort, spin,
      {state->description.ranks[self], transport::Activity::AwaitingAgreement, state->description.name.c_str(), step}));
  for (uint32_t member = 0; member < members; ++member) {
    Cell &theirs = cell(kind, turn, member);
    if (theirs.step != step || theirs.bytes != each)
      return failure(step, kind,
                     fmt::format("rank {} published {} bytes of step {} instead of {}",
                                 state->description.ranks[member], theirs.bytes, theirs.step, each));
    std::memcpy(into.data() + member * each, theirs.record(), each);
  }
  return {};
}

} // namespace maestro::executor

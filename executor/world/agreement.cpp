#include "executor/world/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace maestro::executor {
namespace {

/// A member's cells: its record, to which its children's are added; the result; then its children's records.
enum CellIndex : uint32_t { kOwn, kResult, kChildren };
/// A member's words: children that have sent their records; results that have come.
enum WordIndex : uint32_t { kUpWord, kDownWord, kWords };

} // namespace

struct AgreementState {
  AgreementDescription description;
  std::vector<transport::Place> cells;     ///< By member.
  std::vector<transport::WordPlace> words; ///< By member.

  uint32_t members() const { return static_cast<uint32_t>(description.ranks.size()); }
  uint64_t stride() const;
};

/// A record, and of which step it is.
struct Agreement::Member::Cell {
  uint64_t step, key, count;
  uint32_t member; ///< Whose.
  double *values() { return reinterpret_cast<double *>(this + 1); }
  const double *values() const { return reinterpret_cast<const double *>(this + 1); }
  uint64_t bytes() const { return sizeof(Cell) + count * sizeof(double); }
};

uint64_t AgreementState::stride() const {
  return transport::alignBlock(4 * sizeof(uint64_t) + description.mostValues * sizeof(double));
}

void addUp(std::span<double> into, std::span<const double> theirs) {
  for (size_t i = 0; i < into.size(); ++i)
    into[i] += theirs[i];
}

Result<Agreement> Agreement::plan(transport::SegmentPlan &plan, const AgreementDescription &description) {
  static_assert(sizeof(Member::Cell) == 4 * sizeof(uint64_t));
  if (description.ranks.empty() || description.fanOut == 0 || description.mostValues == 0)
    return Status::internal(
        fmt::format("agreement '{}': members, values and fan-out must be positive", description.name));
  auto state = std::make_shared<AgreementState>();
  state->description = description;
  for (uint32_t rank : description.ranks) {
    state->words.push_back(plan.reserveWords(rank, kWords));
    state->cells.push_back(plan.reserve(rank, (kChildren + description.fanOut) * state->stride()));
  }
  Agreement agreement;
  agreement.state = std::move(state);
  return agreement;
}

/// From the root down to this member's place: each block's first member has what is behind it, in at most `fanOut`
/// blocks.
Agreement::Member::Member(std::shared_ptr<const AgreementState> own, const transport::Segments &segments, uint32_t self)
    : state(std::move(own)), self(self), memory(segments.at(state->cells[self])),
      upWord(segments.target(state->words[self])), ownUp(segments.target(state->words[self] + kUpWord)),
      ownDown(segments.target(state->words[self] + kDownWord)) {
  uint32_t first = 0, end = state->members(), parent = 0, place = 0;
  auto blockBegin = [&](uint32_t block, uint32_t blocks) {
    return first + 1 + static_cast<uint32_t>(uint64_t{block} * (end - first - 1) / blocks);
  };
  while (true) {
    uint32_t blocks = std::min(state->description.fanOut, end - first - 1);
    if (first == self) {
      for (uint32_t block = 0; block < blocks; ++block)
        children.push_back(blockBegin(block, blocks));
      break;
    }
    uint32_t block = 0;
    while (block + 1 < blocks && blockBegin(block + 1, blocks) <= self)
      ++block;
    parent = first, place = block;
    uint32_t begin = blockBegin(block, blocks), behind = blockBegin(block + 1, blocks);
    first = begin, end = behind;
  }
  hasParent = self != 0;
  if (hasParent) {
    up = segments.target(state->cells[parent]) + (kChildren + place) * state->stride();
    upWord = segments.target(state->words[parent] + kUpWord);
  }
  for (uint32_t child : children) {
    down.push_back(segments.target(state->cells[child]) + kResult * state->stride());
    downWords.push_back(segments.target(state->words[child] + kDownWord));
  }
}

Agreement::Member::Cell &Agreement::Member::cell(uint32_t index) const {
  return *reinterpret_cast<Cell *>(memory + index * state->stride());
}

Status Agreement::Member::failure(uint64_t step, const std::string &text) const {
  return Status::internal(fmt::format("agreement '{}', rank {}, step {}: {}", state->description.name,
                                      state->description.ranks[self], step, text));
}

Status Agreement::Member::awaitWord(const transport::WordTarget &word, uint64_t atLeast, uint64_t step,
                                    const transport::Abort &abort) {
  return transport::awaitWord(
      *word.word, atLeast, abort, spin,
      {state->description.ranks[self], transport::Activity::AwaitingAgreement, state->description.name.c_str(), step});
}

/// Who answers has it: it has left when this cell is written again.
void Agreement::Member::send(const Cell &from, const transport::Target &to, const transport::WordTarget &word) const {
  auto bytes = reinterpret_cast<const std::byte *>(&from);
  if (to.memory)
    std::memcpy(to.memory, bytes, from.bytes());
  else
    to.fabric->write(to.place, bytes, from.bytes(), nullptr);
  transport::signal(word, 1);
}

Status Agreement::Member::combineChildren(Cell &own, const transport::Abort &abort, Combine combine) {
  MAESTRO_TRY(awaitWord(ownUp, published * children.size(), own.step, abort));
  const std::vector<uint32_t> &ranks = state->description.ranks;
  for (uint32_t i = 0; i < children.size(); ++i) {
    const Cell &theirs = cell(kChildren + i);
    if (theirs.step != own.step || theirs.count != own.count)
      return failure(own.step, fmt::format("rank {} published {} values of step {} instead of {}", ranks[children[i]],
                                           theirs.count, theirs.step, own.count));
    if (theirs.key != own.key)
      return failure(own.step, fmt::format("rank {} and rank {} have different {}", ranks[self], ranks[children[i]],
                                           state->description.key));
    combine({own.values(), own.count}, {theirs.values(), theirs.count});
  }
  return Status();
}

Status Agreement::Member::publish(uint64_t step, uint64_t key, std::span<const double> record,
                                  const transport::Abort &abort, Combine combine) {
  if (record.size() > state->description.mostValues)
    return failure(
        step, fmt::format("a record of {} values; at most {} have room", record.size(), state->description.mostValues));
  if (published != read)
    return failure(step, "published before the last one's result was read");
  ++published;
  Cell &own = cell(kOwn);
  own.step = step, own.key = key, own.count = record.size(), own.member = self;
  std::copy(record.begin(), record.end(), own.values());
  if (!children.empty())
    MAESTRO_TRY(combineChildren(own, abort, combine));
  if (hasParent)
    send(own, up, upWord);
  else
    std::memcpy(&cell(kResult), &own, own.bytes());
  if (hasParent && !children.empty())
    MAESTRO_TRY(awaitWord(ownDown, published, step, abort));
  for (size_t i = 0; i < children.size(); ++i)
    send(cell(kResult), down[i], downWords[i]);
  return abort.status();
}

Status Agreement::Member::await(uint64_t step, std::span<double> result, const transport::Abort &abort) {
  if (published != read + 1)
    return failure(step, "read before its own record was published");
  ++read;
  if (hasParent)
    MAESTRO_TRY(awaitWord(ownDown, read, step, abort));
  const Cell &all = cell(kResult);
  if (all.step != step || all.count != result.size())
    return failure(
        step, fmt::format("the result has {} values of step {}, and {} are read", all.count, all.step, result.size()));
  std::copy_n(all.values(), all.count, result.begin());
  return Status();
}

} // namespace maestro::executor

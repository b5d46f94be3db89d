#include "transport/local/board.h"

#include <cstring>

namespace maestro::transport::local {

/// One record in the ring.
struct alignas(64) BoardCell {
  std::atomic<uint64_t> tag{0};     ///< 1 + the step; 0: never written.
  std::atomic<uint32_t> readers{0}; ///< Other members that have read it.
  uint32_t bytes = 0;
};

struct BoardState {
  BoardDescription description;
  const char *name;
  BoardCell *cells;
  char *records;
  std::vector<WaitPoint *> published, wasRead; ///< By member.

  uint32_t members() const { return static_cast<uint32_t>(description.ranks.size()); }
  uint64_t stride() const { return alignBlock(description.recordBytes); }
  uint64_t index(uint32_t member, uint32_t kind, uint64_t step) const {
    return (uint64_t{member} * description.kinds + kind) * description.depth + step % description.depth;
  }
  BoardCell &cell(uint32_t member, uint32_t kind, uint64_t step) const { return cells[index(member, kind, step)]; }
  char *record(uint32_t member, uint32_t kind, uint64_t step) const {
    return records + index(member, kind, step) * stride();
  }
};

namespace {

uint64_t cellCount(const BoardDescription &description) {
  return description.ranks.size() * description.kinds * description.depth;
}

} // namespace

uint64_t Board::bytesNeeded(const BoardDescription &description) {
  return cellCount(description) * (sizeof(BoardCell) + alignBlock(description.recordBytes)) +
         description.ranks.size() * 2 * sizeof(WaitPoint) + alignBlock(description.name.size() + 1);
}

Result<Board> Board::create(SharedMemory &memory, const Abort &abort, const BoardDescription &description) {
  if (description.ranks.empty() || description.kinds == 0 || description.recordBytes == 0 || description.depth == 0)
    return Status::internal("board '" + description.name +
                            "': members, kinds, record bytes and depth must be positive");
  auto state = std::make_shared<BoardState>();
  state->description = description;
  std::string purpose = "board '" + description.name + "'";
  MAESTRO_ASSIGN(state->name, memory.name(description.name));
  MAESTRO_ASSIGN(state->cells, memory.make<BoardCell>(cellCount(description), purpose));
  MAESTRO_ASSIGN(void *records, memory.allocate(cellCount(description) * state->stride(), purpose));
  state->records = static_cast<char *>(records);
  for (uint32_t member = 0; member < state->members(); ++member) {
    MAESTRO_ASSIGN(WaitPoint * published, abort.makeWaitPoint(memory, purpose));
    MAESTRO_ASSIGN(WaitPoint * wasRead, abort.makeWaitPoint(memory, purpose));
    state->published.push_back(published);
    state->wasRead.push_back(wasRead);
  }
  Board board;
  board.state = std::move(state);
  return board;
}

uint32_t Board::members() const { return state->members(); }

Board::Member::Member(const Board &board, uint32_t self)
    : state(board.state), self(self), read(uint64_t{board.members()} * board.state->description.kinds) {}

Status Board::Member::failure(uint64_t step, uint32_t kind, const std::string &text) const {
  return Status::internal("board '" + state->description.name + "', rank " +
                          std::to_string(state->description.ranks[self]) + ", kind " + std::to_string(kind) +
                          ", step " + std::to_string(step) + ": " + text);
}

Status Board::Member::publish(uint64_t step, uint32_t kind, std::span<const std::byte> record, const Abort &abort) {
  if (kind >= state->description.kinds || record.size() > state->description.recordBytes)
    return failure(step, kind,
                   "a record of " + std::to_string(record.size()) + " bytes; the board has " +
                       std::to_string(state->description.kinds) + " kinds of at most " +
                       std::to_string(state->description.recordBytes) + " bytes");
  BoardCell &cell = state->cell(self, kind, step);
  if (cell.tag > step)
    return failure(step, kind, "published after step " + std::to_string(cell.tag - 1));
  uint32_t others = state->members() - 1;
  auto free = [&] { return cell.tag == 0 || cell.readers == others; };
  MAESTRO_TRY(awaitUntil(*state->wasRead[self], free, abort, spin,
                         {state->description.ranks[self], Activity::AwaitingBoard, state->name, step}));
  std::memcpy(state->record(self, kind, step), record.data(), record.size());
  cell.bytes = static_cast<uint32_t>(record.size());
  cell.readers = 0;
  cell.tag = step + 1;
  notify(*state->published[self]);
  return {};
}

Status Board::Member::await(uint64_t step, uint32_t kind, uint32_t member, std::span<std::byte> into,
                            const Abort &abort) {
  if (kind >= state->description.kinds || member >= state->members())
    return failure(step, kind,
                   "asks for member " + std::to_string(member) + " of " + std::to_string(state->members()) +
                       " and a kind of " + std::to_string(state->description.kinds));
  uint64_t &lastRead = read[uint64_t{member} * state->description.kinds + kind];
  if (lastRead > step)
    return failure(step, kind, "read after step " + std::to_string(lastRead - 1));
  BoardCell &cell = state->cell(member, kind, step);
  auto there = [&] { return cell.tag > step; };
  MAESTRO_TRY(awaitUntil(*state->published[member], there, abort, spin,
                         {state->description.ranks[self], Activity::AwaitingBoard, state->name, step}));
  if (cell.tag != step + 1)
    return failure(step, kind,
                   "rank " + std::to_string(state->description.ranks[member]) + " has published step " +
                       std::to_string(cell.tag - 1) + " in its place");
  if (cell.bytes != into.size())
    return failure(step, kind,
                   "rank " + std::to_string(state->description.ranks[member]) + " published " +
                       std::to_string(cell.bytes) + " bytes instead of " + std::to_string(into.size()));
  std::memcpy(into.data(), state->record(member, kind, step), into.size());
  lastRead = step + 1;
  if (member != self) {
    cell.readers.fetch_add(1);
    notify(*state->wasRead[member]);
  }
  return {};
}

Status Board::Member::awaitAll(uint64_t step, uint32_t kind, std::span<std::byte> into, const Abort &abort) {
  size_t each = into.size() / state->members();
  if (each * state->members() != into.size())
    return failure(step, kind,
                   std::to_string(into.size()) + " bytes do not hold equal records of " +
                       std::to_string(state->members()) + " members");
  for (uint32_t member = 0; member < state->members(); ++member)
    MAESTRO_TRY(await(step, kind, member, into.subspan(member * each, each), abort));
  return {};
}

} // namespace maestro::transport::local

#include "transport/nccl/ways.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace maestro::transport {
namespace {

constexpr uint64_t kRecords = NcclPlaces::kRecords, kRecordBytes = NcclPlaces::kRecordBytes;
constexpr uint64_t kCreditsAtOnce = 32; ///< Records are given back so many at a time.

/// False: the job has ended.
template <typename Condition> bool await(const Abort &abort, const Condition &condition) {
  while (!condition()) {
    if (abort.isRaised())
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

} // namespace

Status NcclWay::tryOut(std::byte *zero) {
  MAESTRO_TRY(sends ? link->send(zero, 1, 0) : link->receive(zero, 1));
  return link->synchronize();
}

NcclOutgoing::NcclOutgoing(const NcclPlaces::Pair &pair, const NcclPlaces::Way &where, const Segments &segments,
                           const Abort &abort)
    : NcclWay(pair, /*sends=*/true), abort(abort), ring(segments.target(where.ring)),
      arrived(segments.directTarget(where.arrived)), consumed(*segments.word(where.consumed)) {}

Status NcclOutgoing::write(uint64_t offset, const std::byte *from, uint64_t bytes, Word *takenWord) {
  std::lock_guard lock(mutex);
  if (!await(abort, [&] { return !link->isFull(); }) || abort.isRaised())
    return Status();
  NcclRecord record;
  record.kind = NcclRecord::Kind::Data;
  record.offset = offset;
  record.amount = bytes;
  if (!tell(record)) // Before the send: what is set up at the first one needs the other side.
    return Status();
  taken[link->queued() % NcclLink::kEvents] = takenWord;
  return link->send(from, bytes, offset);
}

void NcclOutgoing::signal(uint32_t word, uint64_t more) {
  std::lock_guard lock(mutex);
  NcclRecord record;
  record.kind = NcclRecord::Kind::Count;
  record.word = word;
  record.amount = more;
  (void)tell(record);
}

/// Into the peer's ring, when there is room.
bool NcclOutgoing::tell(const NcclRecord &record) {
  if (!await(abort, [&] { return records - consumed.count() < kRecords; }))
    return false;
  Target to = ring + records++ % kRecords * kRecordBytes;
  if (to.memory)
    std::memcpy(to.memory, &record, sizeof record);
  else
    to.fabric->put(to.place, std::as_bytes(std::span(&record, 1)));
  transport::signal(arrived, 1);
  return true;
}

bool NcclOutgoing::collect() {
  bool any = false;
  while (isBusy()) { // From then on `taken` says who waits for it.
    Word *word = taken[link->finished() % NcclLink::kEvents];
    if (!link->look())
      break;
    if (word)
      transport::signal(*word, 1);
    ++counted;
    any = true;
  }
  return any;
}

Status NcclOutgoing::tryOut(std::byte *zero) {
  MAESTRO_TRY(NcclWay::tryOut(zero));
  counted = link->finished();
  return Status();
}

void NcclOutgoing::giveUp() {
  std::lock_guard lock(mutex); // Somebody may be giving something.
  if (link)
    link->giveUp();
}

NcclIncoming::NcclIncoming(const NcclPlaces::Pair &pair, const NcclPlaces::Way &where, const Segments &segments,
                           const Abort &abort)
    : NcclWay(pair, /*sends=*/false), segments(segments), abort(abort), ring(segments.at(where.ring)),
      arrived(*segments.word(where.arrived)), consumed(segments.directTarget(where.consumed)) {}

Result<bool> NcclIncoming::receive() {
  bool any = false;
  while (link->look())
    any = true;
  while (records < arrived.count() && !link->isFull() && !abort.isRaised()) {
    NcclRecord record;
    std::memcpy(&record, ring + records % kRecords * kRecordBytes, sizeof record);
    ++records;
    any = true;
    if (record.kind == NcclRecord::Kind::Data)
      MAESTRO_TRY(take(record));
    else
      counts.push_back({link->queued(), record.word, record.amount});
  }
  for (; !counts.empty() && counts.front().behind <= link->finished(); counts.pop_front(), any = true) {
    Word *word = segments.word(pair.second, counts.front().word);
    if (!word)
      return Status::internal("a count of rank " + std::to_string(pair.first) + " for a word that does not exist");
    transport::signal(*word, counts.front().more);
  }
  if (records - givenBack >= kCreditsAtOnce) {
    transport::signal(consumed, records - givenBack);
    givenBack = records;
  }
  return any;
}

Status NcclIncoming::take(const NcclRecord &record) {
  uint64_t room = segments.bulkBytes(pair.second);
  if (record.offset > room || record.amount > room - record.offset)
    return Status::internal("rank " + std::to_string(pair.first) + " writes beyond the end of this rank's memory");
  return link->receive(segments.target(Place{pair.second, 0, true}).memory + record.offset, record.amount);
}

} // namespace maestro::transport

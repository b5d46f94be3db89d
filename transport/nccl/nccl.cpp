#include "transport/nccl/nccl.h"

#include "cuda/context.h"
#include "cuda/nccl.h"
#include "transport/nccl/link.h"
#include "transport/wait.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <sys/prctl.h>
#include <thread>
#include <utility>

namespace maestro::transport {
namespace {

constexpr uint64_t kRecords = NcclPlaces::kRecords, kRecordBytes = NcclPlaces::kRecordBytes;
constexpr uint64_t kCreditsAtOnce = 32;    ///< Records are given back so many at a time.
constexpr int64_t kSpinNs = 50'000;        ///< After something has happened.
constexpr int64_t kNapNs = 30'000;         ///< Between looks while something is under way.
constexpr int64_t kIdleNs = 200'000;       ///< Otherwise.
constexpr int64_t kPatrolNs = 100'000'000; ///< Between questions for errors.

/// What a sender tells of what it has given to NCCL, or of a count behind that.
struct Record {
  enum class Kind : uint32_t { Data, Count } kind = Kind::Data;
  uint32_t word = 0;   ///< Counts: the receiver's word.
  uint64_t offset = 0; ///< Data: in the receiver's bulk.
  uint64_t amount = 0; ///< Bytes, or how much.
};
static_assert(sizeof(Record) <= Fabric::kMostPutBytes);

/// To one rank.
struct Outgoing {
  uint32_t to = 0;
  cuda::NcclUniqueId id;
  std::unique_ptr<NcclLink> link;
  Target ring;
  std::optional<WordTarget> arrived;
  Word *consumed = nullptr;
  std::mutex mutex;                              ///< Of what is given.
  uint64_t records = 0;                          ///< Written.
  std::array<Word *, NcclLink::kEvents> taken{}; ///< By transfer: counted when it has left.
  std::atomic<uint64_t> counted{0};              ///< Transfers.
  /// Of the transfer that is done next, which has been queued.
  Word *nextTaken() const { return taken[link->finished() % NcclLink::kEvents]; }
};

/// From one rank.
struct Incoming {
  uint32_t from = 0;
  std::unique_ptr<NcclLink> link;
  const std::byte *ring = nullptr;
  Word *arrived = nullptr;
  std::optional<WordTarget> consumed;
  uint64_t records = 0, givenBack = 0; ///< Read; told the sender.
  struct Count {
    uint64_t behind = 0; ///< Transfers.
    uint32_t word = 0;
    uint64_t more = 0;
  };
  std::deque<Count> counts;
};

class Communicators : public NcclFabric {
public:
  Communicators(const NcclOptions &options, const Segments &segments, const Abort &abort, const cuda::Nccl &nccl,
                std::unique_ptr<cuda::Context> context)
      : NcclFabric(options.peers), options(options), segments(segments), abort(abort), nccl(nccl),
        context(std::move(context)) {}

  Status prepare(const NcclPlaces &places) {
    if (peers().size() > kMaxPeers)
      return Status::unavailable("it exchanges with " + std::to_string(peers().size()) +
                                 " ranks, and by NCCL a GPU's work queues serve " + std::to_string(kMaxPeers) +
                                 "; plan for smaller groups of replicas");
    for (const auto &[pair, where] : places.ways()) {
      if (pair.first == options.rank && peers().contains(pair.second)) {
        auto &way = outgoing[pair.second] = std::make_unique<Outgoing>();
        way->to = pair.second;
        way->ring = segments.target(where.ring);
        way->arrived = segments.directTarget(where.arrived);
        way->consumed = segments.word(where.consumed);
        MAESTRO_NCCL_TRY(nccl, ncclGetUniqueId, &way->id);
      } else if (pair.second == options.rank && peers().contains(pair.first)) {
        auto &way = incoming[pair.first] = std::make_unique<Incoming>();
        way->from = pair.first;
        way->ring = segments.at(where.ring);
        way->arrived = segments.word(where.arrived);
        way->consumed = segments.directTarget(where.consumed);
      } else {
        continue;
      }
      order.push_back(pair);
    }
    return Status();
  }
  ~Communicators() override {
    stopping = true;
    if (thread.joinable())
      thread.join();
    if (abort.isRaised())
      giveUp();
  }

  std::string name() const override { return "NCCL " + cuda::ncclVersionText(nccl.version); }
  int version() const override { return nccl.version; }
  int gpu() const override { return context->device(); }
  std::map<uint32_t, std::vector<std::byte>> cards() const override {
    std::map<uint32_t, std::vector<std::byte>> all;
    for (const auto &[rank, way] : outgoing) {
      auto bytes = std::as_bytes(std::span(way->id.bytes));
      all.emplace(rank, std::vector<std::byte>(bytes.begin(), bytes.end()));
    }
    return all;
  }
  /// In the order of pairs, which is the same everywhere, so no two wait for each other.
  Status start(const std::map<uint32_t, std::vector<std::byte>> &cards) override {
    MAESTRO_TRY(scratch.open(*context));
    for (auto [from, to] : order) {
      bool sends = from == options.rank;
      auto &link = (sends ? outgoing[to]->link : incoming[from]->link);
      link = std::make_unique<NcclLink>(*context, nccl, abort);
      cuda::NcclUniqueId id = sends ? outgoing[to]->id : cuda::NcclUniqueId{};
      if (!sends) {
        auto card = cards.find(from);
        if (card == cards.end() || card->second.size() != sizeof id.bytes)
          return Status::invalidInput("rank " + std::to_string(from) + " has not told of its way here");
        std::memcpy(id.bytes, card->second.data(), sizeof id.bytes);
      }
      Status status = link->open(id, sends ? NcclLink::kSender : NcclLink::kReceiver);
      if (status.isOk()) // Connections are made with the first transfer.
        status = sends ? link->send(scratch.memory, 1) : link->receive(scratch.memory, 1);
      if (status.isOk())
        status = link->synchronize();
      MAESTRO_TRY(std::move(status).withContext(name() + ", from rank " + std::to_string(from) + " to rank " +
                                                std::to_string(to)));
      if (sends)
        outgoing[to]->counted = link->finished();
    }
    thread = std::thread([this] { serve(); });
    return Status();
  }

  // ---- by any thread

  bool readsDevices() const override { return true; }
  void write(const Place &to, const std::byte *from, uint64_t bytes, Word *taken) override {
    Outgoing *way = wayTo(to.rank, to.isBulk);
    if (!way)
      return;
    std::lock_guard lock(way->mutex);
    if (!await([&] { return !way->link->isFull(); }) || abort.isRaised())
      return;
    Record record;
    record.kind = Record::Kind::Data;
    record.offset = to.offset;
    record.amount = bytes;
    if (!tell(*way, record)) // Before the send: what is set up at the first one needs the other side.
      return;
    way->taken[way->link->queued() % NcclLink::kEvents] = taken;
    if (Status status = way->link->send(from, bytes); !status.isOk())
      return fail(status);
    written.fetch_add(bytes, std::memory_order_relaxed);
  }
  void put(const Place &to, std::span<const std::byte>) override {
    abort.raise(options.rank, name() + ": single bytes for rank " + std::to_string(to.rank) + " go another way");
  }
  void signal(const WordPlace &word, uint64_t more) override {
    Outgoing *way = wayTo(word.rank, true);
    if (!way)
      return;
    std::lock_guard lock(way->mutex);
    Record record;
    record.kind = Record::Kind::Count;
    record.word = word.index;
    record.amount = more;
    (void)tell(*way, record);
  }
  void awaitIdle() override {
    bool isIdle = await([&] {
      return std::all_of(outgoing.begin(), outgoing.end(), [](const auto &each) {
        return !each.second->link || each.second->link->queued() == each.second->counted;
      });
    });
    while (!isIdle && thread.joinable() && !isOver) // The job has ended; communicators are given up.
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  Traffic traffic() const override {
    int64_t since = busySinceNs.load();
    return {written.load(std::memory_order_relaxed), busyNs.load() + (since > 0 ? nowNs() - since : 0)};
  }

private:
  /// Memory of the first transfers.
  struct Scratch {
    ~Scratch() {
      if (!memory)
        return;
      context->makeCurrent();
      (void)context->driver().cuMemFreeHost(memory);
    }
    Status open(const cuda::Context &opened) {
      context = &opened;
      context->makeCurrent();
      const cuda::Driver &driver = context->driver();
      MAESTRO_CUDA_TRY(driver, cuMemHostAlloc, &memory, 64, CU_MEMHOSTALLOC_PORTABLE);
      return Status();
    }
    const cuda::Context *context = nullptr;
    void *memory = nullptr;
  };

  /// False: the job has ended.
  template <typename Condition> bool await(const Condition &condition) const {
    while (!condition()) {
      if (abort.isRaised())
        return false;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return true;
  }
  Outgoing *wayTo(uint32_t rank, bool isBulk) {
    auto found = outgoing.find(rank);
    if (found != outgoing.end() && isBulk && !abort.isRaised())
      return found->second.get();
    if (!abort.isRaised())
      abort.raise(options.rank, name() + ": something is written to rank " + std::to_string(rank) +
                                    ", which is no peer of this one, or not to its bulk");
    return nullptr;
  }
  /// Into the peer's ring, when there is room.
  bool tell(Outgoing &way, const Record &record) {
    if (!await([&] { return way.records - way.consumed->count() < kRecords; }))
      return false;
    Target to = way.ring + way.records++ % kRecords * kRecordBytes;
    if (to.memory)
      std::memcpy(to.memory, &record, sizeof record);
    else
      to.fabric->put(to.place, std::as_bytes(std::span(&record, 1)));
    transport::signal(*way.arrived, 1);
    return true;
  }

  // ---- this fabric's thread

  void serve() {
    ::prctl(PR_SET_NAME, "nccl");
    int64_t lastNs = nowNs(), patrolNs = lastNs;
    while (!stopping && !abort.isRaised()) {
      bool moved = false, works = false;
      for (auto &[rank, way] : outgoing)
        moved |= collect(*way), works |= way->link->queued() != way->link->finished();
      for (auto &[rank, way] : incoming)
        moved |= receive(*way), works |= !way->counts.empty() || way->link->queued() != way->link->finished();
      int64_t now = nowNs();
      lastNs = moved ? now : lastNs;
      if (works != (busySinceNs > 0)) {
        busyNs += works ? 0 : now - busySinceNs;
        busySinceNs = works ? now : 0;
      }
      if (now - patrolNs > kPatrolNs) {
        patrolNs = now;
        patrol();
      }
      if (now - lastNs < kSpinNs)
        Spin::pause();
      else
        std::this_thread::sleep_for(std::chrono::nanoseconds(works ? kNapNs : kIdleNs));
    }
    if (abort.isRaised())
      giveUp();
    isOver = true;
  }
  /// What has left.
  static bool collect(Outgoing &way) {
    bool any = false;
    while (way.link->finished() < way.link->queued()) { // From then on `taken` says who waits for it.
      Word *taken = way.nextTaken();
      if (!way.link->look())
        break;
      if (taken)
        transport::signal(*taken, 1);
      ++way.counted;
      any = true;
    }
    return any;
  }
  bool receive(Incoming &way) {
    bool any = false;
    while (way.link->look())
      any = true;
    while (way.records < way.arrived->count() && !way.link->isFull() && !abort.isRaised()) {
      Record record;
      std::memcpy(&record, way.ring + way.records % kRecords * kRecordBytes, sizeof record);
      ++way.records;
      any = true;
      if (record.kind == Record::Kind::Data)
        receiveData(way, record);
      else
        way.counts.push_back({way.link->queued(), record.word, record.amount});
    }
    for (; !way.counts.empty() && way.counts.front().behind <= way.link->finished(); way.counts.pop_front(), any = true)
      if (Word *word = segments.word(options.rank, way.counts.front().word))
        transport::signal(*word, way.counts.front().more);
      else
        fail(Status::internal("a count of rank " + std::to_string(way.from) + " for a word that does not exist"));
    if (way.records - way.givenBack >= kCreditsAtOnce) {
      transport::signal(*way.consumed, way.records - way.givenBack);
      way.givenBack = way.records;
    }
    return any;
  }
  void receiveData(Incoming &way, const Record &record) {
    uint64_t room = segments.bulkBytes(options.rank);
    Target bulk = segments.target(Place{options.rank, 0, true});
    if (record.offset > room || record.amount > room - record.offset)
      return fail(
          Status::internal("rank " + std::to_string(way.from) + " writes beyond the end of this rank's memory"));
    if (Status status = way.link->receive(bulk.memory + record.offset, record.amount); !status.isOk())
      fail(status);
  }
  void patrol() {
    for (auto &[rank, way] : outgoing)
      if (Status status = way->link->error(); !status.isOk())
        return fail(std::move(status).withContext("to rank " + std::to_string(rank)));
    for (auto &[rank, way] : incoming)
      if (Status status = way->link->error(); !status.isOk())
        return fail(std::move(status).withContext("from rank " + std::to_string(rank)));
  }
  void fail(const Status &status) { abort.raise(options.rank, name() + ": " + std::string(status.message())); }
  void giveUp() {
    for (auto &[rank, way] : outgoing) {
      std::lock_guard lock(way->mutex); // Somebody may be giving something.
      if (way->link)
        way->link->giveUp();
    }
    for (auto &[rank, way] : incoming)
      if (way->link)
        way->link->giveUp();
  }

  const NcclOptions options;
  const Segments &segments;
  const Abort &abort;
  const cuda::Nccl &nccl;
  std::unique_ptr<cuda::Context> context;
  Scratch scratch;
  std::vector<NcclPlaces::Pair> order;
  std::map<uint32_t, std::unique_ptr<Outgoing>> outgoing; ///< By receiver.
  std::map<uint32_t, std::unique_ptr<Incoming>> incoming; ///< By sender.
  std::atomic<uint64_t> written{0};
  std::atomic<int64_t> busyNs{0}, busySinceNs{0};   ///< Up to the last time; 0: not now.
  std::atomic<bool> stopping{false}, isOver{false}; ///< The thread does nothing any more.
  std::thread thread;
};

} // namespace

Result<std::unique_ptr<NcclFabric>> NcclFabric::open(const NcclOptions &options, const NcclPlaces &places,
                                                     const Segments &segments, const Abort &abort) {
  MAESTRO_ASSIGN(const cuda::Nccl *nccl, cuda::loadNccl());
  MAESTRO_ASSIGN(int count, cuda::Context::count());
  MAESTRO_ASSIGN(auto context, cuda::Context::open(static_cast<int>(options.device) % count));
  auto fabric = std::make_unique<Communicators>(options, segments, abort, *nccl, std::move(context));
  MAESTRO_TRY(fabric->prepare(places));
  return std::unique_ptr<NcclFabric>(std::move(fabric));
}

} // namespace maestro::transport

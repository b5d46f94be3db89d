#include "transport/nccl/nccl.h"

#include "cuda/context.h"
#include "cuda/nccl.h"
#include "cuda/shared_block.h"
#include "transport/nccl/ways.h"
#include "transport/wait.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <sys/prctl.h>
#include <thread>
#include <utility>

namespace maestro::transport {
namespace {

constexpr const char *kPutsVariable = "MAESTRO_NCCL_PUTS";
constexpr int64_t kSpinNs = 50'000;        ///< After something has happened.
constexpr int64_t kNapNs = 30'000;         ///< Between looks while something is under way.
constexpr int64_t kIdleNs = 200'000;       ///< Otherwise.
constexpr int64_t kPatrolNs = 100'000'000; ///< Between questions for errors.

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
    for (const auto &[pair, where] : places.ways())
      if (pair.first == options.rank && peers().contains(pair.second)) {
        order.push_back(outgoing.emplace_back(std::make_unique<NcclOutgoing>(pair, where, segments, abort)).get());
        MAESTRO_NCCL_TRY(nccl, ncclGetUniqueId, &ids[pair.second]);
      } else if (pair.second == options.rank && peers().contains(pair.first)) {
        order.push_back(incoming.emplace_back(std::make_unique<NcclIncoming>(pair, where, segments, abort)).get());
      }
    return Status();
  }
  ~Communicators() override {
    pause();
    if (abort.isRaised())
      giveUp();
  }

  std::string name() const override { return "NCCL " + cuda::ncclVersionText(nccl.version); }
  int version() const override { return nccl.version; }
  int gpu() const override { return context->device(); }
  std::map<uint32_t, std::vector<std::byte>> cards() const override {
    std::map<uint32_t, std::vector<std::byte>> all;
    for (const auto &[rank, id] : ids) {
      auto bytes = std::as_bytes(std::span(id.bytes));
      all.emplace(rank, std::vector<std::byte>(bytes.begin(), bytes.end()));
    }
    return all;
  }
  /// In the order of pairs, which is the same everywhere, so no two wait for each other.
  Status start(const std::map<uint32_t, std::vector<std::byte>> &cards) override {
    MAESTRO_TRY(scratch.open(*context));
    for (NcclWay *way : order) {
      MAESTRO_ASSIGN(cuda::NcclUniqueId id, idOf(*way, cards));
      way->link = std::make_unique<NcclLink>(*context, nccl, abort);
      Status status = way->link->open(id, way->sends ? NcclLink::kSender : NcclLink::kReceiver);
      if (status.isOk())
        status = way->tryOut(scratch.memory);
      MAESTRO_TRY(std::move(status).withContext(textOf(*way)));
    }
    resume();
    return Status();
  }

  // ---- puts

  Status canPut() const override {
    if (const char *wanted = std::getenv(kPutsVariable); wanted && std::string_view(wanted) == "never")
      return Status::unavailable(std::string(kPutsVariable) + "=never");
    if (!nccl.hasPuts())
      return Status::unavailable("it puts from " + cuda::ncclVersionText(cuda::Nccl::kPuts) + " on");
    int driver = context->driver().version;
    if (driver < cuda::Nccl::kPutsDriver)
      return Status::unavailable("the driver is for CUDA " + cuda::versionText(driver) + ", and it puts with " +
                                 cuda::versionText(cuda::Nccl::kPutsDriver) + " or newer");
    return Status();
  }
  void placeBulk(std::byte *memory) override {
    if (bulk && !memory) {
      pause();
      closeWindows();
      resume();
    }
    bulk = memory;
  }
  bool takesPuts() const override { return bulk && canPut().isOk(); }
  Status openWindows(const std::set<uint32_t> &senders, const std::set<uint32_t> &takers) override {
    pause();
    closeWindows();
    std::vector<NcclWay *> ways;
    std::copy_if(order.begin(), order.end(), std::back_inserter(ways), [&](const NcclWay *way) {
      return senders.contains(way->pair.first) && takers.contains(way->pair.second);
    });
    MAESTRO_TRY(openStage(ways));
    uint64_t stageOffset = 0;
    for (NcclWay *way : ways) {
      NcclLink::Window own{bulk, segments.bulkBytes(options.rank), 0, options.stageBytes};
      if (way->sends) {
        own = {reinterpret_cast<std::byte *>(stage->start()), stage->bytes(), stageOffset, options.stageBytes};
        stageOffset += options.stageBytes;
      }
      Status status = way->link->openWindow(own);
      if (status.isOk() && way->link->isPutting())
        status = way->tryOut(scratch.memory);
      MAESTRO_TRY(std::move(status).withContext(textOf(*way) + ", by puts (" + kPutsVariable + "=never does without)"));
    }
    resume();
    return Status();
  }
  std::string manner() const override {
    size_t puts = 0, all = 0;
    for (const NcclWay *way : order)
      if (segments.bulkBytes(way->pair.second) > 0) {
        puts += way->link->isPutting();
        ++all;
      }
    if (puts == 0 || puts == all)
      return puts == 0 ? "sends and receives" : "puts";
    return "puts on " + std::to_string(puts) + " of " + std::to_string(all) + " ways";
  }

  // ---- by any thread

  bool readsDevices() const override { return true; }
  void write(const Place &to, const std::byte *from, uint64_t bytes, Word *taken) override {
    NcclOutgoing *way = wayTo(to.rank, to.isBulk);
    if (!way)
      return;
    if (Status status = way->write(to.offset, from, bytes, taken); !status.isOk())
      return fail(status);
    written.fetch_add(bytes, std::memory_order_relaxed);
  }
  void put(const Place &to, std::span<const std::byte>) override {
    abort.raise(options.rank, name() + ": single bytes for rank " + std::to_string(to.rank) + " go another way");
  }
  void signal(const WordPlace &word, uint64_t more) override {
    if (NcclOutgoing *way = wayTo(word.rank, true))
      way->signal(word.index, more);
  }
  void awaitIdle() override {
    auto isIdle = [](const auto &way) { return way->isIdle(); };
    while (!std::all_of(outgoing.begin(), outgoing.end(), isIdle) && thread.joinable() && !isGivenUp)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  Traffic traffic() const override {
    int64_t since = busySinceNs.load();
    return {written.load(std::memory_order_relaxed), busyNs.load() + (since > 0 ? nowNs() - since : 0)};
  }

private:
  Result<cuda::NcclUniqueId> idOf(const NcclWay &way, const std::map<uint32_t, std::vector<std::byte>> &cards) const {
    if (way.sends)
      return ids.at(way.pair.second);
    cuda::NcclUniqueId id;
    auto card = cards.find(way.pair.first);
    if (card == cards.end() || card->second.size() != sizeof id.bytes)
      return Status::invalidInput("rank " + std::to_string(way.pair.first) + " has not told of its way here");
    std::memcpy(id.bytes, card->second.data(), sizeof id.bytes);
    return id;
  }
  std::string textOf(const NcclWay &way) const {
    return name() + ", from rank " + std::to_string(way.pair.first) + " to rank " + std::to_string(way.pair.second);
  }
  /// For the ways that this rank sends by: a part for each, and as long as what they are put to.
  Status openStage(const std::vector<NcclWay *> &ways) {
    uint64_t parts = 0, longest = 0;
    for (const NcclWay *way : ways)
      if (way->sends) {
        parts += options.stageBytes;
        longest = std::max(longest, segments.bulkBytes(way->pair.second));
      }
    if (parts == 0)
      return Status();
    MAESTRO_ASSIGN(stage, cuda::SharedBlock::create(*context, std::max(parts, longest), "what NCCL puts from"));
    return Status();
  }
  /// While the fabric's thread has paused.
  void closeWindows() {
    if (abort.isRaised()) // One may be opening still.
      giveUp();
    for (NcclWay *way : order)
      if (way->link)
        way->link->closeWindow();
    stage.reset();
  }
  void resume() {
    thread = std::thread([this] { serve(); });
  }
  /// The fabric's thread has ended.
  void pause() {
    stopping = true;
    if (thread.joinable())
      thread.join();
    stopping = false;
  }

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
      void *made = nullptr;
      MAESTRO_CUDA_TRY(driver, cuMemHostAlloc, &made, kBytes, CU_MEMHOSTALLOC_PORTABLE);
      memory = static_cast<std::byte *>(made);
      std::memset(memory, 0, kBytes);
      return Status();
    }
    static constexpr size_t kBytes = 64;
    const cuda::Context *context = nullptr;
    std::byte *memory = nullptr;
  };

  NcclOutgoing *wayTo(uint32_t rank, bool isBulk) {
    auto found =
        std::find_if(outgoing.begin(), outgoing.end(), [&](const auto &way) { return way->pair.second == rank; });
    if (found != outgoing.end() && isBulk && !abort.isRaised())
      return found->get();
    if (!abort.isRaised())
      abort.raise(options.rank, name() + ": something is written to rank " + std::to_string(rank) +
                                    ", which is no peer of this one, or not to its bulk");
    return nullptr;
  }

  // ---- this fabric's thread

  void serve() {
    ::prctl(PR_SET_NAME, "nccl");
    int64_t lastNs = nowNs(), patrolNs = lastNs;
    while (!stopping && !abort.isRaised()) {
      bool moved = false, works = false;
      for (auto &way : outgoing)
        moved |= way->collect(), works |= way->isBusy();
      for (auto &way : incoming) {
        Result<bool> any = way->receive();
        if (!any)
          fail(any.status());
        moved |= any && *any, works |= way->isWaiting();
      }
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
  }
  void patrol() {
    for (const NcclWay *way : order)
      if (Status status = way->link->error(); !status.isOk())
        return fail(std::move(status).withContext(way->sends ? "to rank " + std::to_string(way->pair.second)
                                                             : "from rank " + std::to_string(way->pair.first)));
  }
  void fail(const Status &status) { abort.raise(options.rank, name() + ": " + std::string(status.message())); }
  void giveUp() {
    for (auto &way : outgoing)
      way->giveUp();
    for (auto &way : incoming)
      if (way->link)
        way->link->giveUp();
    isGivenUp = true;
  }

  const NcclOptions options;
  const Segments &segments;
  const Abort &abort;
  const cuda::Nccl &nccl;
  std::unique_ptr<cuda::Context> context;
  Scratch scratch;
  std::unique_ptr<cuda::SharedBlock> stage;   ///< What is put, on its way.
  std::byte *bulk = nullptr;                  ///< This rank's, if puts can be to it.
  std::map<uint32_t, cuda::NcclUniqueId> ids; ///< By receiver.
  std::vector<std::unique_ptr<NcclOutgoing>> outgoing;
  std::vector<std::unique_ptr<NcclIncoming>> incoming;
  std::vector<NcclWay *> order; ///< All of them, by pairs.
  std::atomic<uint64_t> written{0};
  std::atomic<int64_t> busyNs{0}, busySinceNs{0};      ///< Up to the last time; 0: not now.
  std::atomic<bool> stopping{false}, isGivenUp{false}; ///< Of the communicators, when the job has ended.
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

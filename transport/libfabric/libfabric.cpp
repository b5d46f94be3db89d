#include "transport/libfabric/libfabric.h"

#include "transport/libfabric/card.h"
#include "transport/libfabric/functions.h"
#include "transport/libfabric/ring.h"
#include "transport/wait.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

namespace maestro::transport {
namespace {

constexpr uint32_t kVersion = FI_VERSION(1, 17);
constexpr const char *kProvider = "tcp;ofi_rxm";
constexpr size_t kMostNameBytes = 256;
constexpr size_t kContexts = 512; ///< Writes under way, of all peers.
constexpr int kCompletionsAtOnce = 16;
/// Looks around at least so often while something is under way: the provider moves it only then.
constexpr int kBusyPollMs = 1, kIdlePollMs = 250;
/// The control connection knows better why a peer has gone, and is given so long to say it.
constexpr auto kPatience = std::chrono::milliseconds(1000);

// A count in completion data of 32 bits, which all providers have.
constexpr uint32_t kCountBits = 8, kMostCount = (1u << kCountBits) - 1;
constexpr uint32_t kMostWords = 1u << (32 - kCountBits);

struct Closer {
  template <typename T> void operator()(T *object) const { (void)::fi_close(&object->fid); }
};
template <typename T> using Owned = std::unique_ptr<T, Closer>;

/// For functions that return an object through a pointer to a pointer.
template <typename T> class Out {
public:
  explicit Out(Owned<T> &owner) : owner(owner) {}
  ~Out() { owner.reset(object); }
  operator T **() { return &object; }

private:
  Owned<T> &owner;
  T *object = nullptr;
};
template <typename T> Out<T> out(Owned<T> &owner) { return Out<T>(owner); }

/// Where a rank's segment is.
struct RemoteSegment {
  uint32_t peer = 0;
  FabricCard::Segment at;
};

struct Peer {
  fi_addr_t address = FI_ADDR_UNSPEC;
  RankRange ranks;
  OperationRing ring;
  uint64_t underWay = 0; ///< Writes.
};

/// A write under way; the provider keeps state in it.
struct Context {
  fi_context2 provider{};
  Peer *peer = nullptr;
  Word *taken = nullptr;
  std::array<std::byte, Fabric::kMostPutBytes> inlined{};
};

class Implementation : public LibfabricFabric {
public:
  Implementation(const Segments &segments, const LibfabricOptions &options, const Abort &abort,
                 const LibfabricFunctions &functions)
      : segments(segments), options(options), abort(abort), functions(functions), contexts(kContexts) {}

  ~Implementation() override {
    stopping = true;
    if (thread.joinable()) {
      wake();
      thread.join();
    }
    if (wakeDescriptor >= 0)
      ::close(wakeDescriptor);
    if (failed || abort.isRaised()) { // Closing what has lost a peer in the middle of a write is not safe.
      for (auto &region : regions)
        (void)region.release();
      (void)endpoint.release(), (void)completions.release(), (void)addresses.release(), (void)domain.release(),
          (void)fabric.release();
      return;
    }
    // Before what they belong to.
    regions.clear();
    endpoint.reset();
    completions.reset();
    addresses.reset();
    domain.reset();
    fabric.reset();
    if (info)
      functions.freeinfo(info);
  }

  Status open() {
    MAESTRO_TRY(chooseProvider());
    MAESTRO_TRY(check(functions.fabric(info->fabric_attr, out(fabric), nullptr), "opening the fabric"));
    MAESTRO_TRY(check(::fi_domain(fabric.get(), info, out(domain), nullptr), "opening the domain"));
    MAESTRO_TRY(check(::fi_endpoint(domain.get(), info, out(endpoint), nullptr), "opening the endpoint"));
    fi_av_attr tableAttributes{};
    tableAttributes.type = FI_AV_TABLE;
    MAESTRO_TRY(check(::fi_av_open(domain.get(), &tableAttributes, out(addresses), nullptr), "opening the addresses"));
    fi_cq_attr queueAttributes{};
    queueAttributes.format = FI_CQ_FORMAT_DATA;
    queueAttributes.wait_obj = FI_WAIT_FD;
    queueAttributes.size = 4 * kContexts;
    MAESTRO_TRY(check(::fi_cq_open(domain.get(), &queueAttributes, out(completions), nullptr), "opening the queue"));
    MAESTRO_TRY(check(::fi_ep_bind(endpoint.get(), &addresses->fid, 0), "binding the addresses"));
    MAESTRO_TRY(check(::fi_ep_bind(endpoint.get(), &completions->fid, FI_TRANSMIT | FI_RECV), "binding the queue"));
    MAESTRO_TRY(check(::fi_enable(endpoint.get()), "enabling the endpoint"));
    MAESTRO_TRY(check(::fi_control(&completions->fid, FI_GETWAIT, &waitDescriptor), "waiting"));
    wakeDescriptor = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wakeDescriptor < 0)
      return Status::unavailable(std::string("libfabric: eventfd: ") + std::strerror(errno));
    for (Context &context : contexts)
      free.push_back(&context);
    return registerSegments();
  }

  std::vector<std::byte> card() const override {
    FabricCard card;
    card.name.resize(kMostNameBytes);
    size_t length = card.name.size();
    (void)::fi_getname(&endpoint->fid, card.name.data(), &length);
    card.name.resize(std::min(length, kMostNameBytes));
    RankRange here = segments.ranksHere();
    bool isVirtual = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    for (uint32_t rank = here.first; rank < here.end; ++rank) {
      std::span<std::byte> memory = segments.segment(rank);
      fid_mr *region = regions[rank - here.first].get();
      FabricCard::Segment segment;
      segment.rank = rank;
      segment.base = isVirtual ? reinterpret_cast<uint64_t>(memory.data()) : 0;
      segment.key = region ? ::fi_mr_key(region) : 0;
      segment.bytes = memory.size();
      segment.firstWord = firstWords[rank - here.first];
      card.segments.push_back(segment);
    }
    return encode(card);
  }

  Status connect(RankRange ranks, std::span<const std::byte> bytes) override {
    MAESTRO_ASSIGN(FabricCard card, decodeCard(bytes));
    if (card.segments.size() != ranks.count())
      return badCard(ranks, "is of " + std::to_string(card.segments.size()) + " ranks");
    auto peer = std::make_unique<Peer>();
    peer->ranks = ranks;
    card.name.resize(kMostNameBytes); // The provider reads as much as its kind of address has.
    if (::fi_av_insert(addresses.get(), card.name.data(), 1, &peer->address, 0, nullptr) != 1)
      return badCard(ranks, "names an endpoint that the provider does not take");
    remote.resize(segments.ranks());
    for (const FabricCard::Segment &segment : card.segments) {
      if (!ranks.has(segment.rank))
        return badCard(ranks, "is of rank " + std::to_string(segment.rank));
      if (segment.bytes != segments.bytes(segment.rank))
        return badCard(ranks, "has a segment of " + std::to_string(segment.bytes) + " bytes for rank " +
                                  std::to_string(segment.rank) + " instead of " +
                                  std::to_string(segments.bytes(segment.rank)));
      remote[segment.rank] = {static_cast<uint32_t>(peers.size()), segment};
    }
    peers.push_back(std::move(peer));
    return Status();
  }

  Status start() override {
    thread = std::thread([this] { serve(); });
    return Status();
  }

  void awaitIdle() override {
    while (hasWork() && !isOver)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

  std::string name() const override {
    return std::string("libfabric ") + info->fabric_attr->prov_name + " over " + info->domain_attr->name + " (" +
           options.address + ")";
  }

  // ---- by any thread

  void write(const Place &to, const std::byte *from, uint64_t bytes, Word *taken) override {
    Operation operation;
    operation.kind = Operation::Kind::Write;
    operation.rank = to.rank;
    operation.offset = to.offset;
    operation.bytes = bytes;
    operation.from = from;
    operation.taken = taken;
    give(operation);
  }
  void put(const Place &to, std::span<const std::byte> bytes) override {
    Operation operation;
    operation.kind = Operation::Kind::Put;
    operation.rank = to.rank;
    operation.offset = to.offset;
    operation.bytes = std::min(bytes.size(), kMostPutBytes);
    std::copy_n(bytes.begin(), operation.bytes, operation.inlined.begin());
    give(operation);
  }
  void signal(const WordPlace &word, uint64_t more) override {
    Operation operation;
    operation.kind = Operation::Kind::Signal;
    operation.rank = word.rank;
    operation.offset = word.offset;
    operation.word = word.index;
    for (; more > 0; more -= operation.bytes) {
      operation.bytes = std::min<uint64_t>(more, kMostCount);
      give(operation);
    }
  }

private:
  Status check(long outcome, const char *what) const {
    return outcome >= 0 ? Status()
                        : Status::unavailable("libfabric over " + options.address + ": " + what + ": " +
                                              functions.strerror(static_cast<int>(-outcome)));
  }

  static Status badCard(RankRange ranks, const std::string &text) {
    return Status::invalidInput("the address of ranks " + std::to_string(ranks.first) + " to " +
                                std::to_string(ranks.end - 1) + " " + text);
  }

  Status chooseProvider() {
    fi_info *hints = functions.dupinfo(nullptr);
    if (!hints)
      return Status::unavailable("libfabric: out of memory");
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    // Not FI_MR_LOCAL: what is written from is a device's memory, which is not registered.
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = ::strdup(kProvider);
    KeptSignals kept;
    long outcome = functions.getinfo(kVersion, options.address.c_str(), nullptr, FI_SOURCE, hints, &info);
    functions.freeinfo(hints);
    if (outcome < 0)
      return Status::unavailable(std::string("libfabric has no provider '") + kProvider + "' for address " +
                                 options.address + ": " + functions.strerror(static_cast<int>(-outcome)));
    constexpr uint64_t kInOrder = FI_ORDER_RMA_WAW;
    isOrdered = !options.unordered && (info->tx_attr->msg_order & kInOrder) == kInOrder &&
                info->ep_attr->max_order_waw_size >= (uint64_t{1} << 40);
    return Status();
  }

  Status registerSegments() {
    RankRange here = segments.ranksHere();
    uint64_t words = 0;
    for (uint32_t rank = here.first; rank < here.end; ++rank) {
      firstWords.push_back(static_cast<uint32_t>(words));
      words += segments.words(rank);
      std::span<std::byte> segment = segments.segment(rank);
      Owned<fid_mr> region;
      if (!segment.empty())
        MAESTRO_TRY(check(::fi_mr_reg(domain.get(), segment.data(), segment.size(), FI_REMOTE_WRITE, 0, 1 + rank, 0,
                                      out(region), nullptr),
                          "registering memory"));
      regions.push_back(std::move(region));
    }
    if (words > kMostWords)
      return Status::unavailable("libfabric: " + std::to_string(words) + " counters in one process; at most " +
                                 std::to_string(kMostWords) + ": start more processes");
    return Status();
  }

  void give(const Operation &operation) {
    Peer &peer = *peers[remote[operation.rank].peer];
    while (!peer.ring.push(operation)) {
      if (abort.isRaised())
        return;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    if (isSleeping.load())
      wake();
  }

  void wake() {
    uint64_t one = 1;
    (void)!::write(wakeDescriptor, &one, sizeof one);
  }

  // ---- the fabric's thread

  void serve() {
    ::prctl(PR_SET_NAME, "fabric");
    while ((!stopping || hasWork()) && !failed && !abort.isRaised()) {
      Spinning spinning(spin);
      bool works;
      do {
        bool sends = post();
        works = collect() || sends;
      } while (!works && !failed && !stopping && spinning.again());
      if (!works && !stopping)
        sleep();
      spinning.ended();
    }
    isOver = true;
  }

  bool hasWork() const {
    return pendingWrites > 0 ||
           std::any_of(peers.begin(), peers.end(), [](const auto &peer) { return peer->ring.size() > 0; });
  }

  void sleep() {
    isSleeping = true;
    bool busy = hasWork();
    bool isNew = std::any_of(peers.begin(), peers.end(), [](const auto &peer) { return peer->ring.size() > 0; });
    fid *waits[] = {&completions->fid};
    if ((!isNew || isStuck) && ::fi_trywait(fabric.get(), waits, 1) == FI_SUCCESS) {
      pollfd descriptors[] = {{waitDescriptor, POLLIN, 0}, {wakeDescriptor, POLLIN, 0}};
      (void)::poll(descriptors, 2, busy ? kBusyPollMs : kIdlePollMs);
      uint64_t count;
      if (descriptors[1].revents)
        (void)!::read(wakeDescriptor, &count, sizeof count);
    }
    isSleeping = false;
  }

  /// Whether anything could be posted.
  bool post() {
    bool any = false;
    isStuck = false;
    for (const auto &peer : peers)
      while (!failed && peer->ring.size() > 0) {
        size_t posted = postNext(*peer);
        if (posted == 0) {
          isStuck = true;
          break;
        }
        peer->ring.pop(posted);
        any = true;
      }
    return any;
  }

  /// How many of the peer's operations went; 0: not now.
  size_t postNext(Peer &peer) {
    const Operation &next = peer.ring.at(0);
    const FabricCard::Segment &segment = remote[next.rank].at;
    uint64_t address = segment.base + next.offset;
    if (next.kind == Operation::Kind::Signal) {
      if (!isOrdered && peer.underWay > 0)
        return 0;
      return posted(::fi_inject_writedata(endpoint.get(), nullptr, 0, dataOf(next), peer.address, address, segment.key),
                    peer);
    }
    if (next.kind == Operation::Kind::Put && next.bytes <= info->tx_attr->inject_size) {
      // With the count behind it, or behind what is in order.
      bool counts =
          peer.ring.size() > 1 && peer.ring.at(1).kind == Operation::Kind::Signal && peer.ring.at(1).rank == next.rank;
      if (counts && (isOrdered || peer.underWay == 0))
        return 2 * posted(::fi_inject_writedata(endpoint.get(), next.inlined.data(), next.bytes,
                                                dataOf(peer.ring.at(1)), peer.address, address, segment.key),
                          peer);
      if (counts)
        return 0;
      if (isOrdered)
        return posted(
            ::fi_inject_write(endpoint.get(), next.inlined.data(), next.bytes, peer.address, address, segment.key),
            peer);
    }
    return postWrite(peer, next, address, segment.key);
  }

  size_t postWrite(Peer &peer, const Operation &next, uint64_t address, uint64_t key) {
    if (free.empty())
      return 0;
    Context &context = *free.back();
    context.peer = &peer;
    context.taken = next.taken;
    const std::byte *from = next.from;
    if (next.kind == Operation::Kind::Put) {
      context.inlined = next.inlined;
      from = context.inlined.data();
    }
    iovec source{const_cast<std::byte *>(from), next.bytes};
    fi_rma_iov target{address, next.bytes, key};
    fi_msg_rma message{};
    message.msg_iov = &source;
    message.iov_count = 1;
    message.addr = peer.address;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.context = &context;
    size_t count =
        posted(::fi_writemsg(endpoint.get(), &message, FI_COMPLETION | (isOrdered ? 0 : FI_DELIVERY_COMPLETE)), peer);
    if (count == 0)
      return 0;
    free.pop_back();
    ++peer.underWay;
    ++pendingWrites;
    return 1;
  }

  size_t posted(ssize_t outcome, const Peer &peer) {
    if (outcome >= 0)
      return 1;
    if (outcome != -FI_EAGAIN)
      fail(&peer, functions.strerror(static_cast<int>(-outcome)));
    return 0;
  }

  uint64_t dataOf(const Operation &signal) const {
    return uint64_t{remote[signal.rank].at.firstWord + signal.word} << kCountBits | signal.bytes;
  }

  /// Whether anything had arrived or left.
  bool collect() {
    fi_cq_data_entry entries[kCompletionsAtOnce];
    ssize_t count = ::fi_cq_read(completions.get(), entries, kCompletionsAtOnce);
    if (count == -FI_EAGAIN)
      return false;
    if (count < 0) {
      failedCompletion(count);
      return true;
    }
    for (ssize_t i = 0; i < count; ++i) {
      if (entries[i].flags & FI_REMOTE_CQ_DATA)
        arrived(entries[i].data);
      else if (entries[i].op_context)
        left(*static_cast<Context *>(entries[i].op_context));
    }
    return count > 0;
  }

  void left(Context &context) {
    if (context.taken)
      transport::signal(*context.taken, 1);
    --context.peer->underWay;
    --pendingWrites;
    free.push_back(&context);
  }

  void arrived(uint64_t data) {
    auto number = static_cast<uint32_t>(data >> kCountBits);
    auto above = std::upper_bound(firstWords.begin(), firstWords.end(), number) - 1;
    uint32_t rank = segments.ranksHere().first + static_cast<uint32_t>(above - firstWords.begin());
    Word *word = segments.word(rank, number - *above);
    if (!word)
      return fail(nullptr, "a count for word " + std::to_string(number) + ", which does not exist");
    transport::signal(*word, data & kMostCount);
  }

  void failedCompletion(ssize_t outcome) {
    fi_cq_err_entry error{};
    if (outcome != -FI_EAVAIL || ::fi_cq_readerr(completions.get(), &error, 0) < 0)
      return fail(nullptr, functions.strerror(static_cast<int>(-outcome)));
    auto *context = static_cast<Context *>(error.op_context);
    fail(context ? context->peer : nullptr, functions.strerror(error.err));
  }

  void fail(const Peer *peer, const std::string &text) {
    if (failed)
      return;
    failed = true;
    for (auto waited = std::chrono::milliseconds(0); waited < kPatience && !abort.isRaised() && !stopping;
         waited += std::chrono::milliseconds(10))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (stopping)
      return;
    std::string to =
        peer ? "writing to ranks " + std::to_string(peer->ranks.first) + " to " + std::to_string(peer->ranks.end - 1)
             : "receiving";
    abort.raise(segments.ranksHere().first, name() + ": " + to + ": " + text);
  }

  const Segments &segments;
  const LibfabricOptions options;
  const Abort &abort;
  const LibfabricFunctions &functions;

  fi_info *info = nullptr;
  bool isOrdered = true;
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  Owned<fid_av> addresses;
  Owned<fid_cq> completions;
  Owned<fid_ep> endpoint;
  std::vector<Owned<fid_mr>> regions; ///< By rank that is here; null where its segment is empty.
  std::vector<uint32_t> firstWords;   ///< By rank that is here: the number of its first word in this process.
  std::vector<RemoteSegment> remote;  ///< By rank.
  std::vector<std::unique_ptr<Peer>> peers;
  int waitDescriptor = -1, wakeDescriptor = -1;

  std::thread thread;
  std::atomic<bool> stopping{false}, isSleeping{false}, failed{false};
  std::atomic<bool> isOver{false}; ///< The thread does nothing any more.
  std::atomic<uint64_t> pendingWrites{0};
  Spin spin;
  std::vector<Context> contexts;
  std::vector<Context *> free;
  bool isStuck = false; ///< Something is to be posted that the provider does not take now.
};

} // namespace

Result<std::unique_ptr<LibfabricFabric>> LibfabricFabric::open(const Segments &segments,
                                                               const LibfabricOptions &options, const Abort &abort) {
  MAESTRO_ASSIGN(const LibfabricFunctions *functions, loadLibfabric());
  auto fabric = std::make_unique<Implementation>(segments, options, abort, *functions);
  MAESTRO_TRY(fabric->open());
  return std::unique_ptr<LibfabricFabric>(std::move(fabric));
}

} // namespace maestro::transport

#include "transport/libfabric/libfabric.h"

#include "base/bytes.h"
#include "transport/kept_signals.h"
#include "transport/libfabric/functions.h"
#include "transport/network/network_fabric.h"
#include "transport/network/sources.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace maestro::transport {
namespace {

constexpr uint32_t kVersion = FI_VERSION(1, 17);
struct Provider {
  std::string_view name;
  bool hasInternetAddress; ///< Else its network has addresses of another kind.
};
constexpr std::array kProviders = {Provider{"efa", false}, Provider{"cxi", false}, Provider{"tcp;ofi_rxm", true}};
/// Between two looks at a provider whose completions wake nobody.
constexpr auto kLookEvery = std::chrono::microseconds(20);
constexpr size_t kMostNameBytes = 256;
constexpr size_t kContexts = 512; ///< Writes under way, of all peers.
constexpr int kCompletionsAtOnce = 16;
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

/// A write under way; the provider keeps state in it.
struct Context {
  fi_context2 provider{};
  uint32_t peer = 0;
  Word *taken = nullptr;
  std::array<std::byte, Fabric::kMostPutBytes> inlined{};
};

class Implementation : public NetworkFabric {
public:
  Implementation(const Segments &segments, const LibfabricOptions &options, const Abort &abort,
                 const LibfabricFunctions &functions)
      : NetworkFabric(segments, abort), options(options), functions(functions), contexts(kContexts) {}

  ~Implementation() override {
    stop();
    if (hasFailed() || abort.isRaised()) { // Closing what has lost a peer in the middle of a write is not safe.
      sources.forEach([](Owned<fid_mr> &region) { (void)region.release(); });
      (void)ownEndpoint.release(), (void)completions.release(), (void)addresses.release(), (void)domain.release(),
          (void)fabric.release();
      return;
    }
    // Before what they belong to.
    sources.clear();
    ownEndpoint.reset();
    completions.reset();
    addresses.reset();
    domain.reset();
    fabric.reset();
    if (info)
      functions.freeinfo(info);
  }

  Status open() {
    MAESTRO_TRY(openQueues().withContext("libfabric"));
    MAESTRO_TRY(chooseProvider());
    MAESTRO_TRY(check(functions.fabric(info->fabric_attr, out(fabric), nullptr), "opening the fabric"));
    MAESTRO_TRY(check(::fi_domain(fabric.get(), info, out(domain), nullptr), "opening the domain"));
    MAESTRO_TRY(check(::fi_endpoint(domain.get(), info, out(ownEndpoint), nullptr), "opening the endpoint"));
    fi_av_attr tableAttributes{};
    tableAttributes.type = FI_AV_TABLE;
    MAESTRO_TRY(check(::fi_av_open(domain.get(), &tableAttributes, out(addresses), nullptr), "opening the addresses"));
    fi_cq_attr queueAttributes{};
    queueAttributes.format = FI_CQ_FORMAT_DATA;
    queueAttributes.wait_obj = FI_WAIT_FD;
    queueAttributes.size = 4 * kContexts;
    bool wakes = ::fi_cq_open(domain.get(), &queueAttributes, out(completions), nullptr) == 0;
    if (!wakes) { // Not all providers can.
      queueAttributes.wait_obj = FI_WAIT_NONE;
      MAESTRO_TRY(check(::fi_cq_open(domain.get(), &queueAttributes, out(completions), nullptr), "opening the queue"));
    }
    MAESTRO_TRY(check(::fi_ep_bind(ownEndpoint.get(), &addresses->fid, 0), "binding the addresses"));
    MAESTRO_TRY(check(::fi_ep_bind(ownEndpoint.get(), &completions->fid, FI_TRANSMIT | FI_RECV), "binding the queue"));
    MAESTRO_TRY(check(::fi_enable(ownEndpoint.get()), "enabling the endpoint"));
    if (wakes)
      MAESTRO_TRY(check(::fi_control(&completions->fid, FI_GETWAIT, &waitDescriptor), "waiting"));
    for (Context &context : contexts)
      free.push_back(&context);
    MAESTRO_TRY(registerSegments());
    addSource(std::as_bytes(std::span(contexts)));
    return Status();
  }

  std::string name() const override {
    return std::string("libfabric ") + info->fabric_attr->prov_name + " over " + info->domain_attr->name +
           (hasInternetAddress ? " (" + options.address + ")" : "");
  }

private:
  Status check(long outcome, const char *what) const {
    return outcome >= 0 ? Status()
                        : Status::unavailable("libfabric over " + options.address + ": " + what + ": " +
                                              functions.strerror(static_cast<int>(-outcome)));
  }

  Status chooseProvider() {
    std::string tried;
    for (const Provider &provider : candidates()) {
      long outcome = ask(provider);
      if (outcome == 0) {
        hasInternetAddress = provider.hasInternetAddress;
        constexpr uint64_t kInOrder = FI_ORDER_RMA_WAW;
        isOrdered = !options.unordered && (info->tx_attr->msg_order & kInOrder) == kInOrder &&
                    info->ep_attr->max_order_waw_size >= (uint64_t{1} << 40);
        wantsLocal = info->domain_attr->mr_mode & FI_MR_LOCAL;
        return Status();
      }
      tried += std::string(tried.empty() ? "" : ", ") + "'" + std::string(provider.name) +
               "': " + functions.strerror(static_cast<int>(-outcome));
    }
    return Status::unavailable("libfabric has no provider for address " + options.address + ": " + tried);
  }

  std::vector<Provider> candidates() const {
    if (options.provider.empty())
      return {kProviders.begin(), kProviders.end()};
    auto known = std::find_if(kProviders.begin(), kProviders.end(),
                              [&](const Provider &each) { return each.name == options.provider; });
    return {{options.provider, known == kProviders.end() || known->hasInternetAddress}};
  }

  /// 0, or libfabric's number of what is wrong.
  long ask(const Provider &provider) {
    fi_info *hints = functions.dupinfo(nullptr);
    if (!hints)
      return -FI_ENOMEM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = ::strndup(provider.name.data(), provider.name.size());
    KeptSignals kept;
    const char *node = provider.hasInternetAddress ? options.address.c_str() : nullptr;
    long outcome = functions.getinfo(kVersion, node, nullptr, node ? FI_SOURCE : 0, hints, &info);
    functions.freeinfo(hints);
    return outcome;
  }

  Result<Owned<fid_mr>> registerMemory(std::span<const std::byte> memory, uint64_t access) {
    Owned<fid_mr> region;
    MAESTRO_TRY(
        check(::fi_mr_reg(domain.get(), memory.data(), memory.size(), access, 0, ++registered, 0, out(region), nullptr),
              "registering memory"));
    if (info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
      MAESTRO_TRY(check(::fi_mr_bind(region.get(), &ownEndpoint->fid, 0), "binding memory"));
      MAESTRO_TRY(check(::fi_mr_enable(region.get()), "enabling memory"));
    }
    return region;
  }

  Status registerSegments() {
    RankRange here = segments.ranksHere();
    for (uint32_t rank = here.first; rank < here.end; ++rank) {
      std::span<std::byte> segment = segments.segment(rank);
      segmentKeys.push_back(0);
      if (segment.empty())
        continue;
      MAESTRO_ASSIGN(auto region, registerMemory(segment, FI_REMOTE_WRITE | (wantsLocal ? FI_WRITE : 0)));
      segmentKeys.back() = ::fi_mr_key(region.get());
      sources.add(segment, std::move(region));
    }
    return Status();
  }

  void addSource(std::span<const std::byte> memory) override {
    if (wantsLocal)
      sources.add(memory);
  }
  void removeSource(std::span<const std::byte> memory) override {
    if (wantsLocal)
      sources.remove(memory);
  }

  /// The provider's descriptor.
  Result<uint64_t> sourceKey(std::span<const std::byte> bytes) override {
    if (!wantsLocal)
      return uint64_t{0};
    return sources.find(
        bytes, [this](std::span<const std::byte> source) { return registerMemory(source, FI_WRITE); },
        [](const Owned<fid_mr> &region) { return reinterpret_cast<uint64_t>(::fi_mr_desc(region.get())); });
  }

  std::vector<std::byte> endpoint() const override {
    std::vector<std::byte> name(kMostNameBytes);
    size_t length = name.size();
    (void)::fi_getname(&ownEndpoint->fid, name.data(), &length);
    name.resize(std::min(length, kMostNameBytes));
    return ByteWriter().text(info->fabric_attr->prov_name).raw(name).take();
  }

  FabricCard::Segment segmentCard(uint32_t rank) const override {
    FabricCard::Segment segment;
    if (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
      segment.base = reinterpret_cast<uint64_t>(segments.segment(rank).data());
    segment.key = segmentKeys[rank - segments.ranksHere().first];
    return segment;
  }

  Status connectPeer(const Peer &peer, std::span<const std::byte> endpoint) override {
    ByteReader reader(endpoint);
    if (std::string theirs = reader.text(); theirs != info->fabric_attr->prov_name)
      return Status::unavailable("libfabric: " + peer.name + " has the provider '" + theirs + "', and this process '" +
                                 info->fabric_attr->prov_name +
                                 "'; name one that all have by MAESTRO_LIBFABRIC_PROVIDER");
    endpoint = reader.rest();
    std::vector<std::byte> name(endpoint.begin(), endpoint.end());
    name.resize(kMostNameBytes); // The provider reads as much as its kind of address has.
    ways.emplace_back();
    if (endpoint.size() > kMostNameBytes ||
        ::fi_av_insert(addresses.get(), name.data(), 1, &ways.back().address, 0, nullptr) != 1)
      return Status::invalidInput("libfabric: the address of " + peer.name +
                                  " names an endpoint that the provider does not take");
    return Status();
  }

  // ---- the fabric's thread

  int busyPollMs() const override { return 1; } // The provider moves things only when it is asked.

  int arm() override {
    if (waitDescriptor < 0) {
      std::this_thread::sleep_for(kLookEvery);
      return -1;
    }
    fid *waits[] = {&completions->fid};
    return ::fi_trywait(fabric.get(), waits, 1) == FI_SUCCESS ? waitDescriptor : -1;
  }

  bool post(Peer &peer) override {
    size_t count = postNext(peer);
    peer.ring.pop(count);
    return count > 0;
  }

  /// How many of the peer's operations went; 0: not now.
  size_t postNext(Peer &peer) {
    const Way &way = ways[peer.number];
    const Operation &next = peer.ring.at(0);
    const FabricCard::Segment &segment = remote[next.rank];
    uint64_t address = segment.base + next.offset;
    if (next.kind == Operation::Kind::Signal) {
      if (!isOrdered && way.underWay > 0)
        return 0;
      return posted(
          ::fi_inject_writedata(ownEndpoint.get(), nullptr, 0, dataOf(next), way.address, address, segment.key), peer);
    }
    if (next.kind == Operation::Kind::Put && next.bytes <= info->tx_attr->inject_size) {
      // With the count behind it, or behind what is in order.
      bool counts =
          peer.ring.size() > 1 && peer.ring.at(1).kind == Operation::Kind::Signal && peer.ring.at(1).rank == next.rank;
      if (counts && (isOrdered || way.underWay == 0))
        return 2 * posted(::fi_inject_writedata(ownEndpoint.get(), next.inlined.data(), next.bytes,
                                                dataOf(peer.ring.at(1)), way.address, address, segment.key),
                          peer);
      if (counts)
        return 0;
      if (isOrdered)
        return posted(
            ::fi_inject_write(ownEndpoint.get(), next.inlined.data(), next.bytes, way.address, address, segment.key),
            peer);
    }
    return postWrite(peer, next, address, segment.key);
  }

  size_t postWrite(Peer &peer, const Operation &next, uint64_t address, uint64_t key) {
    if (free.empty())
      return 0;
    Context &context = *free.back();
    context.peer = peer.number;
    context.taken = next.taken;
    const std::byte *from = next.from;
    uint64_t descriptor = next.sourceKey;
    if (next.kind == Operation::Kind::Put) {
      context.inlined = next.inlined;
      from = context.inlined.data();
      Result<uint64_t> own = sourceKey(context.inlined);
      if (!own) {
        fail(&peer, std::string(own.status().message()));
        return 0;
      }
      descriptor = *own;
    }
    auto *description = reinterpret_cast<void *>(descriptor);
    iovec source{const_cast<std::byte *>(from), next.bytes};
    fi_rma_iov target{address, next.bytes, key};
    fi_msg_rma message{};
    message.msg_iov = &source;
    message.desc = wantsLocal ? &description : nullptr;
    message.iov_count = 1;
    message.addr = ways[peer.number].address;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.context = &context;
    size_t count = posted(
        ::fi_writemsg(ownEndpoint.get(), &message, FI_COMPLETION | (isOrdered ? 0 : FI_DELIVERY_COMPLETE)), peer);
    if (count == 0)
      return 0;
    free.pop_back();
    ++ways[peer.number].underWay;
    ++underWay;
    return 1;
  }

  size_t posted(ssize_t outcome, const Peer &peer) {
    if (outcome >= 0)
      return 1;
    if (outcome != -FI_EAGAIN)
      fail(&peer, functions.strerror(static_cast<int>(-outcome)));
    return 0;
  }

  /// Whether anything had arrived or left.
  bool collect() override {
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
        arrived(std::array{static_cast<uint32_t>(entries[i].data)});
      else if (entries[i].op_context)
        left(*static_cast<Context *>(entries[i].op_context));
    }
    return count > 0;
  }

  void left(Context &context) {
    if (context.taken)
      transport::signal(*context.taken, 1);
    --ways[context.peer].underWay;
    --underWay;
    free.push_back(&context);
  }

  void failedCompletion(ssize_t outcome) {
    fi_cq_err_entry error{};
    if (outcome != -FI_EAVAIL || ::fi_cq_readerr(completions.get(), &error, 0) < 0)
      return fail(nullptr, functions.strerror(static_cast<int>(-outcome)));
    auto *context = static_cast<Context *>(error.op_context);
    fail(context ? peers[context->peer].get() : nullptr, functions.strerror(error.err));
  }

  struct Way {
    fi_addr_t address = FI_ADDR_UNSPEC;
    uint64_t underWay = 0; ///< Writes.
  };

  const LibfabricOptions options;
  const LibfabricFunctions &functions;

  fi_info *info = nullptr;
  bool isOrdered = true;
  bool wantsLocal = false; ///< What is written from must be registered, too.
  bool hasInternetAddress = true;
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  Owned<fid_av> addresses;
  Owned<fid_cq> completions;
  Owned<fid_ep> ownEndpoint;
  Sources<Owned<fid_mr>> sources;
  std::vector<uint64_t> segmentKeys; ///< By rank that is here.
  uint64_t registered = 0;           ///< Numbers keys, where the provider does not.
  std::vector<Way> ways;             ///< By peer.
  int waitDescriptor = -1;
  std::vector<Context> contexts;
  std::vector<Context *> free;
};

} // namespace

Result<std::unique_ptr<Network>> openLibfabric(const Segments &segments, const LibfabricOptions &options,
                                               const Abort &abort) {
  MAESTRO_ASSIGN(const LibfabricFunctions *functions, loadLibfabric());
  auto fabric = std::make_unique<Implementation>(segments, options, abort, *functions);
  MAESTRO_TRY(fabric->open());
  return std::unique_ptr<Network>(std::move(fabric));
}

} // namespace maestro::transport

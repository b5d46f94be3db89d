#include "test/transport/fake_verbs/nic.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <random>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace maestro::fake_verbs {
namespace {

constexpr int kGone = -2; ///< In place of a descriptor.
constexpr int kFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

/// Without a name in the file system.
sockaddr_un nameOf(uint32_t number, socklen_t &bytes) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  int length = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "maestro-fake-verbs-%u", number);
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  return name;
}

} // namespace

void complain(const char *text) {
  std::fprintf(stderr, "fake RDMA port: %s\n", text);
  std::fflush(stderr);
  std::abort();
}

// ---- what is told

void Completions::add(const ibv_wc &end) {
  std::lock_guard lock(mutex);
  ends.push_back(end);
  if (std::exchange(isArmed, false)) {
    uint64_t one = 1;
    (void)!::write(notices, &one, sizeof one);
  }
}

int Completions::take(int most, ibv_wc *into) {
  std::lock_guard lock(mutex);
  int count = 0;
  for (; count < most && !ends.empty(); ends.pop_front())
    into[count++] = ends.front();
  return count;
}

void Completions::arm() {
  std::lock_guard lock(mutex);
  isArmed = true;
}

void Receives::add(uint64_t id) {
  std::lock_guard lock(mutex);
  ids.push_back(id);
}

bool Receives::take(uint64_t &id) {
  std::lock_guard lock(mutex);
  if (ids.empty())
    return false;
  id = ids.front();
  ids.pop_front();
  return true;
}

// ---- a pair

Pair::Pair(Completions &completions, Receives &receives) : ibv_qp(), completions(completions), receives(receives) {
  listening = ::socket(AF_UNIX, kFlags, 0);
  socklen_t bytes;
  sockaddr_un name;
  do {
    qp_num = std::random_device()() & 0xffffff;
    name = nameOf(qp_num, bytes);
  } while (::bind(listening, reinterpret_cast<sockaddr *>(&name), bytes) != 0 && errno == EADDRINUSE);
  if (::listen(listening, 1) != 0)
    complain("a queue pair cannot listen");
}

Pair::~Pair() {
  for (int descriptor : {listening, in, out})
    if (descriptor >= 0)
      ::close(descriptor);
}

int Pair::connect(uint32_t number) {
  std::lock_guard lock(Nic::get().lock());
  socklen_t bytes;
  sockaddr_un name = nameOf(number, bytes);
  out = ::socket(AF_UNIX, kFlags, 0);
  return ::connect(out, reinterpret_cast<sockaddr *>(&name), bytes) == 0 ? 0 : errno;
}

void Pair::push(const ibv_send_wr &work) {
  Work own;
  own.id = work.wr_id;
  own.isSignaled = (work.send_flags & IBV_SEND_SIGNALED) != 0;
  own.isInline = (work.send_flags & IBV_SEND_INLINE) != 0;
  own.header.address = work.wr.rdma.remote_addr;
  own.header.key = work.wr.rdma.rkey;
  own.header.hasCount = work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  own.header.count = own.header.hasCount ? work.imm_data : 0;
  if (work.num_sge > 0) {
    own.header.bytes = work.sg_list->length;
    own.from = work.sg_list->addr;
    own.sourceKey = work.sg_list->lkey;
    auto *bytes = reinterpret_cast<const std::byte *>(own.from);
    if (own.isInline)
      own.inlined.assign(bytes, bytes + own.header.bytes);
  }
  std::lock_guard lock(Nic::get().lock());
  works.push_back(std::move(own));
}

void Pair::breakOff() {
  std::lock_guard lock(Nic::get().lock());
  isBroken = true;
}

void Pair::end(const Work &work, ibv_wc_status status) {
  if (!work.isSignaled && status == IBV_WC_SUCCESS)
    return;
  ibv_wc end{};
  end.wr_id = work.id;
  end.status = status;
  completions.add(end);
}

/// Whether anything moved.
bool Pair::send() {
  bool any = false;
  while (!works.empty()) {
    Work &work = works.front();
    if (!isBroken && leaving.empty()) {
      auto *header = reinterpret_cast<const std::byte *>(&work.header);
      leaving.assign(header, header + sizeof work.header);
      leaving.insert(leaving.end(), work.inlined.begin(), work.inlined.end());
      if (!work.isInline && work.header.bytes > 0) {
        const Region *region = Nic::get().find(work.sourceKey, work.from, work.header.bytes);
        if (!region)
          complain("a write from memory that its key does not have");
        leaving.resize(sizeof work.header + work.header.bytes);
        Nic::get().read(leaving.data() + sizeof work.header, region->memory + (work.from - region->address),
                        work.header.bytes);
      }
      left = 0;
    }
    ssize_t sent = isBroken ? -1 : ::send(out, leaving.data() + left, leaving.size() - left, MSG_NOSIGNAL);
    if (sent < 0 && !isBroken && errno == EAGAIN)
      return any;
    any = true;
    left += sent > 0 ? static_cast<size_t>(sent) : 0;
    if (sent >= 0 && left < leaving.size())
      continue;
    end(work, sent >= 0 ? IBV_WC_SUCCESS : std::exchange(isBroken, true) ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
    leaving.clear();
    works.pop_front();
  }
  return any;
}

bool Pair::receive() {
  if (in < 0 && in != kGone)
    in = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (in < 0)
    return false;
  bool any = deliver();
  constexpr size_t kMost = 4 << 20;
  std::span<std::byte> buffer = Nic::get().buffer();
  while (arriving.size() < kMost) {
    ssize_t got = ::recv(in, buffer.data(), buffer.size(), 0);
    if (got > 0)
      arriving.insert(arriving.end(), buffer.begin(), buffer.begin() + got);
    if (got == 0) {
      ::close(in);
      in = kGone;
    }
    if (got <= 0)
      break;
    any |= deliver();
  }
  return any;
}

/// What is whole goes to its place.
bool Pair::deliver() {
  size_t done = 0;
  while (arriving.size() - done >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, arriving.data() + done, sizeof header);
    if (arriving.size() - done < sizeof header + header.bytes)
      break;
    uint64_t id = 0;
    if (header.hasCount && !receives.take(id)) // The sender tries again.
      break;
    const std::byte *payload = arriving.data() + done + sizeof header;
    const Region *region = Nic::get().find(header.key, header.address, header.bytes);
    if (!region && Nic::get().isForgotten(header.key)) // As a remote access error: the other side's pair ends.
      isBroken = true;
    if (header.bytes > 0 && !isBroken) {
      if (!region || !region->isWritable)
        complain("a write to memory that its key does not let others write");
      Nic::get().write(region->memory + (header.address - region->address), payload, header.bytes);
    }
    if (header.hasCount) {
      ibv_wc end{};
      end.wr_id = id;
      end.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
      end.imm_data = header.count;
      completions.add(end);
    }
    done += sizeof header + header.bytes;
  }
  arriving.erase(arriving.begin(), arriving.begin() + static_cast<std::ptrdiff_t>(done));
  return done > 0;
}

// ---- the thread

Nic &Nic::get() {
  static auto *nic = new Nic; // Outlives every thread.
  return *nic;
}

Nic::Nic() : waking(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC)) {
  lastKey = std::random_device()() & 0xffffff;
  std::thread([this] { serve(); }).detach();
}

void Nic::wake() {
  uint64_t one = 1;
  (void)!::write(waking, &one, sizeof one);
}

void Nic::read(std::byte *to, const std::byte *from, size_t bytes) const {
  if (::pread(memory, to, bytes, static_cast<off_t>(reinterpret_cast<uintptr_t>(from))) != static_cast<ssize_t>(bytes))
    complain("memory that is registered cannot be read");
}
void Nic::write(std::byte *to, const std::byte *from, size_t bytes) const {
  if (::pwrite(memory, from, bytes, static_cast<off_t>(reinterpret_cast<uintptr_t>(to))) != static_cast<ssize_t>(bytes))
    complain("memory that is registered cannot be written");
}

void Nic::add(Pair &pair) {
  std::lock_guard lock(mutex);
  pairs.push_back(&pair);
}
void Nic::remove(Pair &pair) {
  std::lock_guard lock(mutex);
  std::erase(pairs, &pair);
}

Region *Nic::add(Region &&region) {
  std::lock_guard lock(mutex);
  auto own = std::make_unique<Region>(std::move(region));
  own->lkey = own->rkey = ++lastKey;
  return (regions[lastKey] = std::move(own)).get();
}
void Nic::remove(Region *region) {
  std::lock_guard lock(mutex);
  forgotten.insert(region->rkey);
  if (region->isMapped)
    ::munmap(region->memory, region->bytes);
  regions.erase(region->rkey);
}

const Region *Nic::find(uint32_t key, uint64_t address, uint64_t bytes) const {
  auto found = regions.find(key);
  if (found == regions.end())
    return nullptr;
  const Region &region = *found->second;
  bool isInside =
      address >= region.address && bytes <= region.bytes && address - region.address <= region.bytes - bytes;
  return isInside ? &region : nullptr;
}

void Nic::serve() {
  while (true) {
    std::vector<pollfd> descriptors{{waking, POLLIN, 0}};
    {
      std::lock_guard lock(mutex);
      bool any = false;
      for (Pair *pair : pairs) {
        any |= pair->receive();
        any |= pair->send();
      }
      if (any)
        continue;
      for (Pair *pair : pairs) {
        if (pair->in != kGone)
          descriptors.push_back({pair->in < 0 ? pair->listening : pair->in, POLLIN, 0});
        if (!pair->works.empty())
          descriptors.push_back({pair->out, POLLOUT, 0});
      }
    }
    (void)::poll(descriptors.data(), descriptors.size(), -1);
    uint64_t count;
    (void)!::read(waking, &count, sizeof count);
    std::this_thread::sleep_for(std::chrono::microseconds(20)); // Late, as networks are.
  }
}

} // namespace maestro::fake_verbs

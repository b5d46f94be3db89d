// libibverbs.so.1 of our own: one RDMA port at 127.0.0.1, between processes and threads of this machine. What verbs
// promise holds, and no more: a queue pair keeps its order, sources are read late, counts come behind what they count,
// and a peer that is gone is an error of the next write. A write to memory whose key does not allow it ends the process
// that is written to.
//
//   post_send ─▶ the pair's list ─▶ this process's NIC (a thread) ═ a socket a pair ═▶ the other's NIC ─▶ memory
//                                    └▶ completion                                      └▶ completion of a count
#include "test/transport/fake_verbs/nic.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace maestro::fake_verbs;

namespace {

constexpr int kMostEntries = 1 << 16;

struct Device {
  ibv_device device{};
} device;

struct Context {
  verbs_context extended{};
};

int queryPort(ibv_context *, uint8_t, ibv_port_attr *attributes, size_t) {
  attributes->state = IBV_PORT_ACTIVE;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->max_msg_sz = 1 << 20; // Longer writes are several.
  attributes->gid_tbl_len = 1;
  return 0;
}

int pollCompletions(ibv_cq *queue, int most, ibv_wc *ends) {
  return static_cast<Completions *>(queue)->take(most, ends);
}
int askForNotice(ibv_cq *queue, int) {
  static_cast<Completions *>(queue)->arm();
  return 0;
}
int postReceives(ibv_srq *queue, ibv_recv_wr *work, ibv_recv_wr **) {
  for (; work; work = work->next)
    static_cast<Receives *>(queue)->add(work->wr_id);
  Nic::get().wake();
  return 0;
}
int postSends(ibv_qp *pair, ibv_send_wr *work, ibv_send_wr **) {
  for (; work; work = work->next)
    static_cast<Pair *>(pair)->push(*work);
  Nic::get().wake();
  return 0;
}

uint64_t mostDmaBufs() {
  const char *text = std::getenv("MAESTRO_FAKE_VERBS_DMABUFS");
  return text ? std::strtoull(text, nullptr, 10) : 0;
}

/// Of the host's; a process may lock no more.
uint64_t mostLocked() {
  const char *text = std::getenv("MAESTRO_FAKE_VERBS_LOCKED");
  return text ? std::strtoull(text, nullptr, 10) : UINT64_MAX;
}

ibv_mr *add(ibv_pd *domain, Region &&region) {
  region.context = domain->context;
  region.pd = domain;
  return Nic::get().add(std::move(region));
}

} // namespace

extern "C" {

ibv_device **ibv_get_device_list(int *count) {
  *count = 1;
  return new ibv_device *[2] { &device.device, nullptr };
}
void ibv_free_device_list(ibv_device **list) { delete[] list; }
const char *ibv_get_device_name(ibv_device *) { return "fake0"; }

ibv_context *ibv_open_device(ibv_device *opened) {
  auto *own = new Context;
  verbs_context &extended = own->extended;
  extended.sz = sizeof extended;
  extended.query_port = queryPort;
  ibv_context &context = extended.context;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.device = opened;
  context.async_fd = ::eventfd(0, EFD_CLOEXEC);
  context.ops.poll_cq = pollCompletions;
  context.ops.req_notify_cq = askForNotice;
  context.ops.post_srq_recv = postReceives;
  context.ops.post_send = postSends;
  return &context;
}
int ibv_close_device(ibv_context *context) {
  ::close(context->async_fd);
  delete reinterpret_cast<Context *>(reinterpret_cast<char *>(context) - offsetof(verbs_context, context));
  return 0;
}
int ibv_query_device(ibv_context *, ibv_device_attr *attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_cqe = kMostEntries;
  attributes->max_srq_wr = kMostEntries;
  return 0;
}
int _ibv_query_gid_ex(ibv_context *, uint32_t, uint32_t, ibv_gid_entry *entry, uint32_t, size_t) {
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  entry->gid = {};
  entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
  in_addr_t loopback = ::htonl(INADDR_LOOPBACK);
  std::memcpy(entry->gid.raw + 12, &loopback, sizeof loopback);
  return 0;
}

ibv_pd *ibv_alloc_pd(ibv_context *context) { return new ibv_pd{context, 0}; }
int ibv_dealloc_pd(ibv_pd *domain) {
  delete domain;
  return 0;
}

ibv_mr *ibv_reg_mr_iova2(ibv_pd *domain, void *memory, size_t bytes, uint64_t address, unsigned access) {
  static uint64_t locked = 0;
  if (locked + bytes > mostLocked()) {
    errno = ENOMEM;
    return nullptr;
  }
  locked += bytes;
  Region region;
  region.memory = static_cast<std::byte *>(memory);
  region.bytes = bytes;
  region.address = address;
  region.isWritable = (access & IBV_ACCESS_REMOTE_WRITE) != 0;
  return add(domain, std::move(region));
}
ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *domain, uint64_t offset, size_t bytes, uint64_t address, int descriptor, int access) {
  static uint64_t taken = 0;
  if (mostDmaBufs() == 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  off_t position = ::lseek(descriptor, 0, SEEK_CUR); // Where the fake CUDA driver's memory begins in its file.
  if (position < 0)
    return nullptr;
  if (taken >= mostDmaBufs()) {
    errno = ENOMEM;
    return nullptr;
  }
  void *memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, position + static_cast<off_t>(offset));
  if (memory == MAP_FAILED)
    return nullptr;
  ++taken;
  Region region;
  region.memory = static_cast<std::byte *>(memory);
  region.bytes = bytes;
  region.address = address;
  region.isWritable = (access & IBV_ACCESS_REMOTE_WRITE) != 0;
  region.isMapped = true;
  return add(domain, std::move(region));
}
int ibv_dereg_mr(ibv_mr *region) {
  Nic::get().remove(static_cast<Region *>(region));
  return 0;
}

ibv_comp_channel *ibv_create_comp_channel(ibv_context *context) {
  auto *channel = new ibv_comp_channel{};
  channel->context = context;
  channel->fd = ::eventfd(0, EFD_CLOEXEC);
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel *channel) {
  ::close(channel->fd);
  delete channel;
  return 0;
}
ibv_cq *ibv_create_cq(ibv_context *context, int, void *, ibv_comp_channel *channel, int) {
  auto *queue = new Completions(channel->fd);
  queue->context = context;
  queue->channel = channel;
  return queue;
}
int ibv_destroy_cq(ibv_cq *queue) {
  delete static_cast<Completions *>(queue);
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **, void **) {
  uint64_t count;
  return ::read(channel->fd, &count, sizeof count) == sizeof count ? 0 : -1;
}
void ibv_ack_cq_events(ibv_cq *, unsigned) {}
int ibv_get_async_event(ibv_context *, ibv_async_event *) { return -1; }
void ibv_ack_async_event(ibv_async_event *) {}
const char *ibv_event_type_str(ibv_event_type) { return "an event"; }
const char *ibv_wc_status_str(ibv_wc_status status) {
  return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "Work Request Flushed Error";
}

ibv_srq *ibv_create_srq(ibv_pd *domain, ibv_srq_init_attr *) {
  auto *queue = new Receives;
  queue->context = domain->context;
  return queue;
}
int ibv_destroy_srq(ibv_srq *queue) {
  delete static_cast<Receives *>(queue);
  return 0;
}
ibv_qp *ibv_create_qp(ibv_pd *domain, ibv_qp_init_attr *attributes) {
  auto *pair = new Pair(static_cast<Completions &>(*attributes->send_cq), static_cast<Receives &>(*attributes->srq));
  pair->context = domain->context;
  Nic::get().add(*pair);
  return pair;
}
int ibv_modify_qp(ibv_qp *pair, ibv_qp_attr *attributes, int) {
  auto *own = static_cast<Pair *>(pair);
  if (attributes->qp_state == IBV_QPS_RTR)
    return own->connect(attributes->dest_qp_num);
  if (attributes->qp_state == IBV_QPS_ERR)
    own->breakOff();
  Nic::get().wake();
  return 0;
}
int ibv_destroy_qp(ibv_qp *pair) {
  Nic::get().remove(static_cast<Pair &>(*pair));
  delete static_cast<Pair *>(pair);
  return 0;
}

} // extern "C"

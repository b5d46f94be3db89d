#include "transport/verbs/queue_pair.h"

#include "transport/fabric.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>

namespace maestro::transport {
namespace {

// A peer that does not answer is given up after about 4.096 us · 2^18 · 7 = 7.5 s, later than by the control
// connection, which knows better why. Soft-RoCE takes seven retries for "without end".
constexpr uint8_t kTimeout = 18, kRetries = 6;
// One that has no receives is asked again after 0.64 ms, without end: it may be stopped, which the control connection
// sees.
constexpr uint8_t kReceiverTimer = 12, kReceiverRetries = 7;

Status failed(const char *what, int error) { return Status::unavailable(std::string(what) + std::strerror(error)); }

} // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(const VerbsFunctions &functions, const VerbsPort &port,
                                                     const Shared &shared, RankRange ranks) {
  auto queue = std::make_unique<QueuePair>();
  queue->ranks = ranks;
  queue->firstPacket = std::random_device()() & kMost24Bits;
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = attributes.recv_cq = shared.completions;
  attributes.srq = shared.receives;
  attributes.cap.max_send_wr = kDepth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = Fabric::kMostPutBytes;
  queue->pair = Owned<ibv_qp>(functions.createQueue(shared.domain, &attributes), functions.destroyQueue);
  if (!queue->pair)
    return failed("a queue pair of 256 writes, 64 bytes inline: ", errno);
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = port.number;
  state.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (int error = functions.modifyQueue(queue->pair.get(), &state,
                                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    return failed("preparing a queue pair: ", error);
  return queue;
}

Status QueuePair::connect(const VerbsFunctions &functions, const VerbsPort &port, const VerbsEndpoint &theirs,
                          const VerbsEndpoint::Queue &other) {
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_RTR;
  state.path_mtu = std::min(port.mtu, static_cast<ibv_mtu>(theirs.mtu));
  state.dest_qp_num = other.number;
  state.rq_psn = other.firstPacket;
  state.min_rnr_timer = kReceiverTimer;
  state.max_dest_rd_atomic = 1; // None come; not all devices take 0.
  state.ah_attr.port_num = port.number;
  state.ah_attr.dlid = theirs.lid;
  ibv_gid gid;
  std::memcpy(gid.raw, theirs.gid.data(), theirs.gid.size());
  if (port.isEthernet || gid.global.subnet_prefix != port.gid.global.subnet_prefix) {
    state.ah_attr.is_global = 1;
    state.ah_attr.grh.dgid = gid;
    state.ah_attr.grh.sgid_index = port.gidIndex;
    state.ah_attr.grh.hop_limit = 64;
  }
  if (int error = functions.modifyQueue(pair.get(), &state,
                                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return failed("", error);
  state = {};
  state.qp_state = IBV_QPS_RTS;
  state.sq_psn = firstPacket;
  state.timeout = kTimeout;
  state.retry_cnt = kRetries;
  state.rnr_retry = kReceiverRetries;
  state.max_rd_atomic = 1;
  if (int error = functions.modifyQueue(pair.get(), &state,
                                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
    return failed("", error);
  return Status();
}

void QueuePair::breakOff(const VerbsFunctions &functions) {
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_ERR;
  (void)functions.modifyQueue(pair.get(), &state, IBV_QP_STATE);
}

} // namespace maestro::transport

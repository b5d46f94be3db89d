#include "transport/verbs/statuses.h"

namespace maestro::transport {

const char *meaningOf(ibv_wc_status status) {
  switch (status) {
  case IBV_WC_RETRY_EXC_ERR:
    return "no answer: the process or its machine is gone, or the network between them loses packets; look at the "
           "cable "
           "and the switch (RoCE: lossless classes or ECN, the MTU on the whole way, a firewall that stops UDP port "
           "4791)";
  case IBV_WC_RNR_RETRY_EXC_ERR:
    return "it has no receives left, and takes none up: that process stands still";
  case IBV_WC_REM_ACCESS_ERR:
    return "it refuses the address or the key: its memory is registered no more, or this is an error of Maestro's";
  case IBV_WC_REM_INV_REQ_ERR:
    return "it refuses the request: packets were lost or reordered beyond what the device repairs";
  case IBV_WC_REM_OP_ERR:
    return "its device failed; look at that machine's kernel log";
  case IBV_WC_LOC_QP_OP_ERR:
    return "this machine's port failed: is its link up?";
  case IBV_WC_LOC_PROT_ERR:
    return "this process's memory is not registered: an error of Maestro's";
  case IBV_WC_WR_FLUSH_ERR:
    return "the connection had broken before; the other process says why";
  case IBV_WC_FATAL_ERR:
    return "this machine's device failed; look at the kernel log";
  default:
    return "see the kernel log of both machines";
  }
}

} // namespace maestro::transport

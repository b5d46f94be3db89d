// rdma-core's libibverbs, loaded when it is needed: maestro-run starts where it is not installed.
#pragma once

#include "base/status.h"

#include <infiniband/verbs.h>

namespace maestro::transport {

/// What is not reached through an object's own table of operations, as poll and post are.
struct VerbsFunctions {
  decltype(&::ibv_get_device_list) getDeviceList;
  decltype(&::ibv_free_device_list) freeDeviceList;
  decltype(&::ibv_get_device_name) getDeviceName;
  decltype(&::ibv_open_device) openDevice;
  decltype(&::ibv_close_device) closeDevice;
  decltype(&::ibv_query_device) queryDevice;
  decltype(&::_ibv_query_gid_ex) queryGid;
  decltype(&::ibv_alloc_pd) allocDomain;
  decltype(&::ibv_dealloc_pd) deallocDomain;
  decltype(&::ibv_reg_mr_iova2) registerMemory;
  decltype(&::ibv_reg_dmabuf_mr) registerDmaBuf; ///< Null in libraries before rdma-core 34.
  decltype(&::ibv_dereg_mr) deregisterMemory;
  decltype(&::ibv_create_comp_channel) createChannel;
  decltype(&::ibv_destroy_comp_channel) destroyChannel;
  decltype(&::ibv_create_cq) createCompletions;
  decltype(&::ibv_destroy_cq) destroyCompletions;
  decltype(&::ibv_get_cq_event) getEvent;
  decltype(&::ibv_ack_cq_events) acknowledgeEvents;
  decltype(&::ibv_get_async_event) getAsyncEvent;
  decltype(&::ibv_ack_async_event) acknowledgeAsyncEvent;
  decltype(&::ibv_event_type_str) eventText;
  decltype(&::ibv_create_srq) createReceives;
  decltype(&::ibv_destroy_srq) destroyReceives;
  decltype(&::ibv_create_qp) createQueue;
  decltype(&::ibv_modify_qp) modifyQueue;
  decltype(&::ibv_destroy_qp) destroyQueue;
  decltype(&::ibv_wc_status_str) statusText;
};

/// The library, loaded once for the process. Unavailable, with what to install, where there is none.
Result<const VerbsFunctions *> loadVerbs();

} // namespace maestro::transport

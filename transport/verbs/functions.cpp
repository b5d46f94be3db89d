#include "transport/verbs/functions.h"

#include "base/loaded_library.h"

#include <type_traits>

namespace maestro::transport {
namespace {

constexpr const char *kLibrary = "libibverbs.so.1";

Result<VerbsFunctions> load() {
  LoadedLibrary library{kLibrary};
  if (!library)
    return Status::unavailable(std::string(kLibrary) + " cannot be loaded (" + library.failure() +
                               "); on Debian: apt-get install libibverbs1 ibverbs-providers");
  VerbsFunctions table{};
  auto find = [&](auto &function, const char *name, const char *version = "IBVERBS_1.1") {
    library.find(function, name, version);
  };
  find(table.getDeviceList, "ibv_get_device_list");
  find(table.freeDeviceList, "ibv_free_device_list");
  find(table.getDeviceName, "ibv_get_device_name");
  find(table.openDevice, "ibv_open_device");
  find(table.closeDevice, "ibv_close_device");
  find(table.queryDevice, "ibv_query_device");
  find(table.queryGid, "_ibv_query_gid_ex", "IBVERBS_1.11");
  find(table.allocDomain, "ibv_alloc_pd");
  find(table.deallocDomain, "ibv_dealloc_pd");
  find(table.registerMemory, "ibv_reg_mr_iova2", "IBVERBS_1.8");
  find(table.deregisterMemory, "ibv_dereg_mr");
  find(table.createChannel, "ibv_create_comp_channel", "IBVERBS_1.0");
  find(table.destroyChannel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
  find(table.createCompletions, "ibv_create_cq");
  find(table.destroyCompletions, "ibv_destroy_cq");
  find(table.getEvent, "ibv_get_cq_event");
  find(table.acknowledgeEvents, "ibv_ack_cq_events");
  find(table.getAsyncEvent, "ibv_get_async_event");
  find(table.acknowledgeAsyncEvent, "ibv_ack_async_event");
  find(table.eventText, "ibv_event_type_str");
  find(table.createReceives, "ibv_create_srq");
  find(table.destroyReceives, "ibv_destroy_srq");
  find(table.createQueue, "ibv_create_qp");
  find(table.modifyQueue, "ibv_modify_qp");
  find(table.destroyQueue, "ibv_destroy_qp");
  find(table.statusText, "ibv_wc_status_str");
  if (!library.missing().empty())
    return Status::unavailable(std::string(kLibrary) + " lacks " + library.missing() +
                               "; rdma-core 32 or newer is needed");
  find(table.registerDmaBuf, "ibv_reg_dmabuf_mr", "IBVERBS_1.12"); // Who needs it looks whether it is there.
  return table;
}

} // namespace

Result<const VerbsFunctions *> loadVerbs() {
  static const Result<VerbsFunctions> table = load();
  return pointerTo(table);
}

} // namespace maestro::transport

// NCCL as a table of functions, loaded by name as the driver is (driver.h). Its types are declared here: they are the
// library's ABI, which has kept them since long before kMinVersion, and no header has to be there when this is built.
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct CUstream_st;

namespace maestro::cuda {

struct NcclCommunicator; ///< ncclComm_t is a pointer to one.
struct NcclWindow;       ///< ncclWindow_t is a pointer to one.

struct NcclUniqueId {
  char bytes[128];
};

/// Of the version of kMinVersion, which newer ones take.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0; ///< Calls return at once, and their results are asked for.
};

/// ncclCommProperties_t of Nccl::kPuts.
struct NcclProperties {
  size_t size = sizeof(NcclProperties);
  unsigned magic = 0xcafebeef, version = 23007;
  int rank = 0, ranks = 0, device = 0, nvmlDevice = 0;
  bool hasDeviceApi = false, hasMultimem = false;
  int ginType = 0, lsaTeams = 0;
  bool canPut = false; ///< hostRmaSupport
  int railedGinType = 0;
};

/// ncclWaitSignalDesc_t
struct NcclSignals {
  int count = 0, peer = 0, signal = 0, context = 0;
};

enum class NcclResult : int { Success = 0, InProgress = 7 };

struct Nccl {
  static constexpr int kMinVersion = 21400; ///< 2.14: communicators that can be given up while they are at work.
  static constexpr int kPuts = 23007;       ///< 2.30.7: one-sided puts to windows that differ in size.
  static constexpr int kPutsDriver = 12050; ///< 12.5, where puts are ("One-sided RMA requires CUDA driver 12.5").
  static constexpr int kUint8 = 1;          ///< ncclUint8, the type of all that is moved.
  static constexpr int kSymmetric = 1;      ///< NCCL_WIN_COLL_SYMMETRIC: both sides register theirs at a time.

  NcclResult (*ncclGetVersion)(int *version);
  NcclResult (*ncclGetUniqueId)(NcclUniqueId *id);
  const char *(*ncclGetErrorString)(NcclResult result);
  const char *(*ncclGetLastError)(NcclCommunicator *communicator);
  NcclResult (*ncclCommInitRankConfig)(NcclCommunicator **communicator, int ranks, NcclUniqueId id, int rank,
                                       NcclConfig *config);
  NcclResult (*ncclCommDestroy)(NcclCommunicator *communicator);
  NcclResult (*ncclCommAbort)(NcclCommunicator *communicator);
  NcclResult (*ncclCommGetAsyncError)(NcclCommunicator *communicator, NcclResult *result);
  NcclResult (*ncclSend)(const void *from, size_t count, int type, int peer, NcclCommunicator *communicator,
                         CUstream_st *stream);
  NcclResult (*ncclRecv)(void *to, size_t count, int type, int peer, NcclCommunicator *communicator,
                         CUstream_st *stream);

  // Null before kPuts.
  NcclResult (*ncclCommQueryProperties)(NcclCommunicator *communicator, NcclProperties *properties);
  NcclResult (*ncclCommWindowRegister)(NcclCommunicator *communicator, void *memory, size_t bytes, NcclWindow **window,
                                       int flags);
  NcclResult (*ncclCommWindowDeregister)(NcclCommunicator *communicator, NcclWindow *window);
  NcclResult (*ncclPutSignal)(const void *from, size_t count, int type, int peer, NcclWindow *window, size_t offset,
                              int signal, int context, unsigned flags, NcclCommunicator *communicator,
                              CUstream_st *stream);
  NcclResult (*ncclWaitSignal)(int count, NcclSignals *signals, NcclCommunicator *communicator, CUstream_st *stream);

  int version; ///< 10000 × major + 100 × minor + patch.
  bool hasPuts() const { return version >= kPuts; }

  /// Ok, or "FUNCTION: what the library says (its last words)", as Unavailable.
  Status check(NcclResult result, std::string_view function, NcclCommunicator *communicator = nullptr) const;
};

/// "2.28.9" for 22809.
std::string ncclVersionText(int version);

/// The library, loaded once for the process. Unavailable, with library, version wanted and found, and the remedy.
Result<const Nccl *> loadNccl();

} // namespace maestro::cuda

/// MAESTRO_NCCL_TRY(library, ncclGetUniqueId, &id);
#define MAESTRO_NCCL_TRY(library, function, ...)                                                                       \
  MAESTRO_TRY((library).check((library).function(__VA_ARGS__), #function))

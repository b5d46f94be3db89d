// NCCL's own functions, between two ranks that are threads or processes of one machine: sends and receives that meet on
// streams of the fake driver. What the library forbids ends the process with a line that says who did what.
#include "cuda/nccl.h"

#include "test/cuda/fake/nccl_transfers.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>
#include <utility>

using namespace maestro::cuda::fake;
using maestro::cuda::NcclResult;
using maestro::cuda::NcclUniqueId;

namespace {

Meeting *meet(const char *name) {
  int file = ::shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Meeting)) != 0)
    return nullptr;
  void *memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Meeting *>(memory); // Of zeros.
}

std::atomic<int> communicators{0};

/// At exit.
__attribute__((destructor)) void checkLeftovers() {
  if (communicators > 0)
    complain("left at the end: " + std::to_string(communicators) + " communicators");
}

} // namespace

struct maestro::cuda::NcclCommunicator {
  std::shared_ptr<Shared> shared;
  std::string name;
  int rank = 0;
  bool sends = false, receives = false;
  uint64_t awaited = 0;       ///< Signals.
  std::shared_ptr<Wire> wire; ///< Null: nothing was put yet.
  /// The last one that was registered.
  struct Window {
    uint64_t number = 0; ///< 0: none so far.
    bool isLive = false;
    CUdeviceptr start = 0;
    uint64_t bytes = 0;
    int descriptor = -1;
    std::shared_ptr<Opened> other; ///< Null: not yet.
    NcclWindow **handle = nullptr; ///< Where the caller wants to find it.
  } window{};
};
struct maestro::cuda::NcclWindow {};

using maestro::cuda::NcclCommunicator;
using maestro::cuda::NcclProperties;
using maestro::cuda::NcclSignals;
using maestro::cuda::NcclWindow;

namespace {

/// Goes on with what both sides have to do for a window; true when they have.
bool openWindows(NcclCommunicator &communicator) {
  NcclCommunicator::Window &own = communicator.window;
  Meeting::Offer &mine = communicator.shared->meeting->offers[communicator.rank];
  Meeting::Offer &theirs = communicator.shared->meeting->offers[1 - communicator.rank];
  if (!own.handle || theirs.made < own.number)
    return !own.handle;
  if (!own.other) {
    std::string path = "/proc/" + std::to_string(theirs.process) + "/fd/" + std::to_string(theirs.descriptor);
    int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void *memory = file < 0 ? MAP_FAILED
                            : ::mmap(nullptr, theirs.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                                     static_cast<off_t>(theirs.offset));
    if (memory == MAP_FAILED)
      complain("ncclCommWindowRegister: " + path + " cannot be opened");
    ::close(file);
    own.other = std::make_shared<Opened>(static_cast<std::byte *>(memory), theirs.bytes);
    theirs.taken = own.number;
  }
  if (mine.taken < own.number)
    return false;
  ::close(std::exchange(own.descriptor, -1));
  *std::exchange(own.handle, nullptr) = reinterpret_cast<NcclWindow *>(own.number);
  return true;
}

NcclResult queue(const char *who, CUdeviceptr memory, size_t count, int type, int peer, NcclCommunicator *communicator,
                 CUstream stream, bool sends) {
  if (type != maestro::cuda::Nccl::kUint8 || peer != 1 - communicator->rank || !memory)
    return NcclResult{4};
  if (communicator->shared->meeting->joined < 2)
    complain(std::string(who) + " on a communicator that is not ready");
  (sends ? communicator->sends : communicator->receives) = true;
  if (communicator->sends && communicator->receives)
    complain(std::string(who) + ": the fake's communicators have one direction");
  maestroFakeCudaTransfer(who, stream, memory, count, std::make_shared<Message>(communicator->shared, count, sends));
  return NcclResult::Success;
}

void remove(NcclCommunicator *communicator) {
  --communicators;
  if (communicator->window.descriptor >= 0)
    ::close(communicator->window.descriptor);
  delete communicator;
}

} // namespace

extern "C" {

NcclResult ncclGetVersion(int *version) {
  const char *text = std::getenv("MAESTRO_FAKE_NCCL_VERSION");
  *version = text ? std::atoi(text) : 22809;
  return NcclResult::Success;
}
NcclResult ncclGetUniqueId(NcclUniqueId *id) {
  unsigned char key[16];
  if (::getrandom(key, sizeof key, 0) != sizeof key)
    return NcclResult{2};
  std::string name = "/maestro-fake-nccl-";
  for (unsigned char byte : key)
    name += "0123456789abcdef"[byte >> 4], name += "0123456789abcdef"[byte & 15];
  std::memset(id, 0, sizeof *id);
  std::copy(name.begin(), name.end(), id->bytes);
  return NcclResult::Success;
}
const char *ncclGetErrorString(NcclResult result) {
  constexpr const char *kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return kTexts[std::clamp(static_cast<int>(result), 0, 7)];
}
const char *ncclGetLastError(NcclCommunicator *) { return ""; }
NcclResult ncclCommInitRankConfig(NcclCommunicator **communicator, int ranks, NcclUniqueId id, int rank,
                                  maestro::cuda::NcclConfig *config) {
  if (ranks != 2 || rank < 0 || rank > 1 || config->magic != maestro::cuda::NcclConfig().magic || config->blocking != 0)
    return NcclResult{4};
  Meeting *meeting = meet(id.bytes);
  if (!meeting)
    return NcclResult{2};
  ++communicators;
  meeting->devices[rank] = maestroFakeCudaDevice("ncclCommInitRankConfig");
  *communicator = new NcclCommunicator{std::make_shared<Shared>(meeting), id.bytes, rank};
  if (++meeting->joined == 2)
    ::shm_unlink(id.bytes);
  return NcclResult::InProgress;
}
NcclResult ncclCommGetAsyncError(NcclCommunicator *communicator, NcclResult *result) {
  const Meeting &meeting = *communicator->shared->meeting;
  const char *several = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (meeting.joined == 2 && meeting.devices[0] == meeting.devices[1] && (!several || *several != '1')) {
    *result = NcclResult{5};
    return NcclResult::Success;
  }
  bool isSettled = meeting.joined == 2 && openWindows(*communicator);
  *result = meeting.isOver ? NcclResult{6} : isSettled ? NcclResult::Success : NcclResult::InProgress;
  return NcclResult::Success;
}
NcclResult ncclCommDestroy(NcclCommunicator *communicator) {
  if (communicator->window.isLive)
    complain("ncclCommDestroy of a communicator that has a window");
  remove(communicator);
  return NcclResult::Success;
}
NcclResult ncclCommAbort(NcclCommunicator *communicator) {
  if (communicator->shared->meeting->joined < 2)
    ::shm_unlink(communicator->name.c_str());
  communicator->shared->meeting->isOver = 1;
  remove(communicator);
  return NcclResult::Success;
}
NcclResult ncclSend(const void *from, size_t count, int type, int peer, NcclCommunicator *communicator,
                    CUstream stream) {
  return queue("ncclSend", reinterpret_cast<CUdeviceptr>(from), count, type, peer, communicator, stream, true);
}
NcclResult ncclRecv(void *to, size_t count, int type, int peer, NcclCommunicator *communicator, CUstream stream) {
  return queue("ncclRecv", reinterpret_cast<CUdeviceptr>(to), count, type, peer, communicator, stream, false);
}

NcclResult ncclCommQueryProperties(NcclCommunicator *communicator, NcclProperties *properties) {
  if (properties->magic != NcclProperties().magic || properties->version < 23007)
    return NcclResult{5};
  properties->rank = communicator->rank;
  properties->ranks = 2;
  properties->canPut = std::getenv("MAESTRO_FAKE_NCCL_NO_PUTS") == nullptr;
  return NcclResult::Success;
}
NcclResult ncclCommWindowRegister(NcclCommunicator *communicator, void *memory, size_t bytes, NcclWindow **window,
                                  int flags) {
  auto start = reinterpret_cast<CUdeviceptr>(memory);
  int descriptor = -1;
  size_t offset = 0;
  if (flags != maestro::cuda::Nccl::kSymmetric || start % 4096 != 0 || communicator->window.isLive)
    return NcclResult{4};
  if (!maestroFakeCudaOpen(start, bytes, &descriptor, &offset))
    complain("ncclCommWindowRegister of memory that is not one allocation which others can open");
  *window = nullptr;
  Meeting::Offer &offer = communicator->shared->meeting->offers[communicator->rank];
  offer.process = ::getpid();
  offer.descriptor = descriptor;
  offer.offset = offset;
  offer.bytes = bytes;
  communicator->window = {communicator->window.number + 1, true, start, bytes, descriptor, nullptr, window};
  ++offer.made;
  return NcclResult::InProgress;
}
NcclResult ncclCommWindowDeregister(NcclCommunicator *communicator, NcclWindow *window) {
  if (!communicator->window.isLive || window != reinterpret_cast<NcclWindow *>(communicator->window.number))
    complain("ncclCommWindowDeregister of what is no window");
  communicator->window.isLive = false;
  communicator->window.other.reset();
  return NcclResult::Success;
}
NcclResult ncclPutSignal(const void *from, size_t count, int type, int peer, NcclWindow *window, size_t offset,
                         int signal, int context, unsigned flags, NcclCommunicator *communicator, CUstream stream) {
  const NcclCommunicator::Window &own = communicator->window;
  auto start = reinterpret_cast<CUdeviceptr>(from);
  if (type != maestro::cuda::Nccl::kUint8 || peer != 1 - communicator->rank || signal != 0 || context != 0 ||
      flags != 0)
    return NcclResult{4};
  if (!own.isLive || !own.other || window != reinterpret_cast<NcclWindow *>(own.number))
    complain("ncclPutSignal to what is no window");
  if (start < own.start || start + count > own.start + own.bytes)
    complain("ncclPutSignal from memory outside the window");
  if (offset >= own.bytes || offset + count > own.other->bytes)
    complain("ncclPutSignal at " + std::to_string(offset) + " of windows of " + std::to_string(own.bytes) + " and " +
             std::to_string(own.other->bytes) + " bytes");
  if (!communicator->wire)
    communicator->wire = std::make_shared<Wire>(communicator->shared);
  maestroFakeCudaTransfer("ncclPutSignal", stream, start, count,
                          std::make_shared<Put>(communicator->shared, communicator->wire, own.other, offset, count));
  return NcclResult::Success;
}
NcclResult ncclWaitSignal(int count, NcclSignals *signals, NcclCommunicator *communicator, CUstream stream) {
  if (count != 1 || signals->count < 1 || signals->peer != 1 - communicator->rank || signals->signal != 0 ||
      signals->context != 0)
    return NcclResult{4};
  communicator->awaited += static_cast<uint64_t>(signals->count);
  maestroFakeCudaTransfer("ncclWaitSignal", stream, 0, 1,
                          std::make_shared<Signals>(communicator->shared, communicator->awaited));
  return NcclResult::Success;
}

} // extern "C"

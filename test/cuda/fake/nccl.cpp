// NCCL's own functions, between two ranks that are threads or processes of one machine: sends and receives that meet on
// streams of the fake driver. What the library forbids ends the process with a line that says who did what.
#include "cuda/nccl.h"

#include "test/cuda/fake/transfer.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

using maestro::cuda::NcclResult;
using maestro::cuda::NcclUniqueId;

namespace {

[[noreturn]] void complain(const std::string &text) {
  std::fprintf(stderr, "fake NCCL: %s\n", text.c_str());
  std::fflush(stderr);
  std::abort();
}

/// What the two share, in memory of the machine: bytes on their way, each message with its length in front.
struct Meeting {
  static constexpr size_t kRoom = 256 << 10;
  std::atomic<uint32_t> joined, isOver;
  std::atomic<CUdevice> devices[2];
  std::atomic<uint64_t> written, read;
  std::byte room[kRoom];
};

Meeting *meet(const char *name) {
  int file = ::shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Meeting)) != 0)
    return nullptr;
  void *memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Meeting *>(memory); // Of zeros.
}

struct Shared {
  explicit Shared(Meeting *meeting) : meeting(meeting) {}
  ~Shared() { ::munmap(meeting, sizeof(Meeting)); }
  Meeting *meeting;
};

/// One message. The receiver's expectation has to be what is sent.
class Message : public maestro::cuda::fake::Transfer {
public:
  Message(std::shared_ptr<Shared> with, uint64_t bytes, bool sends)
      : with(std::move(with)), meeting(*this->with->meeting), bytes(bytes), sends(sends) {}
  size_t ready() override {
    if (meeting.isOver.load() != 0)
      return kEnded;
    size_t there = sends ? Meeting::kRoom - (meeting.written - meeting.read) : meeting.written - meeting.read;
    if (!isBegun && there < sizeof bytes)
      return 0;
    if (!isBegun) {
      uint64_t length = bytes;
      pass(reinterpret_cast<std::byte *>(&length), sizeof length);
      if (length != bytes)
        complain("ncclRecv of " + std::to_string(bytes) + " bytes where " + std::to_string(length) + " are sent");
      isBegun = true;
      there -= sizeof length;
    }
    return there;
  }
  void move(std::byte *memory, size_t count) override { pass(memory, count); }

private:
  void pass(std::byte *memory, size_t count) {
    std::atomic<uint64_t> &mine = sends ? meeting.written : meeting.read;
    for (size_t at = 0; at < count;) {
      size_t place = (mine + at) % Meeting::kRoom, part = std::min(count - at, Meeting::kRoom - place);
      if (sends)
        std::memcpy(meeting.room + place, memory + at, part);
      else
        std::memcpy(memory + at, meeting.room + place, part);
      at += part;
    }
    mine += count;
  }
  std::shared_ptr<Shared> with;
  Meeting &meeting;
  const uint64_t bytes;
  const bool sends;
  bool isBegun = false;
};

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
};

using maestro::cuda::NcclCommunicator;

namespace {

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
  *result = meeting.isOver ? NcclResult{6} : meeting.joined < 2 ? NcclResult::InProgress : NcclResult::Success;
  return NcclResult::Success;
}
NcclResult ncclCommDestroy(NcclCommunicator *communicator) {
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

} // extern "C"

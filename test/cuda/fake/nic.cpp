// Loaded before everything else (LD_PRELOAD): gives Soft-RoCE, whose driver takes no dma-bufs, those of the fake CUDA
// driver. What maestro-run finds as ibv_reg_dmabuf_mr maps the descriptor's file and registers that for the addresses
// that were asked for; what is deregistered is unmapped.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using Find = void *(void *, const char *, const char *);
Find *realFind() {
  static auto *found = reinterpret_cast<Find *>(::dlsym(RTLD_NEXT, "dlvsym"));
  return found;
}

void *libraryHandle = nullptr;
template <typename Function> Function *find(const char *name, const char *version) {
  return reinterpret_cast<Function *>(realFind()(libraryHandle, name, version));
}

struct Mapping {
  void *memory;
  size_t bytes;
};
std::mutex mutex;
std::map<ibv_mr *, Mapping> mappings;
size_t registered = 0;

/// How many are taken before the device is full; without a word, any number.
bool isFull() {
  const char *most = std::getenv("MAESTRO_FAKE_NIC_REGIONS");
  return most && registered >= std::strtoull(most, nullptr, 10);
}

ibv_mr *registerDmaBuf(ibv_pd *domain, uint64_t offset, size_t bytes, uint64_t address, int descriptor, int access) {
  off_t position = ::lseek(descriptor, 0, SEEK_CUR);
  if (position < 0)
    return nullptr; // EBADF, as from who knows dma-bufs.
  std::lock_guard lock(mutex);
  if (isFull()) {
    errno = ENOMEM;
    return nullptr;
  }
  void *memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, position + static_cast<off_t>(offset));
  if (memory == MAP_FAILED)
    return nullptr;
  auto *plain = find<decltype(::ibv_reg_mr_iova2)>("ibv_reg_mr_iova2", "IBVERBS_1.8");
  ibv_mr *region = plain(domain, memory, bytes, address, static_cast<unsigned>(access));
  if (!region) {
    int error = errno;
    ::munmap(memory, bytes);
    errno = error;
    return nullptr;
  }
  ++registered;
  mappings[region] = {memory, bytes};
  return region;
}

int deregister(ibv_mr *region) {
  std::lock_guard lock(mutex);
  int error = find<decltype(::ibv_dereg_mr)>("ibv_dereg_mr", "IBVERBS_1.1")(region);
  if (auto found = mappings.extract(region))
    ::munmap(found.mapped().memory, found.mapped().bytes);
  return error;
}

} // namespace

extern "C" void *dlvsym(void *handle, const char *name, const char *version) noexcept {
  if (std::strcmp(name, "ibv_reg_dmabuf_mr") == 0) {
    libraryHandle = handle;
    return reinterpret_cast<void *>(&registerDmaBuf);
  }
  if (std::strcmp(name, "ibv_dereg_mr") == 0) {
    libraryHandle = handle;
    return reinterpret_cast<void *>(&deregister);
  }
  return realFind()(handle, name, version);
}

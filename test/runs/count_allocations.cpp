// For LD_PRELOAD: counts the heap allocations of maestro-run step by step, and tells who asked for them.
//
//   MAESTRO_ALLOCATIONS=counts.jsonl LD_PRELOAD=libcount_allocations.so maestro-run plan.mpl --out run …
//
// A step ends when the program writes its line of metrics.jsonl. The innermost frame that lies in the program itself,
// in oneDNN, in libgomp or in libarchive owns an allocation, whichever thread makes it; the C and C++ libraries are
// passed over, so that a std::vector counts as its user's. Per step one line: the counts, and the program's own callers
// as offsets for addr2line.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
}

namespace {

enum Owner : size_t { Program, OneDnn, OpenMp, Archive, Other, kOwners };
constexpr std::array<const char *, kOwners> kNames = {"program", "onednn", "openmp", "archive", "other"};

struct Range {
  uintptr_t begin, end, base;
  Owner owner;
};

constexpr size_t kMostRanges = 128, kMostCallers = 24;
std::array<Range, kMostRanges> ranges;
size_t rangeCount = 0;
std::atomic<bool> armed{false};
std::array<std::atomic<uint64_t>, kOwners> counts;
struct Caller {
  std::atomic<uintptr_t> offset{0};
  std::atomic<uint64_t> count{0};
};
std::array<Caller, kMostCallers> callers;
int report = -1;
__attribute__((tls_model("initial-exec"))) thread_local bool busy = false;

Owner ownerOf(std::string_view path) {
  if (path.empty())
    return Program; // The main program has no name.
  if (path.find("libdnnl") != path.npos)
    return OneDnn;
  if (path.find("libgomp") != path.npos)
    return OpenMp;
  return path.find("libarchive") != path.npos ? Archive : Other;
}

int addObject(dl_phdr_info *info, size_t, void *) {
  Owner owner = ownerOf(info->dlpi_name);
  for (int i = 0; owner != Other && i < info->dlpi_phnum && rangeCount < kMostRanges; ++i) {
    const auto &segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X))
      ranges[rangeCount++] = {info->dlpi_addr + segment.p_vaddr, info->dlpi_addr + segment.p_vaddr + segment.p_memsz,
                              info->dlpi_addr, owner};
  }
  return 0;
}

struct Found {
  Owner owner = Other;
  uintptr_t offset = 0;
};

_Unwind_Reason_Code visit(_Unwind_Context *context, void *argument) {
  auto *found = static_cast<Found *>(argument);
  uintptr_t address = _Unwind_GetIP(context);
  for (size_t i = 0; i < rangeCount; ++i)
    if (address >= ranges[i].begin && address < ranges[i].end) {
      found->owner = ranges[i].owner;
      found->offset = address - ranges[i].base;
      return _URC_END_OF_STACK;
    }
  return _URC_NO_REASON;
}

void note() {
  if (!armed || busy)
    return;
  busy = true;
  Found found;
  _Unwind_Backtrace(&visit, &found);
  ++counts[found.owner];
  if (found.owner == Program)
    for (Caller &caller : callers) {
      uintptr_t expected = 0;
      if (caller.offset == found.offset || caller.offset.compare_exchange_strong(expected, found.offset) ||
          expected == found.offset) {
        ++caller.count;
        break;
      }
    }
  busy = false;
}

/// The line of a finished step, written without allocating.
void endStep(std::string_view metricsLine) {
  uint64_t step = std::strtoull(metricsLine.data() + metricsLine.find(':') + 1, nullptr, 10);
  char text[4096];
  int size = std::snprintf(text, sizeof text, "{\"step\": %llu", static_cast<unsigned long long>(step));
  auto add = [&](const char *format, auto... values) {
    size += std::snprintf(text + size, sizeof text - static_cast<size_t>(size), format, values...);
  };
  for (size_t i = 0; i < kOwners; ++i)
    add(", \"%s\": %llu", kNames[i], static_cast<unsigned long long>(counts[i].exchange(0)));
  add("%s", ", \"callers\": {");
  const char *separator = "";
  for (Caller &caller : callers) {
    if (uint64_t count = caller.count.exchange(0)) {
      add("%s\"0x%llx\": %llu", separator, static_cast<unsigned long long>(caller.offset),
          static_cast<unsigned long long>(count));
      separator = ", ";
    }
    caller.offset = 0;
  }
  add("%s", "}}\n");
  if (report >= 0 && size > 0)
    syscall(SYS_write, report, text, static_cast<size_t>(size));
}

/// At the first step: by then every library is loaded and the unwinder has what it caches.
void arm() {
  if (armed)
    return;
  busy = true;
  dl_iterate_phdr(&addObject, nullptr);
  Found ignored;
  _Unwind_Backtrace(&visit, &ignored);
  if (const char *path = std::getenv("MAESTRO_ALLOCATIONS"))
    report = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  busy = false;
  armed = true;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void *malloc(size_t size) {
  note();
  return __libc_malloc(size);
}
EXPORT void *calloc(size_t count, size_t size) {
  note();
  return __libc_calloc(count, size);
}
EXPORT void *realloc(void *old, size_t size) {
  note();
  return __libc_realloc(old, size);
}
EXPORT void *memalign(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}
EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}
EXPORT int posix_memalign(void **result, size_t alignment, size_t size) {
  note();
  *result = __libc_memalign(alignment, size);
  return *result ? 0 : ENOMEM;
}

EXPORT ssize_t write(int fd, const void *data, size_t size) {
  static auto next = reinterpret_cast<ssize_t (*)(int, const void *, size_t)>(dlsym(RTLD_NEXT, "write"));
  std::string_view text(static_cast<const char *>(data), size);
  if (text.substr(0, 9) == "{\"step\": ") {
    if (armed)
      endStep(text);
    arm();
  }
  return next(fd, data, size);
}

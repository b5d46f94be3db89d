// For LD_PRELOAD: one call of a function takes long, once for all processes that inherit the
// environment.
//
//   MAESTRO_SLOW=fsync MAESTRO_SLOW_CALL=1 MAESTRO_SLOW_SECONDS=4 MAESTRO_SLOW_DONE=mark
//   LD_PRELOAD=libslow.so maestro-run …
//
// fsync: a slow disk. kernel: a logarithm on a device's thread, which a cross-entropy takes.
// self-check: what the driver says of it. The call that sleeps is the first one, in any process,
// whose number there is MAESTRO_SLOW_CALL or above; it makes the file MAESTRO_SLOW_DONE.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls{0};

void maybeSleep(const char *which) {
  const char *slow = std::getenv("MAESTRO_SLOW");
  if (!slow || std::strcmp(slow, which) != 0 || ++calls < std::atol(std::getenv("MAESTRO_SLOW_CALL")))
    return;
  int mark = ::open(std::getenv("MAESTRO_SLOW_DONE"), O_CREAT | O_EXCL | O_WRONLY, 0666);
  if (mark < 0)
    return;
  ::close(mark);
  ::usleep(static_cast<useconds_t>(std::atof(std::getenv("MAESTRO_SLOW_SECONDS")) * 1e6));
}

template <typename Function> Function *next(const char *name) {
  return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

bool isDeviceThread() {
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  return std::strcmp(name, "device") == 0;
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

int fsync(int fd) {
  maybeSleep("fsync");
  return next<int(int)>("fsync")(fd);
}

float logf(float value) {
  if (isDeviceThread())
    maybeSleep("kernel");
  return next<float(float)>("logf")(value);
}

double log(double value) {
  if (isDeviceThread())
    maybeSleep("kernel");
  return next<double(double)>("log")(value);
}

size_t fwrite(const void *bytes, size_t size, size_t count, std::FILE *stream) {
  constexpr char kText[] = "self-check:";
  if (size * count > sizeof kText && std::memcmp(bytes, kText, sizeof kText - 1) == 0)
    maybeSleep("self-check");
  return next<size_t(const void *, size_t, size_t, std::FILE *)>("fwrite")(bytes, size, count, stream);
}
}
#pragma GCC visibility pop

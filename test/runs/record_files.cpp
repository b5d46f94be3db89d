// For LD_PRELOAD: records what a program does to the files below a folder, in the order in which it
// does it.
//
//   MAESTRO_RECORD_BELOW=/abs/run MAESTRO_RECORD_TO=log LD_PRELOAD=librecord_files.so maestro-run …
//
// A line an operation, words separated by tabs: create, truncate, write (offset, bytes in hex),
// sync, mkdir, rename, exchange, remove. With MAESTRO_RECORD_NO_EXCHANGE names cannot be exchanged,
// as on some file systems. One thread writes there.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

template <typename Function> Function *next(const char *name) {
  return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

std::string absolute(int folder, const char *path) {
  if (path[0] == '/')
    return path;
  char name[PATH_MAX] = {};
  std::string link = folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(folder);
  return ::readlink(link.c_str(), name, sizeof name - 1) < 0 ? path : std::string(name) + "/" + path;
}

std::string pathOf(int fd) {
  char name[PATH_MAX] = {};
  return ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) < 0 ? "" : name;
}

bool isBelow(const std::string &path) {
  const char *root = std::getenv("MAESTRO_RECORD_BELOW");
  return root && path.starts_with(root);
}

void record(const std::string &line) {
  static int log = static_cast<int>(
      ::syscall(SYS_openat, AT_FDCWD, std::getenv("MAESTRO_RECORD_TO"), O_WRONLY | O_CREAT | O_APPEND, 0666));
  std::string text = line + "\n";
  (void)!::syscall(SYS_write, log, text.data(), text.size());
}

int recordOpen(int folder, const char *path, int flags, mode_t mode) {
  std::string name = absolute(folder, path);
  bool exists = ::access(name.c_str(), F_OK) == 0;
  int fd = static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
  if (fd >= 0 && isBelow(name) && (flags & O_CREAT) && !exists)
    record("create\t" + name);
  else if (fd >= 0 && isBelow(name) && (flags & O_TRUNC))
    record("truncate\t" + name + "\t0");
  if (fd < 0)
    errno = errno ? errno : EIO;
  return fd;
}

int done(int status, const std::string &line, const std::string &path) {
  if (status == 0 && isBelow(path))
    record(line);
  return status;
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return recordOpen(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));

ssize_t write(int fd, const void *bytes, size_t count) {
  std::string path = pathOf(fd);
  off_t at = ::lseek(fd, 0, SEEK_CUR);
  ssize_t written = next<ssize_t(int, const void *, size_t)>("write")(fd, bytes, count);
  if (written > 0 && isBelow(path)) {
    std::string line = "write\t" + path + "\t" + std::to_string(at) + "\t";
    for (ssize_t i = 0; i < written; ++i) {
      char hex[3];
      std::snprintf(hex, sizeof hex, "%02x", static_cast<const unsigned char *>(bytes)[i]);
      line += hex;
    }
    record(line);
  }
  return written;
}

int fsync(int fd) {
  std::string path = pathOf(fd); // The disk is taken to be forced; how long that takes is not the question here.
  return done(0, "sync\t" + path, path);
}

int ftruncate(int fd, off_t size) {
  std::string path = pathOf(fd);
  return done(next<int(int, off_t)>("ftruncate")(fd, size), "truncate\t" + path + "\t" + std::to_string(size), path);
}
int ftruncate64(int fd, off_t size) __attribute__((alias("ftruncate")));

int mkdir(const char *path, mode_t mode) {
  std::string name = absolute(AT_FDCWD, path);
  return done(next<int(const char *, mode_t)>("mkdir")(path, mode), "mkdir\t" + name, name);
}

int rename(const char *from, const char *to) {
  std::string name = absolute(AT_FDCWD, to);
  return done(next<int(const char *, const char *)>("rename")(from, to),
              "rename\t" + absolute(AT_FDCWD, from) + "\t" + name, name);
}

int renameat2(int fromFolder, const char *from, int toFolder, const char *to, unsigned flags) {
  if (std::getenv("MAESTRO_RECORD_NO_EXCHANGE")) {
    errno = EINVAL;
    return -1;
  }
  std::string name = absolute(toFolder, to);
  return done(
      next<int(int, const char *, int, const char *, unsigned)>("renameat2")(fromFolder, from, toFolder, to, flags),
      "exchange\t" + absolute(fromFolder, from) + "\t" + name, name);
}

int unlink(const char *path) {
  std::string name = absolute(AT_FDCWD, path);
  return done(next<int(const char *)>("unlink")(path), "remove\t" + name, name);
}

int remove(const char *path) {
  std::string name = absolute(AT_FDCWD, path);
  return done(next<int(const char *)>("remove")(path), "remove\t" + name, name);
}

int rmdir(const char *path) {
  std::string name = absolute(AT_FDCWD, path);
  return done(next<int(const char *)>("rmdir")(path), "remove\t" + name, name);
}

int unlinkat(int folder, const char *path, int flags) {
  std::string name = absolute(folder, path);
  return done(next<int(int, const char *, int)>("unlinkat")(folder, path, flags), "remove\t" + name, name);
}
}
#pragma GCC visibility pop

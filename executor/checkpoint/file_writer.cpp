#include "executor/checkpoint/file_writer.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <mutex>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace maestro::checkpoint {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

/// Beyond a file size limit the kernel sends SIGXFSZ before write() may fail; ignored, it just
/// fails.
void ignoreFileSizeSignal() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction current {};
    if (::sigaction(SIGXFSZ, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
      std::signal(SIGXFSZ, SIG_IGN);
  });
}
} // namespace

FileWriter::FileWriter(std::string path, int fd) : path(std::move(path)), fd(fd) { buffer.reserve(kBufferBytes); }

FileWriter::FileWriter(FileWriter &&other) noexcept
    : path(std::move(other.path)), fd(std::exchange(other.fd, -1)), total(other.total),
      buffer(std::move(other.buffer)) {}

FileWriter::~FileWriter() {
  if (fd < 0)
    return;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) // A device stays where it is.
    ::unlink(path.c_str());
  ::close(fd);
}

Result<FileWriter> FileWriter::create(const std::string &path) {
  ignoreFileSizeSignal();
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    return systemFailure("write", path, errno);
  return FileWriter(path, fd);
}

Status FileWriter::append(std::span<const std::byte> bytes) {
  total += bytes.size();
  if (buffer.size() + bytes.size() > kBufferBytes) {
    MAESTRO_TRY(writeOut(buffer));
    buffer.clear();
  }
  if (bytes.size() >= kBufferBytes)
    return writeOut(bytes);
  buffer.insert(buffer.end(), bytes.begin(), bytes.end());
  return {};
}

Status FileWriter::append(std::string_view text) { return append(std::as_bytes(std::span(text.data(), text.size()))); }

Status FileWriter::writeOut(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return systemFailure("write", path, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status FileWriter::finish() {
  MAESTRO_TRY(writeOut(buffer));
  buffer.clear();
  // Some file systems report a full disk only now.
  if (::fsync(fd) != 0)
    return systemFailure("write", path, errno);
  if (::close(std::exchange(fd, -1)) != 0)
    return systemFailure("write", path, errno);
  return {};
}

Status writeText(const std::string &path, std::string_view text) {
  MAESTRO_ASSIGN(FileWriter writer, FileWriter::create(path));
  MAESTRO_TRY(writer.append(text));
  return writer.finish();
}

std::optional<std::string> readFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    return std::nullopt;
  std::stringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

Status syncFolder(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return systemFailure("open folder", path, errno);
  // Not every file system can do this for folders (EINVAL); there the rename alone must do.
  int failure = ::fsync(fd) != 0 && errno != EINVAL ? errno : 0;
  ::close(fd);
  return failure ? systemFailure("write folder", path, failure) : Status();
}

} // namespace maestro::checkpoint

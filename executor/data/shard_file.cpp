// ShardFile: an uncompressed tar that can be read by position, whatever the shard was.
#include "executor/data/shard.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace maestro::data {
namespace {

Status cannot(std::string_view action, std::string_view path, int error) {
  auto code =
      error == ENOENT || error == EACCES || error == EISDIR ? StatusCode::InvalidInput : StatusCode::Unavailable;
  return {code, fmt::format("cannot {} '{}': {}", action, path, std::strerror(error))};
}

std::string temporaryFolder() {
  const char *folder = std::getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

/// A file without a name, which vanishes when it is closed.
Result<int> openUnnamed() {
  std::string folder = temporaryFolder();
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0)
    return fd;
  std::string name = folder + "/maestro-shard-XXXXXX"; // For file systems without O_TMPFILE.
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0)
    return cannot("write a temporary file in", folder, errno);
  ::unlink(name.c_str());
  return fd;
}

/// A way to pack a file, and the bytes with which such a file begins.
struct Packing {
  std::string_view name, magic;
  int (*support)(archive *);
};
constexpr Packing kPackings[] = {{"gzip", "\x1f\x8b", archive_read_support_filter_gzip},
                                 {"zstd", "\x28\xb5\x2f\xfd", archive_read_support_filter_zstd},
                                 {"xz",
                                  std::string_view("\xfd"
                                                   "7zXZ\0",
                                                   6),
                                  archive_read_support_filter_xz},
                                 {"bzip2", "BZh", archive_read_support_filter_bzip2}};

/// How the file is packed; null where it is not.
const Packing *packingOf(int fd) {
  std::array<char, 8> start{};
  ssize_t count = ::pread(fd, start.data(), start.size(), 0);
  std::string_view bytes(start.data(), count > 0 ? static_cast<size_t>(count) : 0);
  for (const Packing &packing : kPackings)
    if (bytes.starts_with(packing.magic))
      return &packing;
  return nullptr;
}

Status writeAll(int fd, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = ::write(fd, bytes, count);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return cannot("write a temporary file in", temporaryFolder(), errno);
    bytes += written;
    count -= static_cast<size_t>(written);
  }
  return {};
}

/// Unpacks `from` into `to` with libarchive's filter; "raw" hands out the bytes as they are.
Status unpack(int from, int to, const Packing &packing, const std::string &path) {
  std::unique_ptr<archive, int (*)(archive *)> reader(archive_read_new(), archive_read_free);
  if (packing.support(reader.get()) != ARCHIVE_OK) // It would start a program instead.
    return Status::invalidInput(
        fmt::format("shard '{}' is packed by {}, which this machine's libarchive does not know; pack it "
                    "by gzip",
                    path, packing.name));
  archive_read_support_format_raw(reader.get());
  archive_entry *entry = nullptr;
  std::vector<char> block(256 * 1024);
  la_ssize_t count = -1;
  if (archive_read_open_fd(reader.get(), from, block.size()) == ARCHIVE_OK &&
      archive_read_next_header(reader.get(), &entry) == ARCHIVE_OK)
    while ((count = archive_read_data(reader.get(), block.data(), block.size())) > 0)
      MAESTRO_TRY(writeAll(to, block.data(), static_cast<size_t>(count)));
  if (count == 0)
    return {};
  const char *why = archive_error_string(reader.get());
  return Status::invalidInput(fmt::format("shard '{}' cannot be unpacked: {}", path,
                                          why ? std::string(why) : fmt::format("damaged {} data", packing.name)));
}
} // namespace

ShardFile::ShardFile(ShardFile &&other) noexcept
    : path(std::move(other.path)), fd(std::exchange(other.fd, -1)), size(other.size), unpacked(other.unpacked) {}

ShardFile &ShardFile::operator=(ShardFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(fd, other.fd);
  std::swap(size, other.size);
  std::swap(unpacked, other.unpacked);
  return *this;
}

ShardFile::~ShardFile() {
  if (fd >= 0)
    ::close(fd);
}

Status ShardFile::measure() {
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    return cannot("read shard", path, errno);
  if (!S_ISREG(status.st_mode))
    return Status::invalidInput(fmt::format("shard '{}' is not a regular file", path));
  size = static_cast<uint64_t>(status.st_size);
  if (size == 0)
    return Status::invalidInput(fmt::format("shard '{}' is empty (0 bytes): no tar file", path));
  return {};
}

Result<ShardFile> ShardFile::fromDescriptor(int descriptor, std::string name) {
  ShardFile shard(std::move(name), descriptor);
  MAESTRO_TRY(shard.measure());
  return shard;
}

Result<ShardFile> ShardFile::open(const std::string &path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer; measure() refuses it.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return cannot("open shard", path, errno);
  MAESTRO_ASSIGN(ShardFile shard, fromDescriptor(fd, path));
  const Packing *packing = packingOf(fd);
  if (!packing)
    return shard;
  MAESTRO_ASSIGN(int unpackedFd, openUnnamed());
  ShardFile unpacked(path, unpackedFd);
  MAESTRO_TRY(unpack(fd, unpackedFd, *packing, path));
  unpacked.unpacked = true;
  MAESTRO_TRY(unpacked.measure());
  return unpacked;
}

Status ShardFile::read(uint64_t offset, std::span<std::byte> target) const {
  while (!target.empty()) {
    ssize_t count = ::pread(fd, target.data(), target.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return cannot("read shard", path, errno);
    if (count == 0)
      return Status::invalidInput(fmt::format("shard '{}' ends at byte {}, inside a member", path, offset));
    offset += static_cast<uint64_t>(count);
    target = target.subspan(static_cast<size_t>(count));
  }
  return {};
}

} // namespace maestro::data

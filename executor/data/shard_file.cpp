// ShardFile: a tar that can be read by position, whatever the shard was.
#include "executor/data/shard.h"

#include "base/hash.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
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

int64_t modifiedNsOf(const struct stat &status) {
  return status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec;
}

Status changed(const std::string &path, const std::string &index = "") {
  return Status::invalidInput(
      fmt::format("shard '{}' changed while it was read{}; leave the data of a run alone, and start it again", path,
                  index.empty() ? "" : fmt::format(", and its index '{}' says what it was", index)));
}
} // namespace

/// A way to pack a file, and the bytes with which such a file begins.
struct ShardFile::Packing {
  std::string_view name, magic;
  int (*support)(archive *);
};

const ShardFile::Packing *ShardFile::packingOf(int fd) {
  static constexpr Packing kPackings[] = {{"gzip", "\x1f\x8b", archive_read_support_filter_gzip},
                                          {"zstd", "\x28\xb5\x2f\xfd", archive_read_support_filter_zstd},
                                          {"xz", std::string_view("\xfd\x37zXZ\0", 6), archive_read_support_filter_xz},
                                          {"bzip2", "BZh", archive_read_support_filter_bzip2}};
  std::array<char, 8> start{};
  ssize_t count = ::pread(fd, start.data(), start.size(), 0);
  std::string_view bytes(start.data(), count > 0 ? static_cast<size_t>(count) : 0);
  for (const Packing &packing : kPackings)
    if (bytes.starts_with(packing.magic))
      return &packing;
  return nullptr;
}

namespace {
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

/// Unpacks `from` into `to` with libarchive's filter `support`; "raw" hands out the bytes as they are.
Status unpackInto(int from, int to, int (*support)(archive *), std::string_view packing, const std::string &path) {
  std::unique_ptr<archive, int (*)(archive *)> reader(archive_read_new(), archive_read_free);
  if (support(reader.get()) != ARCHIVE_OK) // It would start a program instead.
    return Status::invalidInput(
        fmt::format("shard '{}' is packed by {}, which this machine's libarchive does not know; pack it "
                    "by gzip",
                    path, packing));
  ::lseek(from, 0, SEEK_SET);
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
                                          why ? std::string(why) : fmt::format("damaged {} data", packing)));
}
} // namespace

ShardFile::ShardFile(ShardFile &&other) noexcept
    : path(std::move(other.path)), fd(std::exchange(other.fd, -1)), unpackedFd(std::exchange(other.unpackedFd, -1)),
      fileBytes(other.fileBytes), tarBytes(other.tarBytes), modifiedNs(other.modifiedNs), packing(other.packing) {}

ShardFile &ShardFile::operator=(ShardFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(fd, other.fd);
  std::swap(unpackedFd, other.unpackedFd);
  std::swap(fileBytes, other.fileBytes);
  std::swap(tarBytes, other.tarBytes);
  std::swap(modifiedNs, other.modifiedNs);
  std::swap(packing, other.packing);
  return *this;
}

ShardFile::~ShardFile() {
  for (int each : {fd, unpackedFd})
    if (each >= 0)
      ::close(each);
}

Status ShardFile::measure() {
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    return cannot("read shard", path, errno);
  if (!S_ISREG(status.st_mode))
    return Status::invalidInput(fmt::format("shard '{}' is not a regular file", path));
  fileBytes = tarBytes = static_cast<uint64_t>(status.st_size);
  modifiedNs = modifiedNsOf(status);
  if (fileBytes == 0)
    return Status::invalidInput(fmt::format("shard '{}' is empty (0 bytes): no tar file", path));
  return {};
}

Result<ShardFile> ShardFile::open(const std::string &path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer; measure() refuses it.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return cannot("open shard", path, errno);
  ShardFile shard(path, fd);
  MAESTRO_TRY(shard.measure());
  shard.packing = packingOf(fd);
  return shard;
}

Result<ShardStamp> ShardFile::stamp() const {
  constexpr uint64_t kEnd = 512;
  std::vector<uint8_t> ends(2 * std::min(kEnd, fileBytes));
  std::span<std::byte> bytes = std::as_writable_bytes(std::span(ends));
  std::span<std::byte> parts[] = {bytes.first(bytes.size() / 2), bytes.last(bytes.size() / 2)};
  uint64_t offsets[] = {0, fileBytes - parts[1].size()};
  for (size_t end = 0; end < 2; ++end)
    for (size_t at = 0; at < parts[end].size();) {
      ssize_t count = ::pread(fd, &parts[end][at], parts[end].size() - at, static_cast<off_t>(offsets[end] + at));
      if (count < 0 && errno != EINTR)
        return cannot("read shard", path, errno);
      if (count == 0)
        return changed(path);
      at += count > 0 ? static_cast<size_t>(count) : 0;
    }
  return ShardStamp{fileBytes, modifiedNs, hashBytes(ends)};
}

Status ShardFile::unpack() {
  if (!packing || unpackedFd >= 0)
    return {};
  MAESTRO_ASSIGN(unpackedFd, openUnnamed());
  MAESTRO_TRY(unpackInto(fd, unpackedFd, packing->support, packing->name, path));
  struct stat status {};
  if (::fstat(unpackedFd, &status) != 0)
    return cannot("read the unpacked shard", path, errno);
  tarBytes = static_cast<uint64_t>(status.st_size);
  if (tarBytes == 0)
    return Status::invalidInput(fmt::format("shard '{}' is empty (0 bytes): no tar file", path));
  return checkUnchanged();
}

Status ShardFile::checkUnchanged(const std::string &index) const {
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    return cannot("read shard", path, errno);
  bool isSame = static_cast<uint64_t>(status.st_size) == fileBytes && modifiedNsOf(status) == modifiedNs;
  return isSame ? Status() : changed(path, index);
}

Status ShardFile::read(uint64_t offset, std::span<std::byte> first, std::span<std::byte> second) const {
  while (!first.empty() || !second.empty()) {
    const iovec parts[] = {{first.data(), first.size()}, {second.data(), second.size()}};
    ssize_t count = ::preadv(descriptor(), parts, 2, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return cannot("read shard", path, errno);
    if (count == 0)
      return Status::invalidInput(fmt::format("shard '{}' ends at byte {}, inside a member", path, offset));
    auto filled = static_cast<size_t>(count), ofFirst = std::min(filled, first.size());
    offset += filled;
    first = first.subspan(ofFirst);
    second = second.subspan(filled - ofFirst);
  }
  return {};
}

} // namespace maestro::data

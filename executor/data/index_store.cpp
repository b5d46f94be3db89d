#include "executor/data/index_store.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/system_failure.h"
#include "executor/data/index_file.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace maestro::data {
namespace {

namespace fs = std::filesystem;

class Descriptor {
public:
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
  operator int() const { return fd; }

private:
  int fd;
};

std::string beside(const std::string &shard) { return shard + ".index"; }

std::string placeIn(const std::string &folder, const std::string &shard) {
  std::error_code error;
  fs::path path = fs::canonical(shard, error);
  if (error)
    path = shard;
  if (fs::equivalent(path.parent_path(), folder, error))
    return beside(path.string());
  std::string whole = path.string();
  uint64_t hash = hashBytes({reinterpret_cast<const uint8_t *>(whole.data()), whole.size()});
  return fmt::format("{}/{}-{:016x}.index", folder, path.filename().string(), hash);
}

/// What a file of indexes came to: an index, or why there is none; neither where the file is missing, or being made.
struct Found {
  std::optional<StoredIndex> index;
  std::string why;
};

Result<std::vector<std::byte>> readWhole(int fd, const std::string &path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    return systemFailure("read", path, errno);
  std::vector<std::byte> bytes(S_ISREG(status.st_mode) ? static_cast<size_t>(status.st_size) : 0);
  for (size_t at = 0; at < bytes.size();) {
    ssize_t count = ::pread(fd, &bytes[at], bytes.size() - at, static_cast<off_t>(at));
    if (count < 0 && errno != EINTR)
      return systemFailure("read", path, errno);
    if (count == 0)
      bytes.resize(at); // Written anew meanwhile; its hash is wrong, then.
    at += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return bytes;
}

Found load(const std::string &path, const ShardFile &shard, const ShardStamp &stamp) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd < 0)
    return {};
  Result<std::vector<std::byte>> bytes = readWhole(fd, path);
  if (!bytes)
    return {{}, std::string(bytes.status().message())};
  if (bytes->empty())
    return {};
  Result<KeptIndex> kept = decodeIndex(*bytes);
  if (!kept)
    return {{}, fmt::format("index '{}' {}", path, kept.status().message())};
  if (kept->stamp != stamp)
    return {{}, fmt::format("index '{}' is of another state of its shard, which has changed since", path)};
  if (!shard.isPacked() && kept->tarBytes != stamp.bytes)
    return {{}, fmt::format("index '{}' is damaged", path)};
  return {StoredIndex{path, std::move(kept->index)}, {}};
}

/// Under another name first: whoever reads finds a whole one, or none.
Status write(const std::string &path, std::span<const std::byte> bytes) {
  std::random_device random;
  std::string partial = fmt::format("{}.{:08x}{:08x}", path, random(), random());
  Descriptor fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd < 0)
    return systemFailure("write", path, errno);
  auto fail = [&](int error) {
    ::unlink(partial.c_str());
    return systemFailure("write", path, error);
  };
  for (size_t at = 0; at < bytes.size();) {
    ssize_t count = ::write(fd, &bytes[at], bytes.size() - at);
    if (count < 0 && errno != EINTR)
      return fail(errno);
    at += count > 0 ? static_cast<size_t>(count) : 0;
  }
  if (::rename(partial.c_str(), path.c_str()) != 0)
    return fail(errno);
  return {};
}

/// Once in a run: the same is true of the other shards.
void sayOnce(std::atomic<bool> &said, LogLevel level, std::string_view message) {
  if (!said.exchange(true))
    log(level, message);
}

std::optional<StoredIndex> cannotKeep(std::string_view why) {
  static std::atomic<bool> said;
  sayOnce(said, LogLevel::Warning, fmt::format("--cache: {}; each process reads the headers of shards itself", why));
  return std::nullopt;
}

/// Returns once nobody else makes the index: it may be there then. Not for ever: whoever does may be stopped. Without
/// locks, as on some file systems, several make the same.
void awaitTurn(int lock) {
  constexpr auto kPatience = std::chrono::seconds(60);
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

/// The shard's index, made and kept at `path`, by whoever comes first.
Result<std::optional<StoredIndex>> make(ShardFile &shard, const ShardStamp &stamp, const std::string &path) {
  // An empty file is no index yet, and what those who wait have in common.
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (lock < 0)
    return cannotKeep(systemFailure("write", path, errno).message());
  awaitTurn(lock);
  Found meanwhile = load(path, shard, stamp);
  if (meanwhile.index)
    return std::move(meanwhile.index);
  if (!meanwhile.why.empty())
    logInfo(fmt::format("{}; it is made anew", meanwhile.why));
  MAESTRO_TRY(shard.unpack());
  MAESTRO_ASSIGN(ShardIndex index, indexShard(shard));
  MAESTRO_TRY(shard.checkUnchanged());
  KeptIndex kept{stamp, shard.bytes(), std::move(index)};
  Status written = write(path, encodeIndex(kept));
  if (!written.isOk())
    (void)cannotKeep(written.message());
  return std::optional(StoredIndex{path, std::move(kept.index)});
}

} // namespace

Result<IndexStore> IndexStore::open(const std::string &folder, bool isShared) {
  IndexStore store;
  store.folder = folder;
  store.isShared = isShared;
  std::error_code error;
  if (!folder.empty() && !fs::is_directory(folder, error) && !fs::create_directories(folder, error) && error)
    return Status::invalidInput(fmt::format("--cache {}: the folder cannot be made: {}", folder, error.message()));
  return store;
}

Result<std::optional<StoredIndex>> IndexStore::find(ShardFile &shard) const {
  MAESTRO_ASSIGN(ShardStamp stamp, shard.stamp());
  std::string own = folder.empty() ? std::string() : placeIn(folder, shard.name());
  Found found = own.empty() ? Found() : load(own, shard, stamp);
  if (!found.index && own != beside(shard.name()))
    if (Found other = load(beside(shard.name()), shard, stamp); other.index || own.empty())
      found = std::move(other);
  if (found.index)
    return std::move(found.index);
  if (!own.empty())
    return make(shard, stamp, own);
  static std::atomic<bool> said;
  if (!found.why.empty())
    sayOnce(said, LogLevel::Warning,
            fmt::format("{}; without --cache it is not made anew, and the shard's headers are read", found.why));
  else if (isShared)
    sayOnce(said, LogLevel::Info,
            "the shards have no indexes, so that each process reads all their headers; --cache DIR keeps indexes");
  return std::optional<StoredIndex>();
}

} // namespace maestro::data

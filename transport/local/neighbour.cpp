#include "transport/local/neighbour.h"

#include "base/bytes.h"
#include "base/host_name.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace maestro::transport {
namespace {

constexpr uint16_t kVersion = 2;

std::string machineName() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot + " " + hostName();
}

uint64_t inodeOf(const char *path) {
  struct stat facts {};
  return ::stat(path, &facts) == 0 ? facts.st_ino : 0;
}

/// Closed at the end: a mapping needs its descriptor no longer.
struct Opened {
  explicit Opened(const std::string &path) : file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~Opened() {
    if (file >= 0)
      ::close(file);
  }
  Opened(const Opened &) = delete;
  int file;
};

} // namespace

NeighbourCard NeighbourCard::of(const SharedMemory &memory, const Segments &segments) {
  NeighbourCard card;
  card.machine = machineName();
  card.pidNamespace = inodeOf("/proc/self/ns/pid");
  card.pid = static_cast<uint32_t>(::getpid());
  card.descriptor = memory.descriptor();
  struct stat facts {};
  if (::fstat(memory.descriptor(), &facts) == 0)
    card.inode = facts.st_ino;
  card.bytes = memory.bytes();
  for (uint32_t rank = segments.ranksHere().first; rank < segments.ranksHere().end; ++rank) {
    std::span<std::byte> segment = segments.segment(rank);
    card.segments.push_back({rank, static_cast<uint64_t>(segment.data() - memory.start()), segment.size()});
  }
  return card;
}

std::vector<std::byte> encode(const NeighbourCard &card) {
  ByteWriter writer;
  writer.number(kVersion).text(card.machine).number(card.pidNamespace).number(card.pid).number(card.descriptor);
  writer.text(card.post);
  writer.number(card.inode).number(card.bytes).number(static_cast<uint32_t>(card.segments.size()));
  for (const NeighbourCard::Segment &segment : card.segments)
    writer.number(segment.rank).number(segment.offset).number(segment.bytes);
  return writer.take();
}

Result<NeighbourCard> decodeNeighbourCard(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (auto version = reader.number<uint16_t>(); version != kVersion)
    return Status::invalidInput("the card of its memory is of version " + std::to_string(version) + " instead of " +
                                std::to_string(kVersion));
  NeighbourCard card;
  card.machine = reader.text();
  card.pidNamespace = reader.number<uint64_t>();
  card.pid = reader.number<uint32_t>();
  card.descriptor = reader.number<int32_t>();
  card.post = reader.text();
  card.inode = reader.number<uint64_t>();
  card.bytes = reader.number<uint64_t>();
  auto count = reader.number<uint32_t>();
  for (uint32_t i = 0; i < count && reader.isOk(); ++i) {
    NeighbourCard::Segment segment;
    segment.rank = reader.number<uint32_t>();
    segment.offset = reader.number<uint64_t>();
    segment.bytes = reader.number<uint64_t>();
    card.segments.push_back(segment);
  }
  if (!reader.isWhole())
    return Status::invalidInput("the card of its memory is cut off, or has bytes behind its end");
  return card;
}

Result<std::unique_ptr<SharedMemory>> openNeighbour(const NeighbourCard &card, RankRange ranks,
                                                    const Segments &segments) {
  bool fits = card.segments.size() == ranks.count();
  for (size_t i = 0; fits && i < card.segments.size(); ++i) {
    const auto &[rank, offset, bytes] = card.segments[i];
    fits = rank == ranks.first + i && bytes == segments.bytes(rank) && offset % kBlockAlignment == 0 &&
           offset <= card.bytes && bytes <= card.bytes - offset;
  }
  if (!fits)
    return Status::invalidInput("the card of its memory is not of ranks " + std::to_string(ranks.first) + " to " +
                                std::to_string(ranks.end - 1) + " as this process computes them");
  if (card.pidNamespace != inodeOf("/proc/self/ns/pid"))
    return Status::unavailable("it is in another PID namespace (another container)");
  std::string path = "/proc/" + std::to_string(card.pid) + "/fd/" + std::to_string(card.descriptor);
  Opened opened(path);
  struct stat facts {};
  if (opened.file < 0 || ::fstat(opened.file, &facts) != 0)
    return Status::unavailable(path + ": " + std::strerror(errno));
  if (facts.st_ino != card.inode || static_cast<uint64_t>(facts.st_size) != card.bytes)
    return Status::unavailable(path + " is not the memory that it told of");
  return SharedMemory::map(opened.file, card.bytes);
}

void enter(const NeighbourCard &card, const SharedMemory &memory, Segments &segments) {
  for (const auto &[rank, offset, bytes] : card.segments)
    segments.map(rank, memory.start() + offset);
}

} // namespace maestro::transport

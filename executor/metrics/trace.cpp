#include "executor/metrics/trace.h"

#include "base/system_failure.h"
#include "executor/metrics/line.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace maestro::metrics {
namespace {

constexpr size_t kBlockBytes = 64 * 1024;

/// Long names are cut, so that an event always fits a block.
constexpr size_t kMaxTextBytes = 1000;

void appendText(Line &line, std::string_view text) { line.quoted(text.substr(0, kMaxTextBytes)); }

/// Microseconds, exact to the nanosecond.
void appendMicros(Line &line, int64_t ns) {
  uint64_t size = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  uint64_t fraction = size % 1000;
  line << (ns < 0 ? "-" : "") << size / 1000 << (fraction < 10 ? ".00" : fraction < 100 ? ".0" : ".") << fraction;
}

int writeAt(int fd, uint64_t offset, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return errno;
    offset += static_cast<uint64_t>(written);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}
} // namespace

void formatRankName(Line &line, uint32_t rank, std::string_view name) {
  line << "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" << rank << ",\"args\":{\"name\":";
  appendText(line, name);
  line << "}}";
}

void formatStationName(Line &line, uint32_t rank, uint32_t station, std::string_view name) {
  line << "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" << rank << ",\"tid\":" << station << ",\"args\":{\"name\":";
  appendText(line, name);
  line << "}}";
}

void formatRun(Line &line, const TraceRun &run) {
  line << "{\"ph\":\"M\",\"name\":\"run\",\"pid\":0,\"args\":{\"plan\":" << run.planHash
       << ",\"evaluate\":" << (run.evaluates ? "true" : "false")
       << ",\"file_order\":" << (run.fileOrder ? "true" : "false")
       << ",\"wait_for_steps\":" << (run.waitsForSteps ? "true" : "false") << ",\"sleep_kernels\":";
  line.json(run.sleepScale) << "}}";
}

void formatSizes(Line &line, uint64_t step, std::span<const int64_t> sizes) {
  line << "{\"ph\":\"M\",\"name\":\"step_sizes\",\"pid\":0,\"args\":{\"step\":" << step << ",\"sizes\":[";
  for (size_t i = 0; i < sizes.size(); ++i)
    line << (i ? "," : "") << sizes[i];
  line << "]}}";
}

void formatEvent(Line &line, const TraceEvent &event) {
  line << "{\"ph\":\"X\",\"name\":";
  appendText(line, event.name);
  line << ",\"cat\":";
  appendText(line, event.category);
  line << ",\"ts\":";
  appendMicros(line, event.startNs);
  line << ",\"dur\":";
  appendMicros(line, event.durationNs);
  line << ",\"pid\":" << event.rank << ",\"tid\":" << event.station << ",\"args\":{";
  std::string_view separator = "";
  auto number = [&](std::string_view key, int64_t value) {
    if (value < 0)
      return;
    line << separator << "\"" << key << "\":" << value;
    separator = ",";
  };
  number("step", event.step);
  number("microbatch", event.microbatch);
  if (!event.detail.empty()) {
    line << separator << "\"scope\":";
    appendText(line, event.detail);
  }
  line << "}}";
}

TraceFile::TraceFile(std::string path, int fd, uint64_t offset)
    : path(std::move(path)), fd(fd), offset(offset), isFirst(offset <= kTraceOpening.size()),
      block(std::make_unique<Line>(kBlockBytes + 20 * kMaxTextBytes)) {}

TraceFile::~TraceFile() {
  writeBlock();
  ::close(fd);
}

/// One process at a time: who comes second waits for the first to close it.
Result<std::unique_ptr<TraceFile>> TraceFile::open(const std::string &path, int flags) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  off_t size = 0;
  if (fd < 0 || ::flock(fd, LOCK_EX) != 0 || (!(flags & O_TRUNC) && (size = ::lseek(fd, 0, SEEK_END)) < 0)) {
    int error = errno;
    if (fd >= 0)
      ::close(fd);
    return systemFailure("write trace", path, error);
  }
  uint64_t closing = std::min<uint64_t>(kTraceClosing.size(), static_cast<uint64_t>(size));
  return std::unique_ptr<TraceFile>(new TraceFile(path, fd, static_cast<uint64_t>(size) - closing));
}

Result<std::unique_ptr<TraceFile>> TraceFile::create(const std::string &path) {
  MAESTRO_ASSIGN(std::unique_ptr<TraceFile> file, open(path, O_CREAT | O_TRUNC));
  *file->block << kTraceOpening;
  MAESTRO_TRY(file->flush());
  return file;
}

Result<std::unique_ptr<TraceFile>> TraceFile::append(const std::string &path) { return open(path, 0); }

void TraceFile::writeBlock() {
  size_t size = block->text().size();
  if (size == 0)
    return;
  *block << kTraceClosing;
  int failure = writeAt(fd, offset, block->text());
  error = error ? error : failure;
  offset += size; // The next block overwrites the closing.
  block->clear();
}

Line &TraceFile::beginEvent() {
  if (block->text().size() >= kBlockBytes)
    writeBlock();
  *block << (isFirst ? "\n" : ",\n");
  isFirst = false;
  return *block;
}

void TraceFile::nameRank(uint32_t rank, std::string_view name) {
  std::lock_guard lock(mutex);
  formatRankName(beginEvent(), rank, name);
}

void TraceFile::nameStation(uint32_t rank, uint32_t station, std::string_view name) {
  std::lock_guard lock(mutex);
  formatStationName(beginEvent(), rank, station, name);
}

void TraceFile::describe(const TraceRun &run) {
  std::lock_guard lock(mutex);
  formatRun(beginEvent(), run);
}

void TraceFile::addSizes(uint64_t step, std::span<const int64_t> sizes) {
  std::lock_guard lock(mutex);
  formatSizes(beginEvent(), step, sizes);
}

void TraceFile::add(const TraceEvent &event) {
  std::lock_guard lock(mutex);
  formatEvent(beginEvent(), event);
}

Status TraceFile::flush() {
  std::lock_guard lock(mutex);
  writeBlock();
  if (error != 0)
    return systemFailure("write trace", path, error);
  return {};
}

} // namespace maestro::metrics

#include "executor/metrics/trace.h"

#include "base/system_failure.h"
#include "executor/metrics/line.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace maestro::metrics {
namespace {

constexpr size_t kBlockBytes = 64 * 1024;
constexpr std::string_view kOpening = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
constexpr std::string_view kClosing = "\n]}\n";

/// Long names are cut, so that an event always fits a block.
constexpr size_t kMaxTextBytes = 1000;

void appendText(Line &line, std::string_view text) { line.quoted(text.substr(0, kMaxTextBytes)); }

/// Microseconds, exact to the nanosecond.
void appendMicros(Line &line, int64_t ns) {
  uint64_t size = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  uint64_t fraction = size % 1000;
  line << (ns < 0 ? "-" : "") << size / 1000
       << (fraction < 10    ? ".00"
           : fraction < 100 ? ".0"
                            : ".")
       << fraction;
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

TraceFile::TraceFile(std::string path, int fd)
    : path(std::move(path)), fd(fd),
      block(std::make_unique<Line>(kBlockBytes + 20 * kMaxTextBytes)) {
  *block << kOpening;
  writeBlock();
}

TraceFile::~TraceFile() {
  writeBlock();
  ::close(fd);
}

Result<std::unique_ptr<TraceFile>> TraceFile::create(const std::string &path) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    return systemFailure("write trace", path, errno);
  std::unique_ptr<TraceFile> file(new TraceFile(path, fd));
  MAESTRO_TRY(file->flush());
  return file;
}

void TraceFile::writeBlock() {
  size_t size = block->text().size();
  if (size == 0)
    return;
  *block << kClosing;
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
  Line &line = beginEvent();
  line << "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" << rank << ",\"args\":{\"name\":";
  appendText(line, name);
  line << "}}";
}

void TraceFile::nameStation(uint32_t rank, uint32_t station, std::string_view name) {
  std::lock_guard lock(mutex);
  Line &line = beginEvent();
  line << "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" << rank << ",\"tid\":" << station
       << ",\"args\":{\"name\":";
  appendText(line, name);
  line << "}}";
}

void TraceFile::add(const TraceEvent &event) {
  std::lock_guard lock(mutex);
  Line &line = beginEvent();
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

Status TraceFile::flush() {
  std::lock_guard lock(mutex);
  writeBlock();
  if (error != 0)
    return systemFailure("write trace", path, error);
  return {};
}

} // namespace maestro::metrics

#include "executor/metrics/trace.h"

#include "base/log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace maestro::metrics {
namespace {

constexpr size_t kBlockBytes = 64 * 1024;
constexpr std::string_view kOpening = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
constexpr std::string_view kClosing = "\n]}\n";

/// Long names are cut, so that an event always fits a block.
constexpr size_t kMaxTextBytes = 1000;

void appendText(fmt::memory_buffer &buffer, std::string_view text) {
  buffer.push_back('"');
  for (char c : text.substr(0, kMaxTextBytes)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20)
      fmt::format_to(fmt::appender(buffer), "\\u{:04x}", byte);
    else if (c == '"' || c == '\\')
      buffer.push_back('\\'), buffer.push_back(c);
    else
      buffer.push_back(c);
  }
  buffer.push_back('"');
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

struct TraceFile::Block {
  fmt::memory_buffer text;
};

TraceFile::TraceFile(std::string path, int fd)
    : path(std::move(path)), fd(fd), block(std::make_unique<Block>()) {
  block->text.reserve(kBlockBytes + 16 * kMaxTextBytes);
  block->text.append(kOpening);
  writeBlock();
}

TraceFile::~TraceFile() {
  writeBlock();
  ::close(fd);
}

Result<std::unique_ptr<TraceFile>> TraceFile::create(const std::string &path) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    return Status::unavailable(
        fmt::format("cannot write trace '{}': {}", path, std::strerror(errno)));
  std::unique_ptr<TraceFile> file(new TraceFile(path, fd));
  MAESTRO_TRY(file->flush());
  return file;
}

void TraceFile::writeBlock() {
  fmt::memory_buffer &text = block->text;
  size_t size = text.size();
  if (size == 0)
    return;
  text.append(kClosing);
  int failure = writeAt(fd, offset, {text.data(), text.size()});
  error = error ? error : failure;
  offset += size; // The next block overwrites the closing.
  text.clear();
}

void TraceFile::beginEvent() {
  if (block->text.size() >= kBlockBytes)
    writeBlock();
  block->text.append(std::string_view(isFirst ? "\n" : ",\n"));
  isFirst = false;
}

void TraceFile::nameRank(uint32_t rank, std::string_view name) {
  std::lock_guard lock(mutex);
  beginEvent();
  fmt::format_to(fmt::appender(block->text),
                 "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":", rank);
  appendText(block->text, name);
  block->text.append(std::string_view("}}"));
}

void TraceFile::nameStation(uint32_t rank, uint32_t station, std::string_view name) {
  std::lock_guard lock(mutex);
  beginEvent();
  fmt::format_to(
      fmt::appender(block->text),
      "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":", rank,
      station);
  appendText(block->text, name);
  block->text.append(std::string_view("}}"));
}

void TraceFile::add(const TraceEvent &event) {
  std::lock_guard lock(mutex);
  beginEvent();
  fmt::memory_buffer &text = block->text;
  text.append(std::string_view("{\"ph\":\"X\",\"name\":"));
  appendText(text, event.name);
  text.append(std::string_view(",\"cat\":"));
  appendText(text, event.category);
  // Microseconds, exact to the nanosecond.
  auto micros = [&](std::string_view key, int64_t ns) {
    fmt::format_to(fmt::appender(text), ",\"{}\":{}{}.{:03}", key, ns < 0 ? "-" : "",
                   std::abs(ns) / 1000, std::abs(ns) % 1000);
  };
  micros("ts", event.startNs);
  micros("dur", event.durationNs);
  fmt::format_to(fmt::appender(text), ",\"pid\":{},\"tid\":{},\"args\":{{", event.rank,
                 event.station);
  std::string_view separator = "";
  auto number = [&](std::string_view key, int64_t value) {
    if (value < 0)
      return;
    fmt::format_to(fmt::appender(text), "{}\"{}\":{}", separator, key, value);
    separator = ",";
  };
  number("step", event.step);
  number("microbatch", event.microbatch);
  if (!event.detail.empty()) {
    fmt::format_to(fmt::appender(text), "{}\"scope\":", separator);
    appendText(text, event.detail);
  }
  text.append(std::string_view("}}"));
}

Status TraceFile::flush() {
  std::lock_guard lock(mutex);
  writeBlock();
  if (error != 0)
    return Status::unavailable(
        fmt::format("cannot write trace '{}': {}", path, std::strerror(error)));
  return {};
}

} // namespace maestro::metrics

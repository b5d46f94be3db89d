#include "executor/metrics/metrics_file.h"

#include "base/log.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace maestro::metrics {
namespace {

using Buffer = fmt::memory_buffer;
using Out = fmt::appender;

/// JSON knows no infinity and no NaN.
void appendNumber(Buffer &buffer, double value) {
  if (std::isfinite(value))
    fmt::format_to(Out(buffer), "{}", value);
  else
    buffer.append(std::string_view("null"));
}

void appendMember(Buffer &buffer, std::string_view key, double value) {
  fmt::format_to(Out(buffer), ", \"{}\": ", key);
  appendNumber(buffer, value);
}

/// Names are nearly always plain; only others cost an allocation.
void appendText(Buffer &buffer, std::string_view text) {
  bool isPlain = true;
  for (char c : text)
    isPlain &= static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
  buffer.push_back('"');
  isPlain ? buffer.append(text) : buffer.append(escapeJson(text));
  buffer.push_back('"');
}

void formatLine(const StepRecord &record, Buffer &buffer) {
  fmt::format_to(Out(buffer), "{{\"step\": {}", record.step);
  appendMember(buffer, "loss", record.loss);
  buffer.append(std::string_view(", \"losses\": {"));
  for (std::string_view separator = ""; const LossValue &loss : record.losses) {
    buffer.append(separator);
    appendText(buffer, loss.name);
    buffer.append(std::string_view(": "));
    appendNumber(buffer, loss.value);
    separator = ", ";
  }
  buffer.push_back('}');
  appendMember(buffer, "grad_norm", record.gradNorm);
  appendMember(buffer, "lr", record.lr);
  fmt::format_to(Out(buffer), ", \"samples\": {}, \"tokens\": {}", record.samples, record.tokens);
  appendMember(buffer, "step_seconds", record.stepSeconds);
  fmt::format_to(Out(buffer), ", \"peak_bytes\": {}", record.peakBytes);
  appendMember(buffer, "predicted_step_seconds", record.predictedStepSeconds);
  buffer.append(std::string_view(", \"sections\": {"));
  for (std::string_view separator = ""; const SectionTimes &section : record.sections) {
    buffer.append(separator);
    appendText(buffer, section.name);
    buffer.append(std::string_view(": {\"busy\": "));
    appendNumber(buffer, section.busySeconds);
    appendMember(buffer, "idle", section.idleSeconds);
    fmt::format_to(Out(buffer), ", \"microbatches\": {}}}", section.microbatches);
    separator = ", ";
  }
  buffer.append(std::string_view("}}"));
}

Status failure(std::string_view action, std::string_view path, int error) {
  return Status::unavailable(fmt::format("cannot {} '{}': {}", action, path, std::strerror(error)));
}

/// The step of a line as formatLine() writes it; 0 for anything else.
uint64_t stepOfLine(std::string_view line) {
  static constexpr std::string_view kStart = "{\"step\": ";
  uint64_t step = 0;
  if (line.starts_with(kStart) && line.ends_with("}"))
    std::from_chars(line.data() + kStart.size(), line.data() + line.size(), step);
  return step;
}

/// Length of the part of the file that holds the lines of steps up to `lastStep`.
Result<uint64_t> keptBytes(int fd, const std::string &path, uint64_t lastStep) {
  std::string text, block(1 << 16, '\0');
  uint64_t kept = 0;
  for (ssize_t count; (count = ::read(fd, block.data(), block.size())) != 0;) {
    if (count < 0)
      return failure("read", path, errno);
    text.append(block, 0, static_cast<size_t>(count));
    size_t start = 0;
    for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
      uint64_t step = stepOfLine(std::string_view(text).substr(start, end - start));
      if (step == 0 || step > lastStep)
        return kept;
      kept += end + 1 - start;
    }
    text.erase(0, start);
  }
  return kept;
}
} // namespace

struct MetricsFile::Line {
  Buffer buffer;
};

MetricsFile::MetricsFile(std::string path, int fd)
    : path(std::move(path)), fd(fd), line(std::make_unique<Line>()) {
  line->buffer.reserve(4096);
}

MetricsFile::~MetricsFile() { ::close(fd); }

Result<std::unique_ptr<MetricsFile>> MetricsFile::open(const std::string &path, uint64_t lastStep) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    return failure("write", path, errno);
  std::unique_ptr<MetricsFile> file(new MetricsFile(path, fd));
  MAESTRO_ASSIGN(uint64_t kept, keptBytes(fd, path, lastStep));
  if (::ftruncate(fd, static_cast<off_t>(kept)) != 0 || ::lseek(fd, 0, SEEK_END) < 0)
    return failure("write", path, errno);
  return file;
}

Status MetricsFile::append(const StepRecord &record) {
  Buffer &buffer = line->buffer;
  buffer.clear();
  formatLine(record, buffer);
  buffer.push_back('\n');
  std::string_view rest(buffer.data(), buffer.size());
  while (!rest.empty()) {
    ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return failure("write", path, errno);
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

std::string formatMetrics(const StepRecord &record) {
  Buffer buffer;
  formatLine(record, buffer);
  return fmt::to_string(buffer);
}

} // namespace maestro::metrics

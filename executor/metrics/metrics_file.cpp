#include "executor/metrics/metrics_file.h"

#include "base/system_failure.h"
#include "executor/metrics/line.h"
#include "executor/metrics/write_whole.h"

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace maestro::metrics {
namespace {

void formatSamples(const std::vector<SampleName> &samples, Line &line) {
  line << ", \"bad_samples\": [";
  for (std::string_view separator = ""; const SampleName &sample : samples) {
    ((line << separator << "{\"key\": ").quoted(sample.key) << ", \"shard\": ").quoted(sample.shard) << "}";
    separator = ", ";
  }
  line << "]";
}

void formatLosses(double loss, const std::vector<LossValue> &losses, Line &line) {
  (line << "\"loss\": ").json(loss) << ", \"losses\": {";
  for (std::string_view separator = ""; const LossValue &each : losses) {
    ((line << separator).quoted(each.name) << ": ").json(each.value);
    separator = ", ";
  }
  line << "}";
}

void formatLine(const StepRecord &record, Line &line) {
  line << "{\"step\": " << record.step << ", ";
  formatLosses(record.loss, record.losses, line);
  if (record.validation) {
    const ValidationRecord &validation = *record.validation;
    line << ", \"validation\": {";
    formatLosses(validation.loss, validation.losses, line);
    line << ", \"samples\": " << validation.samples << ", \"tokens\": " << validation.tokens;
    (line << ", \"seconds\": ").json(validation.seconds) << "}";
  }
  (line << ", \"grad_norm\": ").json(record.gradNorm);
  (line << ", \"lr\": ").json(record.lr);
  line << ", \"applied\": " << (record.applied ? "true" : "false");
  if (!record.applied)
    formatSamples(record.badSamples, line);
  line << ", \"samples\": " << record.samples << ", \"tokens\": " << record.tokens;
  line << ", \"data_bytes\": " << record.dataBytes;
  (line << ", \"tokens_seen\": " << record.tokensSeen << ", \"time\": ")
      .rounded(record.unixSeconds, std::chars_format::fixed, 3);
  (line << ", \"step_seconds\": ").json(record.stepSeconds);
  line << ", \"peak_bytes\": " << record.peakBytes;
  (line << ", \"predicted_step_seconds\": ").json(record.predictedStepSeconds);
  (line << ", \"schedule_seconds\": ").json(record.scheduleSeconds) << ", \"sections\": {";
  for (std::string_view separator = ""; const SectionTimes &section : record.sections) {
    ((line << separator).quoted(section.name) << ": {\"busy\": ").json(section.busySeconds);
    (line << ", \"idle\": ").json(section.idleSeconds) << ", \"microbatches\": " << section.microbatches << "}";
    separator = ", ";
  }
  line << "}, \"devices\": [";
  for (std::string_view separator = ""; const DeviceTimes &device : record.devices) {
    ((line << separator) << "{\"busy\": ").json(device.busySeconds);
    (line << ", \"idle\": ").json(device.idleSeconds) << "}";
    separator = ", ";
  }
  line << "], \"edges\": {";
  for (std::string_view separator = ""; const EdgeBytes &edge : record.edges) {
    (line << separator).quoted(edge.name)
        << ": {\"bytes\": " << edge.bytes << ", \"gradient_bytes\": " << edge.gradientBytes << "}";
    separator = ", ";
  }
  line << "}";
  if (!record.network.empty()) {
    line << ", \"network\": [";
    for (std::string_view separator = ""; const NetworkUse &use : record.network) {
      ((line << separator) << "{\"process\": " << use.process << ", \"bytes\": " << use.bytes << ", \"busy\": ")
              .json(use.busySeconds)
          << "}";
      separator = ", ";
    }
    line << "]";
  }
  if (!record.slowDevices.empty()) {
    line << ", \"slow_devices\": [";
    for (std::string_view separator = ""; const SlowDevice &slow : record.slowDevices) {
      ((line << separator) << "{\"rank\": " << slow.rank << ", \"times\": ").json(slow.times) << "}";
      separator = ", ";
    }
    line << "]";
  }
  line << "}";
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
      return systemFailure("read", path, errno);
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

MetricsFile::MetricsFile(std::string path, int fd)
    : path(std::move(path)), fd(fd), line(std::make_unique<Line>(4096)) {}

MetricsFile::~MetricsFile() { ::close(fd); }

Result<std::unique_ptr<MetricsFile>> MetricsFile::open(const std::string &path, uint64_t lastStep) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    return systemFailure("write", path, errno);
  std::unique_ptr<MetricsFile> file(new MetricsFile(path, fd));
  MAESTRO_ASSIGN(uint64_t kept, keptBytes(fd, path, lastStep));
  if (::ftruncate(fd, static_cast<off_t>(kept)) != 0 || ::lseek(fd, 0, SEEK_END) < 0)
    return systemFailure("write", path, errno);
  return file;
}

Status MetricsFile::append(const StepRecord &record) {
  line->clear();
  formatLine(record, *line);
  return writeWhole(fd, (*line << "\n").text(), path);
}

std::string formatMetrics(const StepRecord &record) {
  Line line;
  formatLine(record, line);
  return line.text();
}

} // namespace maestro::metrics

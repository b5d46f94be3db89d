#include "executor/metrics/event_file.h"

#include "base/host_name.h"
#include "executor/metrics/write_whole.h"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace maestro::metrics {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of records are written as they lie in memory");

template <typename T> void appendNumber(std::string &text, T value) {
  std::array<char, sizeof value> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  text.append(bytes.data(), bytes.size());
}

void appendVarint(std::string &text, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    text += static_cast<char>(value | 0x80);
  text += static_cast<char>(value);
}

/// Protocol Buffers' kinds of fields, in a field's first byte behind its number.
enum WireType : uint8_t { kVarint = 0, k64Bits = 1, kBytes = 2, k32Bits = 5 };
constexpr char field(uint8_t number, WireType type) { return static_cast<char>(number << 3 | type); }

void appendBytes(std::string &text, uint8_t number, std::string_view bytes) {
  text += field(number, kBytes);
  appendVarint(text, bytes.size());
  text += bytes;
}

// Numbers of fields in event.proto and summary.proto.
constexpr uint8_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr uint8_t kValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1;
constexpr char kStart = 1; ///< SessionLog.START

/// As TFRecord wants it, so that a record of records is not its own checksum.
uint32_t masked(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8; }

double unixNow() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

} // namespace

uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    constexpr uint32_t kPolynomial = 0x82f63b78; // Reversed.
    std::array<uint32_t, 256> rows{};
    for (uint32_t i = 0; i < rows.size(); ++i) {
      uint32_t row = i;
      for (int bit = 0; bit < 8; ++bit)
        row = row >> 1 ^ (row & 1 ? kPolynomial : 0);
      rows[i] = row;
    }
    return rows;
  }();
  uint32_t crc = ~uint32_t{0};
  for (char c : bytes)
    crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

EventFile::EventFile(std::string path, int fd) : path(std::move(path)), fd(fd) {}

EventFile::~EventFile() { ::close(fd); }

Result<std::unique_ptr<EventFile>> EventFile::create(const std::string &folder, uint64_t after) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return systemFailure("make folder", folder, error.value());
  double now = unixNow();
  std::string path = folder + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(now)) + "." + hostName() +
                     "." + std::to_string(::getpid());
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0)
    return systemFailure("write", path, errno);
  std::unique_ptr<EventFile> file(new EventFile(std::move(path), fd));
  file->beginEvent(now, 0);
  appendBytes(file->event, kFileVersion, "brain.Event:2");
  MAESTRO_TRY(file->endEvent());
  file->beginEvent(now, after + 1);
  appendBytes(file->event, kSessionLog, std::string{field(kStatus, kVarint), kStart});
  MAESTRO_TRY(file->endEvent());
  return file;
}

void EventFile::beginEvent(double unixSeconds, uint64_t step) {
  event.clear();
  summary.clear();
  event += field(kWallTime, k64Bits);
  appendNumber(event, unixSeconds);
  event += field(kStep, kVarint);
  appendVarint(event, step);
}

void EventFile::addScalar(std::string_view tag, double value) {
  block.clear();
  appendBytes(block, kTag, tag);
  block += field(kSimpleValue, k32Bits);
  appendNumber(block, static_cast<float>(value));
  appendBytes(summary, kValue, block);
}

Status EventFile::endEvent() {
  if (!summary.empty())
    appendBytes(event, kSummary, summary);
  block.clear();
  appendNumber(block, uint64_t{event.size()});
  appendNumber(block, masked(std::string_view(block).substr(0, sizeof(uint64_t))));
  block += event;
  appendNumber(block, masked(event));
  return writeWhole(fd, block, path);
}

Status EventFile::append(const StepRecord &record) {
  beginEvent(record.unixSeconds, record.step);
  addScalar("loss", record.loss);
  for (const LossValue &loss : record.losses)
    addScalar("losses/" + loss.name, loss.value);
  addScalar("grad_norm", record.gradNorm);
  addScalar("lr", record.lr);
  addScalar("step_seconds", record.stepSeconds);
  addScalar("tokens_seen", static_cast<double>(record.tokensSeen));
  if (record.stepSeconds > 0)
    addScalar("tokens_per_second", static_cast<double>(record.tokens) / record.stepSeconds);
  if (record.validation) {
    addScalar("validation/loss", record.validation->loss);
    for (const LossValue &loss : record.validation->losses)
      addScalar("validation/" + loss.name, loss.value);
  }
  return endEvent();
}

} // namespace maestro::metrics

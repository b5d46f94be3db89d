#include "executor/checkpoint/safetensors.h"

#include "base/convert.h"
#include "base/log.h"
#include "base/weights_location.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace maestro::checkpoint {
namespace {

std::string_view formatName(DType dtype) {
  static constexpr std::string_view kNames[] = {"F32", "F64", "BF16", "F16", "I64", "I32", "I16", "I8", "U8", "BOOL"};
  return kNames[static_cast<size_t>(dtype)];
}

std::string jsonString(std::string_view text) { return fmt::format("\"{}\"", escapeJson(text)); }

/// Zero elements leave the product of the others unbounded; such a tensor has no bytes at all.
bool isEmpty(const TensorInfo &tensor) { return tensor.bytes == 0; }
} // namespace

uint64_t byteCount(const TensorInfo &tensor) {
  return static_cast<uint64_t>(tensor.elements()) * byteSize(tensor.dtype);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile &&other) noexcept { *this = std::move(other); }

SafetensorsFile &SafetensorsFile::operator=(SafetensorsFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(fd, other.fd);
  std::swap(dataStart, other.dataStart);
  std::swap(header, other.header);
  std::swap(byName, other.byName);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd >= 0)
    ::close(fd);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return Status::invalidInput(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  SafetensorsFile file(path, fd);
  if (Status status = file.readHeader(); !status.isOk())
    return std::move(status).withContext(fmt::format("'{}' is no whole safetensors file", path));
  return file;
}

Status SafetensorsFile::readHeader() {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
    return Status::invalidInput("it is not a regular file");
  auto fileBytes = static_cast<uint64_t>(status.st_size);
  if (fileBytes < 8)
    return Status::invalidInput(fmt::format("it has {} bytes, fewer than the 8 of a header's length", fileBytes));
  std::array<unsigned char, 8> prefix{};
  MAESTRO_TRY(readAt(0, std::as_writable_bytes(std::span(prefix))));
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;)
    length = length << 8 | prefix[i];
  if (length > kMaxSafetensorsHeaderBytes || length > fileBytes - 8) {
    if (std::string foreign = describeForeignWeights({reinterpret_cast<const char *>(prefix.data()), prefix.size()});
        !foreign.empty())
      return Status::invalidInput(foreign);
    return Status::invalidInput(fmt::format("its header claims {} bytes; {} follow, and the limit is {}", length,
                                            fileBytes - 8, kMaxSafetensorsHeaderBytes));
  }
  std::string json(length, '\0');
  MAESTRO_TRY(readAt(8, std::as_writable_bytes(std::span(json))));
  dataStart = 8 + length;
  MAESTRO_ASSIGN(header, parseSafetensorsHeader(json, fileBytes - dataStart));
  for (size_t i = 0; i < header.tensors.size(); ++i)
    byName.emplace(header.tensors[i].name, i);
  return {};
}

const TensorInfo *SafetensorsFile::find(std::string_view name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &header.tensors[found->second];
}

const TensorInfo *SafetensorsFile::findTied(std::string_view name) const {
  if (const TensorInfo *tensor = find(name))
    return tensor;
  auto tied = header.metadata.find(std::string(name));
  return tied == header.metadata.end() ? nullptr : find(tied->second);
}

Status SafetensorsFile::readAt(uint64_t offset, std::span<std::byte> target) const {
  while (!target.empty()) {
    ssize_t count = ::pread(fd, target.data(), target.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return Status::unavailable(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
    if (count == 0)
      return Status::invalidInput(fmt::format("'{}' ends at byte {}: it was cut off", path, offset));
    offset += static_cast<uint64_t>(count);
    target = target.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status SafetensorsFile::read(const TensorInfo &tensor, std::span<std::byte> target) const {
  if (target.size() != tensor.bytes)
    return Status::internal(
        fmt::format("tensor '{}' has {} bytes, its buffer {}", tensor.name, tensor.bytes, target.size()));
  return readAt(dataStart + tensor.offset, target);
}

Status SafetensorsFile::readAs(const TensorInfo &tensor, DType dtype, std::span<std::byte> target,
                               uint64_t first) const {
  if (conversionKind(tensor.dtype, dtype) == Conversion::Refused)
    return Status::invalidInput(fmt::format("tensor '{}' of '{}' holds {}, which cannot become {}", tensor.name, path,
                                            maestro::name(tensor.dtype), maestro::name(dtype)));
  uint64_t all = isEmpty(tensor) ? 0 : tensor.bytes / byteSize(tensor.dtype);
  uint64_t count = target.size() / byteSize(dtype);
  if (target.size() % byteSize(dtype) != 0 || first > all || count > all - first)
    return Status::internal(fmt::format("tensor '{}' has {} elements; {} bytes of {} from element {} on are not in it",
                                        tensor.name, all, target.size(), maestro::name(dtype), first));
  uint64_t start = dataStart + tensor.offset + first * byteSize(tensor.dtype);
  if (dtype == tensor.dtype && dtype != DType::Bool)
    return readAt(start, target);
  std::array<std::byte, 32768> block;
  size_t perBlock = block.size() / byteSize(tensor.dtype);
  for (uint64_t done = 0; done < count;) {
    size_t now = std::min<uint64_t>(perBlock, count - done);
    MAESTRO_TRY(readAt(start + done * byteSize(tensor.dtype), std::span(block).first(now * byteSize(tensor.dtype))));
    size_t good = convertElements(tensor.dtype, block.data(), dtype, target.data() + done * byteSize(dtype), now);
    if (good != now)
      return Status::invalidInput(fmt::format("tensor '{}' of '{}': element {} does not fit {}", tensor.name, path,
                                              first + done + good, maestro::name(dtype)));
    done += now;
  }
  return {};
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path, std::span<const TensorInfo> tensors,
                                                    Metadata metadata) {
  metadata.emplace("format", "pt");
  std::string json = "{\"__metadata__\":{";
  for (std::string_view separator = ""; const auto &[key, value] : metadata) {
    json += fmt::format("{}{}:{}", separator, jsonString(key), jsonString(value));
    separator = ",";
  }
  json += "}";
  uint64_t offset = 0;
  for (const TensorInfo &tensor : tensors) {
    uint64_t end = offset + byteCount(tensor);
    json += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", jsonString(tensor.name),
                        formatName(tensor.dtype), fmt::join(tensor.shape, ","), offset, end);
    offset = end;
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' '); // Values begin at a multiple of 8.
  std::array<std::byte, 8> length;
  for (size_t i = 0; i < 8; ++i)
    length[i] = static_cast<std::byte>(json.size() >> (8 * i));
  MAESTRO_ASSIGN(FileWriter file, FileWriter::create(path));
  MAESTRO_TRY(file.append(length));
  MAESTRO_TRY(file.append(json));
  return SafetensorsWriter(std::move(file), 8 + json.size() + offset);
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) { return file.append(bytes); }

Status SafetensorsWriter::finish() {
  if (file.bytes() != expected)
    return Status::internal(fmt::format("safetensors file got {} bytes, its header says {}", file.bytes(), expected));
  return file.finish();
}

} // namespace maestro::checkpoint

// A walk over protobuf's wire format along one path: model, graph, initializer; or model, graph,
// node, attribute, tensor. Everything else is copied as it is.
#include "planner/import/wire_strip.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

enum class Level { Model, Graph, Node, Attribute, Tensor, Opaque };

/// Field numbers of onnx.proto, which are fixed for ever.
Level child(Level level, uint32_t field) {
  if (level == Level::Model && field == 7)
    return Level::Graph;
  if (level == Level::Graph && field == 1)
    return Level::Node;
  if (level == Level::Graph && field == 5)
    return Level::Tensor;
  if (level == Level::Node && field == 5)
    return Level::Attribute;
  if (level == Level::Attribute && field == 5)
    return Level::Tensor;
  return Level::Opaque;
}

bool holdsTensorBytes(uint32_t field) { return field == 9 || field == 4 || field == 10; }

constexpr uint32_t kExternalDataField = 13;
constexpr uint32_t kLengthDelimited = 2;

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void appendField(std::string &out, uint32_t field, std::string_view payload) {
  appendVarint(out, (uint64_t(field) << 3) | kLengthDelimited);
  appendVarint(out, payload.size());
  out.append(payload);
}

class Stripper {
public:
  explicit Stripper(std::span<const uint8_t> file) : file(file) {}

  Status message(uint64_t begin, uint64_t end, Level level, std::string &out) {
    uint64_t at = begin;
    while (at < end)
      MAESTRO_TRY(copyField(at, end, level, out));
    return {};
  }

private:
  Status copyField(uint64_t &at, uint64_t end, Level level, std::string &out) {
    uint64_t start = at;
    MAESTRO_ASSIGN(uint64_t tag, readVarint(at, end));
    uint32_t wireType = tag & 7;
    uint64_t field = tag >> 3;
    if (field == 0 || field > (1u << 29))
      return damaged(start, "holds no valid field");
    if (wireType != kLengthDelimited) {
      MAESTRO_TRY(skipScalar(at, end, wireType));
      out.append(text(start, at));
      return {};
    }
    MAESTRO_ASSIGN(uint64_t length, readVarint(at, end));
    if (length > end - at)
      return damaged(start, fmt::format("starts a field of {} bytes where {} remain", length, end - at));
    uint64_t payload = at;
    at += length;
    if (level == Level::Tensor && holdsTensorBytes(field))
      return tensorBytes(start, payload, length, out);
    Level inner = child(level, field);
    if (inner == Level::Opaque) {
      out.append(text(start, at));
      return {};
    }
    std::string body;
    MAESTRO_TRY(message(payload, at, inner, body));
    appendField(out, field, body);
    return {};
  }

  /// Keeps small data where it is and notes, for all, where in the file it lies.
  Status tensorBytes(uint64_t start, uint64_t payload, uint64_t length, std::string &out) {
    if (length <= kKeptTensorBytes)
      out.append(text(start, payload + length));
    if (length == 0)
      return {};
    std::string entry;
    appendField(entry, 1, kInlineDataKey);
    appendField(entry, 2, fmt::format("{}:{}", payload, length));
    appendField(out, kExternalDataField, entry);
    return {};
  }

  Status skipScalar(uint64_t &at, uint64_t end, uint32_t wireType) {
    if (wireType == 0)
      return readVarint(at, end).isOk() ? Status() : damaged(at, "ends within a number");
    uint64_t width = wireType == 1 ? 8 : wireType == 5 ? 4 : 0;
    if (width == 0)
      return damaged(at, fmt::format("has wire type {}", wireType));
    if (end - at < width)
      return damaged(at, "ends within a number");
    at += width;
    return {};
  }

  Result<uint64_t> readVarint(uint64_t &at, uint64_t end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= end)
        return damaged(at, "ends within a number");
      uint8_t byte = file[at++];
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return value;
    }
    return damaged(at, "holds a number of more than 10 bytes");
  }

  std::string_view text(uint64_t begin, uint64_t end) const {
    return {reinterpret_cast<const char *>(file.data()) + begin, static_cast<size_t>(end - begin)};
  }

  static Status damaged(uint64_t at, std::string_view what) {
    return Status::invalidInput(fmt::format(
        "not a whole ONNX model: byte {} {} (a truncated, damaged or foreign file; export it again)", at, what));
  }

  std::span<const uint8_t> file;
};

} // namespace

Result<std::string> stripWeights(std::span<const uint8_t> file) {
  std::string out;
  MAESTRO_TRY(Stripper(file).message(0, file.size(), Level::Model, out));
  return out;
}

} // namespace maestro::planner

// parseSafetensorsHeader: from untrusted JSON to tensors that are known to fit their file.
//
// The parser is event-driven: it builds no JSON tree, so that a huge header costs no more than its
// tensors, and it sees every repeated key.
#include "executor/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace maestro::checkpoint {
namespace {

struct FormatName {
  std::string_view name;
  DType dtype;
};
constexpr FormatName kNames[] = {{"F32", DType::F32}, {"F64", DType::F64},  {"BF16", DType::BF16}, {"F16", DType::F16},
                                 {"I64", DType::I64}, {"I32", DType::I32},  {"I16", DType::I16},   {"I8", DType::I8},
                                 {"U8", DType::U8},   {"BOOL", DType::Bool}};

std::optional<DType> dtypeOf(std::string_view text) {
  for (const FormatName &known : kNames)
    if (known.name == text)
      return known.dtype;
  return std::nullopt;
}

/// Builds the header from the parser's events. A handler returns false to stop; `failure` says why.
class HeaderBuilder final : public nlohmann::json::json_sax_t {
public:
  SafetensorsHeader header;
  std::string failure;

  bool start_object(size_t) override {
    if (depth == 0 || (depth == 1 && !hasKey.empty())) {
      ++depth;
      fieldsSeen = 0;
      return true;
    }
    return unexpected("an object");
  }
  bool end_object() override {
    if (--depth == 1 && !inMetadata && fieldsSeen != 7)
      return fail(fmt::format("tensor '{}' lacks dtype, shape or data_offsets", hasKey));
    return true;
  }
  bool key(std::string &text) override {
    if (depth == 1)
      return beginEntry(text);
    item = text;
    if (inMetadata)
      return header.metadata.contains(text) ? fail(fmt::format("__metadata__ has key '{}' twice", text)) : true;
    unsigned bit = text == "dtype" ? 1 : text == "shape" ? 2 : text == "data_offsets" ? 4 : 0;
    if (bit == 0 || (fieldsSeen & bit))
      return fail(fmt::format("tensor '{}' has key '{}', which is unknown or repeated", hasKey, text));
    fieldsSeen |= bit;
    return true;
  }
  bool string(std::string &text) override {
    if (depth == 2 && inMetadata)
      return header.metadata.emplace(item, text), true;
    if (depth != 2 || item != "dtype" || inArray)
      return unexpected("text");
    std::optional<DType> dtype = dtypeOf(text);
    if (!dtype)
      return fail(fmt::format("tensor '{}' has element type '{}'; supported are F64 F32 F16 BF16 I64 I32 "
                              "I16 I8 U8 BOOL",
                              hasKey, text.substr(0, 30)));
    header.tensors.back().dtype = *dtype;
    return true;
  }
  bool start_array(size_t) override {
    if (depth != 2 || inMetadata || inArray || item == "dtype")
      return unexpected("a list");
    inArray = true;
    offsets.clear();
    return true;
  }
  bool end_array() override {
    inArray = false;
    if (item != "data_offsets")
      return true;
    TensorInfo &tensor = header.tensors.back();
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      return fail(fmt::format("tensor '{}': data_offsets must be [begin, end] with begin <= end", tensor.name));
    tensor.offset = offsets[0];
    tensor.bytes = offsets[1] - offsets[0];
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (!inArray)
      return unexpected("a number");
    if (item == "data_offsets")
      return offsets.push_back(value), offsets.size() <= 2 || fail("data_offsets has more than two numbers");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return fail(fmt::format("tensor '{}' has a dim of {}, above 2^63 - 1", hasKey, value));
    header.tensors.back().shape.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_integer(int64_t value) override {
    // The parser calls number_unsigned for what is not negative.
    return fail(fmt::format("tensor '{}' has a negative number {}", hasKey, value));
  }
  bool number_float(double, const std::string &text) override { return unexpected("the number " + text.substr(0, 30)); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(nlohmann::json::binary_t &) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    return fail(fmt::format("header is no JSON from byte {} on", position));
  }

private:
  bool beginEntry(const std::string &name) {
    inMetadata = name == "__metadata__";
    hasKey = name;
    if (inMetadata)
      return metadataSeen++ == 0 || fail("__metadata__ appears twice");
    header.tensors.emplace_back().name = name;
    return true;
  }
  bool unexpected(const std::string &what) {
    return fail(hasKey.empty() ? "header is no JSON object"
                               : fmt::format("header has {} where it does not belong, at '{}'", what, hasKey));
  }
  bool fail(std::string message) {
    if (failure.empty())
      failure = std::move(message);
    return false;
  }

  int depth = 0;
  std::string hasKey; ///< The tensor or "__metadata__" that is being read.
  std::string item;   ///< The key inside it.
  unsigned fieldsSeen = 0;
  int metadataSeen = 0;
  bool inMetadata = false;
  bool inArray = false;
  std::vector<uint64_t> offsets;
};

/// Bytes that a tensor's shape asks for; nothing when that overflows.
std::optional<uint64_t> bytesOf(const TensorInfo &tensor) {
  uint64_t product = byteSize(tensor.dtype);
  bool isEmpty = false;
  for (int64_t size : tensor.shape) {
    isEmpty |= size == 0;
    if (size != 0 && __builtin_mul_overflow(product, static_cast<uint64_t>(size), &product))
      return std::nullopt;
  }
  if (product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  return isEmpty ? 0 : product;
}

Status checkNames(const std::vector<TensorInfo> &tensors) {
  std::vector<std::string_view> names;
  for (const TensorInfo &tensor : tensors)
    names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return Status::invalidInput(fmt::format("tensor '{}' appears twice", *twice));
  return {};
}

/// The tensors, sorted by offset, must fill `dataBytes` bytes one after the other.
Status checkLayout(const std::vector<TensorInfo> &tensors, uint64_t dataBytes) {
  uint64_t end = 0;
  for (const TensorInfo &tensor : tensors) {
    if (tensor.offset > dataBytes || tensor.bytes > dataBytes - tensor.offset)
      return Status::invalidInput(fmt::format("tensor '{}' ends at byte {} of the data, which has "
                                              "{}: the file is cut off, or was not written whole",
                                              tensor.name, tensor.offset + tensor.bytes, dataBytes));
    if (tensor.offset != end)
      return Status::invalidInput(
          fmt::format("tensor '{}' begins at byte {} of the data, {} byte {} where the one before ends", tensor.name,
                      tensor.offset, tensor.offset < end ? "overlapping: before" : "leaving a gap after", end));
    std::optional<uint64_t> needed = bytesOf(tensor);
    if (!needed || *needed != tensor.bytes)
      return Status::invalidInput(fmt::format(
          "tensor '{}' of {} needs {} bytes for its shape, its data_offsets span {}", tensor.name, name(tensor.dtype),
          needed ? fmt::to_string(*needed) : std::string("more than 2^63"), tensor.bytes));
    end += tensor.bytes;
  }
  if (end != dataBytes)
    return Status::invalidInput(fmt::format("the tensors have {} bytes, but {} follow the header", end, dataBytes));
  return {};
}
} // namespace

int64_t TensorInfo::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Result<SafetensorsHeader> parseSafetensorsHeader(std::string_view json, uint64_t dataBytes) {
  HeaderBuilder builder;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder))
    return Status::invalidInput(builder.failure);
  std::vector<TensorInfo> &tensors = builder.header.tensors;
  MAESTRO_TRY(checkNames(tensors));
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo &a, const TensorInfo &b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  MAESTRO_TRY(checkLayout(tensors, dataBytes));
  return std::move(builder.header);
}

} // namespace maestro::checkpoint

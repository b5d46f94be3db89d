// The safetensors format: 8 bytes of header length (little endian), a JSON header, the tensors'
// bytes.
//
//   {"__metadata__": {"a": "b"}, "weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
//   24]}}
//
// Reading trusts nothing: the header's length, every name, shape and offset are checked before use,
// and the tensors must fill the file without overlap, gap or remainder, as the reference
// implementation demands. Values are read by position, not mapped: mapped pages would count as
// memory of the process.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "executor/checkpoint/file_writer.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::checkpoint {

struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape = {};
  uint64_t offset = 0; ///< From the first byte after the header. Set by reading; ignored by writing.
  uint64_t bytes = 0;  ///< Likewise.

  int64_t elements() const;
};

/// Of its shape and type, whether it was read or is to be written.
uint64_t byteCount(const TensorInfo &tensor);

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors; ///< By offset.
  Metadata metadata;
};

/// Longest header that is read (the reference implementation's limit).
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// Parses the JSON of a header that `dataBytes` bytes of tensors follow.
Result<SafetensorsHeader> parseSafetensorsHeader(std::string_view json, uint64_t dataBytes);

/// A file open for reading. Reads may come from several threads.
class SafetensorsFile {
public:
  static Result<SafetensorsFile> open(const std::string &path);
  SafetensorsFile(SafetensorsFile &&other) noexcept;
  SafetensorsFile &operator=(SafetensorsFile &&other) noexcept;
  ~SafetensorsFile();

  const std::string &name() const { return path; }
  std::span<const TensorInfo> tensors() const { return header.tensors; }
  const Metadata &metadata() const { return header.metadata; }
  const TensorInfo *find(std::string_view name) const; ///< nullptr when there is none.
  /// Also follows __metadata__ from a tied name to the name under which its tensor is stored.
  const TensorInfo *findTied(std::string_view name) const;

  /// Fills `target` (tensor.bytes long) with the tensor's bytes.
  Status read(const TensorInfo &tensor, std::span<std::byte> target) const;
  /// Fills `target` with as many elements as it holds, from element `first` on, converting on the way; see
  /// base/convert.h for what is refused. Needs no memory but a small buffer.
  Status readAs(const TensorInfo &tensor, DType dtype, std::span<std::byte> target, uint64_t first = 0) const;

private:
  SafetensorsFile(std::string path, int fd) : path(std::move(path)), fd(fd) {}
  Status readHeader();
  Status readAt(uint64_t offset, std::span<std::byte> target) const;

  std::string path;
  int fd = -1;
  uint64_t dataStart = 0;
  SafetensorsHeader header;
  std::map<std::string_view, size_t> byName; ///< Into header.tensors, whose elements never move.
};

/// Writes a file tensor by tensor, so that memory for one is enough.
///
///   MAESTRO_ASSIGN(auto writer, SafetensorsWriter::create(path, tensors, metadata));
///   for (…) MAESTRO_TRY(writer.append(bytes));   // in the order of `tensors`, in pieces of any
///   size MAESTRO_TRY(writer.finish());
///
/// "format": "pt" is added to the metadata, which transformers asks for. Tied weights are stored
/// once; for each further name the metadata says under which name: {"lm_head.weight":
/// "embed.weight"}.
class SafetensorsWriter {
public:
  static Result<SafetensorsWriter> create(const std::string &path, std::span<const TensorInfo> tensors,
                                          Metadata metadata);
  Status append(std::span<const std::byte> bytes);
  /// Fails when not exactly the tensors' bytes were appended. The file is on disk afterwards.
  Status finish();

private:
  SafetensorsWriter(FileWriter file, uint64_t expected) : file(std::move(file)), expected(expected) {}
  FileWriter file;
  uint64_t expected; ///< Bytes of the whole file.
};

} // namespace maestro::checkpoint

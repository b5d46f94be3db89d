// A file that is written once, from front to back, and is either whole on disk or an error.
#pragma once

#include "base/status.h"
#include "base/system_failure.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::checkpoint {

/// Buffers small writes. A full disk, a quota and a file size limit are Unavailable and name the
/// file; SIGXFSZ, whose default is to end the process, is ignored from the first file on.
class FileWriter {
public:
  static Result<FileWriter> create(const std::string &path); ///< Replaces what is there.
  FileWriter(FileWriter &&other) noexcept;
  FileWriter &operator=(FileWriter &&) = delete;
  ~FileWriter(); ///< A file that was not finished is removed.

  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text);
  /// Writes out what is buffered, forces it to disk and closes.
  Status finish();
  uint64_t bytes() const { return total; } ///< Appended so far.

private:
  FileWriter(std::string path, int fd);
  Status writeOut(std::span<const std::byte> bytes);

  std::string path;
  int fd = -1;
  uint64_t total = 0;
  std::vector<std::byte> buffer;
};

/// Writes a whole file and forces it to disk.
Status writeText(const std::string &path, std::string_view text);

/// A whole file; nothing where it cannot be read.
std::optional<std::string> readFile(const std::string &path);

/// Forces a folder's entries to disk.
Status syncFolder(const std::string &path);

} // namespace maestro::checkpoint

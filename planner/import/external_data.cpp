#include "planner/import/external_data.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>

#include <charconv>
#include <filesystem>

namespace maestro::planner {
namespace {

struct Reference {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

Result<uint64_t> parseNumber(const std::string &key, const std::string &text) {
  uint64_t value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end)
    return Status::invalidInput(fmt::format("external data: {} '{}' is not a non-negative integer", key, text));
  return value;
}

Result<Reference> readReference(const onnx::TensorProto &tensor) {
  Reference reference;
  for (const auto &entry : tensor.external_data()) {
    if (entry.key() == "location") {
      reference.location = entry.value();
    } else if (entry.key() == "offset") {
      MAESTRO_ASSIGN(reference.offset, parseNumber("offset", entry.value()));
    } else if (entry.key() == "length") {
      MAESTRO_ASSIGN(uint64_t length, parseNumber("length", entry.value()));
      reference.length = length;
    }
  }
  if (reference.location.empty())
    return Status::invalidInput("external data without a location");
  return reference;
}

Status checkLocation(const std::string &location) {
  std::filesystem::path path(location);
  if (location.find('\0') != std::string::npos)
    return Status::invalidInput("external data: its location holds a zero byte");
  if (path.is_absolute())
    return Status::invalidInput(
        fmt::format("external data '{}' has an absolute path; it must lie in the model's own folder", location));
  for (const auto &part : path)
    if (part == "..")
      return Status::invalidInput(
          fmt::format("external data '{}' leaves the model's folder; it must lie inside it", location));
  return {};
}

/// Size of the file at folder/location, every part of the way being no symbolic link.
Result<uint64_t> fileSize(const std::filesystem::path &folder, const std::string &location) {
  std::filesystem::path path = folder;
  struct stat info {};
  for (const auto &part : std::filesystem::path(location)) {
    if (part == "." || part.empty())
      continue;
    path /= part;
    if (::lstat(path.c_str(), &info) != 0)
      return Status::invalidInput(
          fmt::format("external data file {} does not exist; keep it beside the model", path.string()));
    if (S_ISLNK(info.st_mode))
      return Status::invalidInput(
          fmt::format("external data {} is a symbolic link, which is not followed; put the file there", path.string()));
  }
  if (!S_ISREG(info.st_mode))
    return Status::invalidInput(fmt::format("external data {} is not a regular file", path.string()));
  return static_cast<uint64_t>(info.st_size);
}

Result<TensorSource> locate(const onnx::TensorProto &tensor, const std::string &modelPath, uint64_t bytes) {
  MAESTRO_ASSIGN(Reference reference, readReference(tensor));
  MAESTRO_TRY(checkLocation(reference.location));
  std::filesystem::path folder = std::filesystem::path(modelPath).parent_path();
  MAESTRO_ASSIGN(uint64_t size, fileSize(folder, reference.location));
  uint64_t length = reference.length.value_or(bytes);
  if (length != bytes)
    return Status::invalidInput(
        fmt::format("external data of {} bytes, but shape and element type need {}", length, bytes));
  std::string file = (folder / reference.location).string();
  if (length > size || reference.offset > size - length)
    return Status::invalidInput(
        fmt::format("external data file {} is too short: it has {} bytes, and {} bytes are needed at offset {}; "
                    "copy it again",
                    file, size, length, reference.offset));
  return TensorSource{file, reference.offset, length};
}

} // namespace

Result<TensorSource> locateExternalData(const onnx::TensorProto &tensor, const std::string &modelPath, uint64_t bytes) {
  return locate(tensor, modelPath, bytes).withContext(fmt::format("tensor '{}'", tensor.name()));
}

} // namespace maestro::planner

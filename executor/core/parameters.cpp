#include "executor/core/parameters.h"

#include "base/convert.h"
#include "base/nearest.h"
#include "base/philox.h"
#include "executor/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;
using Bytes = std::vector<std::byte>;

uint64_t elementCount(const fb::Parameter &parameter) {
  uint64_t count = 1;
  for (int64_t dim : *parameter.shape())
    count *= static_cast<uint64_t>(dim);
  return count;
}

std::string describe(const plan::Plan &plan, const fb::Parameter &parameter) {
  return fmt::format("parameter '{}' of component '{}'", parameter.name()->string_view(),
                     plan->components()->Get(parameter.component())->name()->string_view());
}

/// The plan's files, opened once each and checked against what the planner saw.
class SourceFiles {
public:
  explicit SourceFiles(const plan::Plan &plan) : plan(plan), descriptors(plan->files()->size(), -1) {}
  ~SourceFiles() {
    for (int fd : descriptors)
      if (fd >= 0)
        ::close(fd);
  }

  Status read(uint32_t file, uint64_t offset, std::span<std::byte> target) {
    MAESTRO_TRY(open(file));
    while (!target.empty()) {
      ssize_t got = ::pread(descriptors[file], target.data(), target.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return Status::unavailable(fmt::format("{}: cannot read {} bytes at {}: {}", path(file),
                                               target.size(), offset,
                                               got < 0 ? std::strerror(errno) : "the file ends there"));
      target = target.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return Status();
  }

private:
  std::string path(uint32_t file) const {
    std::string relative = plan->files()->Get(file)->path()->str();
    return relative.starts_with("/") ? relative : plan.folder() + "/" + relative;
  }

  Status open(uint32_t file) {
    if (descriptors[file] >= 0)
      return Status();
    int fd = ::open(path(file).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return Status::invalidInput(fmt::format(
          "{}: {}; the plan takes parameters from this file: put it back or plan again", path(file),
          std::strerror(errno)));
    descriptors[file] = fd;
    struct stat info {};
    if (::fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) != plan->files()->Get(file)->size())
      return Status::invalidInput(fmt::format(
          "{}: has {} bytes, but had {} when the plan was made; plan again", path(file),
          static_cast<int64_t>(info.st_size), plan->files()->Get(file)->size()));
    return Status();
  }

  const plan::Plan &plan;
  std::vector<int> descriptors;
};

/// Converts `count` elements in place of a fresh vector of the target type.
Result<Bytes> converted(DType from, const Bytes &source, DType to, uint64_t count, std::string_view what) {
  Bytes target(count * byteSize(to));
  if (conversionKind(from, to) == Conversion::Refused && count > 0)
    return Status::invalidInput(fmt::format("{} is stored as {} and needed as {}", what, name(from), name(to)));
  uint64_t done = convertElements(from, source.data(), to, target.data(), count);
  if (done < count)
    return Status::invalidInput(
        fmt::format("{}: element {} ({}) cannot be represented as {}", what, done, name(from), name(to)));
  return target;
}

Bytes transposed(const Bytes &source, uint64_t rows, uint64_t columns, size_t size) {
  Bytes target(source.size()); // `source` holds [columns, rows].
  for (uint64_t r = 0; r < rows; ++r)
    for (uint64_t c = 0; c < columns; ++c)
      std::memcpy(&target[(r * columns + c) * size], &source[(c * rows + r) * size], size);
  return target;
}

/// The initializer's values: a function of seed, component, name and element index alone.
Result<Bytes> seeded(const plan::Plan &plan, const fb::Parameter &parameter, DType dtype, uint64_t seed) {
  std::string fullName = plan->components()->Get(parameter.component())->name()->str() + "/" +
                         parameter.name()->str();
  uint64_t nameHash = plan::hashBytes({reinterpret_cast<const uint8_t *>(fullName.data()), fullName.size()});
  PhiloxKey key = {static_cast<uint32_t>(seed) ^ static_cast<uint32_t>(nameHash),
                   static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(nameHash >> 32)};
  uint64_t count = elementCount(parameter);
  Bytes bytes(count * 4);
  auto *values = reinterpret_cast<float *>(bytes.data());
  float scale = static_cast<float>(parameter.initializer_scale());
  for (uint64_t i = 0; i < count; ++i) {
    if (parameter.initializer() == fb::Initializer::Ones || parameter.initializer() == fb::Initializer::Zeros) {
      values[i] = parameter.initializer() == fb::Initializer::Ones ? 1.0f : 0.0f;
      continue;
    }
    PhiloxCounter bits = philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, key);
    values[i] = parameter.initializer() == fb::Initializer::Normal
                    ? scale * normalPair(bits[0], bits[1])[0]
                    : scale * (2.0f * uniformFloat(bits[0]) - 1.0f);
  }
  return converted(DType::F32, bytes, dtype, count, describe(plan, parameter));
}

class Loader {
public:
  Loader(const plan::Plan &plan, uint64_t seed) : plan(plan), seed(seed), files(plan) {}

  Status openWeights(const WeightFiles &weights) {
    std::vector<std::string> components;
    for (const fb::Component *component : *plan->components())
      components.push_back(component->name()->str());
    for (const auto &[component, path] : weights) {
      if (std::find(components.begin(), components.end(), component) == components.end())
        return Status::invalidInput(fmt::format("--weights {}={}: the plan has no component '{}'{}",
                                                component, path, component,
                                                didYouMean(component, components)));
      MAESTRO_ASSIGN(auto file, checkpoint::SafetensorsFile::open(path));
      weightFiles.emplace(component, std::move(file));
    }
    return Status();
  }

  Result<Bytes> load(const fb::Parameter &parameter, DType dtype, LoadSummary &summary) {
    std::string component = plan->components()->Get(parameter.component())->name()->str();
    if (auto file = weightFiles.find(component); file != weightFiles.end()) {
      if (const checkpoint::TensorInfo *tensor = find(file->second, parameter)) {
        ++summary.fromWeights;
        return fromWeights(file->second, *tensor, parameter, dtype);
      }
      if (parameter.kind() != fb::ParameterKind::NonPersistentBuffer)
        return Status::invalidInput(fmt::format("{} is missing from {}; give a complete state_dict",
                                                describe(plan, parameter), file->second.name()));
    }
    if (parameter.inline_value() || parameter.source_file() != kNone) {
      ++summary.fromPlan;
      return fromPlan(parameter, dtype);
    }
    if (parameter.initializer() == fb::Initializer::None)
      return Status::invalidInput(fmt::format(
          "{} has no value: neither the model nor the plan holds one; give --weights {}=FILE.safetensors",
          describe(plan, parameter), component));
    ++summary.seeded;
    return seeded(plan, parameter, dtype, seed);
  }

private:
  static const checkpoint::TensorInfo *find(const checkpoint::SafetensorsFile &file,
                                            const fb::Parameter &parameter) {
    if (const auto *tensor = file.findTied(parameter.name()->string_view()))
      return tensor;
    if (parameter.aliases())
      for (const flatbuffers::String *alias : *parameter.aliases())
        if (const auto *tensor = file.findTied(alias->string_view()))
          return tensor;
    return nullptr;
  }

  Result<Bytes> fromWeights(const checkpoint::SafetensorsFile &file, const checkpoint::TensorInfo &tensor,
                            const fb::Parameter &parameter, DType dtype) {
    if (!std::equal(tensor.shape.begin(), tensor.shape.end(), parameter.shape()->begin(),
                    parameter.shape()->end()))
      return Status::invalidInput(fmt::format("{} has shape [{}], but {} holds [{}]",
                                              describe(plan, parameter), fmt::join(*parameter.shape(), ", "),
                                              file.name(), fmt::join(tensor.shape, ", ")));
    // Integers convert, but no weights are stored so: the file is another model's, or quantised.
    if (parameter.kind() == fb::ParameterKind::Parameter && isFloat(dtype) && !isFloat(tensor.dtype))
      return Status::invalidInput(fmt::format("{} is {}, but {} holds {}; give a state_dict of this model",
                                              describe(plan, parameter), name(dtype), file.name(),
                                              name(tensor.dtype)));
    Bytes bytes(elementCount(parameter) * byteSize(dtype));
    MAESTRO_TRY(file.readAs(tensor, dtype, bytes));
    return bytes;
  }

  Result<Bytes> fromPlan(const fb::Parameter &parameter, DType dtype) {
    DType stored = static_cast<DType>(parameter.source_dtype());
    uint64_t count = elementCount(parameter);
    Bytes bytes(count * byteSize(stored));
    if (parameter.inline_value())
      std::memcpy(bytes.data(), parameter.inline_value()->data(), bytes.size());
    else
      MAESTRO_TRY(files.read(parameter.source_file(), parameter.source_offset(), bytes)
                      .withContext(describe(plan, parameter)));
    if (parameter.source_transposed())
      bytes = transposed(bytes, static_cast<uint64_t>(parameter.shape()->Get(0)),
                         static_cast<uint64_t>(parameter.shape()->Get(1)), byteSize(stored));
    return stored == dtype ? Result<Bytes>(std::move(bytes))
                           : converted(stored, bytes, dtype, count, describe(plan, parameter));
  }

  const plan::Plan &plan;
  uint64_t seed;
  SourceFiles files;
  std::map<std::string, checkpoint::SafetensorsFile> weightFiles;
};

} // namespace

Result<LoadSummary> loadParameters(const plan::Plan &plan, const WeightFiles &weights, uint64_t seed,
                                   ExecutableInstance &instance, Device &device) {
  Loader loader(plan, seed);
  MAESTRO_TRY(loader.openWeights(weights));
  LoadSummary summary;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p) {
    uint32_t buffer = instance.boundBuffer(fb::BindingKind::Value, p);
    if (buffer == kNone)
      continue;
    DType dtype = static_cast<DType>(instance.table().buffers()->Get(buffer)->dtype());
    MAESTRO_ASSIGN(Bytes bytes, loader.load(*plan->parameters()->Get(p), dtype, summary));
    MAESTRO_TRY(writeBound(instance, device, fb::BindingKind::Value, p, bytes));
    summary.bytes += bytes.size();
  }
  return summary;
}

Status readBound(ExecutableInstance &instance, Device &device, fb::BindingKind kind, uint32_t parameter,
                 std::vector<std::byte> &bytes) {
  uint32_t buffer = instance.boundBuffer(kind, parameter);
  if (buffer == kNone)
    return Status::internal(fmt::format("parameter {} has no {}", parameter, fb::EnumNameBindingKind(kind)));
  bytes.resize(instance.table().buffers()->Get(buffer)->bytes());
  device.read(bytes.data(), instance.address(buffer, 0), bytes.size());
  return device.wait(device.record());
}

Status writeBound(ExecutableInstance &instance, Device &device, fb::BindingKind kind, uint32_t parameter,
                  std::span<const std::byte> bytes) {
  uint32_t buffer = instance.boundBuffer(kind, parameter);
  if (buffer == kNone)
    return Status::internal(fmt::format("parameter {} has no {}", parameter, fb::EnumNameBindingKind(kind)));
  uint64_t expected = instance.table().buffers()->Get(buffer)->bytes();
  if (bytes.size() != expected)
    return Status::internal(fmt::format("parameter {}: {} bytes for a buffer of {}", parameter, bytes.size(),
                                        expected));
  device.write(instance.address(buffer, 0), bytes.data(), bytes.size());
  return device.wait(device.record());
}

} // namespace maestro::executor

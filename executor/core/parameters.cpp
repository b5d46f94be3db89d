#include "executor/core/parameters.h"

#include "base/convert.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/philox.h"
#include "base/weights_location.h"
#include "executor/checkpoint/weight_set.h"
#include "executor/core/shard.h"
#include "kernels/cpu/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

/// Elements that are converted at a time.
constexpr size_t kBlockElements = 4096;

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

std::string sourcePath(const plan::Plan &plan, uint32_t file) {
  std::string relative = plan->files()->Get(file)->path()->str();
  return relative.starts_with("/") ? relative : plan.folder() + "/" + relative;
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
        return Status::unavailable(fmt::format("{}: cannot read {} bytes at {}: {}", path(file), target.size(), offset,
                                               got < 0 ? std::strerror(errno) : "the file ends there"));
      target = target.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return Status();
  }

private:
  std::string path(uint32_t file) const { return sourcePath(plan, file); }

  Status open(uint32_t file) {
    if (descriptors[file] >= 0)
      return Status();
    int fd = ::open(path(file).c_str(),
                    O_RDONLY | O_CLOEXEC | O_NONBLOCK); // A pipe must not be waited for.
    if (fd < 0)
      return Status::invalidInput(fmt::format("{}: {}; the plan takes parameters from this file: put it back, run the "
                                              "plan where it was made, or plan again",
                                              path(file), std::strerror(errno)));
    descriptors[file] = fd;
    struct stat info {};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
      return Status::invalidInput(fmt::format("{}: is not a regular file; plan again", path(file)));
    if (static_cast<uint64_t>(info.st_size) != plan->files()->Get(file)->size())
      return Status::invalidInput(fmt::format("{}: has {} bytes, but had {} when the plan was made; plan again",
                                              path(file), static_cast<int64_t>(info.st_size),
                                              plan->files()->Get(file)->size()));
    return Status();
  }

  const plan::Plan &plan;
  std::vector<int> descriptors;
};

/// What fills a parameter's buffer, piece by piece.
struct Source {
  FillPiece fill;
  uint64_t multiple = 1; ///< Elements of which every piece is a multiple.
};

/// Converts `target.size()` bytes' worth of elements from `first` on; read(element, bytes) gives them as stored.
template <typename Read>
Status convertFrom(DType stored, DType dtype, uint64_t first, std::span<std::byte> target, std::string_view what,
                   Read read) {
  if (stored == dtype)
    return read(first, target);
  std::array<std::byte, kBlockElements * 8> block;
  size_t count = target.size() / byteSize(dtype);
  for (size_t done = 0; done < count;) {
    size_t now = std::min(kBlockElements, count - done);
    MAESTRO_TRY(read(first + done, std::span(block).first(now * byteSize(stored))));
    size_t good = convertElements(stored, block.data(), dtype, target.data() + done * byteSize(dtype), now);
    if (good < now)
      return Status::invalidInput(fmt::format("{}: element {} ({}) cannot be represented as {}", what,
                                              first + done + good, name(stored), name(dtype)));
    done += now;
  }
  return Status();
}

Status checkConversion(DType stored, DType dtype, uint64_t count, std::string_view what) {
  if (conversionKind(stored, dtype) == Conversion::Refused && count > 0)
    return Status::invalidInput(fmt::format("{} is stored as {} and needed as {}", what, name(stored), name(dtype)));
  return Status();
}

/// The initializer's values: a function of seed, component, name and element index alone.
class SeededValues {
public:
  SeededValues(const plan::Plan &plan, const fb::Parameter &parameter, uint64_t seed)
      : initializer(parameter.initializer()), scale(static_cast<float>(parameter.initializer_scale())) {
    std::string fullName =
        plan->components()->Get(parameter.component())->name()->str() + "/" + parameter.name()->str();
    uint64_t nameHash = plan::hashBytes({reinterpret_cast<const uint8_t *>(fullName.data()), fullName.size()});
    key = {static_cast<uint32_t>(seed) ^ static_cast<uint32_t>(nameHash),
           static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(nameHash >> 32)};
  }

  float at(uint64_t i) const {
    if (initializer == fb::Initializer::Ones || initializer == fb::Initializer::Zeros)
      return initializer == fb::Initializer::Ones ? 1.0f : 0.0f;
    PhiloxCounter bits = philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, key);
    return initializer == fb::Initializer::Normal ? scale * normalPair(bits[0], bits[1])[0]
                                                  : scale * (2.0f * uniformFloat(bits[0]) - 1.0f);
  }

private:
  fb::Initializer initializer;
  float scale;
  PhiloxKey key;
};

Result<Source> seeded(const plan::Plan &plan, const fb::Parameter &parameter, DType dtype, uint64_t seed) {
  std::string what = describe(plan, parameter);
  MAESTRO_TRY(checkConversion(DType::F32, dtype, elementCount(parameter), what));
  SeededValues values(plan, parameter, seed);
  auto fill = [=](uint64_t first, std::span<std::byte> piece) {
    return convertFrom(DType::F32, dtype, first, piece, what, [&](uint64_t at, std::span<std::byte> bytes) {
      for (size_t i = 0; i < bytes.size() / 4; ++i) {
        float value = values.at(at + i);
        std::memcpy(bytes.data() + 4 * i, &value, 4);
      }
      return Status();
    });
  };
  // A value takes 0.1 to 0.2 µs, and models have billions: by all cores.
  return Source{[=](uint64_t first, std::span<std::byte> piece) {
    std::mutex mutex;
    Status failure;
    kernels::cpu::parallelFor(omp_get_max_threads(), static_cast<int64_t>(piece.size() / byteSize(dtype)),
                              kernels::cpu::kElementGrain, [&](int64_t begin, int64_t end) {
                                auto from = static_cast<size_t>(begin), to = static_cast<size_t>(end);
                                Status status = fill(
                                    first + from, piece.subspan(from * byteSize(dtype), (to - from) * byteSize(dtype)));
                                std::lock_guard lock(mutex);
                                if (!status.isOk())
                                  failure = std::move(status);
                              });
    return failure;
  }};
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
        return Status::invalidInput(fmt::format("--weights {}={}: the plan has no component '{}'{}", component, path,
                                                component, didYouMean(component, components)));
      MAESTRO_ASSIGN(auto set,
                     checkpoint::WeightSet::open(path, component).withContext(fmt::format("--weights {}", component)));
      weightSets.emplace(component, std::move(set));
    }
    return Status();
  }

  Result<Source> open(const fb::Parameter &parameter, DType dtype, LoadSummary &summary) {
    const fb::Component &table = *plan->components()->Get(parameter.component());
    std::string component = table.name()->str();
    if (auto set = weightSets.find(component); set != weightSets.end()) {
      if (checkpoint::WeightSet::Place place = find(set->second, table, parameter); place.tensor) {
        ++summary.fromWeights;
        return fromWeights(*place.file, *place.tensor, parameter, dtype);
      }
      bool mayLack = parameter.kind() == fb::ParameterKind::NonPersistentBuffer ||
                     (table.saves_trained() && !parameter.trainable()); // Of a checkpoint of this workload.
      if (!mayLack)
        return Status::invalidInput(fmt::format(
            "{} is missing from {}{}; give a complete state_dict", describe(plan, parameter), set->second.name(),
            prefixHint(component, parameter.name()->string_view(), set->second.tensorNames())));
    }
    if (parameter.inline_value() || parameter.source_file() != kNone) {
      ++summary.fromPlan;
      return fromPlan(parameter, dtype);
    }
    if (parameter.initializer() == fb::Initializer::None)
      return Status::invalidInput(
          describe(plan, parameter) + " " +
          (parameter.kind() == fb::ParameterKind::NonPersistentBuffer
               ? missingBufferValue(component)
               : fmt::format(
                     "has no value: neither the model nor the plan holds one; give --weights {}=FILE.safetensors",
                     component)));
    ++summary.seeded;
    return seeded(plan, parameter, dtype, seed);
  }

private:
  static checkpoint::WeightSet::Place find(const checkpoint::WeightSet &set, const fb::Component &component,
                                           std::string_view name) {
    checkpoint::WeightSet::Place place = set.findTied(name);
    for (uint32_t i = 0; !place.tensor && component.strip() && i < component.strip()->size(); ++i)
      place = set.findTied(component.strip()->Get(i)->str() + std::string(name));
    return place;
  }

  static checkpoint::WeightSet::Place find(const checkpoint::WeightSet &set, const fb::Component &component,
                                           const fb::Parameter &parameter) {
    checkpoint::WeightSet::Place place = find(set, component, parameter.name()->string_view());
    if (parameter.aliases())
      for (auto alias = parameter.aliases()->begin(); !place.tensor && alias != parameter.aliases()->end(); ++alias)
        place = find(set, component, alias->string_view());
    return place;
  }

  Result<Source> fromWeights(const checkpoint::SafetensorsFile &file, const checkpoint::TensorInfo &tensor,
                             const fb::Parameter &parameter, DType dtype) {
    if (!std::equal(tensor.shape.begin(), tensor.shape.end(), parameter.shape()->begin(), parameter.shape()->end()))
      return Status::invalidInput(fmt::format("{} has shape [{}], but {} holds [{}]", describe(plan, parameter),
                                              fmt::join(*parameter.shape(), ", "), file.name(),
                                              fmt::join(tensor.shape, ", ")));
    // Integers convert, but no weights are stored so: the file is another model's, or quantised.
    if (parameter.kind() == fb::ParameterKind::Parameter && isFloat(dtype) && !isFloat(tensor.dtype))
      return Status::invalidInput(fmt::format("{} is {}, but {} holds {}; give a state_dict of this model",
                                              describe(plan, parameter), name(dtype), file.name(), name(tensor.dtype)));
    return Source{[&file, &tensor, dtype](uint64_t first, std::span<std::byte> piece) {
      return file.readAs(tensor, dtype, piece, first);
    }};
  }

  Result<Source> fromPlan(const fb::Parameter &parameter, DType dtype) {
    DType stored = static_cast<DType>(parameter.source_dtype());
    std::string what = describe(plan, parameter);
    MAESTRO_TRY(checkConversion(stored, dtype, elementCount(parameter), what));
    if (parameter.source_transposed())
      return fromTransposed(parameter, stored, dtype, what);
    return Source{[=, this, &parameter](uint64_t first, std::span<std::byte> piece) {
      return convertFrom(stored, dtype, first, piece, what, [&](uint64_t at, std::span<std::byte> bytes) {
        return readStored(parameter, at * byteSize(stored), bytes);
      });
    }};
  }

  /// The source holds [columns, rows]: a piece of whole rows is a strip of every column.
  Source fromTransposed(const fb::Parameter &parameter, DType stored, DType dtype, const std::string &what) {
    auto rows = static_cast<uint64_t>(parameter.shape()->Get(0));
    auto columns = static_cast<uint64_t>(parameter.shape()->Get(1));
    size_t size = byteSize(stored);
    auto fill = [=, this, &parameter](uint64_t first, std::span<std::byte> piece) -> Status {
      uint64_t firstRow = first / columns, count = piece.size() / byteSize(dtype) / columns;
      std::vector<std::byte> strip(count * size), turned(count * columns * size);
      for (uint64_t c = 0; c < columns; ++c) {
        MAESTRO_TRY(readStored(parameter, (c * rows + firstRow) * size, strip));
        for (uint64_t r = 0; r < count; ++r)
          std::memcpy(&turned[(r * columns + c) * size], &strip[r * size], size);
      }
      return convertFrom(stored, dtype, 0, piece, what, [&](uint64_t at, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), &turned[at * size], bytes.size());
        return Status();
      });
    };
    return Source{fill, columns};
  }

  Status readStored(const fb::Parameter &parameter, uint64_t offset, std::span<std::byte> bytes) {
    if (!parameter.inline_value())
      return files.read(parameter.source_file(), parameter.source_offset() + offset, bytes)
          .withContext(describe(plan, parameter));
    std::memcpy(bytes.data(), parameter.inline_value()->data() + offset, bytes.size());
    return Status();
  }

  const plan::Plan &plan;
  uint64_t seed;
  SourceFiles files;
  std::map<std::string, checkpoint::WeightSet> weightSets; ///< By component.
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
    MAESTRO_ASSIGN(Source source, loader.open(*plan->parameters()->Get(p), dtype, summary));
    MAESTRO_TRY(writePart(plan, instance, device, fb::BindingKind::Value, p, source.multiple, source.fill));
    summary.bytes += instance.table().buffers()->Get(buffer)->bytes();
  }
  return summary;
}

void warnOfChangedFiles(const plan::Plan &plan) {
  for (uint32_t f = 0; f < plan->files()->size(); ++f) {
    struct stat info {};
    std::string path = sourcePath(plan, f);
    int64_t planned = plan->files()->Get(f)->modified_ns();
    if (planned != 0 && ::stat(path.c_str(), &info) == 0 &&
        planned != info.st_mtim.tv_sec * int64_t{1000000000} + info.st_mtim.tv_nsec)
      logWarning(
          fmt::format("{} was written again since the plan was made; plan again if it is another model's", path));
  }
}

Status readBound(ExecutableInstance &instance, Device &device, fb::BindingKind kind, uint32_t parameter,
                 std::vector<std::byte> &bytes) {
  uint32_t buffer = instance.boundBuffer(kind, parameter);
  if (buffer == kNone)
    return Status::internal(fmt::format("parameter {} has no {}", parameter, fb::EnumNameBindingKind(kind)));
  bytes.resize(instance.table().buffers()->Get(buffer)->bytes());
  device.read(Queue::Copy, bytes.data(), instance.address(buffer, 0), bytes.size());
  return device.drain();
}

} // namespace maestro::executor

// Reading plan files.
#include "plan/plan.h"

#include "base/hash.h"
#include "plan/plan_generated.h"
#include "plan/verifier.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>

namespace maestro::plan {

uint64_t hashBytes(std::span<const uint8_t> bytes) { return maestro::hashBytes(bytes); }

void Plan::Free::operator()(uint8_t *bytes) const { std::free(bytes); }

Result<Plan::Storage> Plan::allocate(size_t size) {
  size_t rounded = (size + kAlignment) / kAlignment * kAlignment; // At least one byte, for empty files.
  auto *bytes = static_cast<uint8_t *>(std::aligned_alloc(kAlignment, rounded));
  if (!bytes)
    return Status::unavailable(fmt::format("no memory for a plan of {} bytes", size));
  return Storage(bytes);
}

Result<Plan> Plan::fromStorage(Storage storage, size_t size, std::string folder) {
  MAESTRO_TRY(verify({storage.get(), size}));
  Plan plan;
  plan.root = fb::GetPlan(storage.get());
  plan.storage = std::move(storage);
  plan.size = size;
  plan.contentHash = hashBytes(plan.bytes());
  plan.planFolder = folder.empty() ? "." : std::move(folder);
  return plan;
}

Result<Plan> Plan::fromBytes(std::span<const uint8_t> bytes, std::string folder) {
  MAESTRO_ASSIGN(Storage storage, allocate(bytes.size()));
  if (!bytes.empty())
    std::memcpy(storage.get(), bytes.data(), bytes.size());
  return fromStorage(std::move(storage), bytes.size(), std::move(folder));
}

Result<Plan> Plan::spare(uint32_t lostNodes) const {
  uint32_t count = root->spares() ? root->spares()->size() : 0;
  if (lostNodes < 1 || lostNodes > count)
    return Status::invalidInput(fmt::format("the plan, for {} nodes, has plans for up to {} less, and none for {}; "
                                            "maestro-plan --spare-nodes makes them",
                                            root->machine()->nodes(), count, lostNodes));
  const auto &bytes = *root->spares()->Get(lostNodes - 1)->plan();
  return fromBytes({bytes.data(), bytes.size()}, planFolder);
}

namespace {

struct CloseFile {
  void operator()(FILE *file) const { std::fclose(file); }
};

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// The size of a regular file of plausible size.
Result<size_t> planFileSize(FILE *file) {
  struct stat info;
  if (fstat(fileno(file), &info) != 0)
    return Status::unavailable(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (!S_ISREG(info.st_mode))
    return Status::invalidInput("is not a file; name a plan that maestro-plan wrote");
  if (static_cast<uint64_t>(info.st_size) > kMaxPlanBytes)
    return Status::invalidInput(
        fmt::format("has {} bytes, more than the {} of any plan; name a plan that maestro-plan wrote", info.st_size,
                    kMaxPlanBytes));
  return static_cast<size_t>(info.st_size);
}

} // namespace

Result<Plan> Plan::load(const std::string &path) {
  std::string context = fmt::format("plan '{}'", path);
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // A pipe does not wait for a writer.
  std::unique_ptr<FILE, CloseFile> file(descriptor < 0 ? nullptr : ::fdopen(descriptor, "rb"));
  if (!file)
    return Status::invalidInput(fmt::format("{}: cannot be opened: {}", context, std::strerror(errno)));
  auto size = planFileSize(file.get());
  if (!size)
    return std::move(size).takeStatus().withContext(context);
  MAESTRO_ASSIGN(Storage storage, allocate(*size));
  if (std::fread(storage.get(), 1, *size, file.get()) != *size)
    return Status::unavailable(fmt::format("{}: cannot be read: {}", context,
                                           std::ferror(file.get()) ? std::strerror(errno) : "it became shorter"));
  return fromStorage(std::move(storage), *size, folderOf(path)).withContext(context);
}

} // namespace maestro::plan

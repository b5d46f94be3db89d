// From tables to verified bytes, and from bytes to a file.
#include "plan/builder.h"
#include "plan/verifier.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace maestro::plan {
namespace {

template <typename T> bool allPresent(const std::vector<std::unique_ptr<T>> &items) {
  for (const auto &item : items)
    if (!item)
      return false;
  return true;
}

bool isWhole(const fb::ExecutableT &executable) {
  for (const auto &program : executable.programs)
    if (!program || !allPresent(program->calls))
      return false;
  return allPresent(executable.regions) && allPresent(executable.buffers) && allPresent(executable.bindings) &&
         allPresent(executable.bounds);
}

/// FlatBuffers dereferences every table: none may be null, except the optional prediction.
bool isWhole(const fb::PlanT &plan) {
  for (const auto &executable : plan.executables)
    if (!executable || !isWhole(*executable))
      return false;
  for (const auto &section : plan.sections)
    if (!section || !section->layout)
      return false;
  for (const auto &list : plan.attribute_lists)
    if (!list || !allPresent(list->items))
      return false;
  return plan.machine && plan.training && allPresent(plan.symbols) && allPresent(plan.fields) &&
         allPresent(plan.files) && allPresent(plan.components) && allPresent(plan.parameters) &&
         allPresent(plan.edges) && allPresent(plan.stations) && allPresent(plan.ranks) && allPresent(plan.losses) &&
         allPresent(plan.decisions);
}

/// Bytes of values that the plan carries itself.
size_t carriedBytes(const fb::PlanT &plan) {
  size_t bytes = 0;
  for (const auto &parameter : plan.parameters)
    bytes += parameter->inline_value.size() + kAlignment;
  for (const auto &executable : plan.executables)
    for (const auto &buffer : executable->buffers)
      bytes += buffer->constant.size() + kAlignment;
  return bytes;
}

/// A copy aligned as the verifier needs it would cost a second buffer; Plan::fromBytes makes it.
Status verifyOwn(const std::vector<uint8_t> &bytes) {
  auto plan = Plan::fromBytes(bytes);
  return plan ? Status()
              : Status::internal(fmt::format("the plan that was made is not valid: {}", plan.status().message()));
}

} // namespace

Result<std::vector<uint8_t>> finish(const fb::PlanT &plan) {
  constexpr size_t kMostCarried = kMaxPlanBytes / 2;
  if (!isWhole(plan))
    return Status::internal("a plan under construction lacks a table (null pointer)");
  if (size_t carried = carriedBytes(plan); carried > kMostCarried)
    return Status::invalidInput(fmt::format(
        "the plan would carry {} bytes of constants and inline values, more than {}; keep large values in files "
        "(an external data file, or weights: in the workload)",
        carried, kMostCarried));
  flatbuffers::FlatBufferBuilder buffer(1 << 16);
  fb::FinishPlanBuffer(buffer, fb::Plan::Pack(buffer, &plan));
  std::vector<uint8_t> bytes(buffer.GetBufferPointer(), buffer.GetBufferPointer() + buffer.GetSize());
  MAESTRO_TRY(verifyOwn(bytes));
  return bytes;
}

namespace {

Status writeAll(FILE *file, std::span<const uint8_t> bytes) {
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fflush(file) == 0 &&
                 fsync(fileno(file)) == 0;
  int error = errno;
  if (std::fclose(file) != 0 && written) {
    written = false;
    error = errno;
  }
  return written ? Status() : Status::unavailable(fmt::format("cannot be written: {}", std::strerror(error)));
}

} // namespace

Status writePlan(std::span<const uint8_t> bytes, const std::string &path) {
  std::string context = fmt::format("plan '{}'", path);
  std::string aside = fmt::format("{}.{}.part", path, getpid());
  FILE *file = std::fopen(aside.c_str(), "wb");
  if (!file)
    return Status::unavailable(fmt::format("{}: cannot be written: {}", context, std::strerror(errno)));
  Status status = writeAll(file, bytes);
  if (status.isOk() && std::rename(aside.c_str(), path.c_str()) != 0)
    status = Status::unavailable(fmt::format("cannot be written: {}", std::strerror(errno)));
  if (!status.isOk())
    std::remove(aside.c_str());
  return std::move(status).withContext(context);
}

} // namespace maestro::plan

// Identity, structure and version of a plan's bytes.
#include "plan/verify/parts.h"

#include <cstring>

namespace maestro::plan {
namespace {

constexpr const char *kRemade = "make the plan again with maestro-plan";

flatbuffers::Verifier::Options options(size_t bytes) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 16; // The schema nests six tables.
  // A table and the offset to it take at least 8 bytes: more tables than this means that some are
  // reached many times, which costs time without end.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(bytes / 8 + 1);
  return options;
}

Status verifyIdentity(std::span<const uint8_t> bytes) {
  if (bytes.empty())
    return Status::invalidInput(fmt::format("the file is empty; {}", kRemade));
  const char *identifier = fb::PlanIdentifier();
  if (bytes.size() < 2 * sizeof(flatbuffers::uoffset_t) || std::memcmp(bytes.data() + 4, identifier, 4) != 0)
    return Status::invalidInput(
        fmt::format("not a Maestro plan: bytes 4 to 7 are not '{}'; name a file that maestro-plan wrote", identifier));
  return {};
}

/// Reads the version alone, since another major version may mean anything by the rest.
Status verifyVersion(std::span<const uint8_t> bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), options(bytes.size()));
  flatbuffers::uoffset_t offset = verifier.VerifyOffset(0);
  auto damaged = Status::invalidInput(
      fmt::format("damaged: the first table is not in the file's {} bytes; {}", bytes.size(), kRemade));
  if (offset == 0)
    return damaged;
  auto *table = reinterpret_cast<const flatbuffers::Table *>(bytes.data() + offset);
  if (!table->VerifyTableStart(verifier) || !table->VerifyField<uint32_t>(verifier, fb::Plan::VT_VERSION_MAJOR, 4) ||
      !table->VerifyField<uint32_t>(verifier, fb::Plan::VT_VERSION_MINOR, 4))
    return damaged;
  auto major = table->GetField<uint32_t>(fb::Plan::VT_VERSION_MAJOR, 1);
  auto minor = table->GetField<uint32_t>(fb::Plan::VT_VERSION_MINOR, 0);
  if (major != kVersionMajor)
    return Status::invalidInput(fmt::format("plan.version_major: the plan has format {}.{}, and this program reads "
                                            "{}.x; {} of the same release as this program",
                                            major, minor, kVersionMajor, kRemade));
  return {};
}

using Tables = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>;
using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

/// Adds the strings in the field `strings` of every table in the field `tables` of the root. False: damaged.
bool countStrings(flatbuffers::Verifier &verifier, const flatbuffers::Table &root, flatbuffers::voffset_t tables,
                  flatbuffers::voffset_t strings, uint64_t &count) {
  if (!root.VerifyOffset(verifier, tables))
    return false;
  auto *list = root.GetPointer<const Tables *>(tables);
  if (!verifier.VerifyVector(list))
    return false;
  for (uint32_t i = 0; list && i < list->size(); ++i) {
    const flatbuffers::Table *table = list->Get(i);
    if (!table->VerifyTableStart(verifier) || !table->VerifyOffset(verifier, strings) ||
        !verifier.VerifyVector(table->GetPointer<const Strings *>(strings)))
      return false;
    verifier.EndTable();
    if (auto *names = table->GetPointer<const Strings *>(strings))
      count += names->size();
  }
  return true;
}

/// FlatBuffers looks at every string of a list as often as tables name the list; a small file could make
/// that take hours. Lists that are not shared take 4 bytes a string.
Status verifySharing(std::span<const uint8_t> bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), options(bytes.size()));
  auto &root = *reinterpret_cast<const flatbuffers::Table *>(bytes.data() + verifier.VerifyOffset(0));
  uint64_t count = 0;
  if (!countStrings(verifier, root, fb::Plan::VT_PARAMETERS, fb::Parameter::VT_ALIASES, count) ||
      !countStrings(verifier, root, fb::Plan::VT_SECTIONS, fb::Section::VT_SCOPES, count))
    return Status::invalidInput(
        fmt::format("damaged: a table or list is not in the file's {} bytes; {}", bytes.size(), kRemade));
  if (count > bytes.size() / 4)
    return Status::invalidInput(fmt::format("damaged: {} names do not fit {} bytes; {}", count, bytes.size(), kRemade));
  return {};
}

} // namespace

Status verifyBytes(std::span<const uint8_t> bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0)
    return Status::internal(fmt::format("a plan's bytes must be aligned to {}", kAlignment));
  if (bytes.size() > kMaxPlanBytes)
    return Status::invalidInput(
        fmt::format("the file has {} bytes, more than the {} of any plan; {}", bytes.size(), kMaxPlanBytes, kRemade));
  MAESTRO_TRY(verifyIdentity(bytes));
  MAESTRO_TRY(verifyVersion(bytes));
  MAESTRO_TRY(verifySharing(bytes));
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), options(bytes.size()));
  if (!fb::VerifyPlanBuffer(verifier))
    return Status::invalidInput(fmt::format(
        "damaged or cut off: its tables do not lie in the file's {} bytes, or a required one is missing; {}",
        bytes.size(), kRemade));
  return {};
}

} // namespace maestro::plan

#include "executor/data/shard_samples.h"

#include "base/nearest.h"
#include "executor/data/scalar_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace maestro::data {

Result<std::unique_ptr<ShardSamples>> ShardSamples::open(const std::string &path, std::span<const WantedField> wanted,
                                                         const IndexStore &indexes) {
  MAESTRO_ASSIGN(ShardFile file, ShardFile::open(path));
  MAESTRO_ASSIGN(std::optional<StoredIndex> kept, indexes.find(file));
  return open(std::move(file), wanted, std::move(kept));
}

Result<std::unique_ptr<ShardSamples>> ShardSamples::open(ShardFile file, std::span<const WantedField> wanted,
                                                         std::optional<StoredIndex> kept) {
  std::unique_ptr<ShardSamples> samples(new ShardSamples(std::move(file), wanted));
  if (kept) {
    samples->whole = std::move(kept->index);
    samples->indexPath = std::move(kept->path);
    MAESTRO_TRY(samples->check());
  } else {
    MAESTRO_TRY(samples->shard.unpack());
    samples->indexer.emplace(samples->shard);
  }
  return samples;
}

Status ShardSamples::advance() {
  Status status = indexer->advance();
  MAESTRO_TRY(check()); // What was found before a damage comes before it.
  MAESTRO_TRY(std::move(status));
  if (indexer->isComplete()) {
    whole = std::move(*indexer).takeIndex();
    indexer.reset();
  }
  return {};
}

Result<bool> ShardSamples::has(uint64_t number) {
  while (number >= count() && !isWhole())
    MAESTRO_TRY(advance());
  return number < count();
}

Status ShardSamples::complete() {
  while (!isWhole())
    MAESTRO_TRY(advance());
  return {};
}

int ShardSamples::wantedOf(const IndexedArray &array) {
  const std::vector<std::string> &names = index().fields;
  while (wantedOfField.size() < names.size()) {
    auto found = std::ranges::find(wanted, names[wantedOfField.size()], &WantedField::name);
    wantedOfField.push_back(found == wanted.end() ? -1 : static_cast<int>(found - wanted.begin()));
  }
  return array.format == ValueFormat::Other ? -1 : wantedOfField[array.field];
}

Status ShardSamples::check() {
  for (; checked < count(); ++checked)
    MAESTRO_TRY(checkSample(checked));
  return {};
}

Status ShardSamples::checkSample(uint64_t number) {
  seen.assign(wanted.size(), false);
  auto nameOf = [&](int field) {
    return fmt::format("field '{}' of sample '{}' of shard '{}'", wanted[static_cast<size_t>(field)].name,
                       index().key(number), shard.name());
  };
  for (const IndexedArray &array : index().arraysOf(number)) {
    int field = wantedOf(array);
    if (field < 0)
      continue;
    if (!isReadable(array.format)) {
      MAESTRO_TRY(shard.unpack());
      return describeDamage(shard, index(), array).withContext(nameOf(field));
    }
    if (seen[static_cast<size_t>(field)])
      return Status::invalidInput(fmt::format("{} appears twice", nameOf(field)));
    seen[static_cast<size_t>(field)] = true;
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!seen[i] && !wanted[i].optional)
      return lacks(number, wanted[i]);
  return {};
}

/// Of fields that every language model has: where they come from. "" of others.
std::string_view howToMake(std::string_view field) {
  return field == "labels"
             ? "; where they are the tokens behind input_ids, maestro.shards(…, next_token=True) writes them"
         : field == "attention_mask" ? "; write ones, as many as the sample has tokens: what is padded gets zeros"
                                     : "";
}

/// With what it has instead, what is asked for first.
Status ShardSamples::lacks(uint64_t number, const WantedField &field) const {
  std::set<std::string> others;
  std::string names, hint;
  for (const IndexedArray &array : index().arraysOf(number)) {
    const std::string &name = index().fields[array.field];
    if (isReadable(array.format) && std::ranges::find(wanted, name, &WantedField::name) != wanted.end())
      names += (names.empty() ? "" : ", ") + name;
    else
      others.insert(name);
  }
  for (const std::string &other : others) {
    names += (names.empty() ? "" : ", ") + other;
    if (hint.empty() && other.starts_with(field.name + "."))
      hint = fmt::format("; '{}' is not read: store it as {}.npy", other, field.name);
  }
  if (hint.empty())
    hint = didYouMean(field.name, std::vector<std::string>(others.begin(), others.end()));
  if (hint.empty())
    hint = howToMake(field.name);
  if (hint.empty() &&
      std::ranges::none_of(index().arraysOf(number), [](const IndexedArray &a) { return isReadable(a.format); }))
    hint = "; members are <sample key>.<field>.npy (.json and .cls of one number, too), as maestro.shards writes them";
  if (hint.empty() && !names.empty())
    hint = fmt::format(
        "; rename one of them (map= of maestro.shards), or say in the workload which feeds it: inputs: {{FIELD: "
        "{{to: [COMPONENT.{}]}}}}",
        field.name);
  return Status::invalidInput(fmt::format("sample '{}' of shard '{}' lacks field '{}'{}{}", index().key(number),
                                          shard.name(), field.name,
                                          names.empty() ? "" : "; it has: " + names.substr(0, 300), hint));
}

void ShardSamples::describe(uint64_t number, Sample &sample) {
  sample.key = index().key(number);
  sample.shard = shard.name();
  sample.fields.assign(wanted.size(), {});
  for (const IndexedArray &array : index().arraysOf(number))
    if (int field = wantedOf(array); field >= 0)
      sample.fields[static_cast<size_t>(field)] = {true, index().dtypeOf(array), index().dimsOf(array), {}};
}

Status ShardSamples::read(uint64_t number, size_t field, std::span<std::byte> values) {
  MAESTRO_TRY(shard.unpack());
  if (std::exchange(reading, number) != number)
    MAESTRO_TRY(shard.checkUnchanged(indexPath));
  for (const IndexedArray &array : index().arraysOf(number))
    if (wantedOf(array) == static_cast<int>(field)) {
      Status status = array.format == ValueFormat::Npy ? readNpy(array, values) : readScalar(array, values);
      if (status.isOk())
        return status;
      MAESTRO_TRY(shard.checkUnchanged(indexPath)); // The better cause.
      return std::move(status).withContext(
          fmt::format("field '{}' of sample '{}'", wanted[field].name, index().key(number)));
    }
  return Status::internal("values of a field that the sample lacks are asked for");
}

Status ShardSamples::differs() const {
  return Status::invalidInput(
      indexPath.empty() ? fmt::format("shard '{}' changed while it was read", shard.name())
                        : fmt::format("shard '{}' does not hold what its index '{}' says; remove the index, and with "
                                      "--cache it is made anew",
                                      shard.name(), indexPath));
}

Status ShardSamples::readNpy(const IndexedArray &array, std::span<std::byte> values) {
  std::array<std::byte, 12 + kMaxNpyHeaderBytes> room;
  std::span<std::byte> head(room.data(), array.headerBytes);
  NpyHeader header{array.element, array.fortranOrder, index().dimsOf(array), 0};
  bool isPlain = !array.fortranOrder && header.storedBytes() == values.size();
  std::span<std::byte> stored = isPlain ? values : scratch.resize(header.storedBytes());
  MAESTRO_TRY(shard.read(array.offset - array.headerBytes, head, stored));
  if (npyHeaderHash(head) != array.headerHash)
    return differs();
  if (!isPlain)
    decodeNpy(header, stored.data(), values.data());
  else if (decodedType(array.element) == DType::Bool)
    for (std::byte &value : values)
      value = std::byte{value != std::byte{0}};
  return {};
}

Status ShardSamples::readScalar(const IndexedArray &array, std::span<std::byte> values) {
  std::array<char, kMaxScalarTextBytes> room;
  std::span<char> text(room.data(), array.textBytes);
  MAESTRO_TRY(shard.read(array.offset, std::as_writable_bytes(text)));
  Result<ScalarText> scalar = parseScalarText({text.data(), text.size()});
  if (!scalar || scalar->format != array.format)
    return differs();
  if (scalar->format == ValueFormat::FloatText)
    std::memcpy(values.data(), &scalar->real, 8);
  else // Little endian: a bool is the first byte.
    std::memcpy(values.data(), &scalar->integer, values.size());
  return {};
}

std::set<std::string> ShardSamples::unread() const {
  constexpr size_t kMost = 100;
  std::set<std::string> names;
  for (size_t i = 0; i < index().fields.size() && names.size() < kMost; ++i)
    if (std::ranges::find(wanted, index().fields[i], &WantedField::name) == wanted.end())
      names.insert(index().fields[i]);
  return names;
}

} // namespace maestro::data

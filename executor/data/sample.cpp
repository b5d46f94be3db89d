#include "executor/data/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace maestro::data {

void ByteBuffer::Free::operator()(std::byte *start) const { ::operator delete[](start, std::align_val_t{64}); }

std::span<std::byte> ByteBuffer::resize(size_t size, size_t expected) {
  size_t wanted = std::max(size, expected);
  if (wanted > capacity) {
    // A little more than asked for, so that slowly growing samples settle soon.
    size_t grown = (wanted + wanted / 8 + 63) / 64 * 64;
    start.reset(static_cast<std::byte *>(::operator new[](grown, std::align_val_t{64})));
    capacity = grown;
  }
  used = size;
  return {start.get(), used};
}

std::string Sample::describe() const {
  if (shard.empty())
    return fmt::format("sample '{}'", key);
  return fmt::format("sample '{}' of shard '{}'", key, shard);
}

Status ValueReader::read(Sample &sample, std::span<const uint8_t> wanted, ByteBuffer &storage) {
  auto padded = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  size_t total = 0;
  for (size_t i = 0; i < sample.fields.size(); ++i)
    if (sample.fields[i].present && wanted[i])
      total += padded(sample.fields[i].byteCount());
  largest = std::max(largest, total);
  std::span<std::byte> left = storage.resize(total, largest);
  for (size_t i = 0; i < sample.fields.size(); ++i) {
    SampleField &field = sample.fields[i];
    if (!field.present || !wanted[i])
      continue;
    std::span<std::byte> bytes = left.first(field.byteCount());
    left = left.subspan(padded(bytes.size()));
    MAESTRO_TRY(sample.values->read(sample.number, i, bytes));
    field.bytes = bytes;
  }
  return {};
}

} // namespace maestro::data

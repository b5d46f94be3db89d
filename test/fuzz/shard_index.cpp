// Reads the input as the kept index of a shard, and every value that it tells of from a shard which it may not fit.
#include "base/hash.h"
#include "executor/data/index_file.h"
#include "executor/data/shard_samples.h"
#include "test/executor_files/tar_builder.h"

#include "input_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace maestro;

namespace {

const std::vector<data::WantedField> &wanted() {
  static const std::vector<data::WantedField> fields = {{"ids", true}, {"label", true}, {"m", true},   {"f", true},
                                                        {"t", true},   {"bad", true},   {"none", true}};
  return fields;
}

void readAll(data::KeptIndex kept, const std::string &shard) {
  auto samples = data::ShardSamples::open(*data::ShardFile::open(shard), wanted(),
                                          data::StoredIndex{"kept.index", std::move(kept.index)});
  if (!samples)
    return;
  data::Sample sample;
  std::vector<std::byte> values;
  for (uint64_t number = 0; number < (*samples)->count(); ++number) {
    (*samples)->describe(number, sample);
    for (size_t field = 0; field < wanted().size(); ++field) {
      const data::SampleField &array = sample.fields[field];
      values.resize(static_cast<size_t>(array.dims.elements()) * byteSize(array.dtype));
      if (array.present && (*samples)->read(number, field, values).code() == StatusCode::Internal)
        std::abort();
    }
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const std::string content = test::shardOfEverything();
  static const std::string &shard =
      test::InputFile::holding(reinterpret_cast<const uint8_t *>(content.data()), content.size());
  auto kept = data::decodeIndex({reinterpret_cast<const std::byte *>(bytes), size});
  if (!kept)
    return 0;
  std::vector<std::byte> again = data::encodeIndex(*kept);
  auto read = data::decodeIndex(again);
  if (!read || data::encodeIndex(*read) != again)
    std::abort();
  if (kept->tarBytes == content.size()) // Others are not taken.
    readAll(std::move(*kept), shard);
  return 0;
}

#ifdef MAESTRO_FUZZ
extern "C" size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);
#endif

/// The hash at the end is mended in all but some of the outcomes: else nothing behind it is reached.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed) {
#ifdef MAESTRO_FUZZ
  size = LLVMFuzzerMutate(bytes, size, most);
#else
  std::mt19937 random(seed);
  for (size_t i = 0; size > 0 && i <= seed % 3; ++i)
    bytes[random() % size] = static_cast<uint8_t>(random());
#endif
  if (seed % 16 == 0 || size < 8)
    return size;
  uint64_t hash = hashBytes({bytes, size - 8});
  std::memcpy(bytes + size - 8, &hash, 8);
  return size;
}

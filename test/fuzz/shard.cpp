// Reads the input as a shard (tar or tar.gz) of .npy, .cls and .json members, and assembles its
// samples.
#include "executor/data/batcher.h"
#include "executor/data/webdataset.h"
#include "test/executor_files/whole_sample.h"

#include "input_file.h"

#include <cstring>

using namespace maestro;

namespace {
constexpr size_t kBlock = 512;

const data::Batcher &batcher() {
  using data::Combine, data::DimSpec;
  static auto made = *data::Batcher::create(
      {{"batch", Combine::Sum, 16, 1}, {"seq", Combine::Max, 64, 8}, {"images", Combine::Sum, 4, 1}},
      {{.name = "ids", .dtype = DType::I64, .dims = {DimSpec::of(0), DimSpec::of(1)}, .indexLimit = 1000},
       {.name = "label", .dtype = DType::I64, .dims = {DimSpec::of(0)}, .optional = false},
       {.name = "image",
        .dtype = DType::F32,
        .dims = {DimSpec::of(2), DimSpec::fixed(2), DimSpec::of(1)},
        .optional = true}});
  return *made;
}

/// Puts a sample alone into a micro-batch.
void assemble(const data::Sample &sample) {
  std::vector<int64_t> sizes(3), combined(3);
  if (!batcher().measure(sample, sizes).isOk())
    return;
  batcher().combine(sizes, combined);
  const data::Sample *samples[] = {&sample};
  for (size_t field = 0; field < 3; ++field) {
    std::vector<std::byte> target(batcher().bytes(field, combined));
    if (batcher().write(field, samples, combined, target).code() == StatusCode::Internal)
      std::abort();
  }
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  data::WebDatasetOptions options{.shards = {test::InputFile::holding(bytes, size)},
                                  .fields = {{"ids", false}, {"label", true}, {"image", true}}};
  options.shuffle = size % 2;
  auto reader = data::openWebDataset(options);
  if (!reader || !(*reader)->seek({}).isOk())
    return 0;
  test::WholeSample sample;
  for (int i = 0; i < 20 && test::readWhole(**reader, sample).isOk(); ++i)
    assemble(sample);
  return 0;
}

#ifdef MAESTRO_FUZZ
extern "C" size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t maxSize);

/// Most mutations break a header's checksum, and then nothing behind it is reached: it is mended in
/// all but some of the outcomes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t maxSize, unsigned seed) {
  size = LLVMFuzzerMutate(bytes, size, maxSize);
  for (size_t at = 0; seed % 8 != 0 && at + kBlock <= size; at += kBlock) {
    uint8_t *block = bytes + at;
    if (std::memcmp(block + 257, "ustar", 5) != 0)
      continue;
    std::memset(block + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i)
      sum += block[i];
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    std::memcpy(block + 148, text, 7);
  }
  return size;
}
#endif

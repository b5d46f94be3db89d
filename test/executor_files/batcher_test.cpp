#include "executor/data/batcher.h"

#include <gmock/gmock.h>

#include <cstring>

namespace maestro::data {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kBatch = 0, kSeq = 1, kImages = 2;

/// A vision-language model: tokens and labels, and images that a sample may lack.
std::vector<SymbolSpec> symbols() {
  return {{"batch", Combine::Sum, 16, 1}, {"seq", Combine::Max, 10, 4}, {"images", Combine::Sum, 3, 1}};
}
std::vector<FieldSpec> fields() {
  return {{.name = "ids", .dtype = DType::I64, .dims = {DimSpec::of(kBatch), DimSpec::of(kSeq)}, .indexLimit = 100},
          {.name = "labels",
           .dtype = DType::I64,
           .dims = {DimSpec::of(kBatch), DimSpec::of(kSeq)},
           .pad = -100,
           .indexLimit = 100,
           .ignoreIndex = -100},
          {.name = "pixels", .dtype = DType::F32, .dims = {DimSpec::of(kImages), DimSpec::fixed(2)}, .optional = true}};
}

std::unique_ptr<Batcher> makeBatcher(std::vector<FieldSpec> fields = maestro::data::fields()) {
  auto batcher = Batcher::create(symbols(), std::move(fields));
  EXPECT_TRUE(batcher.isOk()) << batcher.status().message();
  return *std::move(batcher);
}

/// Keeps the memory of the arrays of test samples.
class Samples {
public:
  template <typename T> SampleField array(DType dtype, std::vector<int64_t> dims, std::vector<T> values) {
    SampleField field{.present = true, .dtype = dtype};
    for (int64_t size : dims)
      field.dims.append(size);
    EXPECT_EQ(static_cast<size_t>(field.dims.elements()), values.size());
    auto &bytes = memory.emplace_back(values.size() * sizeof(T));
    if (!values.empty())
      std::memcpy(bytes.data(), values.data(), bytes.size());
    field.bytes = bytes;
    return field;
  }
  SampleField ids(std::vector<int64_t> values) {
    auto count = static_cast<int64_t>(values.size());
    return array<int64_t>(DType::I64, {count}, values);
  }
  Sample sample(std::string key, std::vector<SampleField> fields) {
    Sample made;
    made.key = std::move(key);
    made.shard = "part-0.tar";
    made.fields = std::move(fields);
    return made;
  }

private:
  std::vector<std::vector<std::byte>> memory;
};

template <typename T>
Status write(const Batcher &batcher, size_t field, const std::vector<Sample> &samples, std::vector<T> &values) {
  std::vector<int64_t> sizes(samples.size() * batcher.symbols().size()), combined(batcher.symbols().size());
  std::vector<const Sample *> pointers;
  for (size_t i = 0; i < samples.size(); ++i) {
    MAESTRO_TRY(batcher.measure(samples[i], std::span(sizes).subspan(i * combined.size(), combined.size())));
    pointers.push_back(&samples[i]);
  }
  batcher.combine(sizes, combined);
  values.assign(batcher.bytes(field, combined) / sizeof(T), T(77));
  return batcher.write(field, pointers, combined, std::as_writable_bytes(std::span(values)));
}

TEST(BatcherTest, padsAllFieldsOfADimAlike) {
  Samples s;
  std::vector<Sample> samples;
  samples.push_back(s.sample("a", {s.ids({1, 2}), s.ids({3, -100}), {}}));
  samples.push_back(
      s.sample("b", {s.ids({5, 6, 7}), s.ids({6, -100, 8}), s.array<float>(DType::F32, {2, 2}, {1, 2, 3, 4})}));
  auto batcher = makeBatcher();
  std::vector<int64_t> values;
  ASSERT_TRUE(write(*batcher, 0, samples, values).isOk());
  EXPECT_THAT(values, ElementsAre(1, 2, 0, 0, 5, 6, 7, 0));
  ASSERT_TRUE(write(*batcher, 1, samples, values).isOk());
  EXPECT_THAT(values, ElementsAre(3, -100, -100, -100, 6, -100, 8, -100));
  std::vector<float> pixels;
  ASSERT_TRUE(write(*batcher, 2, samples, pixels).isOk());
  EXPECT_THAT(pixels, ElementsAre(1, 2, 3, 4));
}

/// The third field's name is not in the data: 1 where one of the sample's fields has a position.
TEST(BatcherTest, ownPositionsComeFromTheSizes) {
  Samples s;
  std::vector<Sample> samples;
  SampleField rows = s.array<int64_t>(DType::I64, {2, 3}, {1, 2, 3, 4, 5, 6});
  samples.push_back(s.sample("a", {s.ids({1, 2}), s.ids({3, 4}), {}}));
  samples.push_back(s.sample("b", {rows, rows, {}}));
  samples.push_back(s.sample("c", {s.ids({5, 6, 7, 8, 9}), s.ids({6, -100, 8, 9, 10}), {}}));
  std::vector<FieldSpec> specs = fields();
  specs[2] = {
      .name = "own", .dtype = DType::F32, .dims = {DimSpec::of(kBatch), DimSpec::of(kSeq)}, .ownPositions = true};
  std::vector<float> own;
  ASSERT_TRUE(write(*makeBatcher(specs), 2, samples, own).isOk());
  EXPECT_THAT(own, ElementsAre(1, 1, 0, 0, 0, 0, 0, 0, // "a": 2 of 8
                               1, 1, 1, 0, 0, 0, 0, 0, // "b": two rows of 3
                               1, 1, 1, 0, 0, 0, 0, 0, //
                               1, 1, 1, 1, 1, 0, 0, 0));
}

TEST(BatcherTest, measuresAndCombines) {
  Samples s;
  auto batcher = makeBatcher();
  std::vector<int64_t> one(3), two(3), combined(3);
  ASSERT_TRUE(batcher->measure(s.sample("a", {s.ids({1, 2, 3, 4, 5}), s.ids({3, 4, 5, 6, 7}), {}}), one).isOk());
  EXPECT_THAT(one, ElementsAre(1, 5, 0));
  SampleField rows = s.array<int64_t>(DType::I64, {2, 3}, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(batcher->measure(s.sample("b", {rows, rows, s.array<float>(DType::F32, {2}, {1, 2})}), two).isOk());
  EXPECT_THAT(two, ElementsAre(2, 3, 1));
  std::vector<int64_t> manifest = one;
  manifest.insert(manifest.end(), two.begin(), two.end());
  batcher->combine(manifest, combined);
  EXPECT_THAT(combined, ElementsAre(3, 8, 1));
  std::vector<uint32_t> members = {1};
  batcher->combine(manifest, members, combined);
  EXPECT_THAT(combined, ElementsAre(2, 4, 1));
  EXPECT_EQ(toString(batcher->shape(0, combined)), "[2, 4]");
}

TEST(BatcherTest, aModalityWithoutSamplesIsEmpty) {
  Samples s;
  std::vector<Sample> samples;
  samples.push_back(s.sample("a", {s.ids({1}), s.ids({3}), {}}));
  std::vector<float> pixels;
  ASSERT_TRUE(write(*makeBatcher(), 2, samples, pixels).isOk());
  EXPECT_TRUE(pixels.empty());
}

TEST(BatcherTest, aSumDimMayStandAnywhere) {
  auto batcher = Batcher::create(
      {{"batch", Combine::Sum, 4, 1}, {"seq", Combine::Max, 4, 1}},
      {{.name = "x", .dtype = DType::I32, .dims = {DimSpec::of(1), DimSpec::of(0), DimSpec::fixed(2)}}});
  ASSERT_TRUE(batcher.isOk());
  Samples s;
  std::vector<Sample> samples;
  samples.push_back(s.sample("a", {s.array<int32_t>(DType::I32, {2, 2}, {1, 2, 3, 4})}));
  samples.push_back(s.sample("b", {s.array<int32_t>(DType::I32, {1, 1, 2}, {5, 6})}));
  std::vector<int32_t> values;
  ASSERT_TRUE(write(**batcher, 0, samples, values).isOk());
  EXPECT_THAT(values, ElementsAre(1, 2, 5, 6, 3, 4, 0, 0));
}

TEST(BatcherTest, convertsWhatLosesNothing) {
  Samples s;
  std::vector<Sample> samples;
  samples.push_back(s.sample("a", {s.array<int32_t>(DType::I32, {2}, {1, 2}), s.array<uint8_t>(DType::U8, {2}, {3, 4}),
                                   s.array<double>(DType::F64, {2}, {0.5, 0.1})}));
  auto batcher = makeBatcher();
  std::vector<int64_t> values;
  ASSERT_TRUE(write(*batcher, 0, samples, values).isOk());
  EXPECT_THAT(values, ElementsAre(1, 2, 0, 0));
  ASSERT_TRUE(write(*batcher, 1, samples, values).isOk());
  EXPECT_THAT(values, ElementsAre(3, 4, -100, -100));
  std::vector<float> pixels;
  ASSERT_TRUE(write(*batcher, 2, samples, pixels).isOk());
  EXPECT_THAT(pixels, ElementsAre(0.5f, 0.1f));
  samples[0].fields[2] = s.array<double>(DType::F64, {2}, {0.5, 1e300});
  EXPECT_THAT(std::string(write(*batcher, 2, samples, pixels).message()),
              HasSubstr("holds 1e+300 at position [1], which the model's f32 cannot hold"));
  samples[0].fields[0] = s.array<float>(DType::F32, {1}, {1});
  EXPECT_THAT(std::string(write(*batcher, 0, samples, values).message()),
              HasSubstr("field 'ids' holds f32, which cannot become the i64"));
}

TEST(BatcherTest, saysOnceThatBytesOfImagesAreNotScaled) {
  Samples s;
  std::vector<Sample> samples;
  samples.push_back(s.sample("a", {s.ids({1}), s.ids({2}), s.array<uint8_t>(DType::U8, {2}, {0, 255})}));
  auto batcher = makeBatcher();
  std::vector<float> pixels;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(write(*batcher, 2, samples, pixels).isOk());
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(pixels, ElementsAre(0.0f, 255.0f));
  size_t first = said.find("field 'pixels' holds u8: the model reads numbers from 0 to 255");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("holds u8", first + 20), std::string::npos) << said;
}

TEST(BatcherTest, namesIdsOutsideTheirRange) {
  Samples s;
  std::vector<Sample> samples;
  samples.push_back(s.sample("good", {s.ids({0, 99}), s.ids({1, 2}), {}}));
  samples.push_back(s.sample("bad", {s.ids({1, 2, 100}), s.ids({-100, -1, 2}), {}}));
  std::vector<int64_t> values;
  EXPECT_EQ(write(*makeBatcher(), 0, samples, values).message(),
            "sample 'bad' of shard 'part-0.tar': field 'ids' holds 100 at position [2], outside "
            "[0, 100); the model knows 100: is it made for another vocabulary, or other classes?");
  EXPECT_EQ(write(*makeBatcher(), 1, samples, values).message(),
            "sample 'bad' of shard 'part-0.tar': field 'labels' holds -1 at position [1], outside "
            "[0, 100) and not the ignored -100; write -100 where none counts");
}

TEST(BatcherTest, namesWhatDoesNotFit) {
  Samples s;
  auto batcher = makeBatcher();
  std::vector<int64_t> sizes(3);
  auto refusal = [&](SampleField ids, SampleField labels, SampleField pixels) {
    Status status = batcher->measure(s.sample("k", {ids, labels, pixels}), sizes);
    EXPECT_FALSE(status.isOk());
    return std::string(status.message());
  };
  SampleField good = s.ids({1});
  EXPECT_THAT(refusal({}, good, {}), HasSubstr("sample 'k' of shard 'part-0.tar' lacks field 'ids'"));
  EXPECT_THAT(refusal(s.ids(std::vector<int64_t>(11, 1)), good, {}),
              AllOf(HasSubstr("has 11 positions in dim 'seq', above its bound of 10"), HasSubstr("dims.seq.max")));
  EXPECT_THAT(refusal(good, good, s.array<float>(DType::F32, {4, 2}, std::vector<float>(8))),
              AllOf(HasSubstr("has 4 rows in dim 'images', above its bound of 3"), HasSubstr("dims.images.max")));
  EXPECT_THAT(refusal(good, s.array<int64_t>(DType::I64, {2, 1}, {1, 2}), {}),
              HasSubstr("field 'labels' has 2 rows in dim 'batch', but field 'ids' has 1."));
  EXPECT_THAT(refusal(s.array<int64_t>(DType::I64, {}, {1}), good, {}),
              HasSubstr("has shape [], expected [batch, seq] or [seq]"));
  EXPECT_THAT(refusal(s.array<int64_t>(DType::I64, {1, 1, 1}, {1}), good, {}), HasSubstr("has shape [1, 1, 1]"));
  EXPECT_THAT(refusal(good, good, s.array<float>(DType::F32, {3}, {1, 2, 3})),
              HasSubstr("expected [images, 2] (dim 1 must be 2, as the graph was exported)"));
}

/// Neither padding nor cutting would mean anything: which label belongs to which token?
TEST(BatcherTest, refusesFieldsThatDisagreeInADim) {
  Samples s;
  std::vector<int64_t> sizes(3);
  std::vector<FieldSpec> specs = fields();
  specs.push_back(
      {.name = "mask", .dtype = DType::Bool, .dims = {DimSpec::of(kBatch), DimSpec::of(kSeq), DimSpec::of(kSeq)}});
  auto batcher = makeBatcher(specs);
  auto refusal = [&](int64_t ids, int64_t labels, std::vector<int64_t> mask) {
    auto elements = static_cast<size_t>(mask[0] * mask[1]);
    Status status =
        batcher->measure(s.sample("k", {s.ids(std::vector<int64_t>(static_cast<size_t>(ids), 1)),
                                        s.ids(std::vector<int64_t>(static_cast<size_t>(labels), 1)),
                                        {},
                                        s.array<uint8_t>(DType::Bool, mask, std::vector<uint8_t>(elements))}),
                         sizes);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(4, 4, {4, 4}), "ok");
  EXPECT_THAT(refusal(4, 9, {4, 4}),
              AllOf(HasSubstr("sample 'k' of shard 'part-0.tar': field 'labels' has 9 positions in "
                              "dim 'seq', but field 'ids' has 4. "),
                    HasSubstr("inputs.<field>.shape")));
  EXPECT_THAT(refusal(4, 3, {4, 4}), HasSubstr("'labels' has 3 positions in dim 'seq'"));
  EXPECT_THAT(refusal(4, 4, {5, 4}), HasSubstr("field 'mask' has 5 positions in dim 'seq', but field 'ids' has 4."));
  // A field's own dims, where it is the only one.
  batcher = makeBatcher({specs[3]});
  Status status =
      batcher->measure(s.sample("k", {s.array<uint8_t>(DType::Bool, {2, 3}, std::vector<uint8_t>(6))}), sizes);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("field 'mask' has 3 positions in dim 'seq', but its dim 1 has 2."));
}

/// Features of no image have no length, whatever their array says.
TEST(BatcherTest, aFieldWithoutRowsHasNoSayInOtherDims) {
  Samples s;
  std::vector<FieldSpec> specs = fields();
  specs[2].dims = {DimSpec::of(kImages), DimSpec::of(kSeq)};
  auto batcher = makeBatcher(specs);
  std::vector<int64_t> sizes(3);
  SampleField none = s.array<float>(DType::F32, {0, 9}, {}),
              two = s.array<float>(DType::F32, {2, 9}, std::vector<float>(18));
  ASSERT_TRUE(batcher->measure(s.sample("a", {s.ids({1, 2}), s.ids({1, 2}), none}), sizes).isOk());
  EXPECT_THAT(sizes, ElementsAre(1, 2, 0));
  ASSERT_TRUE(batcher->measure(s.sample("a", {s.ids({1, 2}), s.ids({1, 2}), {}}), sizes).isOk());
  EXPECT_THAT(std::string(batcher->measure(s.sample("a", {s.ids({1, 2}), s.ids({1, 2}), two}), sizes).message()),
              HasSubstr("field 'pixels' has 9 positions in dim 'seq', but field 'ids' has 2."));
}

TEST(BatcherTest, refusesSpecsThatCannotBeAssembled) {
  auto refusal = [](FieldSpec field) {
    auto batcher = Batcher::create(symbols(), {field});
    EXPECT_FALSE(batcher.isOk());
    return std::string(batcher.status().message());
  };
  EXPECT_THAT(refusal({.name = "x", .dims = {DimSpec::of(kSeq)}}),
              HasSubstr("'x' [seq] has 0 dims that combine by sum"));
  EXPECT_THAT(refusal({.name = "x", .dims = {DimSpec::of(kBatch), DimSpec::of(kImages)}}),
              HasSubstr("has 2 dims that combine by sum"));
  EXPECT_THAT(refusal({.name = "x", .dims = {DimSpec::of(7)}}), HasSubstr("dim 0 has no size"));
  EXPECT_THAT(refusal({.name = "x", .dtype = DType::U8, .dims = {DimSpec::of(kBatch)}, .pad = -1}),
              HasSubstr("pad -1 does not fit its element type u8"));
  EXPECT_THAT(refusal({.name = "x", .dtype = DType::I64, .dims = {DimSpec::of(kBatch)}, .pad = 0.5}),
              HasSubstr("pad 0.5"));
}

} // namespace
} // namespace maestro::data

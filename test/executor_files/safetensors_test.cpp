#include "executor/checkpoint/safetensors.h"

#include "scratch_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

namespace maestro::checkpoint {
namespace {
using test::ScratchFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T> std::span<const std::byte> bytes(const std::vector<T> &values) {
  return std::as_bytes(std::span(values));
}

std::string refusal(std::string_view json, uint64_t dataBytes) {
  auto header = parseSafetensorsHeader(json, dataBytes);
  EXPECT_FALSE(header.isOk()) << json;
  return std::string(header.status().message());
}

SafetensorsFile open(const std::string &path) {
  auto file = SafetensorsFile::open(path);
  EXPECT_TRUE(file.isOk()) << file.status().message();
  return *std::move(file);
}

TEST(SafetensorsTest, readsWhatTorchWrites) {
  SafetensorsFile file = open(std::string(MAESTRO_GOLDEN_FILES) + "/types.safetensors");
  EXPECT_EQ(file.metadata().at("made"), "by torch");
  ASSERT_EQ(file.tensors().size(), 5u);
  std::vector<float> a(6), b(2);
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_THAT(file.find("a")->shape, ElementsAre(2, 3));
  ASSERT_TRUE(file.read(*file.find("a"), std::as_writable_bytes(std::span(a))).isOk());
  EXPECT_THAT(a, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(file.find("b")->dtype, DType::BF16);
  ASSERT_TRUE(file.readAs(*file.find("b"), DType::F32, std::as_writable_bytes(std::span(b))).isOk());
  EXPECT_THAT(b, ElementsAre(1.5f, -2.0f));
  int64_t c = 0;
  ASSERT_TRUE(file.read(*file.find("c"), std::as_writable_bytes(std::span(&c, 1))).isOk());
  EXPECT_EQ(c, 7);
  EXPECT_EQ(file.find("d")->dtype, DType::Bool);
  EXPECT_EQ(file.find("e")->bytes, 0u);
  EXPECT_EQ(file.find("f"), nullptr);
  float wrong = 0;
  EXPECT_THAT(
      std::string(file.readAs(*file.find("a"), DType::I32, std::as_writable_bytes(std::span(&wrong, 1))).message()),
      HasSubstr("holds f32, which cannot become i32"));
}

TEST(SafetensorsTest, readsPartsOfATensor) {
  SafetensorsFile file = open(std::string(MAESTRO_GOLDEN_FILES) + "/types.safetensors");
  std::vector<float> part(2);
  ASSERT_TRUE(file.readAs(*file.find("a"), DType::F32, std::as_writable_bytes(std::span(part)), 3).isOk());
  EXPECT_THAT(part, ElementsAre(3, 4));
  std::vector<double> wide(1);
  ASSERT_TRUE(file.readAs(*file.find("b"), DType::F64, std::as_writable_bytes(std::span(wide)), 1).isOk());
  EXPECT_THAT(wide, ElementsAre(-2.0));
  EXPECT_FALSE(file.readAs(*file.find("a"), DType::F32, std::as_writable_bytes(std::span(part)), 5).isOk());
  EXPECT_FALSE(file.readAs(*file.find("a"), DType::F32, std::as_writable_bytes(std::span(part)), 7).isOk());
}

TEST(SafetensorsTest, followsTiedNames) {
  SafetensorsFile file = open(std::string(MAESTRO_GOLDEN_FILES) + "/tied.safetensors");
  EXPECT_EQ(file.find("head.weight"), nullptr);
  ASSERT_NE(file.findTied("head.weight"), nullptr);
  EXPECT_EQ(file.findTied("head.weight")->name, "embed.weight");
  EXPECT_EQ(file.findTied("other"), nullptr);
}

TEST(SafetensorsTest, writesWhatItReads) {
  ScratchFolder folder;
  std::vector<TensorInfo> tensors(3);
  tensors[0] = {.name = "weight \"quoted\"", .dtype = DType::F32, .shape = {300, 400}};
  tensors[1] = {.name = "scalar", .dtype = DType::I64, .shape = {}};
  tensors[2] = {.name = "none", .dtype = DType::BF16, .shape = {0, 7}};
  std::vector<float> weight(120000);
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] = static_cast<float>(i) * 0.25f;
  std::vector<int64_t> scalar = {-5};
  auto writer = SafetensorsWriter::create(folder.file("x.safetensors"), tensors, {{"tied", "scalar"}});
  ASSERT_TRUE(writer.isOk());
  ASSERT_TRUE(writer->append(bytes(weight).first(1000)).isOk());
  ASSERT_TRUE(writer->append(bytes(weight).subspan(1000)).isOk());
  EXPECT_THAT(std::string(writer->finish().message()), HasSubstr("its header says"));
  ASSERT_TRUE(writer->append(bytes(scalar)).isOk());
  ASSERT_TRUE(writer->finish().isOk());

  SafetensorsFile file = open(folder.file("x.safetensors"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.findTied("tied")->name, "scalar");
  std::vector<float> read(weight.size());
  ASSERT_TRUE(file.read(*file.find("weight \"quoted\""), std::as_writable_bytes(std::span(read))).isOk());
  EXPECT_EQ(read, weight);
  std::vector<double> wide(weight.size());
  ASSERT_TRUE(file.readAs(*file.find("weight \"quoted\""), DType::F64, std::as_writable_bytes(std::span(wide))).isOk());
  EXPECT_EQ(wide[119999], 29999.75);
  EXPECT_THAT(file.find("none")->shape, ElementsAre(0, 7));
}

TEST(SafetensorsTest, namesTheTensorThatDoesNotFit) {
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
              HasSubstr("tensor 'a' ends at byte 8 of the data, which has 4"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 12),
              HasSubstr("have 8 bytes, but 12 follow"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor 'a' of f32 needs 12 bytes"));
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6),
      HasSubstr("tensor 'b' begins at byte 2 of the data, overlapping"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6), HasSubstr("leaving a gap"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[6,2]}})", 6), HasSubstr("begin <= end"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4),
              HasSubstr("element type 'F8_E4M3'"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"F64","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,0]}})", 0),
      HasSubstr("more than 2^63"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"F64","shape":[4611686018427387904,4611686018427387904,0],"data_offsets":[0,0]}})", 0),
      HasSubstr("more than 2^63"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F64","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0),
              HasSubstr("above 2^63 - 1"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F64","shape":[-1],"data_offsets":[0,0]}})", 0),
              HasSubstr("negative number -1"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,18446744073709551615]}})", 1),
      HasSubstr("ends at byte"));
}

TEST(SafetensorsTest, refusesWhatAppearsTwice) {
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
          0),
      HasSubstr("tensor 'a' appears twice"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0),
              HasSubstr("key 'dtype', which is unknown or repeated"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"x":"1","x":"2"}})", 0), HasSubstr("key 'x' twice"));
  EXPECT_THAT(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("__metadata__ appears twice"));
}

TEST(SafetensorsTest, refusesOtherJson) {
  for (const char *json :
       {"", "{", "[]", "7", "null", "{\"a\":1}", "{\"a\":[1]}", "{\"a\":{}}", "{\"\":{}}", "{\"a\":{\"dtype\":7}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[[0]],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[0.5],\"data_offsets\":[0,0]}}", "{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0,0]}}", "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":\"a\"}", "{\"a\":{\"more\":{}}}", "{} {}"})
    EXPECT_FALSE(parseSafetensorsHeader(json, 0).isOk()) << json;
  EXPECT_TRUE(parseSafetensorsHeader("{}", 0).isOk());
  EXPECT_TRUE(parseSafetensorsHeader("{\"__metadata__\":{}}   ", 0).isOk());
  std::string deep(1'000'000, '[');
  EXPECT_FALSE(parseSafetensorsHeader(deep, 0).isOk());
}

TEST(SafetensorsTest, everyCutIsNoticed) {
  ScratchFolder folder;
  std::string whole = test::readFile(std::string(MAESTRO_GOLDEN_FILES) + "/types.safetensors");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(SafetensorsFile::open(folder.write("cut", whole.substr(0, length))).isOk()) << length;
  std::string huge = whole;
  huge[5] = 1; // A header of 2^40 bytes.
  auto file = SafetensorsFile::open(folder.write("huge", huge));
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("its header claims 10995116"));
  EXPECT_FALSE(SafetensorsFile::open(folder.path).isOk());
  EXPECT_FALSE(SafetensorsFile::open(folder.file("nothing")).isOk());
}

} // namespace
} // namespace maestro::checkpoint

// What --weights may name: a file, an index of several, a folder. All of it untrusted.
#include "base/weights_location.h"
#include "executor/checkpoint/weight_set.h"

#include "scratch_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace maestro::checkpoint {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string withHeader(const std::string &header, std::span<const float> values) {
  std::string content;
  for (int i = 0; i < 8; ++i)
    content.push_back(static_cast<char>(header.size() >> (8 * i)));
  return content.append(header).append(reinterpret_cast<const char *>(values.data()), values.size_bytes());
}

/// A safetensors file whose one tensor is [value].
std::string oneTensor(std::string_view name, float value, std::string_view metadata = "") {
  return withHeader(fmt::format(R"({{{}"{}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}})", metadata, name),
                    {&value, 1});
}

std::string twoTensors(std::string_view one, std::string_view other) {
  float values[] = {1, 2};
  return withHeader(
      fmt::format(
          R"({{"{}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},"{}":{{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}}})",
          one, other),
      values);
}

class WeightSetTest : public ::testing::Test {
protected:
  /// Two files, and an index of this text.
  std::string writeIndex(std::string_view text = kIndex) {
    folder.write("model-00001-of-00002.safetensors", oneTensor("a", 1));
    folder.write("model-00002-of-00002.safetensors", oneTensor("b", 2, R"("__metadata__":{"c":"a"},)"));
    return folder.write("model.safetensors.index.json", text);
  }
  float valueOf(const WeightSet &set, std::string_view name) {
    WeightSet::Place place = set.findTied(name);
    float value = -1;
    if (place.tensor)
      EXPECT_TRUE(place.file->read(*place.tensor, std::as_writable_bytes(std::span(&value, 1))).isOk());
    return value;
  }
  std::string refusal(const std::string &path) {
    auto set = WeightSet::open(path);
    EXPECT_FALSE(set.isOk()) << path;
    return std::string(set.status().message());
  }

  static constexpr std::string_view kIndex =
      R"({"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})";
  test::ScratchFolder folder;
};

TEST_F(WeightSetTest, readsAllFilesOfAnIndex) {
  std::string index = writeIndex();
  for (const std::string &path : {index, folder.path, folder.file("model.safetensors")}) {
    auto set = WeightSet::open(path);
    ASSERT_TRUE(set.isOk()) << set.status().message();
    EXPECT_EQ(valueOf(*set, "a"), 1);
    EXPECT_EQ(valueOf(*set, "b"), 2);
    EXPECT_EQ(valueOf(*set, "c"), 1) << "tied in one file to a tensor of another";
    EXPECT_EQ(valueOf(*set, "d"), -1);
  }
}

TEST_F(WeightSetTest, findsTheFileOfAFolder) {
  folder.write("adapter.safetensors", oneTensor("a", 3));
  EXPECT_EQ(locateWeights(folder.path)->path, folder.file("adapter.safetensors"));
  folder.write("other.safetensors", oneTensor("a", 4));
  EXPECT_THAT(refusal(folder.path),
              AllOf(HasSubstr("holds 2 files of weights, such as 'adapter.safetensors'"), HasSubstr("name one file")));
  writeIndex();
  EXPECT_EQ(locateWeights(folder.path)->path, folder.file("model.safetensors.index.json"));
  folder.write("model.safetensors", oneTensor("a", 5));
  auto set = WeightSet::open(folder.path);
  ASSERT_TRUE(set.isOk()) << set.status().message();
  EXPECT_EQ(valueOf(*set, "a"), 5) << "as transformers prefers it";
  EXPECT_EQ(locateWeights(folder.path, "other")->path, folder.file("other.safetensors")) << "as checkpoints have it";
  EXPECT_EQ(locateWeights(folder.path, "student")->path, folder.file("model.safetensors"));
  folder.write("student.safetensors.index.json", "{}");
  EXPECT_EQ(locateWeights(folder.path, "student")->path, folder.file("student.safetensors.index.json"));
}

/// Hugging Face's cache is links into another folder; an index's words may not lead there.
TEST_F(WeightSetTest, followsLinksButNoPaths) {
  test::ScratchFolder blobs;
  blobs.write("0a1b", oneTensor("a", 6));
  std::filesystem::create_symlink(blobs.file("0a1b"), folder.file("model.safetensors"));
  auto set = WeightSet::open(folder.path);
  ASSERT_TRUE(set.isOk()) << set.status().message();
  EXPECT_EQ(valueOf(*set, "a"), 6);
  for (std::string name :
       {"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "..", ".", "", "x\\\\y.safetensors"})
    EXPECT_THAT(refusal(writeIndex(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name))),
                HasSubstr("only files in the index's own folder are read"));
}

TEST_F(WeightSetTest, refusesAnIndexThatDoesNotFitItsFiles) {
  auto indexed = [&](std::string_view map) { return refusal(writeIndex(fmt::format(R"({{"weight_map":{}}})", map))); };
  EXPECT_THAT(indexed(R"({"z":"model-00001-of-00002.safetensors"})"),
              HasSubstr("says that 'z' lies in 'model-00001-of-00002.safetensors', which lacks it"));
  EXPECT_THAT(indexed(R"({"a":"model-00003-of-00003.safetensors"})"), HasSubstr("model-00003-of-00003.safetensors"));
  EXPECT_THAT(indexed(R"({"a":7})"), HasSubstr("'a' names no file"));
  EXPECT_THAT(indexed("{}"), HasSubstr("weight_map is empty"));
  EXPECT_THAT(indexed("[]"), HasSubstr("has no \"weight_map\""));
  EXPECT_THAT(indexed(R"({"a":"pytorch_model.bin"})"),
              AllOf(HasSubstr("no safetensors file"), HasSubstr("save_pretrained")));
  EXPECT_THAT(refusal(writeIndex("no JSON")), HasSubstr("has no \"weight_map\""));
  EXPECT_THAT(refusal(writeIndex(std::string(1 << 20, '['))), HasSubstr("has no \"weight_map\""));
  folder.write("z.safetensors", twoTensors("a", "z"));
  EXPECT_THAT(indexed(R"({"a":"model-00001-of-00002.safetensors","z":"z.safetensors"})"),
              HasSubstr("tensor 'a' lies both in 'model-00001-of-00002.safetensors' and in 'z.safetensors'"));
  std::string index = writeIndex();
  std::filesystem::resize_file(index, kMaxWeightsIndexBytes + 1);
  EXPECT_THAT(refusal(index), HasSubstr("above the limit of 33554432"));
}

TEST_F(WeightSetTest, saysWhatToDoAboutOtherFormats) {
  std::string pickle = folder.write("pytorch_model.bin", std::string("PK\x03\x04 and then some", 20));
  EXPECT_THAT(refusal(folder.path), AllOf(HasSubstr("pytorch_model.bin: is a pickle"), HasSubstr("save_pretrained")));
  EXPECT_THAT(refusal(pickle), AllOf(HasSubstr("is a pickle"), HasSubstr("save_pretrained")));
  EXPECT_THAT(refusal(folder.write("pytorch_model.bin.index.json", "{}")), HasSubstr("is a pickle"));
  EXPECT_THAT(refusal(folder.write("model.gguf", "GGUF and so on, and so on")), HasSubstr("GGUF"));
  EXPECT_THAT(refusal(folder.write("index.txt", R"({"weight_map": {}})")), HasSubstr("named *.safetensors.index.json"));
  test::ScratchFolder empty;
  EXPECT_THAT(refusal(empty.path), HasSubstr("holds no safetensors file"));
  EXPECT_THAT(refusal(empty.file("none")), HasSubstr("No such file"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("no regular file"));
}

TEST(PrefixHint, namesWhatStandsBeforeAName) {
  std::vector<std::string> wrapped = {"module.head.bias", "module.head.weight"}, part = {"layers.0.weight"};
  EXPECT_EQ(prefixHint("student", "head.weight", wrapped),
            "; they have 'module.head.weight': write components.student.strip: module.");
  EXPECT_THAT(prefixHint("student", "model.layers.0.weight", part),
              AllOf(HasSubstr("'layers.0.weight', without 'model.'"), HasSubstr("save them from the model")));
  EXPECT_EQ(prefixHint("student", "ead.weight", wrapped), "");
  EXPECT_EQ(prefixHint("student", "tail.weight", wrapped), "");
}

} // namespace
} // namespace maestro::checkpoint

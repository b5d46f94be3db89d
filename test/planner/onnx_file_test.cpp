// Damaged, foreign and hostile model files end in a message, and weights are located without being read.
#include "onnx_text.h"
#include "planner/import/onnx_file.h"
#include "planner/import/wire_strip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace maestro::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const char *kSmall = R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 4] x) => (float[batch, 4] y)
<float[4] w = {1, 2, 3, 4}>
{ y = Add(x, w) }
)";

std::string messageOf(const std::string &bytes, const std::string &path = "m.onnx") {
  auto file = parseOnnx({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, path);
  return file ? "" : std::string(file.status().message());
}

onnx::ModelProto parsed(const char *text) {
  onnx::ModelProto model;
  model.ParseFromString(modelBytes(text));
  return model;
}

/// A folder of its own that disappears with the test.
class OnnxFolder : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("maestro_onnx_" + std::to_string(::getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string write(const std::string &name, const std::string &bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  }
  onnx::ModelProto external(const std::string &location, int64_t offset, const std::string &length) {
    onnx::ModelProto model = parsed(kSmall);
    auto *tensor = model.mutable_graph()->mutable_initializer(0);
    tensor->clear_float_data();
    tensor->clear_raw_data();
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    auto add = [&](const char *key, const std::string &value) {
      auto *entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location);
    add("offset", std::to_string(offset));
    if (!length.empty())
      add("length", length);
    return model;
  }
  std::string readError(const onnx::ModelProto &model) {
    auto file = readOnnxFile(write("m.onnx", model.SerializeAsString()));
    return file ? "" : std::string(file.status().message());
  }
  fs::path folder;
};

TEST(OnnxFile, AcceptsAGoodModel) { EXPECT_EQ(messageOf(modelBytes(kSmall)), ""); }

TEST(OnnxFile, RefusesForeignFiles) {
  EXPECT_THAT(messageOf(""), HasSubstr("empty"));
  EXPECT_THAT(messageOf("PK\x03\x04zip"), HasSubstr("zip"));
  EXPECT_THAT(messageOf("{\"a\": 1}"), HasSubstr("JSON"));
  EXPECT_THAT(messageOf(std::string(1000, '\0')), HasSubstr("not a whole ONNX model"));
  EXPECT_THAT(messageOf("hello world, this is no model"), HasSubstr("not"));
  EXPECT_THAT(std::string(readOnnxFile("/nonexistent.onnx").status().message()), HasSubstr("No such file"));
  EXPECT_THAT(std::string(readOnnxFile("/tmp").status().message()), HasSubstr("not a regular file"));
}

TEST(OnnxFile, RefusesEveryTruncation) {
  std::string bytes = modelBytes(kSmall);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(messageOf(bytes.substr(0, length)), "") << length;
}

TEST(OnnxFile, SurvivesEveryFlippedByte) {
  std::string bytes = modelBytes(kSmall);
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      std::string result = importedBytes(changed);
      EXPECT_FALSE(result.empty());
    }
}

TEST(OnnxFile, RefusesVersionsItDoesNotKnow) {
  onnx::ModelProto model = parsed(kSmall);
  model.mutable_opset_import(0)->set_version(9999);
  EXPECT_THAT(messageOf(model.SerializeAsString()), HasSubstr("operator set 9999"));
  model.mutable_opset_import(0)->set_version(20);
  model.set_ir_version(1);
  EXPECT_THAT(messageOf(model.SerializeAsString()), HasSubstr("IR version 1"));
}

TEST(OnnxFile, RefusesBadNames) {
  onnx::ModelProto model = parsed(kSmall);
  *model.mutable_graph()->add_node() = model.graph().node(0);
  EXPECT_THAT(messageOf(model.SerializeAsString()), HasSubstr("'y' is defined twice"));
  model = parsed(kSmall);
  *model.mutable_graph()->add_initializer() = model.graph().initializer(0);
  EXPECT_THAT(messageOf(model.SerializeAsString()), HasSubstr("'w' is defined twice"));
  model = parsed(kSmall);
  model.mutable_graph()->mutable_node(0)->set_input(1, "weight");
  EXPECT_THAT(messageOf(model.SerializeAsString()), HasSubstr("reads 'weight', which nothing defines"));
  model = parsed(kSmall);
  model.mutable_graph()->mutable_output(0)->set_name("z");
  EXPECT_THAT(messageOf(model.SerializeAsString()), HasSubstr("graph output 'z'"));
}

TEST(OnnxFile, SortsNodesAndRefusesCycles) {
  const char *unordered = R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[4] x) => (float[4] y) { y = Exp(a)
 a = Neg(x) }
)";
  EXPECT_THAT(imported(unordered), AllOf(HasSubstr("nn.neg"), HasSubstr("nn.exp")));
  const char *cyclic = R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[4] x) => (float[4] y) { y = Add(x, a)
 a = Neg(y) }
)";
  EXPECT_THAT(imported(cyclic), HasSubstr("cycle"));
}

TEST(OnnxFile, RefusesDataThatContradictsItsShape) {
  onnx::ModelProto model = parsed(kSmall);
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, 5);
  EXPECT_THAT(messageOf(model.SerializeAsString()), HasSubstr("'w'"));
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, -4);
  EXPECT_THAT(messageOf(model.SerializeAsString()), HasSubstr("-4"));
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t(1) << 62);
  EXPECT_NE(messageOf(model.SerializeAsString()), "");
}

TEST(OnnxFile, LocatesInlineDataWithoutKeepingIt) {
  onnx::ModelProto model = parsed(kSmall);
  auto *tensor = model.mutable_graph()->mutable_initializer(0);
  tensor->clear_float_data();
  tensor->set_dims(0, 1 << 20);
  std::string data(4 << 20, '\x5a');
  tensor->set_raw_data(data);
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(1 << 20);
  std::string bytes = model.SerializeAsString();
  auto file = parseOnnx({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, "m.onnx");
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_LT(file->model().ByteSizeLong(), 10000u);
  auto source = file->locate(file->graph().initializer(0));
  ASSERT_TRUE(source && *source);
  EXPECT_EQ((*source)->length, data.size());
  EXPECT_EQ(bytes.substr((*source)->offset, (*source)->length), data);
}

TEST_F(OnnxFolder, LocatesExternalData) {
  write("w.data", std::string(100, 'x'));
  EXPECT_EQ(readError(external("w.data", 8, "16")), "");
  EXPECT_EQ(readError(external("w.data", 84, "")), "");
  EXPECT_THAT(readError(external("w.data", 85, "16")), AllOf(HasSubstr("too short"), HasSubstr("100 bytes")));
  EXPECT_THAT(readError(external("w.data", 0, "20")), HasSubstr("20 bytes"));
  EXPECT_THAT(readError(external("missing.data", 0, "16")), HasSubstr("does not exist"));
}

TEST_F(OnnxFolder, ExternalDataStaysInItsFolder) {
  write("w.data", std::string(100, 'x'));
  fs::create_symlink(folder / "w.data", folder / "link.data");
  fs::create_directories(folder / "sub");
  fs::create_directory_symlink(folder / "sub", folder / "linked");
  write("sub/w.data", std::string(100, 'x'));
  EXPECT_EQ(readError(external("sub/w.data", 0, "16")), "");
  EXPECT_THAT(readError(external("link.data", 0, "16")), HasSubstr("symbolic link"));
  EXPECT_THAT(readError(external("linked/w.data", 0, "16")), HasSubstr("symbolic link"));
  EXPECT_THAT(readError(external("../x.data", 0, "16")), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(readError(external("sub/../w.data", 0, "16")), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(readError(external("/etc/passwd", 0, "16")), HasSubstr("absolute"));
  EXPECT_THAT(readError(external("sub", 0, "16")), HasSubstr("not a regular file"));
  EXPECT_THAT(readError(external("", 0, "16")), HasSubstr("without a location"));
}

TEST(WireStrip, KeepsSmallDataAndNotesItsPlace) {
  std::string bytes = modelBytes(kSmall);
  auto stripped = stripWeights({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  ASSERT_TRUE(stripped);
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(*stripped));
  EXPECT_EQ(model.graph().initializer(0).float_data_size(), 4);
  ASSERT_EQ(model.graph().initializer(0).external_data_size(), 1);
  EXPECT_EQ(model.graph().initializer(0).external_data(0).key(), kInlineDataKey);
}

} // namespace
} // namespace maestro::planner

// weights: FILE.safetensors in a workload: whose values the plan points to, and what is refused.
#include "planner/emit/emit_plan.h"
#include "planner/emit/weights_file.h"
#include "test/executor_files/scratch_folder.h"

#include "gtest/gtest.h"

namespace maestro::planner {
namespace {

std::string safetensors(const std::string &header, size_t dataBytes) {
  std::string content;
  for (int i = 0; i < 8; ++i)
    content.push_back(static_cast<char>(header.size() >> (8 * i)));
  return content + header + std::string(dataBytes, '\0');
}

const std::string kTwo = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                         R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]},)"
                         R"("__metadata__":{"head":"w","format":"pt"}})";

GraphParameter parameter(const std::string &name, std::vector<int64_t> shape) {
  GraphParameter result;
  result.component = "m";
  result.fullName = "m/" + name;
  result.info.name = name;
  result.shape = std::move(shape);
  return result;
}

class WeightsTest : public ::testing::Test {
protected:
  Status apply(const std::string &content, std::vector<GraphParameter> parameters) {
    Workload workload;
    ComponentSpec component;
    component.name = "m";
    component.weights = folder.write("w.safetensors", content);
    workload.components.push_back(component);
    graph.parameters = std::move(parameters);
    return applyWeightFiles(workload, graph);
  }
  std::string failure(const std::string &content, std::vector<GraphParameter> parameters) {
    Status status = apply(content, std::move(parameters));
    EXPECT_FALSE(status.isOk());
    return std::string(status.message());
  }

  test::ScratchFolder folder;
  GraphSummary graph;
};

TEST_F(WeightsTest, PointsIntoTheFile) {
  GraphParameter held = parameter("w", {2, 3});
  held.info.source = TensorSource{"model.onnx", 5, 24};
  held.info.transposed = true;
  Status status = apply(safetensors(kTwo, 30), {held, parameter("b", {3})});
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(graph.parameters[0].info.source->file, folder.file("w.safetensors"));
  EXPECT_EQ(graph.parameters[0].info.source->offset, 8 + kTwo.size());
  EXPECT_EQ(graph.parameters[0].info.source->length, 24u);
  EXPECT_FALSE(graph.parameters[0].info.transposed);
  EXPECT_EQ(graph.parameters[1].info.source->offset, 8 + kTwo.size() + 24);
  EXPECT_EQ(graph.parameters[1].sourceDtype, DType::BF16);
}

TEST_F(WeightsTest, FollowsTiedNames) {
  GraphParameter alias = parameter("other", {3});
  alias.info.aliases = {"b"};
  ASSERT_TRUE(apply(safetensors(kTwo, 30), {parameter("head", {2, 3}), alias}).isOk());
  EXPECT_EQ(graph.parameters[0].info.source->length, 24u);
  EXPECT_EQ(graph.parameters[1].info.source->length, 6u);
}

TEST_F(WeightsTest, WhatNoStateDictHoldsKeepsItsValue) {
  GraphParameter buffer = parameter("inv_freq", {4}), constant = parameter("table", {4});
  buffer.info.kind = ParameterKind::Buffer;
  buffer.info.persistent = false;
  buffer.info.source = TensorSource{"model.onnx", 7, 16};
  constant.info.kind = ParameterKind::Constant;
  ASSERT_TRUE(apply(safetensors(kTwo, 30), {buffer, constant, parameter("w", {2, 3})}).isOk());
  EXPECT_EQ(graph.parameters[0].info.source->file, "model.onnx");
  EXPECT_FALSE(graph.parameters[1].info.source);
}

/// A Llama's inv_freq: from the graph, or from the weights, or not at all.
TEST_F(WeightsTest, ABufferThatNothingGivesIsAskedFor) {
  GraphParameter buffer = parameter("inv_freq", {4}), stored = parameter("b", {3});
  buffer.info.kind = stored.info.kind = ParameterKind::Buffer;
  buffer.info.persistent = stored.info.persistent = false;
  std::string message = failure(safetensors(kTwo, 30), {buffer});
  for (const char *word :
       {"'inv_freq' of component 'm' is not in", "persistent=False", "--weights m=FILE", "docs/guide.md"})
    EXPECT_NE(message.find(word), std::string::npos) << word << " is not in: " << message;
  ASSERT_TRUE(apply(safetensors(kTwo, 30), {stored}).isOk());
  EXPECT_EQ(graph.parameters[0].info.source->length, 6u);
  Workload workload;
  workload.components.emplace_back().name = "m";
  graph.parameters = {buffer};
  testing::internal::CaptureStderr();
  EXPECT_TRUE(applyWeightFiles(workload, graph).isOk()) << "a run may bring it";
  EXPECT_NE(testing::internal::GetCapturedStderr().find("buffer 'inv_freq' of component 'm' has no value"),
            std::string::npos);
}

TEST_F(WeightsTest, ReadsAFolderWithAnIndex) {
  std::string one = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
              two = R"({"b":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  folder.write("one.safetensors", safetensors(one, 24));
  folder.write("two.safetensors", safetensors(two, 12));
  std::string index =
      folder.write("model.safetensors.index.json", R"({"weight_map":{"w":"one.safetensors","b":"two.safetensors"}})");
  Workload workload;
  ComponentSpec &component = workload.components.emplace_back();
  component.name = "m";
  for (const std::string &path : {folder.path, index}) {
    component.weights = path;
    graph.parameters = {parameter("w", {2, 3}), parameter("b", {3})};
    Status status = applyWeightFiles(workload, graph);
    ASSERT_TRUE(status.isOk()) << status.message();
    EXPECT_EQ(graph.parameters[0].info.source->file, folder.file("one.safetensors"));
    EXPECT_EQ(graph.parameters[1].info.source->file, folder.file("two.safetensors"));
    EXPECT_EQ(graph.parameters[1].info.source->offset, 8 + two.size());
  }
  EXPECT_EQ(filesOfWeights(folder.path)->size(), 3u);
  auto refusal = [&](const std::string &text) {
    folder.write("model.safetensors.index.json", text);
    auto file = WeightsFile::open(index);
    EXPECT_FALSE(file.isOk());
    return std::string(file.status().message());
  };
  EXPECT_NE(refusal(R"({"weight_map":{"w":"two.safetensors"}})")
                .find("says that 'w' lies in 'two.safetensors', which lacks it"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"weight_map":{"w":"../one.safetensors"}})").find("own folder"), std::string::npos);
  EXPECT_NE(refusal(R"({"weight_map":{"w":{}}})").find("names no file"), std::string::npos);
  EXPECT_NE(refusal(std::string(1 << 20, '[')).find("no index"), std::string::npos);
  EXPECT_NE(refusal("{}").find("weight_map"), std::string::npos);
}

TEST_F(WeightsTest, RefusesWhatDoesNotFit) {
  std::string file = safetensors(kTwo, 30);
  EXPECT_NE(failure(file, {parameter("ww", {2, 3})}).find("did you mean 'w'"), std::string::npos);
  EXPECT_NE(failure(file, {parameter("w", {3, 2})}).find("shape [2, 3]"), std::string::npos);
  GraphParameter integer = parameter("w", {2, 3});
  integer.dtype = DType::I64;
  EXPECT_NE(failure(file, {integer}).find("stored as f32"), std::string::npos);
}

TEST_F(WeightsTest, RefusesDamagedFiles) {
  std::vector<GraphParameter> wanted = {parameter("w", {2, 3})};
  EXPECT_NE(failure("abc", wanted).find("shorter than 8 bytes"), std::string::npos);
  EXPECT_NE(failure(std::string(64, '\x7f'), wanted).find("no safetensors file"), std::string::npos);
  EXPECT_NE(failure(safetensors(kTwo, 10), wanted).find("cut off"), std::string::npos);
  EXPECT_NE(failure(safetensors("{", 0), wanted).find("no JSON"), std::string::npos);
  EXPECT_NE(failure(safetensors("[1]", 0), wanted).find("no JSON object"), std::string::npos);
  EXPECT_NE(failure(safetensors(std::string(1 << 20, '['), 0), wanted).find("nested"), std::string::npos);
  EXPECT_NE(
      failure(safetensors(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 20), wanted).find("needs 24"),
      std::string::npos);
  EXPECT_NE(failure(safetensors(R"({"w":{"dtype":"F9","shape":[],"data_offsets":[0,0]}})", 0), wanted).find("'F9'"),
            std::string::npos);
  EXPECT_NE(failure(safetensors(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", 0), wanted).find("'w'"),
            std::string::npos);
}

} // namespace
} // namespace maestro::planner

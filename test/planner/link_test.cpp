// Components linked into one graph with its losses.
#include "onnx_text.h"
#include "planner/import/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace maestro::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

const char *kTeacher = R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[batch, seq] input_ids) => (float[batch, seq, 8] logits)
<float[16, 8] table = {)";
const char *kStudent = R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[b, s] input_ids, float[b, s, 8] hint) => (float[b, s, 8] logits, float loss)
<float[16, 8] table = {)";

std::string table() {
  std::string values;
  for (int i = 0; i < 128; ++i)
    values += (i ? ", " : "") + std::to_string(i % 7);
  return values + "}>\n";
}

class Link : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("maestro_link_" + std::to_string(::getpid()));
    fs::create_directories(folder);
    write("teacher.onnx", std::string(kTeacher) + table() + "{ logits = Gather(table, input_ids) }");
    write("student.onnx",
          std::string(kStudent) + table() +
              "{ e = Gather(table, input_ids) logits = Add(e, hint) loss = ReduceMean<keepdims = 0>(logits) }");
  }
  void TearDown() override { fs::remove_all(folder); }
  void write(const std::string &name, const std::string &text) {
    std::ofstream(folder / name, std::ios::binary) << modelBytes(text);
  }
  std::string link(const std::string &yaml) {
    auto workload = parseWorkload(yaml, (folder / "w.yaml").string());
    if (!workload)
      return "error: " + std::string(workload.status().message());
    return print(*workload);
  }
  std::string print(const Workload &workload) {
    mlir::MLIRContext context;
    auto linked = importWorkload(workload, context);
    if (!linked)
      return "error: " + std::string(linked.status().message());
    std::string text;
    llvm::raw_string_ostream stream(text);
    linked->module->print(stream);
    for (const std::string &note : linked->notes)
      text += "\nnote: " + note;
    return text;
  }
  fs::path folder;
};

TEST_F(Link, DimsAreBoundedByWhatModelsSay) {
  auto said = [](const std::string &metadata) {
    return "<ir_version: 10, opset_import: [\"\" : 20], metadata_props: [\"maestro.bounds\": \"" + metadata + "\"]>" +
           R"(
g (int64[batch, seq] input_ids, float[images, 8] pixels) => (float loss)
<float[16, 8] table = {)" +
           table() + R"({
  e = Gather(table, input_ids) a = ReduceMean<keepdims = 0>(e) b = ReduceMean<keepdims = 0>(pixels) loss = Add(a, b)
})";
  };
  std::string yaml = "components: {a: {model: said.onnx}}\nloss: [{output: a.loss}]\n";
  write("said.onnx", said(R"({\"seq\": 4096, \"images\": 3, \"gone\": 7})"));
  EXPECT_THAT(link(yaml),
              AllOf(HasSubstr("dims.seq: combine max, max 4096 (component 'a' says so, maestro.bounds)"),
                    HasSubstr("dims.images: combine sum, max 3 (component 'a' says so, maestro.bounds)"),
                    HasSubstr("dims.batch: combine sum, max 1 (default)"),
                    HasSubstr("max_source = \"component 'a' says so, maestro.bounds; dims.seq.max sets it\"")));
  EXPECT_THAT(
      link(yaml + "dims: {seq: {max: 5000}}\n"),
      AllOf(HasSubstr("max = 5000"), HasSubstr("max_source = \"declared: dims.seq.max\""), Not(HasSubstr("4096"))));
  for (const char *wrong : {"[1]", R"({\"seq\": 0})", R"({\"seq\": 2.5})", "{"}) {
    write("said.onnx", said(wrong));
    EXPECT_THAT(link(yaml), AllOf(StartsWith("error: "), HasSubstr("said.onnx"),
                                  HasSubstr("metadata maestro.bounds is"), HasSubstr("export the model again")));
  }
}

TEST_F(Link, JoinsEdgesFieldsAndLosses) {
  std::string text = link(R"(
components:
  teacher: {model: teacher.onnx, frozen: true}
  student: {model: student.onnx}
edges: [teacher.logits -> student.hint]
dims: {seq: {combine: max, max: 64}}
loss:
  - cross_entropy: {logits: student.logits, labels: labels}
  - kl_divergence: {student: student.logits, teacher: teacher.logits, temperature: 2, labels: labels, weight: 0.5}
  - output: student.loss
)");
  EXPECT_THAT(text, AllOf(HasSubstr("func.func @graph"), HasSubstr("nn.cross_entropy"), HasSubstr("nn.kl_divergence"),
                          HasSubstr("nn.role = \"sum\""), HasSubstr("nn.role = \"count\""),
                          HasSubstr("nn.role = \"mean\""), HasSubstr("nn.field = \"labels\"")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("nn.parameter = \"teacher/table\""), HasSubstr("nn.parameter = \"student/table\"")));
  EXPECT_THAT(text, Not(HasSubstr("@teacher")));
  // One name for equal dims, one argument for the shared field.
  EXPECT_EQ(text.find("nn.field = \"input_ids\""), text.rfind("nn.field = \"input_ids\""));
  // Only the student trains.
  size_t trainable = text.find("nn.trainable");
  EXPECT_NE(trainable, std::string::npos);
  EXPECT_EQ(trainable, text.rfind("nn.trainable"));
  EXPECT_THAT(text, HasSubstr("nn.pad = -1.0"));
}

TEST_F(Link, BareModelMinimisesItsScalar) {
  auto workload = workloadOfModels({(folder / "student.onnx").string()});
  ASSERT_TRUE(workload);
  EXPECT_THAT(print(*workload), AllOf(HasSubstr("nn.role = \"mean\""), HasSubstr("note: loss: the scalar output")));
}

TEST_F(Link, BareModelGetsCrossEntropy) {
  auto workload = workloadOfModels({(folder / "teacher.onnx").string()});
  ASSERT_TRUE(workload);
  EXPECT_THAT(print(*workload), AllOf(HasSubstr("nn.cross_entropy"), HasSubstr("nn.field = \"labels\""),
                                      HasSubstr("combine = \"sum\", max = 1 : i64, max_source"),
                                      HasSubstr("combine = \"max\", max = 1024")));
}

TEST_F(Link, ASampleIsOneRowOfItsOwnDimAndSeveralOfOthers) {
  write("vision.onnx", std::string(R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[images, 8] pixels, int64[batch] ids, int64[batch] classes) => (float loss)
<float[16, 8] table = {)") +
                           table() + R"({ e = Gather(table, ids) f = Gather(table, classes) s = Add(e, f)
        a = ReduceMean<keepdims = 0>(s) b = ReduceMean<keepdims = 0>(pixels) loss = Add(a, b) })");
  auto workload = workloadOfModels({(folder / "vision.onnx").string()});
  ASSERT_TRUE(workload);
  EXPECT_THAT(print(*workload), AllOf(HasSubstr("note: dims.batch: combine sum, max 1 (default)"),
                                      HasSubstr("note: dims.images: combine sum, max 16 (default)")));
}

TEST_F(Link, KeepsTheTeachersLargestLogits) {
  std::string head = R"(
components:
  teacher: {model: teacher.onnx, frozen: true}
  student: {model: teacher.onnx}
loss: {kl_divergence: {student: student.logits, teacher: teacher.logits, labels: labels, top_k: )";
  EXPECT_THAT(link(head + "3}}\n"),
              AllOf(HasSubstr("nn.top_k"),
                    HasSubstr("-> (!nn.tensor<[batch, seq, 3], f32>, !nn.tensor<[batch, seq, 3], i64>)"),
                    HasSubstr("nn.gather_elements")));
  EXPECT_THAT(link(head + "9}}\n"), AllOf(StartsWith("error"), HasSubstr("top_k is 9, and there are 8 classes")));
  EXPECT_THAT(link(head + "0}}\n"), AllOf(StartsWith("error"), HasSubstr("top_k")));
}

TEST_F(Link, MisspeltPortsNameTheNearest) {
  const char *head = "components: {student: {model: student.onnx}, teacher: {model: teacher.onnx}}\n";
  EXPECT_THAT(link(std::string(head) + "loss: [{output: student.los}]\n"),
              AllOf(StartsWith("error"), HasSubstr("did you mean 'loss'")));
  EXPECT_THAT(link(std::string(head) + "edges: [teacher.logit -> student.hint]\nloss: [{output: student.loss}]\n"),
              AllOf(StartsWith("error"), HasSubstr("did you mean 'logits'")));
  EXPECT_THAT(link(std::string(head) + "edges: [teacher.logits -> student.hnt]\nloss: [{output: student.loss}]\n"),
              AllOf(StartsWith("error"), HasSubstr("did you mean 'hint'")));
  EXPECT_THAT(link(std::string(head) + "dims: {sequ: {max: 4}}\nloss: [{output: student.loss}]\n"),
              AllOf(StartsWith("error"), HasSubstr("dims.sequ")));
}

TEST_F(Link, RefusesCyclesAndContradictions) {
  EXPECT_THAT(link(R"(
components: {student: {model: student.onnx}}
edges: [student.logits -> student.hint]
loss: [{output: student.loss}]
)"),
              AllOf(StartsWith("error"), HasSubstr("cycle")));
  EXPECT_THAT(link(R"(
components: {student: {model: student.onnx}}
loss: [{output: student.logits}]
)"),
              AllOf(StartsWith("error"), HasSubstr("needs a floating point scalar")));
  EXPECT_THAT(link(R"(
components: {student: {model: student.onnx}}
inputs: {input_ids: {dtype: float32}}
loss: [{output: student.loss}]
)"),
              AllOf(StartsWith("error"), HasSubstr("dtype")));
}

const char *const kPair = R"(
components: {teacher: {model: teacher.onnx, frozen: true}, student: {model: student.onnx}}
edges: [teacher.logits -> student.hint]
)";

/// A graph says what its own loss ignores, also of labels that it has joined with others.
TEST_F(Link, LabelsArePaddedWithWhatTheGraphIgnores) {
  write("joined.onnx", R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[b, s] input_ids, int64[b, s] labels) => (float loss)
<float[16, 8] table = {)" + table() +
                           R"({
    all = Concat<axis = 1>(labels, labels)
    ignored = Constant<value = int64 {-100}>()
    skipped = Equal(all, ignored)
    counted = Not(skipped)
    weights = Cast<to = 1>(counted)
    weight = ReduceMean<keepdims = 0>(weights)
    e = Gather(table, input_ids)
    mean = ReduceMean<keepdims = 0>(e)
    loss = Mul(mean, weight)
  })");
  auto workload = workloadOfModels({(folder / "joined.onnx").string()});
  ASSERT_TRUE(workload);
  EXPECT_THAT(print(*workload), HasSubstr("the field 'labels' is padded with -100, which the graph ignores"));
}

/// Without labels or a mask what counts is where samples have positions: a field made from their sizes says so.
TEST_F(Link, LossesOverEveryPositionCountNoPadding) {
  std::string kl =
      link(std::string(kPair) + "loss: [{kl_divergence: {student: student.logits, teacher: teacher.logits}}]\n");
  EXPECT_THAT(kl,
              AllOf(HasSubstr("nn.kl_divergence"), HasSubstr("nn.field = \"own positions [b, s]\", nn.own_positions"),
                    HasSubstr("loss 'kl_divergence' counts every position that a sample has in [b, s], no padding")));
  EXPECT_THAT(link(std::string(kPair) + "loss: [{mean: {value: student.logits}}]\n"),
              AllOf(HasSubstr("nn.own_positions"), HasSubstr("loss 'mean' counts every position")));
  for (const char *counted : {", labels: labels}}]\n", ", mask: loss_mask}}]\n"})
    EXPECT_THAT(
        link(std::string(kPair) + "loss: [{kl_divergence: {student: student.logits, teacher: teacher.logits" + counted),
        AllOf(HasSubstr("nn.kl_divergence"), Not(HasSubstr("own_positions"))));
}

TEST_F(Link, RefusesLabelsWhosePaddingCounts) {
  EXPECT_THAT(link(std::string(kPair) +
                   "loss: [{kl_divergence: {student: student.logits, teacher: teacher.logits, labels: labels}}]\n"
                   "inputs: {labels: {pad: 3}}\n"),
              AllOf(StartsWith("error"), HasSubstr("the field 'labels' is padded with 3 along 's'"),
                    HasSubstr("ignores -100")));
}

/// Where nothing is padded, every position counts.
TEST_F(Link, MeansOverFixedSizesNeedNoMask) {
  write("pair.onnx", R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[batch, 8] x, float[batch, 8] y) => (float[batch, 8] left, float[batch, 8] right) { left = Neg(x) right = Neg(y) })");
  EXPECT_THAT(link("components: {pair: {model: pair.onnx}}\n"
                   "loss: [{kl_divergence: {student: pair.left, teacher: pair.right}}, {mean: {value: pair.left}}]\n"),
              HasSubstr("nn.kl_divergence"));
}

} // namespace
} // namespace maestro::planner

#include "planner/workload/cluster.h"
#include "planner/workload/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string errorOf(const std::string &text, const std::vector<std::string> &sets = {}) {
  auto workload = parseWorkload(text, "kd.yaml", sets);
  return workload ? "" : std::string(workload.status().message());
}

const char *kKd = R"yaml(
components:
  teacher: {model: teacher.onnx, frozen: true}
  student: {model: student.onnx, weights: student.safetensors, frozen: ["*.embed_tokens.*"], cuts: [model.layers.2],
            trainable: ["*lora_*", head.weight], save: trained, strip: module.}
edges:
  - teacher.features -> student.image_features
inputs:
  pixels: {to: [teacher.pixel_values]}
  labels: {dtype: int64, shape: [batch, seq], pad: -100}
dims:
  batch: {combine: sum}
  seq: {combine: max, max: 2048, multiple_of: 8}
loss:
  - cross_entropy: {logits: student.logits, labels: labels, ignore_index: -1, weight: 0.5,
                     label_smoothing: 0.1, z_loss: 1e-4}
  - kl_divergence: {student: student.logits, teacher: teacher.logits, temperature: 2.0, labels: labels, weight: 0.5}
  - mean: {value: student.per_token_loss, mask: loss_mask, weight: 1.0}
  - output: student.loss
train:
  global_batch: 64
  optimizer: {adamw: {lr: 3e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1, no_decay: ["*.bias", "*norm*"]}}
  schedule: {warmup_steps: 100, decay: cosine, total_steps: 10000, min_lr: 3e-5}
  clip_grad_norm: 1.0
  precision: {teacher: bf16}
  seed: 7
  bad_steps: 4
synthetic: {seq: lognormal(512, 0.6), images: 2}
)yaml";

TEST(Workload, SaysWhereOtherTrainersSettingsAre) {
  for (auto [setting, words] :
       {std::pair("train.lr=1e-4", "'train.lr'; it is train.optimizer: {adamw: {lr: 1e-3}}; known"),
        std::pair("train.batch_size=8", "it is train.global_batch"),
        std::pair("train.epochs=3", "it is an option of the run: maestro-run --steps"),
        std::pair("train.glob_batch=3", "did you mean 'global_batch'?")}) {
    auto result = parseWorkload(kKd, "kd.yaml", {setting});
    ASSERT_FALSE(result) << setting;
    EXPECT_THAT(std::string(result.status().message()), ::testing::HasSubstr(words));
  }
}

TEST(Workload, ReadsEveryKey) {
  auto result = parseWorkload(kKd, "jobs/kd.yaml");
  ASSERT_TRUE(result) << result.status().message();
  const Workload &w = *result;
  ASSERT_EQ(w.components.size(), 2u);
  EXPECT_EQ(w.components[0].model, "jobs/teacher.onnx");
  EXPECT_TRUE(w.components[0].frozen);
  EXPECT_EQ(w.components[1].weights, "jobs/student.safetensors");
  EXPECT_EQ(w.components[1].frozenPatterns, std::vector<std::string>{"*.embed_tokens.*"});
  EXPECT_THAT(w.components[1].trainablePatterns, ::testing::ElementsAre("*lora_*", "head.weight"));
  EXPECT_TRUE(w.components[1].savesTrained);
  EXPECT_FALSE(w.components[0].savesTrained);
  EXPECT_THAT(w.components[1].strip, ::testing::ElementsAre("module."));
  EXPECT_EQ(w.components[1].cuts, std::vector<std::string>{"model.layers.2"});
  ASSERT_EQ(w.edges.size(), 1u);
  EXPECT_EQ(w.edges[0].from.str(), "teacher.features");
  EXPECT_EQ(w.edges[0].to.str(), "student.image_features");
  ASSERT_EQ(w.inputs.size(), 2u);
  EXPECT_EQ(w.inputs[0].to[0].str(), "teacher.pixel_values");
  EXPECT_EQ(w.inputs[1].dtype, DType::I64);
  EXPECT_EQ(w.inputs[1].pad, -100.0);
  EXPECT_EQ(w.dims.at("batch").combine, Combine::Sum);
  EXPECT_EQ(w.dims.at("seq").max, 2048);
  EXPECT_EQ(w.dims.at("seq").multipleOf, 8);
  ASSERT_EQ(w.losses.size(), 4u);
  EXPECT_EQ(w.losses[0].ignoreIndex, -1);
  EXPECT_EQ(w.losses[1].teacher.str(), "teacher.logits");
  EXPECT_EQ(w.losses[1].temperature, 2.0);
  EXPECT_EQ(w.losses[2].mask->str(), "loss_mask");
  EXPECT_EQ(w.losses[3].scores.str(), "student.loss");
  EXPECT_EQ(w.train.globalBatch, 64);
  EXPECT_EQ(w.train.optimizer.beta2, 0.95);
  EXPECT_EQ(w.train.optimizer.noDecay.size(), 2u);
  EXPECT_EQ(w.train.schedule->decay, ScheduleSpec::Decay::Cosine);
  EXPECT_EQ(*w.train.clipGradNorm, 1.0);
  EXPECT_EQ(w.train.precisionOf.at("teacher"), DType::BF16);
  EXPECT_EQ(w.train.seed, 7u);
  EXPECT_EQ(w.train.badSteps, 4);
  EXPECT_EQ(w.synthetic.at("seq").kind, SizeDistribution::Kind::LogNormal);
  EXPECT_EQ(w.synthetic.at("seq").b, 0.6);
  EXPECT_TRUE(w.defaults.empty());
}

TEST(Workload, TakesDefaultsAndListsThem) {
  auto result = parseWorkload("components: {m: {model: m.onnx}}\nloss: [{output: m.loss}]\n", "w.yaml");
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->train.globalBatch, 32);
  EXPECT_EQ(result->train.optimizer.kind, OptimizerSpec::Kind::AdamW);
  EXPECT_EQ(result->train.optimizer.lr, 1e-3);
  EXPECT_EQ(result->train.optimizer.weightDecay, 0.01);
  EXPECT_THAT(result->defaults, ::testing::Contains("train.global_batch = 32"));
  EXPECT_FALSE(result->edgesGiven);
}

TEST(Workload, NamesRepeatedLosses) {
  auto result = parseWorkload(
      "components: {m: m.onnx}\nloss:\n  - output: m.a\n  - output: m.b\n  - {output: m.c, name: aux}\n", "w.yaml");
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->losses[0].name, "output");
  EXPECT_EQ(result->losses[1].name, "output_2");
  EXPECT_EQ(result->losses[2].name, "aux");
}

TEST(Workload, RefusesUnknownKeysWithLineAndNearestName) {
  EXPECT_THAT(errorOf("components: {m: m.onnx}\nloss: [{output: m.loss}]\ntrain:\n  global_bach: 64\n"),
              AllOf(HasSubstr("kd.yaml:4"), HasSubstr("train.global_bach"), HasSubstr("did you mean 'global_batch'")));
  EXPECT_THAT(errorOf("components: {m: m.onnx}\nlos: [{output: m.loss}]\n"), HasSubstr("loss"));
  EXPECT_THAT(
      errorOf("components: {m: m.onnx}\nloss: [{cross_entropy: {logits: m.a, labels: b, label_smoothing: 2}}]\n"),
      HasSubstr("label_smoothing"));
  EXPECT_THAT(
      errorOf("components: {m: m.onnx}\nloss: [{kl_divergence: {student: m.a, teacher: m.b, direction: back}}]\n"),
      AllOf(HasSubstr("direction"), HasSubstr("reverse")));
  EXPECT_THAT(errorOf("components: {m: m.onnx}\nloss: [{mse: {value: m.a}}]\n"), HasSubstr("target"));
  EXPECT_THAT(errorOf("components: {m: m.onnx}\nloss: [{outputs: m.loss}]\n"), HasSubstr("did you mean 'output'"));
  EXPECT_THAT(errorOf("components: {student: m.onnx}\nloss: [{output: studnet.loss}]\n"),
              HasSubstr("did you mean 'student'"));
  EXPECT_THAT(errorOf("components: {m: m.onnx}\nloss: [{output: m.loss}]\ntrain: {optimizer: adamW}\n"),
              HasSubstr("did you mean 'adamw'"));
}

TEST(Workload, RefusesBadValues) {
  auto train = [](const std::string &text) {
    return errorOf("components: {m: m.onnx}\nloss: [{output: m.loss}]\ntrain: {" + text + "}\n");
  };
  EXPECT_THAT(train("global_batch: 0"), HasSubstr("must be between 1"));
  EXPECT_THAT(train("global_batch: 1.5"), HasSubstr("not a whole number"));
  EXPECT_THAT(train("global_batch: -3"), HasSubstr("-3"));
  EXPECT_THAT(train("optimizer: {adamw: {lr: nan}}"), HasSubstr("finite"));
  EXPECT_THAT(train("optimizer: {adamw: {lr: 0}}"), HasSubstr("above 0"));
  EXPECT_THAT(train("optimizer: {adamw: {lr: inf}}"), HasSubstr("finite"));
  EXPECT_THAT(train("optimizer: {adamw: {betas: [0.9, 1.0]}}"), HasSubstr("betas[1]"));
  EXPECT_THAT(train("optimizer: {sgd: {nesterov: true}}"), HasSubstr("momentum"));
  EXPECT_THAT(train("optimizer: {adamw: {parameters: [a]}}"), HasSubstr("is the only one"));
  EXPECT_THAT(train("optimizer: []"), HasSubstr("a list of 0"));
  EXPECT_THAT(train("optimizer: [{sgd: {}}, {adamw: {}}]"), HasSubstr("train.optimizer[0] names no parameters"));
  EXPECT_THAT(train("optimizer: [{sgd: {parameters: a}}]"), HasSubstr("is the last, which is for all others"));
  EXPECT_THAT(train("optimizer: [{sgd: {parameters: a, lr: 0}}, adamw]"), HasSubstr("train.optimizer[0].sgd.lr"));
  EXPECT_THAT(train("clip_grad_norm: -1"), HasSubstr("above 0"));
  EXPECT_THAT(train("precision: fp8"), HasSubstr("none of f32, bf16"));
  EXPECT_THAT(train("schedule: {decay: cosine}"), HasSubstr("total_steps"));
  EXPECT_THAT(train("seed: -1"), HasSubstr("seed"));
  EXPECT_THAT(train("bad_steps: 0"), HasSubstr("bad_steps"));
  EXPECT_THAT(errorOf("components: {optimizer: m.onnx}\nloss: [{output: optimizer.loss}]\n"),
              HasSubstr("a checkpoint's file for the optimizer"));
  EXPECT_THAT(
      errorOf("components: {m: m.onnx}\nloss: [{kl_divergence: {student: m.a, teacher: m.b, temperature: 0}}]\n"),
      HasSubstr("temperature"));
  EXPECT_THAT(errorOf("components: {m: m.onnx}\nloss: [{output: m.loss}]\ndims: {seq: {max: 100, multiple_of: 8}}\n"),
              HasSubstr("multiple of 8"));
  auto dims = [](const std::string &text) {
    return errorOf("components: {m: m.onnx}\nloss: [{output: m.loss}]\ndims: {" + text + "}\n");
  };
  EXPECT_THAT(dims("seq: {pad: always}"), HasSubstr("none of never"));
  EXPECT_THAT(dims("seq: {pad: never, multiple_of: 8}"),
              HasSubstr("dims.seq.pad never pads, and multiple_of does; remove one of them"));
  EXPECT_THAT(dims("batch: {combine: sum, pad: never}"), HasSubstr("rows that sum are not padded"));
}

TEST(Workload, RefusesWhatIsNoWorkload) {
  EXPECT_THAT(errorOf(""), HasSubstr("components"));
  EXPECT_THAT(errorOf("[1, 2]"), HasSubstr("not a map"));
  EXPECT_THAT(errorOf("components: {m: m.onnx"), HasSubstr("kd.yaml:1"));
  EXPECT_THAT(errorOf("a: 1\na: 2\n"), HasSubstr("given twice"));
  EXPECT_THAT(errorOf(std::string("\x08\x01\x00\x02", 4)), HasSubstr("not a text file"));
  EXPECT_THAT(errorOf("components: {1m: m.onnx}\nloss: [{output: m.loss}]"), HasSubstr("1m"));
  EXPECT_FALSE(readWorkload("/nonexistent/w.yaml"));
}

TEST(Workload, AppliesAssignments) {
  std::vector<std::string> sets = {"train.global_batch=8", "train.optimizer.adamw.lr=0.5",
                                   "loss.0.cross_entropy.weight=2", "student.frozen=1"};
  EXPECT_THAT(errorOf(kKd, sets), HasSubstr("--set student.frozen=1"));
  sets.back() = "components.student.frozen=[a.*, b]";
  auto result = parseWorkload(kKd, "kd.yaml", sets);
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->train.globalBatch, 8);
  EXPECT_EQ(result->train.optimizer.lr, 0.5);
  EXPECT_EQ(result->losses[0].weight, 2);
  EXPECT_EQ(result->components[1].frozenPatterns.size(), 2u);
  EXPECT_THAT(errorOf(kKd, {"train.global_batch"}), HasSubstr("path=value"));
  EXPECT_THAT(errorOf(kKd, {"loss.9.weight=1"}), HasSubstr("the list has 4 entries"));
}

TEST(Workload, BareModelsBecomeComponents) {
  auto result = workloadOfModels({"dir/gpt2-small.onnx"}, {"train.global_batch=4"});
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->components[0].name, "gpt2-small");
  EXPECT_EQ(result->path, "dir/gpt2-small.onnx"); // Messages begin with it.
  EXPECT_TRUE(result->losses.empty());
  EXPECT_EQ(result->train.globalBatch, 4);
}

TEST(Workload, Globs) {
  EXPECT_TRUE(matchesGlob("*.bias", "h.0.attn.bias"));
  EXPECT_TRUE(matchesGlob("*norm*", "model.norm.weight"));
  EXPECT_TRUE(matchesGlob("a?c", "abc"));
  EXPECT_FALSE(matchesGlob("*.bias", "h.0.attn.weight"));
  EXPECT_TRUE(matchesGlob("*", ""));
  EXPECT_FALSE(matchesGlob("", "x"));
}

/// b is a bit, B a byte; G is 10^9, Gi 2^30.
TEST(Cluster, UnitsAreAsVendorsWriteThem) {
  auto bandwidth = [](const std::string &text) {
    auto cluster = parseCluster("links: [{spans: 8, bandwidth: " + text + "}]", "c.yaml");
    return cluster ? cluster->links[0].bandwidth.value : 0;
  };
  for (const char *text :
       {"400 Gb/s", "400Gb/s", "400 Gbit/s", "0.4 Tb/s", "400000 Mbit/s", "50 GB/s", "50e9 B/s", "50000000 kB/s"})
    EXPECT_DOUBLE_EQ(bandwidth(text), 50e9) << text;
  EXPECT_DOUBLE_EQ(bandwidth("1 GiB/s"), 0x1p30);
  EXPECT_DOUBLE_EQ(bandwidth("2 TiB/s"), 0x1p41);
  for (const char *text : {"400 gb/s", "400 Gb", "400 GBit/s", "400"})
    EXPECT_EQ(bandwidth(text), 0) << text;
  auto memory = [](const std::string &text) {
    auto cluster = parseCluster("device: h200\nmemory: " + text, "c.yaml");
    return cluster ? cluster->memoryBytes.at(0) : 0;
  };
  EXPECT_EQ(memory("80 GB"), 80'000'000'000u);
  EXPECT_EQ(memory("80 GiB"), 80ull << 30);
  EXPECT_EQ(memory("1 TiB"), 1ull << 40);
  EXPECT_EQ(memory("512 KiB"), 512u << 10);
  EXPECT_EQ(memory("80 Gb"), 0u) << "nobody sells memory by the bit";
}

TEST(Cluster, ReadsLinksWithUnits) {
  auto cluster = parseCluster("name: c\nnodes: 8\ndevices_per_node: 8\ndevice: h100-sxm\nlinks:\n"
                              "  - {name: nvlink, spans: 8, bandwidth: 450 GB/s, latency: 2 us}\n"
                              "  - {name: rail, spans: 64, bandwidth: 400 Gbit/s, latency: 6 us}\n",
                              "c.yaml", {"cluster.nodes=4"});
  ASSERT_TRUE(cluster) << cluster.status().message();
  EXPECT_EQ(cluster->nodes, 4);
  EXPECT_EQ(cluster->links[0].bandwidth.value, 450e9);
  EXPECT_EQ(cluster->links[1].bandwidth.value, 50e9);
  EXPECT_DOUBLE_EQ(cluster->links[0].latency.value, 2e-6);
  EXPECT_FALSE(parseCluster("links: [{spans: 8, bandwidth: 450}]", "c.yaml"));
  EXPECT_FALSE(parseCluster("nodes: 0", "c.yaml"));
  EXPECT_EQ(thisMachine({"cluster.devices_per_node=4"})->devicesPerNode, 4);
}

} // namespace
} // namespace maestro::planner

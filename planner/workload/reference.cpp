#include "planner/workload/reference.h"

#include "planner/workload/cluster.h"
#include "planner/workload/device_file.h"
#include "planner/workload/key_listener.h"
#include "planner/workload/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace maestro::planner {
namespace {

struct Meaning {
  std::string_view path, meaning;
  std::string_view kind = {}, fallback = {}; ///< Where the readers do not say.
};

struct Group {
  std::string_view title, intro;
  std::span<const Meaning> keys;
};

constexpr Meaning kWorkload[] = {
    {"components", "The networks, by names of your choice.", "a map"},
    {"edges",
     "What flows between components: `teacher.hidden -> student.hint`. Without it, outputs and inputs of one name "
     "are joined.",
     "a list of `COMPONENT.OUTPUT -> COMPONENT.INPUT`"},
    {"inputs", "Fields of samples that no graph input says enough of, such as labels.", "a map"},
    {"dims", "Named dims of the graphs, and how micro-batches treat them.", "a map"},
    {"synthetic",
     "The size of a dim in made-up samples, for planning and for runs without data: a number, `uniform(16, 512)`, "
     "`normal(256, 32)`, `lognormal(512, 0.6)`.",
     "a map of dims", "its `max`"},
    {"loss", "The terms whose weighted sum is trained.", "a term, or a list of terms", "what the graphs' outputs tell"},
    {"train", "How it is trained.", "a map"},
};
constexpr Meaning kComponents[] = {
    {"components.NAME.model", "An ONNX file, beside this one. `NAME: model.onnx` is short for it."},
    {"components.NAME.weights",
     "Initial values: a safetensors file, the index of several, or a folder that holds either.",
     {},
     "the graph's own, else seeded"},
    {"components.NAME.frozen", "Nothing of it trains, or the parameters of these names do not.",
     "`true`, `false`, or a list of globs", "false"},
    {"components.NAME.trainable", "The parameters of these names alone train.", "a list of globs"},
    {"components.NAME.save", "What checkpoints hold of it.", {}, "all"},
    {"components.NAME.strip", "Prefixes of names in `weights` that a wrapper put there, such as `module`."},
    {"components.NAME.cuts", "Modules, by the names of their parameters, at which sections of their own begin."},
};
constexpr Meaning kInputs[] = {
    {"inputs.FIELD.to", "Graph inputs that it feeds, as `COMPONENT.INPUT`.", {}, "those of its name"},
    {"inputs.FIELD.dtype", "The type of its elements.", {}, "the graph input's"},
    {"inputs.FIELD.shape", "Dims and sizes of a batch.", "a list", "the graph input's"},
    {"inputs.FIELD.pad", "What padded positions hold.", {}, "0; -100 for labels"},
};
constexpr Meaning kDims[] = {
    {"dims.DIM.combine",
     "A micro-batch stacks the rows of its samples, or pads them to the longest.",
     {},
     "`sum` of the first dim, else `max`"},
    {"dims.DIM.max",
     "The most of one sample.",
     {},
     "what `maestro.export` wrote into the model (`bounds`); else 1 row, 16 of another modality, 1024 long; a table of "
     "positions lowers it"},
    {"dims.DIM.multiple_of", "Padded sizes are multiples of it."},
    {"dims.DIM.pad", "Only samples of one size share a micro-batch."},
};
constexpr Meaning kCrossEntropy[] = {
    {"loss.cross_entropy.logits", "The scores."},
    {"loss.cross_entropy.labels", "The classes."},
    {"loss.cross_entropy.ignore_index", "Positions with this label count nowhere."},
    {"loss.cross_entropy.label_smoothing", "As PyTorch's."},
    {"loss.cross_entropy.z_loss", "Adds so much times the square of ln Σ eˣ of each counted position."},
    {"loss.cross_entropy.weight", "In the sum. 0: watched, not trained. A key of every term."},
    {"loss.cross_entropy.name", "In metrics. A key of every term.", {}, "the term's kind"},
};
constexpr Meaning kDivergence[] = {
    {"loss.kl_divergence.student", "The scores that train."},
    {"loss.kl_divergence.teacher", "The scores that are matched."},
    {"loss.kl_divergence.temperature", "Divides both scores; the loss is multiplied by its square."},
    {"loss.kl_divergence.top_k", "Only the teacher's so many largest scores count.", {}, "all"},
    {"loss.kl_divergence.direction",
     "Teacher to student, student to teacher, or the mean of both to their mixture.",
     {},
     "forward"},
    {"loss.kl_divergence.labels", "Positions whose label is `ignore_index` count nowhere."},
    {"loss.kl_divergence.mask", "Positions where it is 0 or false count nowhere."},
    {"loss.kl_divergence.ignore_index", "See `labels`."},
};
constexpr Meaning kRegression[] = {
    {"loss.mse.value", "An output."},
    {"loss.mse.target", "What it should be."},
    {"loss.mse.labels", "Positions whose label is `ignore_index` count nowhere."},
    {"loss.mse.mask", "Positions where it is 0 or false count nowhere."},
    {"loss.mse.ignore_index", "See `labels`."},
};
constexpr Meaning kMean[] = {
    {"loss.mean.value", "An output, of which the mean over all positions of the global batch is taken."},
    {"loss.mean.mask", "Positions where it is 0 or false count nowhere."},
    {"loss.output.value", "A scalar that the graph computes. `output: COMPONENT.OUTPUT` is short for it."},
};
constexpr Meaning kTrain[] = {
    {"train.global_batch", "Samples of a step."},
    {"train.optimizer",
     "One of the optimizers below, `{adamw: {lr: 3e-4}}`; or a list of them, each for the `parameters` that it names, "
     "and the last for "
     "all others.",
     "a map, or a list of maps", "`{adamw: {}}`"},
    {"train.schedule", "Of the learning rate.", "a map", "a constant rate"},
    {"train.clip_grad_norm", "The most that the norm of all gradients may be."},
    {"train.ema",
     "Moving averages of what trains, that decay by this much a step, in `COMPONENT.ema.safetensors` of checkpoints.",
     {},
     "none"},
    {"train.precision", "What products compute in; sums, and weights that train, are f32. Or by component.",
     "`f32`, `bf16`, or a map of components", "f32"},
    {"train.seed", "Of initial values, dropout, the order of samples."},
    {"train.bad_steps", "So many steps in a row without a finite loss and gradient end the run."},
};
constexpr Meaning kOptimizers[] = {
    {"train.optimizer.adamw.lr",
     "The learning rate; those of a list all follow the schedule, each in proportion to its own. A key of all; of "
     "`adafactor` 0.01 by default."},
    {"train.optimizer.adamw.weight_decay",
     "0 by default of `adam`, `sgd` and `adafactor`, 0.1 of `muon`. A key of all."},
    {"train.optimizer.adamw.no_decay", "Parameters without decay, by globs. A key of all."},
    {"train.optimizer.adamw.parameters",
     "In a list: those that it updates, by globs over `NAME` or `COMPONENT/NAME`. A key of all.", "a list of globs"},
    {"train.optimizer.adamw.betas", "Of the means of gradients and of their squares. Also of `adam`.",
     "two numbers, at least 0 and below 1", "[0.9, 0.999]"},
    {"train.optimizer.adamw.eps", "Added to the root. Also of `adam`."},
    {"train.optimizer.sgd.momentum", "How much of the last update goes on."},
    {"train.optimizer.sgd.nesterov", "Nesterov's momentum."},
    {"train.optimizer.muon.momentum", "Of matrices, which are all that `muon` updates: name them in `parameters`."},
    {"train.optimizer.muon.nesterov", "Nesterov's momentum."},
    {"train.optimizer.muon.ns_steps", "Iterations of Newton and Schulz."},
    {"train.optimizer.muon.adjust_lr",
     "`original`: times √max(1, rows/columns); `match_rms_adamw`: times 0.2 √max(rows, columns), so that updates are "
     "as "
     "large as AdamW's.",
     "`original` or `match_rms_adamw`", "`original`"},
    {"train.optimizer.muon.eps", "The least norm of a matrix that is divided by."},
    {"train.optimizer.adafactor.beta2_decay", "1 − β2 of step t is t to this power."},
    {"train.optimizer.adafactor.clip", "The most that an update's root mean square may be; PyTorch's `d`."},
    {"train.optimizer.adafactor.eps", "The least squared gradient, and the least scale of a parameter.",
     "two numbers from 0 to 1", "[1.19e-7, 1e-3]"},
};
constexpr Meaning kSchedule[] = {
    {"train.schedule.warmup_steps", "Steps in which the rate rises from 0."},
    {"train.schedule.total_steps", "When the decay ends.", {}, "needed by a decay"},
    {"train.schedule.decay",
     "How the rate falls to `min_lr`; `wsd` is constant but for its last steps.",
     {},
     "constant"},
    {"train.schedule.decay_steps", "The last steps of `wsd`, in which the rate falls.", {}, "a tenth of all"},
    {"train.schedule.min_lr", "The rate at the end."},
};
constexpr Meaning kCluster[] = {
    {"name", "For people.", {}, "the file's"},
    {"nodes", "How many machines."},
    {"devices_per_node", "How many devices each has.", {}, "of CPUs one for two cores, of this machine's GPUs all"},
    {"device",
     "`cpu`, a built-in name such as `h100-sxm` or `h200`, or a file of maestro-profile; a list has one for each node.",
     {},
     "this machine's GPUs, else cpu"},
    {"memory", "Of a device; a list has one for each `device`.", {}, "the device's"},
    {"links", "Networks, the innermost first.", "a list"},
    {"links[0].name", "For people."},
    {"links[0].spans", "How many devices it joins."},
    {"links[0].bandwidth", "Of a device, in each direction."},
    {"links[0].latency", "Until the first byte."},
    {"links[0].nics", "Of a node: then `bandwidth` is that of one, and the node's devices share them."},
};
constexpr Meaning kDevice[] = {
    {"kind", "What it describes.", "`cpu`, or a GPU's built-in name"},
    {"name", "The processor's or GPU's, for people."},
    {"multiprocessors", "Of a GPU."},
    {"memory", "Of a GPU, all of it."},
    {"kept", "Of a GPU's memory: what is taken before a plan has any.", "a list"},
    {"kept[0].what", "By whom."},
    {"kept[0].memory", "How much."},
    {"bf16_products", "Whether the processor has products of bf16.", "`native`, `widened`", "widened"},
    {"rates", "By number of threads.", "a list"},
    {"rates[0].threads", "Of a device."},
    {"rates[0].arithmetic", "Of f32 products."},
    {"rates[0].operands", "Of what products read and write."},
    {"rates[0].arithmetic_bf16", "Of bf16 products.", {}, "`arithmetic`"},
    {"rates[0].stream", "Of what other kernels read and write.", {}, "`operands`"},
    {"rates[0].channel", "Of what goes from device to device."},
    {"rates[0].call", "Of a call by itself."},
    {"rates[0].wake", "Until a waiting device goes on."},
    {"rates[0].task", "Of a task by itself."},
    {"rates[0].step", "Of a step by itself."},
    {"rates[0].host", "Of what the host does for a task."},
    {"rates[0].alone", "Of its speed, when all other cores work."},
    {"rates[0].together", "By how much memory slows down when all devices work."},
    {"rates[0].update", "By how much updates take longer than their curve."},
    {"curves", "Times of kernels, by size; for others the rates are taken.", "a list", "none"},
    {"curves[0].kernel", "Which."},
    {"curves[0].threads", "On how many."},
    {"curves[0].calls", "Calls that were measured one by one.", "a list of lists"},
    {"curves[0].points", "Sizes and times.", "a list of lists"},
    {"measured", "Of earlier versions; nothing reads it.", "anything"},
};

constexpr Group kGroups[] = {
    {"workload.yaml", "What is trained, on what, and how. `--set a.b.c=value` changes a value from the command line.",
     kWorkload},
    {"components", "Each network is a map, or the path of its model.", kComponents},
    {"inputs", "Fields of samples.", kInputs},
    {"dims", "By the names that the graphs give them.", kDims},
    {"loss: cross_entropy",
     "The mean over all counted positions of the global batch. Values are `COMPONENT.OUTPUT` or a data field.",
     kCrossEntropy},
    {"loss: kl_divergence", "Of distributions over classes.", kDivergence},
    {"loss: mse, cosine",
     "Squares of differences, or 1 − cosine over the last dim, in the mean of all positions that count.", kRegression},
    {"loss: mean, output", "What a graph has computed.", kMean},
    {"train", "Defaults are said when a plan is made.", kTrain},
    {"train.optimizer", "`adamw`, `adam`, `sgd`, `muon` and `adafactor`, as PyTorch has them.", kOptimizers},
    {"train.schedule", "The rate by step, from the optimizer's `lr`.", kSchedule},
    {"cluster.yaml",
     "What it is planned for (`--cluster`). `--set cluster.nodes=2` changes a value; without a file it is "
     "this machine.",
     kCluster},
    {"device.yaml", "What maestro-profile has measured, and writes itself.", kDevice},
};

// Files that have every key: what the readers ask for is listened to. Several where one excludes another.
constexpr std::string_view kWorkloads[] = {
    R"(
components:
  NAME: {model: m.onnx, weights: w.safetensors, trainable: [a], save: trained, strip: [module], cuts: [a]}
edges: [NAME.a -> NAME.b]
inputs: {FIELD: {to: [NAME.a], dtype: int64, shape: [batch], pad: 0}}
dims: {DIM: {combine: max, max: 8, multiple_of: 2}}
synthetic: {DIM: 4}
loss: {cross_entropy: {logits: NAME.a, labels: b, ignore_index: 0, label_smoothing: 0, z_loss: 0, weight: 1, name: a}}
train:
  global_batch: 2
  optimizer: {adamw: {lr: 1, weight_decay: 0, no_decay: [a], betas: [0, 0], eps: 1}}
  schedule: {warmup_steps: 0, total_steps: 2, decay: wsd, decay_steps: 1, min_lr: 0}
  clip_grad_norm: 1
  precision: f32
  seed: 0
  bad_steps: 1
)",
    R"(
components: {NAME: {model: m.onnx, frozen: false}}
dims: {DIM: {pad: never}}
loss: {kl_divergence: {student: NAME.a, teacher: NAME.b, temperature: 1, top_k: 1, direction: forward, labels: c, ignore_index: 0}}
train: {optimizer: {sgd: {momentum: 0.5, nesterov: true}}}
)",
    R"(
components: {NAME: m.onnx}
train: {ema: 0.5, optimizer: {muon: {momentum: 0.5, nesterov: true, ns_steps: 1, adjust_lr: original, eps: 1}}}
)",
    "{components: {NAME: m.onnx}, train: {optimizer: {adafactor: {beta2_decay: -1, clip: 1, eps: [0, 0]}}}}",
    "{components: {NAME: m.onnx}, loss: {kl_divergence: {student: NAME.a, teacher: NAME.b, mask: c}}}",
    "{components: {NAME: m.onnx}, loss: {mse: {value: NAME.a, target: b, labels: c, ignore_index: 0}}}",
    "{components: {NAME: m.onnx}, loss: {mse: {value: NAME.a, target: b, mask: c}}}",
    "{components: {NAME: m.onnx}, loss: {mean: {value: NAME.a, mask: b}}}",
    "{components: {NAME: m.onnx}, loss: {output: {value: NAME.a}}}",
};
constexpr std::string_view kClusterFile = R"(
name: a
nodes: 2
devices_per_node: 2
device: cpu
memory: 1 GiB
links: [{name: a, spans: 4, bandwidth: 1 GB/s, latency: 1 us, nics: 1}]
)";
constexpr std::string_view kGpuFile = R"(
kind: h200
name: a
multiprocessors: 1
memory: 1 GiB
kept: [{what: a, memory: 1 B}]
rates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB/s}]
)";
constexpr std::string_view kDeviceFile = R"(
kind: cpu
name: a
bf16_products: native
rates:
  - {threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB/s, arithmetic_bf16: 1 GFLOP/s, stream: 1 GB/s, channel: 1 GB/s,
     call: 1 us, wake: 1 us, task: 1 us, step: 1 us, host: 1 us, alone: 1, together: 1, update: 1}
curves:
  - {kernel: add, threads: 1, points: [[1, 1], [2, 2]]}
  - {kernel: add, threads: 1, calls: [[1, 1, 1, 1, 1]]}
)";

/// Keys that every term or optimizer has stand with the first.
bool isSaidElsewhere(const std::string &path) {
  constexpr std::string_view kTerms[] = {"loss.kl_divergence.", "loss.mse.", "loss.mean.", "loss.output."};
  for (std::string_view term : kTerms)
    if (path == std::string(term) + "weight" || path == std::string(term) + "name")
      return true;
  for (std::string_view optimizer : {"sgd", "muon", "adafactor"})
    for (std::string_view key : {"lr", "weight_decay", "no_decay", "parameters"})
      if (path == fmt::format("train.optimizer.{}.{}", optimizer, key))
        return true;
  return path.rfind("curves[1].", 0) == 0;
}

template <typename Read> Result<std::vector<KeyListener::Key>> listen(const Read &read) {
  KeyListener listener;
  MAESTRO_TRY(read());
  std::vector<KeyListener::Key> keys = listener.keys();
  std::erase_if(keys, [](const KeyListener::Key &key) { return isSaidElsewhere(key.path); });
  return keys;
}

Result<std::vector<KeyListener::Key>> keysOfWorkloads() {
  return listen([] {
    for (std::string_view text : kWorkloads)
      MAESTRO_TRY(parseWorkload(text, "workload.yaml", {}).takeStatus());
    return Status();
  });
}
Result<std::vector<KeyListener::Key>> keysOfClusters() {
  return listen([] { return parseCluster(kClusterFile, "cluster.yaml", {}).takeStatus(); });
}
Result<std::vector<KeyListener::Key>> keysOfDevices() {
  return listen([] {
    for (std::string_view text : {kDeviceFile, kGpuFile})
      MAESTRO_TRY(parseDeviceProfile(text, "device.yaml").takeStatus());
    return Status();
  });
}

/// "`links[].spans`", below the group that it stands in.
std::string shown(std::string path) {
  for (size_t at; (at = path.find("[0]")) != std::string::npos;)
    path.replace(at, 3, "[]");
  return "`" + path + "`";
}

Status writeGroup(const Group &group, std::vector<KeyListener::Key> &left, std::string &page) {
  page += fmt::format("{} {}\n\n{}\n\n| key | value | default | what |\n|---|---|---|---|\n",
                      group.title.ends_with(".yaml") ? "##" : "###", group.title, group.intro);
  for (const Meaning &meaning : group.keys) {
    auto key = std::find_if(left.begin(), left.end(), [&](const auto &known) { return known.path == meaning.path; });
    if (key == left.end())
      return Status::internal(fmt::format("the reference tells of '{}', which no reader asks for", meaning.path));
    std::string fallback = meaning.fallback.empty() ? key->fallback : std::string(meaning.fallback);
    page += fmt::format("| {} | {} | {} | {} |\n", shown(key->path), meaning.kind.empty() ? key->kind : meaning.kind,
                        meaning.fallback.empty() && key->isNeeded ? "needed" : fallback, meaning.meaning);
    left.erase(key);
  }
  page += "\n";
  return Status();
}

} // namespace

Result<std::string> keyReference() {
  MAESTRO_ASSIGN(auto workloads, keysOfWorkloads());
  MAESTRO_ASSIGN(auto clusters, keysOfClusters());
  MAESTRO_ASSIGN(auto devices, keysOfDevices());
  std::string page;
  for (const Group &group : kGroups)
    MAESTRO_TRY(writeGroup(group,
                           group.keys.data() == std::data(kCluster)  ? clusters
                           : group.keys.data() == std::data(kDevice) ? devices
                                                                     : workloads,
                           page));
  for (const auto *left : {&workloads, &clusters, &devices})
    if (!left->empty())
      return Status::internal(fmt::format("the reference does not tell of '{}'", left->front().path));
  page.pop_back();
  return page;
}

} // namespace maestro::planner

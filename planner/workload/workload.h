// workload.yaml as plain data: which models make up the training job, how they are wired, what is minimised and how.
// The meaning of every key stands in docs/ (workload file); this is its reader's result, checked value by value, with
// defaults filled in. Names are not yet resolved against the models: import/link.h does that.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "planner/workload/yaml_tree.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

/// `component.port`, or a bare data field (component empty).
struct PortRef {
  std::string component;
  std::string port;
  std::string place; ///< Where it is written, for messages.
  std::string str() const { return component.empty() ? port : component + "." + port; }
};

struct ComponentSpec {
  std::string name;
  std::string model;                       ///< Path, relative to the working directory.
  std::string weights;                     ///< Path of a safetensors file, index or folder, or "".
  bool frozen = false;                     ///< As a whole.
  std::vector<std::string> frozenPatterns; ///< Globs over state_dict names.
  /// Globs over state_dict names: nothing else trains. Empty: all that is not frozen.
  std::vector<std::string> trainablePatterns;
  bool savesTrained = false;      ///< Checkpoints hold what trains of it alone.
  std::vector<std::string> strip; ///< What may stand before its names in `weights`, and in a run's.
  std::vector<std::string> cuts;  ///< Module scopes at which a section of its own begins.
  std::string place;
};

struct EdgeSpec {
  PortRef from, to;
};

/// A data field: which inputs it feeds, and what cannot be inferred from them.
struct FieldSpec {
  std::string name;
  std::vector<PortRef> to; ///< Empty: inputs of its own name.
  std::optional<DType> dtype;
  std::optional<std::vector<std::string>> shape; ///< Dims as text: names, numbers, expressions.
  std::optional<double> pad;
  std::string place;
};

enum class Combine { Sum, Max };

/// How a named dim combines over the samples of a micro-batch, and its bound for one sample.
struct DimSpec {
  std::optional<Combine> combine; ///< Nothing: sum where it leads a graph's input, else max.
  std::optional<int64_t> max;     ///< Nothing: as a model says, else 1 (own rows), kDefaultRows, kDefaultLength.
  int64_t multipleOf = 1;
  bool unpadded = false; ///< `pad: never`: micro-batches hold samples of equal length only.
  std::string place;
};
inline constexpr int64_t kDefaultRows = 16;
inline constexpr int64_t kDefaultLength = 1024;
inline constexpr int64_t kMostOfADim = int64_t(1) << 40;

enum class LossKind { CrossEntropy, KlDivergence, Mean, Output, Mse, Cosine };
/// From the teacher's distribution to the student's, the other way, or to the mean of both.
enum class Divergence { Forward, Reverse, JensenShannon };

struct LossSpec {
  LossKind kind = LossKind::CrossEntropy;
  std::string name; ///< As metrics call it: its `name`, or the kind with _2, _3 … where it repeats.
  double weight = 1;
  PortRef scores;  ///< cross_entropy: logits. kl_divergence: student. mean, mse, cosine: value. output: the scalar.
  PortRef teacher; ///< kl_divergence.
  std::optional<PortRef> labels, mask, target; ///< The last of mse and cosine.
  int64_t ignoreIndex = -100;
  double labelSmoothing = 0; ///< cross_entropy: as in PyTorch.
  double zLoss = 0;          ///< cross_entropy: times the square of each position's log of the sum of exponentials.
  double temperature = 1;
  Divergence direction = Divergence::Forward;
  int64_t topK = 0; ///< kl_divergence over the teacher's so many largest logits alone; 0: over all.
  std::string place;
};

struct OptimizerSpec {
  enum class Kind { Sgd, Adam, AdamW, Muon, Adafactor } kind = Kind::AdamW;
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0;
  bool nesterov = false;
  int64_t iterations = 0; ///< Muon's, of Newton and Schulz.
  bool matchRms = false;  ///< Muon: updates as large as AdamW's.
  double beta2Decay = 0;  ///< Adafactor: 1 − β2 of step t is t to this power.
  double eps2 = 0,
         clip = 0; ///< Adafactor: the least scale of a parameter; the most that an update's root mean square may be.
  double weightDecay = 0.01;
  std::vector<std::string> noDecay;    ///< Globs over state_dict names.
  std::vector<std::string> parameters; ///< Of a group: globs of those that are its own,
  std::string place;                   ///< and where the file says so.
};

struct ScheduleSpec {
  enum class Decay { Constant, Linear, Cosine, Wsd } decay = Decay::Constant;
  int64_t warmupSteps = 0;
  int64_t totalSteps = 0; ///< Needed by all but constant.
  double minLr = 0;
  int64_t decaySteps = 0; ///< Of wsd: the last so many; by default a tenth of all.
};

struct TrainSpec {
  int64_t globalBatch = 32;
  OptimizerSpec optimizer;           ///< Of all parameters that are in no group.
  std::vector<OptimizerSpec> groups; ///< A parameter is of the first that has its name.
  std::optional<ScheduleSpec> schedule;
  std::optional<double> clipGradNorm;
  double emaDecay = 0;                      ///< 0: no averages.
  DType precision = DType::F32;             ///< F32 or BF16.
  std::map<std::string, DType> precisionOf; ///< By component, where it differs.
  DType precisionFor(const std::string &component) const {
    auto own = precisionOf.find(component);
    return own == precisionOf.end() ? precision : own->second;
  }
  /// 0: in none; else groups[n − 1]. Globs are over state_dict names, or over "component/name".
  uint32_t groupOf(const std::string &component, const std::string &parameter) const;
  const OptimizerSpec &optimizerOf(uint32_t group) const { return group == 0 ? optimizer : groups[group - 1]; }
  uint64_t seed = 0;
  int64_t badSteps = 3; ///< In a row: without a finite loss and gradient.
};

/// The distribution of a dim's size per sample, for synthetic data and for the simulator.
struct SizeDistribution {
  enum class Kind { Constant, Uniform, Normal, LogNormal } kind = Kind::Constant;
  double a = 0; ///< The constant; the least; the mean; the median.
  double b = 0; ///< Unused; the largest; the standard deviation; sigma of the logarithm.
};

struct Workload {
  std::vector<ComponentSpec> components; ///< In the file's order.
  std::vector<EdgeSpec> edges;
  bool edgesGiven = false; ///< Without `edges`, outputs and inputs of one name are joined.
  std::vector<FieldSpec> inputs;
  std::map<std::string, DimSpec> dims;
  std::vector<LossSpec> losses; ///< Empty only for a single bare model, where it is inferred.
  TrainSpec train;
  std::map<std::string, SizeDistribution> synthetic;

  /// "train.global_batch = 32": every default that was taken, to be said aloud.
  std::vector<std::string> defaults;
  std::string path; ///< The workload file, or the bare model.

  const ComponentSpec *component(std::string_view name) const;
};

/// Reads a workload file and applies `--set` assignments to it (those of `cluster.` are ignored here).
Result<Workload> readWorkload(const std::string &path, const std::vector<std::string> &assignments = {});
/// The same for text; `path` names it in messages and anchors relative paths.
Result<Workload> parseWorkload(std::string_view text, const std::string &path,
                               const std::vector<std::string> &assignments = {});
/// One component per bare ONNX file, named after its stem; losses are left to be inferred.
Result<Workload> workloadOfModels(const std::vector<std::string> &models,
                                  const std::vector<std::string> &assignments = {});

/// Whether `pattern` with * and ? matches the whole of `text`.
bool matchesGlob(std::string_view pattern, std::string_view text);
/// Whether a glob over state_dict names, or over "component/name", names this parameter.
bool namesParameter(std::string_view pattern, const std::string &component, const std::string &name);

} // namespace maestro::planner

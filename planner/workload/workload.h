// What the user asked for: the workload file, the command line's --set, and the defaults, as plain data.
//
// Reading it checks keys (with the nearest right one), types and values (zero, negative, NaN), each with
// file and line; whether names fit the models is checked when the graphs are linked.
#pragma once

#include "base/dtype.h"
#include "base/status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

struct ComponentSpec {
  std::string name;
  std::string model;                ///< Path of the .onnx file, resolved against the workload's folder.
  std::string weights;              ///< Path of a safetensors file; empty: the model's own values.
  bool frozen = false;              ///< As a whole.
  std::vector<std::string> frozenPatterns; ///< Globs over state_dict names.
  DType precision = DType::F32;
};

/// `vision.features -> language.image_features`
struct EdgeSpec {
  std::string producer, output, consumer, input;
};

/// A data field: which graph inputs it feeds, and what cannot be inferred.
struct InputSpec {
  std::string field;
  std::vector<std::pair<std::string, std::string>> to; ///< (component, input)
  std::optional<DType> dtype;
  std::optional<std::vector<std::string>> shape; ///< Dims as text: symbols or integers.
  std::optional<double> pad;
};

struct DimSpec {
  std::string name;
  bool sum = false;
  int64_t max = 0;
  int64_t multipleOf = 1;
  bool isDefault = false; ///< Taken, not given.
};

enum class LossKind { CrossEntropy, KlDivergence, Mean, Output };

struct LossSpec {
  LossKind kind = LossKind::Output;
  std::string name; ///< For metrics: the kind, kind_2 …, or the output's name; unique.
  double weight = 1;
  std::string logits, labels, student, teacher, value, mask, output; ///< "component.output" or a field
  int64_t ignoreIndex = -100;
  double temperature = 1;
};

enum class OptimizerKind { AdamW, Adam, Sgd };
enum class DecayKind { Constant, Linear, Cosine };

struct TrainSpec {
  int64_t globalBatch = 32;
  OptimizerKind optimizer = OptimizerKind::AdamW;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 1e-2, momentum = 0;
  bool nesterov = false;
  std::vector<std::string> noDecay; ///< Globs over state_dict names.
  uint64_t warmupSteps = 0, totalSteps = 0;
  DecayKind decay = DecayKind::Constant;
  double minLr = 0;
  double clipGradNorm = 0; ///< 0: none.
  uint64_t seed = 0;
};

/// A default that was taken, to be said aloud and kept in the plan.
struct DefaultTaken {
  std::string subject, choice, reason;
};

struct Workload {
  std::string name;   ///< Stem of the workload file or of the single model.
  std::string folder; ///< Where relative paths start.
  std::vector<ComponentSpec> components;
  std::vector<EdgeSpec> edges;
  std::vector<InputSpec> inputs;
  std::vector<DimSpec> dims; ///< As given; the linker adds defaults for the rest.
  std::vector<LossSpec> losses; ///< Empty: to be found by the linker (single model).
  TrainSpec train;
  std::map<std::string, std::string> synthetic; ///< Symbol to distribution, "lognormal(512, 0.6)".
  std::vector<DefaultTaken> defaults;
};

struct ClusterSpec {
  std::string name;
  std::string deviceKind = "cpu";
  int64_t nodes = 1, devicesPerNode = 1;
  uint64_t memoryBytes = 0; ///< Of one device.
  struct Link {
    std::string name;
    int64_t spans = 1;
    double bytesPerSecond = 0, latencySeconds = 0;
  };
  std::vector<Link> links;
  bool isThisMachine = false;
};

/// `--set train.global_batch=64`, `--set cluster.devices_per_node=4`
struct Setting {
  std::string path, value;
};
Result<Setting> parseSetting(const std::string &text);

/// A workload file (`.yaml`, `.yml`) or one or several models (`.onnx`), with settings applied.
Result<Workload> readWorkload(const std::vector<std::string> &paths, const std::vector<Setting> &settings);

/// A cluster file, or this machine when `path` is empty.
Result<ClusterSpec> readCluster(const std::string &path, const std::vector<Setting> &settings);

} // namespace maestro::planner

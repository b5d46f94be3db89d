// Which files a checkpoint has, what lies in each, and which rank writes it: from the plan alone, so that it is the
// same however ranks are processes.
//
//   student.safetensors                                           where one rank writes the set
//   student.ema.safetensors                                       its averages, where they are asked for
//   student-00001-of-00002.safetensors … , student.safetensors.index.json     where several do, as Hugging Face names
//   them
//
// Every tensor is written by one of the ranks that hold it. Replicas hold the same and share the work, where there is
// enough of it. Tensors that ranks hold in parts are written whole, by the first of these ranks.
#pragma once

#include "executor/checkpoint/safetensors.h"
#include "executor/core/topology.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maestro::executor {

struct SavedTensor {
  checkpoint::TensorInfo info;
  plan::fb::BindingKind kind;
  uint32_t parameter; ///< Plan.parameters
  uint32_t source;    ///< Topology.stations: a lead; its rank writes the file.
};

struct SavedFile {
  std::string name;
  uint32_t writer; ///< Rank.
  std::vector<SavedTensor> tensors;
  checkpoint::Metadata metadata; ///< Other names of tied weights.

  uint64_t bytes() const; ///< Of the tensors.
};

/// A component's values, or the optimizer's state.
struct SavedSet {
  std::string name;
  std::vector<SavedFile> files;

  std::string indexName() const { return name + ".safetensors.index.json"; }
  bool hasIndex() const { return files.size() > 1; }
  std::string index() const; ///< The text of it.
};

/// Replicas share a set where each file then has as much.
inline constexpr uint64_t kLeastFileBytes = uint64_t{256} << 20;

/// Components that are not frozen as a whole, then the optimizer. The rank `root` writes sets of nothing.
std::vector<SavedSet> checkpointSets(const plan::Plan &plan, const Topology &topology, uint32_t root,
                                     uint64_t leastFileBytes = kLeastFileBytes);
/// gradients.safetensors: every trainable parameter's gradient as <component>.<parameter>, in one file of rank
/// `writer`.
SavedFile gradientsFile(const plan::Plan &plan, const Topology &topology, uint32_t writer);

/// Parameters and persistent buffers of a component, or what trains of them where that alone is saved, of what
/// `isBound` says; names of tied weights go into `metadata`.
using IsBound = std::function<bool(plan::fb::BindingKind, uint32_t parameter)>;
struct SavedName {
  std::string name;
  plan::fb::BindingKind kind;
  uint32_t parameter;
};
std::vector<SavedName> valueNames(const plan::Plan &plan, const IsBound &isBound, uint32_t component,
                                  checkpoint::Metadata &metadata);
/// The same with averages in the place of what has one; nothing where none has. A model of its own.
std::vector<SavedName> averageNames(const plan::Plan &plan, const IsBound &isBound, uint32_t component,
                                    checkpoint::Metadata &metadata);
/// As PyTorch's optimizers call their state: <component>.<parameter>.exp_avg.
std::vector<SavedName> optimizerNames(const plan::Plan &plan, const IsBound &isBound);

/// Name, shape, and the element type of the executable's buffer.
checkpoint::TensorInfo tensorInfo(const plan::Plan &plan, const plan::fb::Executable &executable,
                                  const SavedName &named);

} // namespace maestro::executor

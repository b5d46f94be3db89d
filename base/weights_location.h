// Where the weights lie that a user names: a safetensors file, the index of several, or a folder that
// holds either, as Hugging Face writes them.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace maestro {

struct WeightsLocation {
  std::string path;
  bool isIndex = false; ///< `path` is JSON: {"weight_map": {tensor: name of a file beside it}}.
};

/// Largest index that is read. One of 100,000 tensors takes about 10 MB.
inline constexpr uint64_t kMaxWeightsIndexBytes = 32 << 20;

/// Of a file that is not there, its index, where that is: one name for weights that are one file or several.
/// In a folder: the component's file, as checkpoints have it, or its index, else model.safetensors, else
/// model.safetensors.index.json, else the only file of either kind. InvalidInput says what is there instead and what to
/// do, of pickles too.
Result<WeightsLocation> locateWeights(const std::string &path, std::string_view component = {});

/// The path of a file that an index names. Only plain names of its own folder are followed.
Result<std::string> besideIndex(const std::string &index, const std::string &name);

/// "a zip archive, as torch.save writes; …": what a file is that is no safetensors file, with the
/// remedy, by its first bytes; empty where they tell nothing.
std::string describeForeignWeights(std::string_view firstBytes);

/// What a message says where `name` is in no weights of `component`, but another name of theirs differs by what stands
/// before it, as DistributedDataParallel (`module.`), torch.compile (`_orig_mod.`) and Hugging Face's heads (`model.`)
/// do; "" elsewhere.
std::string prefixHint(std::string_view component, std::string_view name, std::span<const std::string> names);

/// "has no value: …": why nothing gives a buffer of `component` its value that is not persistent, and
/// the remedies. Said by planning and by the run alike.
std::string missingBufferValue(std::string_view component);

} // namespace maestro

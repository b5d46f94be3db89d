// What --data may name: shards (WebDataset), files of tokens, folders of arrays.
#pragma once

#include "executor/data/field.h"
#include "executor/data/source.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace maestro::data {

/// Files of one kind, in the order in which they are read.
struct DataFiles {
  enum class Kind : uint8_t { Shards, Tokens, Arrays } kind = Kind::Shards;
  std::vector<std::string> paths; ///< Of Arrays: folders.
};

/// What patterns name. InvalidInput where they match nothing, or files of several kinds.
Result<DataFiles> findData(std::span<const std::string> patterns);

struct DataRequest {
  std::vector<FieldSpec> fields;
  std::vector<SymbolSpec> symbols;
  /// Of tokens: the fields that hold the token behind each; nothing: those of the plan's losses.
  std::optional<std::vector<std::string>> nextToken;
  bool graphComputesLoss = false; ///< Then nobody but the user knows who shifts the labels.
  bool shuffle = false;
  uint64_t seed = 0;
};

Result<std::unique_ptr<SampleReader>> openData(const DataFiles &files, const DataRequest &request);

} // namespace maestro::data

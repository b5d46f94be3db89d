// Reads what --data names.
#pragma once

#include "executor/data/data_files.h"
#include "executor/data/field.h"
#include "executor/data/source.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace maestro::data {

struct DataRequest {
  std::vector<FieldSpec> fields;
  std::vector<SymbolSpec> symbols;
  /// Of tokens: the fields that hold the token behind each; nothing: those of the plan's losses.
  std::optional<std::vector<std::string>> nextToken;
  bool graphComputesLoss = false; ///< Then nobody but the user knows who shifts the labels.
  bool shuffle = false;
  uint64_t seed = 0;
  std::string indexFolder; ///< Where indexes of shards are kept; "": nowhere.
  bool isShared = false;   ///< Several processes read the data.
};

Result<std::unique_ptr<SampleReader>> openData(const DataFiles &files, const DataRequest &request);

} // namespace maestro::data

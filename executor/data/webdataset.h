// WebDataset: samples from tar shards, in file order or shuffled.
//
// (Of a mixture, each source by itself: row_files.h.)
//
// In file order a shard is indexed when it is reached. Shuffled, all shards are indexed first (headers only) and every
// pass has its own permutation of the whole data set, a function of seed and pass alone.
#pragma once

#include "base/status.h"
#include "executor/data/index_store.h"
#include "executor/data/row_files.h"
#include "executor/data/shard_samples.h"
#include "executor/data/source.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace maestro::data {

struct WebDatasetOptions {
  std::vector<std::string> shards; ///< Files, as expandShardPatterns() gives them.
  std::vector<WantedField> fields; ///< Order of Sample::fields.
  bool shuffle = false;
  uint64_t seed = 0;       ///< Of the permutations.
  IndexStore indexes = {}; ///< Kept indexes.
};

Result<std::unique_ptr<SampleReader>> openWebDataset(WebDatasetOptions options);

/// Shards of one source of a mixture as files of rows, all of them indexed.
Result<std::vector<std::shared_ptr<RowFile>>> openShardRows(std::span<const std::string> shards,
                                                            std::shared_ptr<const std::vector<WantedField>> fields,
                                                            const IndexStore &indexes);

/// What is said of data without samples.
Status noSamples(std::span<const std::string> shards);

} // namespace maestro::data

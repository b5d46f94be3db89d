#include "executor/data/open_data.h"

#include "base/log.h"
#include "executor/data/row_files.h"
#include "executor/data/shard_pattern.h"
#include "executor/data/webdataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace maestro::data {
namespace {

bool hasArrays(const std::string &path) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".npy")
      return true;
  return false;
}

std::string_view describe(DataFiles::Kind kind) {
  return kind == DataFiles::Kind::Shards ? "a shard" : kind == DataFiles::Kind::Tokens ? "a file of tokens" : "a folder of arrays";
}

/// Which fields hold next tokens: as the user says, else those that only losses read.
Result<std::vector<std::string>> nextTokenFields(const DataRequest &request) {
  if (request.nextToken)
    return *request.nextToken;
  std::vector<std::string> labels;
  for (const FieldSpec &field : request.fields)
    if (field.ignoreIndex)
      labels.push_back(field.name);
  if (request.graphComputesLoss && !labels.empty())
    return Status::invalidInput(fmt::format("the graph computes its loss of '{}' itself, and may shift them or not: say --next-token {} "
                                            "where they are to be the tokens behind the others, --next-token none where the graph "
                                            "shifts them, as Hugging Face's models do",
                                            fmt::join(labels, "', '"), labels.front()));
  return labels;
}

Result<TokenFields> chooseTokenFields(const DataRequest &request) {
  MAESTRO_ASSIGN(std::vector<std::string> next, nextTokenFields(request));
  MAESTRO_ASSIGN(TokenFields chosen, tokenFields(request.fields, request.symbols, next));
  std::vector<std::string> same;
  for (const TokenFields::Field &field : chosen.fields)
    if (!field.next)
      same.push_back(request.fields[field.index].name);
  logInfo(fmt::format("samples of {} tokens: {}{}{}", chosen.length, fmt::join(same, ", "),
                      next.empty() ? "" : "; the tokens behind them: ", fmt::join(next, ", ")));
  return chosen;
}

} // namespace

Result<DataFiles> findData(std::span<const std::string> patterns) {
  DataFiles found;
  auto add = [&](const std::string &path, DataFiles::Kind kind) {
    if (!found.paths.empty() && kind != found.kind)
      return Status::invalidInput(fmt::format("'{}' is {}, and '{}' {} (--data); give data of one kind", found.paths.front(),
                                              describe(found.kind), path, describe(kind)));
    found.kind = kind;
    found.paths.push_back(path);
    return Status();
  };
  for (const std::string &pattern : patterns) {
    if (hasArrays(pattern)) {
      MAESTRO_TRY(add(pattern, DataFiles::Kind::Arrays));
      continue;
    }
    MAESTRO_ASSIGN(std::vector<std::string> files, expandShardPatterns(std::span(&pattern, 1)));
    for (const std::string &file : files)
      MAESTRO_TRY(add(file, file.ends_with(".bin") ? DataFiles::Kind::Tokens : DataFiles::Kind::Shards));
  }
  return found;
}

Result<std::unique_ptr<SampleReader>> openData(const DataFiles &files, const DataRequest &request) {
  if (request.nextToken && files.kind != DataFiles::Kind::Tokens)
    return Status::invalidInput(fmt::format("--next-token is about files of tokens (.bin); '{}' is {}", files.paths.front(),
                                            describe(files.kind)));
  if (files.kind == DataFiles::Kind::Shards) {
    WebDatasetOptions dataset;
    dataset.shards = files.paths;
    for (const FieldSpec &field : request.fields)
      dataset.fields.push_back({field.name, field.optional || field.ownPositions});
    dataset.shuffle = request.shuffle;
    dataset.seed = request.seed;
    return openWebDataset(std::move(dataset));
  }
  TokenFields tokens;
  if (files.kind == DataFiles::Kind::Tokens) {
    MAESTRO_ASSIGN(tokens, chooseTokenFields(request));
  }
  std::vector<std::unique_ptr<RowFile>> opened;
  for (const std::string &path : files.paths) {
    MAESTRO_ASSIGN(auto file, files.kind == DataFiles::Kind::Tokens ? openTokens(path, tokens, request.fields.size())
                                                                    : openArrays(path, request.fields));
    opened.push_back(std::move(file));
  }
  return openRows(std::move(opened), request.shuffle, request.seed);
}

} // namespace maestro::data

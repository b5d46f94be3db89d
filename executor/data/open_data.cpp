#include "executor/data/open_data.h"

#include "base/log.h"
#include "executor/data/row_files.h"
#include "executor/data/webdataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace maestro::data {
namespace {

/// Which fields hold next tokens: as the user says, else those that only losses read.
Result<std::vector<std::string>> nextTokenFields(const DataRequest &request) {
  if (request.nextToken)
    return *request.nextToken;
  std::vector<std::string> labels;
  for (const FieldSpec &field : request.fields)
    if (field.ignoreIndex)
      labels.push_back(field.name);
  if (request.graphComputesLoss && !labels.empty())
    return Status::invalidInput(
        fmt::format("the graph computes its loss of '{}' itself, and may shift them or not: say --next-token {} "
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

Result<std::unique_ptr<SampleReader>> openData(const DataFiles &files, const DataRequest &request) {
  if (request.nextToken && files.kind != DataFiles::Kind::Tokens)
    return Status::invalidInput(fmt::format("--next-token is about files of tokens (.bin); '{}' is {}",
                                            files.paths.front(), describe(files.kind)));
  std::vector<WantedField> wanted;
  IndexStore indexes;
  if (files.kind == DataFiles::Kind::Shards) {
    for (const FieldSpec &field : request.fields)
      wanted.push_back({field.name, field.optional || field.ownPositions});
    MAESTRO_ASSIGN(indexes, IndexStore::open(request.indexFolder, request.isShared));
    if (files.mixture.empty())
      return openWebDataset({files.paths, std::move(wanted), request.shuffle, request.seed, std::move(indexes)});
  }
  auto fields = std::make_shared<const std::vector<WantedField>>(std::move(wanted));
  TokenFields tokens;
  if (files.kind == DataFiles::Kind::Tokens) {
    MAESTRO_ASSIGN(tokens, chooseTokenFields(request));
  }
  std::vector<DataFiles::Source> mixture = files.mixture;
  if (mixture.empty())
    mixture.push_back({files.paths.size(), 1});
  std::vector<RowSource> opened;
  size_t next = 0;
  for (const DataFiles::Source &source : mixture) {
    opened.push_back({{}, source.weight});
    if (files.kind == DataFiles::Kind::Shards) {
      auto own = std::span(files.paths).subspan(std::exchange(next, next + source.paths), source.paths);
      MAESTRO_ASSIGN(opened.back().files, openShardRows(own, fields, indexes));
      continue;
    }
    for (size_t end = next + source.paths; next < end; ++next) {
      const std::string &path = files.paths[next];
      MAESTRO_ASSIGN(auto file, files.kind == DataFiles::Kind::Tokens ? openTokens(path, tokens, request.fields.size())
                                                                      : openArrays(path, request.fields));
      opened.back().files.push_back(std::move(file));
    }
  }
  return openRows(std::move(opened), request.shuffle, request.seed);
}

} // namespace maestro::data

// Files of samples of one shape, read in place by position: nothing is unpacked, indexed or copied before.
//
//   corpus.bin                    tokens, one after the other: nanoGPT's (uint16), llm.c's (a header before them)
//   corpus.bin, corpus.idx        Megatron's: the index says the tokens' type
//   folder/<field>.npy            an array a field; its leading dim counts samples
//
// Of tokens a sample is `length` that follow each other, and the next one begins where it ends. A field of next tokens
// has at each position the token behind it, as a language model's labels are.
#pragma once

#include "executor/data/field.h"
#include "executor/data/source.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::data {

/// What reads tokens: which of a plan's fields.
struct TokenFields {
  struct Field {
    size_t index = 0;  ///< In Sample::fields.
    bool next = false; ///< Holds the tokens behind the others'.
  };
  std::vector<Field> fields;
  int64_t length = 0; ///< Tokens of a sample.
};

/// The integer fields of one sequence, and its largest length. `next` names those of next tokens. InvalidInput where
/// there is none, where they differ in length, and where the plan reads what tokens do not give.
Result<TokenFields> tokenFields(std::span<const FieldSpec> fields, std::span<const SymbolSpec> symbols,
                                std::span<const std::string> next);

class RowFile : public SampleValues {
public:
  virtual uint64_t rows() const = 0;
  /// Fills in key and fields of a row.
  virtual void describe(uint64_t row, Sample &sample) const = 0;
  virtual const std::string &name() const = 0;
};

/// A file of tokens. InvalidInput where it holds less than one sample, or an index beside it cannot be read.
Result<std::shared_ptr<RowFile>> openTokens(const std::string &path, const TokenFields &fields, size_t fieldCount);
/// A folder of arrays by field. InvalidInput where one is missing that is not optional, or has another number of rows.
Result<std::shared_ptr<RowFile>> openArrays(const std::string &folder, std::span<const FieldSpec> fields);

/// The key of a row that has no name: its number.
void setKey(uint64_t row, Sample &sample);

/// Files, one after the other.
struct RowSource {
  std::vector<std::shared_ptr<RowFile>> files;
  double weight = 1; ///< Of the samples, the share that is its own; one that ends begins anew.
};

/// In the files' order, or shuffled as shards are, each source by itself. A pass has as many samples as all sources
/// together.
Result<std::unique_ptr<SampleReader>> openRows(std::vector<RowSource> sources, bool shuffle, uint64_t seed);

} // namespace maestro::data

// Factor rules as text.
#include "ir/nn/factor_rule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace maestro::nn {

unsigned FactorRule::addFactor(const DimExpr &size, FactorKind kind) {
  factors.push_back({size, kind});
  return factors.size() - 1;
}

std::optional<unsigned> FactorRule::soleFactor(const TensorFactors &tensor, size_t dim) {
  if (tensor[dim].size() != 1)
    return std::nullopt;
  return tensor[dim].front();
}

static constexpr std::pair<FactorKind, llvm::StringRef> kKindNames[] = {
    {FactorKind::ReduceSum, "reduce"},
    {FactorKind::ReduceMax, "reduce_max"},
    {FactorKind::ReduceMin, "reduce_min"},
    {FactorKind::Whole, "whole"},
};

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

namespace {
class Printer {
public:
  explicit Printer(const FactorRule &rule) : rule(rule) {}

  std::string print() {
    printTensors(rule.operandDims);
    text += "->";
    printTensors(rule.resultDims);
    for (auto [kind, word] : kKindNames)
      printKind(kind, word);
    return text;
  }

private:
  /// i, j, … z, a, … h, then f26, f27 …
  std::string nameOf(unsigned factor) {
    auto [entry, isNew] = order.try_emplace(factor, order.size());
    unsigned index = entry->second;
    if (index >= 26)
      return "f" + std::to_string(index);
    return std::string(1, static_cast<char>('a' + (index + 8) % 26));
  }

  void printDim(const DimFactors &dim) {
    if (dim.empty())
      text += "1";
    for (auto [position, factor] : llvm::enumerate(dim))
      text += (position ? "*" : "") + nameOf(factor);
  }

  void printTensors(llvm::ArrayRef<TensorFactors> tensors) {
    for (auto [index, tensor] : llvm::enumerate(tensors)) {
      text += index ? ",(" : "(";
      for (auto [position, dim] : llvm::enumerate(tensor)) {
        text += position ? "," : "";
        printDim(dim);
      }
      text += ")";
    }
  }

  void printKind(FactorKind kind, llvm::StringRef word) {
    std::map<unsigned, std::string> names; // In order of appearance.
    for (auto [factor, index] : order)
      if (rule.factors[factor].kind == kind)
        names[index] = nameOf(factor);
    const char *separator = " ";
    if (!names.empty())
      text += " " + word.str();
    for (auto &[index, name] : names)
      text += std::exchange(separator, ",") + name;
  }

  const FactorRule &rule;
  std::string text;
  std::map<unsigned, unsigned> order;
};
} // namespace

std::string FactorRule::str() const { return Printer(*this).print(); }

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {
class Parser {
public:
  explicit Parser(llvm::StringRef text) : rest(text) {}

  std::optional<FactorRule> parse() {
    if (!parseTensors(rule.operandDims) || !take("->") || !parseTensors(rule.resultDims) || rule.resultDims.empty())
      return std::nullopt;
    for (rest = rest.ltrim(); !rest.empty(); rest = rest.ltrim())
      if (!parseKind())
        return std::nullopt;
    return std::move(rule);
  }

private:
  bool take(llvm::StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }

  llvm::StringRef takeWord() {
    rest = rest.ltrim();
    llvm::StringRef word = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    rest = rest.drop_front(word.size());
    return word;
  }

  bool parseTensors(llvm::SmallVectorImpl<TensorFactors> &tensors) {
    while (take("(")) {
      TensorFactors tensor;
      while (!take(")")) {
        if (!tensor.empty() && !take(","))
          return false;
        if (!parseDim(tensor.emplace_back()))
          return false;
      }
      tensors.push_back(std::move(tensor));
      if (!take(","))
        break;
    }
    return true;
  }

  bool parseDim(DimFactors &dim) {
    if (take("1"))
      return true;
    do {
      llvm::StringRef name = takeWord();
      if (name.empty() || !llvm::isAlpha(name.front()))
        return false;
      auto [entry, isNew] = byName.try_emplace(name, rule.factors.size());
      if (isNew)
        rule.addFactor(1);
      dim.push_back(entry->second);
    } while (take("*"));
    return true;
  }

  bool parseKind() {
    llvm::StringRef word = takeWord();
    const auto *known = llvm::find_if(kKindNames, [&](auto &kind) { return kind.second == word; });
    if (known == std::end(kKindNames))
      return false;
    do {
      auto factor = byName.find(takeWord());
      if (factor == byName.end())
        return false;
      rule.factors[factor->second].kind = known->first;
    } while (take(","));
    return true;
  }

  llvm::StringRef rest;
  FactorRule rule;
  llvm::StringMap<unsigned> byName;
};
} // namespace

std::optional<FactorRule> FactorRule::parse(llvm::StringRef text) { return Parser(text).parse(); }

} // namespace maestro::nn

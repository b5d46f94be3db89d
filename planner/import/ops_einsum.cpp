// Einsum as transposes, reshapes, sums and matrix products, two operands at a time.
#include "planner/import/op_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace maestro::planner {
namespace {

/// One letter a dim. The dims of an ellipsis have the digits from '0' on, the last of them the highest.
using Labels = std::string;

bool has(const Labels &labels, char label) { return labels.find(label) != Labels::npos; }

struct Term {
  mlir::Value value;
  Labels labels;
};

class Einsum {
public:
  Einsum(NodeContext &n, std::string equation) : n(n), equation(std::move(equation)) {}

  Status import() {
    MAESTRO_TRY(readTerms());
    Term result = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      Labels later = output;
      for (size_t j = i + 1; j < terms.size(); ++j)
        later += terms[j].labels;
      MAESTRO_ASSIGN(result, contract(result, terms[i], later));
    }
    MAESTRO_ASSIGN(result, sumAllBut(result, output));
    MAESTRO_ASSIGN(mlir::Value y, arranged(result, output));
    return n.set(0, y);
  }

private:
  Status wrong(std::string_view what) const {
    return Status::invalidInput(fmt::format("equation '{}' {}", equation, what));
  }

  /// Labels of one term of the equation for an operand of this rank.
  Result<Labels> labelsOf(std::string_view text, int64_t rank) {
    size_t dots = text.find("...");
    auto named = static_cast<int64_t>(dots == std::string_view::npos ? text.size() : text.size() - 3);
    int64_t hidden = rank - named;
    if (hidden < 0 || (dots == std::string_view::npos && hidden != 0) || hidden > 8)
      return wrong(fmt::format("has {} labels for an operand of rank {}", named, rank));
    Labels labels;
    for (size_t i = 0; i < text.size(); ++i) {
      if (i == dots) {
        for (int64_t d = hidden; d > 0; --d)
          labels += static_cast<char>('9' - (d - 1));
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
        labels += text[i];
      } else {
        return wrong(fmt::format("has a '{}', which is no label", text[i]));
      }
    }
    return labels;
  }

  Status readTerms() {
    std::erase(equation, ' ');
    size_t arrow = equation.find("->");
    std::string left = equation.substr(0, arrow);
    for (int i = 0; i < n.inputCount(); ++i) {
      size_t comma = left.find(',');
      if ((comma == std::string::npos) != (i + 1 == n.inputCount()))
        return wrong(fmt::format("has not {} operands", n.inputCount()));
      MAESTRO_ASSIGN(mlir::Value value, n.tensor(i));
      MAESTRO_ASSIGN(Labels labels, labelsOf(left.substr(0, comma), Emitter::rankOf(value)));
      MAESTRO_ASSIGN(Term term, withoutRepeats({value, labels}));
      terms.push_back(term);
      left = comma == std::string::npos ? "" : left.substr(comma + 1);
    }
    return arrow == std::string::npos ? implicitOutput() : explicitOutput(equation.substr(arrow + 2));
  }

  /// The labels that stand once, in alphabetical order, after those of an ellipsis.
  Status implicitOutput() {
    Labels all;
    for (const Term &term : terms)
      all += term.labels;
    for (char label : all)
      if (!has(output, label) &&
          (std::isdigit(static_cast<unsigned char>(label)) || std::count(all.begin(), all.end(), label) == 1))
        output += label;
    std::sort(output.begin(), output.end()); // Digits come before letters.
    return {};
  }

  Status explicitOutput(const std::string &text) {
    Labels hidden, all;
    for (const Term &term : terms)
      for (char label : term.labels) {
        all += label;
        if (std::isdigit(static_cast<unsigned char>(label)) && !has(hidden, label))
          hidden += label;
      }
    size_t named = text.find("...") == std::string::npos ? text.size() : text.size() - 3 + hidden.size();
    MAESTRO_ASSIGN(output, labelsOf(text, static_cast<int64_t>(named)));
    for (size_t i = 0; i < output.size(); ++i)
      if (!has(all, output[i]) || has(output.substr(i + 1), output[i]))
        return wrong(fmt::format("has '{}' in its result twice, or in no operand", output[i]));
    return {};
  }

  /// A label that an operand has twice stands for its diagonal: every (size + 1)-th element of the square.
  Result<Term> withoutRepeats(Term term) {
    for (size_t i = 0; i < term.labels.size(); ++i) {
      size_t j = term.labels.find(term.labels[i], i + 1);
      if (j == Labels::npos)
        continue;
      Shape shape(Emitter::shapeOf(term.value));
      auto size = shape[i].asConstant();
      if (!size || *size > 1 << 20 || shape[i] != shape[j])
        return wrong(fmt::format("takes a diagonal of dims {} and {}, which must be equal numbers", shape[i].str(),
                                 shape[j].str()));
      Ints order;
      Labels labels;
      for (size_t d = 0; d < shape.size(); ++d)
        if (d != i && d != j) {
          order.push_back(static_cast<int64_t>(d));
          labels += term.labels[d];
        }
      order.append({static_cast<int64_t>(i), static_cast<int64_t>(j)});
      labels += term.labels[i];
      MAESTRO_ASSIGN(mlir::Value x, n.e.transpose(term.value, order));
      Shape square(Emitter::shapeOf(x).drop_back(2)), offsets(square.size() + 1, DimExpr(0));
      Ints steps(square.size(), 1);
      square.push_back(DimExpr(*size * *size));
      steps.push_back(*size + 1);
      x = n.e.reshape(x, square);
      square.back() = DimExpr(*size);
      x = n.e.typed<nn::SliceOp>(n.e.like(x, square), x, n.e.dims(offsets), n.e.builder.getDenseI64ArrayAttr(steps));
      return withoutRepeats({x, labels});
    }
    return term;
  }

  /// Sums over the labels that `kept` lacks.
  Result<Term> sumAllBut(Term term, const Labels &kept) {
    Ints axes;
    Labels labels;
    for (size_t d = 0; d < term.labels.size(); ++d)
      if (has(kept, term.labels[d]))
        labels += term.labels[d];
      else
        axes.push_back(static_cast<int64_t>(d));
    if (axes.empty())
      return term;
    MAESTRO_ASSIGN(mlir::Value sum, n.e.emit<nn::ReduceSumOp>(term.value, llvm::ArrayRef<int64_t>(axes), false));
    return Term{sum, labels};
  }

  /// The term's dims in this order.
  Result<mlir::Value> arranged(const Term &term, const Labels &order) {
    Ints permutation;
    for (char label : order)
      permutation.push_back(static_cast<int64_t>(term.labels.find(label)));
    return n.e.transpose(term.value, permutation);
  }

  /// The product of two terms, summed over what neither `later` nor the result has.
  Result<Term> contract(Term a, Term b, const Labels &later) {
    MAESTRO_ASSIGN(a, sumAllBut(a, later + b.labels));
    MAESTRO_ASSIGN(b, sumAllBut(b, later + a.labels));
    Labels batch, rows, columns, summed;
    for (char label : a.labels)
      (!has(b.labels, label) ? rows : has(later, label) ? batch : summed) += label;
    for (char label : b.labels)
      if (!has(a.labels, label))
        columns += label;
    MAESTRO_ASSIGN(mlir::Value left, arranged(a, batch + rows + summed));
    MAESTRO_ASSIGN(mlir::Value right, arranged(b, batch + summed + columns));
    Shape shape = joined(left, right, batch.size(), rows.size(), columns.size());
    auto sizes = [](mlir::Value value, size_t from, size_t count) {
      return nn::productOf(Emitter::shapeOf(value).slice(from, count));
    };
    Shape leftShape(Emitter::shapeOf(left).take_front(batch.size())),
        rightShape(Emitter::shapeOf(right).take_front(batch.size()));
    leftShape.append({sizes(left, batch.size(), rows.size()), sizes(left, batch.size() + rows.size(), summed.size())});
    rightShape.append(
        {sizes(right, batch.size(), summed.size()), sizes(right, batch.size() + summed.size(), columns.size())});
    MAESTRO_TRY(n.e.requireEqual(leftShape.back(), rightShape[batch.size()], "summed dims"));
    left = n.e.reshape(left, leftShape);
    right = n.e.reshape(right, rightShape);
    MAESTRO_ASSIGN(Shape leading,
                   n.e.broadcast(llvm::ArrayRef(leftShape).drop_back(2), llvm::ArrayRef(rightShape).drop_back(2)));
    Result<mlir::Value> product = summed.empty()
                                      ? n.e.emit<nn::MulOp>(left, right)
                                      : n.e.emit<nn::MatmulOp>(left, right, mlir::Value(), false, false, false);
    if (!product)
      return std::move(product).takeStatus();
    std::copy(leading.begin(), leading.end(), shape.begin());
    return Term{n.e.reshape(*product, shape), batch + rows + columns};
  }

  /// [batch…, rows…, columns…]
  static Shape joined(mlir::Value left, mlir::Value right, size_t batch, size_t rows, size_t columns) {
    Shape shape(Emitter::shapeOf(left).take_front(batch + rows));
    llvm::append_range(shape, Emitter::shapeOf(right).take_back(columns));
    return shape;
  }

  NodeContext &n;
  std::string equation;
  std::vector<Term> terms;
  Labels output;
};

Status importEinsum(NodeContext &n) { return Einsum(n, n.textAttribute("equation", "")).import(); }

} // namespace

std::span<const OpEntry> einsumOps() {
  static constexpr OpEntry kOps[] = {{"Einsum", 12, importEinsum}};
  return kOps;
}

} // namespace maestro::planner

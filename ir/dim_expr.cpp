// Polynomials over atoms: interning, arithmetic and simplification. Text: dim_expr_text.cpp; values and
// bounds: dim_expr_value.cpp.
#include "ir/dim_expr.h"
#include "ir/dim_expr_polynomial.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <unordered_set>

namespace maestro {

using Atom = DimExpr::Atom;
using Term = DimExpr::Term;

//===----------------------------------------------------------------------===//
// Order and hash, by structure alone
//===----------------------------------------------------------------------===//

static int compareAtoms(const Atom &a, const Atom &b) {
  if (a.kind != b.kind)
    return a.kind < b.kind ? -1 : 1;
  if (a.kind == DimExpr::AtomKind::Symbol)
    return a.name.compare(b.name);
  if (int order = DimExpr::compare(*a.lhs, *b.lhs))
    return order;
  return DimExpr::compare(*a.rhs, *b.rhs);
}

/// Higher degrees first, then by atoms: a monomial order, as exactQuotient needs.
static int compareMonomials(const std::vector<Atom> &a, const std::vector<Atom> &b) {
  if (a.size() != b.size())
    return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (int order = compareAtoms(a[i], b[i]))
      return order;
  return 0;
}

int DimExpr::compare(const DimExpr &a, const DimExpr &b) {
  if (a == b)
    return 0;
  const std::vector<Term> &lhs = a.terms(), &rhs = b.terms();
  for (size_t i = 0; i < std::min(lhs.size(), rhs.size()); ++i) {
    if (int order = compareMonomials(lhs[i].atoms, rhs[i].atoms))
      return order;
    if (lhs[i].coefficient != rhs[i].coefficient)
      return lhs[i].coefficient < rhs[i].coefficient ? -1 : 1;
  }
  return lhs.size() < rhs.size() ? -1 : 1;
}

static size_t mix(size_t hash, size_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdull;
}

static size_t hashText(std::string_view text) {
  size_t hash = 0xcbf29ce484222325ull;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

static size_t hashTerms(const std::vector<Term> &terms) {
  size_t hash = terms.size();
  for (const Term &term : terms) {
    hash = mix(hash, static_cast<size_t>(term.coefficient));
    for (const Atom &atom : term.atoms) {
      hash = mix(hash, static_cast<size_t>(atom.kind));
      if (atom.kind == DimExpr::AtomKind::Symbol)
        hash = mix(hash, hashText(atom.name));
      else
        hash = mix(mix(hash, atom.lhs->hash()), atom.rhs->hash());
    }
  }
  return hash;
}

//===----------------------------------------------------------------------===//
// Interning
//===----------------------------------------------------------------------===//

static bool equalAtoms(const Atom &a, const Atom &b) {
  if (a.kind != b.kind)
    return false;
  return a.kind == DimExpr::AtomKind::Symbol ? a.name == b.name : *a.lhs == *b.lhs && *a.rhs == *b.rhs;
}

static bool equalTerms(const Term &a, const Term &b) {
  return a.coefficient == b.coefficient && std::ranges::equal(a.atoms, b.atoms, equalAtoms);
}

DimExpr DimExpr::Builder::intern(std::vector<Term> terms) {
  struct Hash {
    size_t operator()(const Polynomial *p) const { return p->hash; }
  };
  struct Equal {
    bool operator()(const Polynomial *a, const Polynomial *b) const {
      return a->hash == b->hash && std::ranges::equal(a->terms, b->terms, equalTerms);
    }
  };
  static std::mutex mutex;
  static auto &table = *new std::unordered_set<const Polynomial *, Hash, Equal>;

  auto candidate = std::make_unique<Polynomial>();
  candidate->hash = hashTerms(terms);
  candidate->terms = std::move(terms);
  std::lock_guard lock(mutex);
  auto [entry, isNew] = table.insert(candidate.get());
  if (isNew)
    candidate.release();
  return DimExpr(**entry);
}

/// Sorts the terms, joins those of equal atoms and drops zeros.
DimExpr DimExpr::Builder::fromTerms(std::vector<Term> terms) {
  std::ranges::sort(terms, [](const Term &a, const Term &b) { return compareMonomials(a.atoms, b.atoms) < 0; });
  std::vector<Term> joined;
  for (Term &term : terms) {
    if (joined.empty() || compareMonomials(joined.back().atoms, term.atoms) != 0)
      joined.push_back(std::move(term));
    else if (__builtin_add_overflow(joined.back().coefficient, term.coefficient, &joined.back().coefficient))
      return overflow();
  }
  std::erase_if(joined, [](const Term &term) { return term.coefficient == 0; });
  return joined.size() > kMaxTerms ? overflow() : intern(std::move(joined));
}

DimExpr DimExpr::Builder::fromAtom(AtomKind kind, const DimExpr &lhs, const DimExpr &rhs) {
  Atom atom{kind, "", std::make_shared<const DimExpr>(lhs), std::make_shared<const DimExpr>(rhs)};
  return intern({Term{1, {std::move(atom)}}});
}

DimExpr::DimExpr() : DimExpr(int64_t(0)) {}

DimExpr::DimExpr(int64_t constant)
    : DimExpr(Builder::intern(constant ? std::vector<Term>{Term{constant, {}}} : std::vector<Term>{})) {}

DimExpr DimExpr::symbol(std::string_view name) {
  return Builder::intern({Term{1, {Atom{AtomKind::Symbol, std::string(name), nullptr, nullptr}}}});
}

DimExpr DimExpr::overflow() {
  static const DimExpr poison = symbol("overflow!");
  return poison;
}

bool DimExpr::isOverflow() const { return *this == overflow(); }
const std::vector<Term> &DimExpr::terms() const { return value->terms; }
size_t DimExpr::hash() const { return value->hash; }

std::optional<int64_t> DimExpr::asConstant() const {
  if (terms().empty())
    return 0;
  if (terms().size() > 1 || !terms().front().atoms.empty())
    return std::nullopt;
  return terms().front().coefficient;
}

std::optional<std::string> DimExpr::asSymbol() const {
  if (terms().size() != 1 || terms()[0].coefficient != 1 || terms()[0].atoms.size() != 1 ||
      terms()[0].atoms[0].kind != AtomKind::Symbol || isOverflow())
    return std::nullopt;
  return terms()[0].atoms[0].name;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static bool anyOverflow(const DimExpr &a, const DimExpr &b) { return a.isOverflow() || b.isOverflow(); }

DimExpr operator+(const DimExpr &a, const DimExpr &b) {
  if (anyOverflow(a, b))
    return DimExpr::overflow();
  std::vector<Term> terms = a.terms();
  terms.insert(terms.end(), b.terms().begin(), b.terms().end());
  return DimExpr::Builder::fromTerms(std::move(terms));
}

DimExpr operator-(const DimExpr &a, const DimExpr &b) {
  if (anyOverflow(a, b))
    return DimExpr::overflow();
  std::vector<Term> terms = a.terms();
  for (Term term : b.terms()) {
    if (__builtin_sub_overflow(int64_t(0), term.coefficient, &term.coefficient))
      return DimExpr::overflow();
    terms.push_back(std::move(term));
  }
  return DimExpr::Builder::fromTerms(std::move(terms));
}

static std::vector<Atom> mergeAtoms(const std::vector<Atom> &a, const std::vector<Atom> &b) {
  std::vector<Atom> merged;
  std::ranges::merge(a, b, std::back_inserter(merged),
                     [](const Atom &x, const Atom &y) { return compareAtoms(x, y) < 0; });
  return merged;
}

DimExpr operator*(const DimExpr &a, const DimExpr &b) {
  if (anyOverflow(a, b) || a.terms().size() * b.terms().size() > DimExpr::kMaxTerms)
    return DimExpr::overflow();
  std::vector<Term> terms;
  for (const Term &x : a.terms()) {
    for (const Term &y : b.terms()) {
      Term product;
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &product.coefficient))
        return DimExpr::overflow();
      product.atoms = mergeAtoms(x.atoms, y.atoms);
      terms.push_back(std::move(product));
    }
  }
  return DimExpr::Builder::fromTerms(std::move(terms));
}

/// `term` ÷ `divisor` when it divides exactly.
static std::optional<Term> divideTerm(const Term &term, const Term &divisor) {
  if (divisor.coefficient == 0 || (divisor.coefficient == -1 && term.coefficient == INT64_MIN) ||
      term.coefficient % divisor.coefficient != 0)
    return std::nullopt;
  Term quotient{term.coefficient / divisor.coefficient, {}};
  size_t used = 0;
  for (const Atom &atom : term.atoms) {
    if (used < divisor.atoms.size() && equalAtoms(atom, divisor.atoms[used]))
      ++used;
    else
      quotient.atoms.push_back(atom);
  }
  if (used != divisor.atoms.size())
    return std::nullopt;
  return quotient;
}

std::optional<DimExpr> DimExpr::exactQuotient(const DimExpr &divisor) const {
  if (anyOverflow(*this, divisor) || divisor.terms().empty())
    return std::nullopt;
  // Long division by leading terms: each step removes the remainder's leading term for good.
  DimExpr quotient, remainder = *this;
  for (size_t steps = 0; !remainder.terms().empty(); ++steps) {
    std::optional<Term> part = divideTerm(remainder.terms()[0], divisor.terms()[0]);
    if (!part || steps > kMaxTerms)
      return std::nullopt;
    DimExpr factor = Builder::intern({*part});
    quotient = quotient + factor;
    remainder = remainder - factor * divisor;
    if (anyOverflow(quotient, remainder))
      return std::nullopt;
  }
  return quotient;
}

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

static int64_t floorDivide(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

/// Whether 0 ≤ a < b for all sizes.
static bool isRemainderOf(const DimExpr &a, const DimExpr &b) {
  Interval value = sizeInterval(a), room = sizeInterval(b - a - 1);
  return value.lo >= 0 && room.lo >= 0;
}

/// a = b · quotient + remainder, term by term; the constant of the remainder lies in [0, b) for constant b.
static std::pair<DimExpr, DimExpr> splitByDivisor(const DimExpr &a, const DimExpr &b) {
  std::vector<Term> quotient, remainder;
  std::optional<int64_t> constant = b.asConstant();
  for (const Term &term : a.terms()) {
    if (std::optional<Term> part = divideTerm(term, b.terms()[0])) {
      quotient.push_back(std::move(*part));
    } else if (constant && term.atoms.empty()) {
      int64_t whole = floorDivide(term.coefficient, *constant);
      quotient.push_back({whole, {}});
      remainder.push_back({term.coefficient - whole * *constant, {}});
    } else {
      remainder.push_back(term);
    }
  }
  return {DimExpr::Builder::fromTerms(std::move(quotient)), DimExpr::Builder::fromTerms(std::move(remainder))};
}

/// (g·x + k) floordiv (g·c) = (x + k floordiv g) floordiv c.
static std::pair<DimExpr, DimExpr> cancelCommonFactor(const DimExpr &a, int64_t divisor) {
  int64_t common = divisor;
  for (const Term &term : a.terms())
    if (!term.atoms.empty())
      common = term.coefficient == INT64_MIN ? 1 : std::gcd(common, term.coefficient);
  std::vector<Term> terms = a.terms();
  for (Term &term : terms)
    term.coefficient = floorDivide(term.coefficient, common);
  return {DimExpr::Builder::fromTerms(std::move(terms)), DimExpr(divisor / common)};
}

/// `term` as one atom of that kind; null where it is anything else.
static const Atom *asAtom(const Term &term, DimExpr::AtomKind kind) {
  bool isAtom = term.coefficient == 1 && term.atoms.size() == 1 && term.atoms[0].kind == kind;
  return isAtom ? &term.atoms[0] : nullptr;
}

static const Atom *asAtom(const DimExpr &expr, DimExpr::AtomKind kind) {
  return expr.terms().size() == 1 ? asAtom(expr.terms()[0], kind) : nullptr;
}

/// (x floordiv c + rest) floordiv b = (x + c·rest) floordiv (c·b), as strided convolutions after each other
/// have it; nothing for other shapes of `a`.
static std::optional<DimExpr> joinFloorDivs(const DimExpr &a, const DimExpr &b) {
  const Atom *inner = nullptr;
  for (const Term &term : a.terms()) {
    const Atom *atom = asAtom(term, DimExpr::AtomKind::FloorDiv);
    if (!atom || atom->rhs->asConstant().value_or(0) <= 0)
      continue;
    if (inner)
      return std::nullopt;
    inner = atom;
  }
  if (!inner)
    return std::nullopt;
  DimExpr rest = a - DimExpr::Builder::intern({Term{1, {*inner}}});
  return DimExpr::floorDiv(*inner->lhs + *inner->rhs * rest, *inner->rhs * b);
}

/// floordiv of what is left after splitByDivisor.
static DimExpr floorDivRemainder(DimExpr a, DimExpr b) {
  if (a.terms().empty() || isRemainderOf(a, b))
    return 0;
  std::optional<int64_t> divisor = b.asConstant();
  if (!divisor)
    return DimExpr::Builder::fromAtom(DimExpr::AtomKind::FloorDiv, a, b);
  std::tie(a, b) = cancelCommonFactor(a, *divisor);
  if (b.isConstant(1))
    return a;
  if (std::optional<DimExpr> joined = joinFloorDivs(a, b))
    return *joined;
  return DimExpr::Builder::fromAtom(DimExpr::AtomKind::FloorDiv, a, b);
}

/// A constant divisor that is not positive has no value: the atom keeps it for evaluate() to refuse.
static bool hasNoValue(const DimExpr &divisor) {
  std::optional<int64_t> constant = divisor.asConstant();
  return constant && *constant <= 0;
}

DimExpr DimExpr::floorDiv(const DimExpr &a, const DimExpr &b) {
  if (anyOverflow(a, b))
    return overflow();
  if (hasNoValue(b))
    return Builder::fromAtom(AtomKind::FloorDiv, a, b);
  if (std::optional<DimExpr> quotient = a.exactQuotient(b))
    return *quotient;
  if (b.terms().size() != 1)
    return floorDivRemainder(a, b);
  auto [quotient, remainder] = splitByDivisor(a, b);
  return quotient + floorDivRemainder(remainder, b);
}

DimExpr DimExpr::ceilDiv(const DimExpr &a, const DimExpr &b) { return floorDiv(a + b - 1, b); }

/// `a` with x for each x mod c whose c is a multiple of the divisor: the same modulo that.
static DimExpr withoutMods(const DimExpr &a, int64_t divisor) {
  DimExpr sum;
  for (const Term &term : a.terms()) {
    const Atom *atom = term.atoms.size() == 1 ? &term.atoms[0] : nullptr;
    bool vanishes = atom && atom->kind == DimExpr::AtomKind::Mod && atom->rhs->asConstant().value_or(1) % divisor == 0;
    sum = sum + (vanishes ? DimExpr(term.coefficient) * *atom->lhs : DimExpr::Builder::intern({term}));
  }
  return sum;
}

/// Whether it falls in every symbol: −x mod c is what is missing from x to a multiple of c.
static bool isNegative(const DimExpr &a) {
  return !a.isConstant() &&
         std::ranges::all_of(a.terms(), [](const Term &term) { return term.atoms.empty() || term.coefficient < 0; });
}

DimExpr DimExpr::mod(const DimExpr &a, const DimExpr &b) {
  if (anyOverflow(a, b))
    return overflow();
  if (hasNoValue(b))
    return Builder::fromAtom(AtomKind::Mod, a, b);
  if (a.exactQuotient(b))
    return 0;
  std::optional<int64_t> divisor = b.asConstant();
  DimExpr same = divisor ? withoutMods(a, *divisor) : a;
  DimExpr remainder = b.terms().size() == 1 ? splitByDivisor(same, b).second : same;
  if (divisor && isNegative(remainder))
    return remainder + b * ceilDiv(0 - remainder, b);
  if (isRemainderOf(remainder, b))
    return remainder;
  return Builder::fromAtom(AtomKind::Mod, remainder, b);
}

//===----------------------------------------------------------------------===//
// Minimum and maximum
//===----------------------------------------------------------------------===//

/// The operands of nested min or max, flattened.
static void collectOperands(const DimExpr &expr, DimExpr::AtomKind kind, std::vector<DimExpr> &to) {
  if (const Atom *atom = asAtom(expr, kind)) {
    collectOperands(*atom->lhs, kind, to);
    collectOperands(*atom->rhs, kind, to);
  } else {
    to.push_back(expr);
  }
}

/// Whether `b` decides min(a, b) or max(a, b) for all sizes.
static bool dominates(const DimExpr &b, const DimExpr &a, DimExpr::AtomKind kind) {
  DimExpr excess = kind == DimExpr::AtomKind::Max ? b - a : a - b;
  return !excess.isOverflow() && sizeInterval(excess).lo >= 0;
}

static DimExpr extremum(DimExpr::AtomKind kind, const DimExpr &a, const DimExpr &b) {
  if (anyOverflow(a, b))
    return DimExpr::overflow();
  std::vector<DimExpr> operands, kept;
  collectOperands(a, kind, operands);
  collectOperands(b, kind, operands);
  std::ranges::sort(operands, [](const DimExpr &x, const DimExpr &y) { return DimExpr::compare(x, y) < 0; });
  for (const DimExpr &operand : operands) {
    if (std::ranges::any_of(kept, [&](auto &other) { return dominates(other, operand, kind); }))
      continue;
    std::erase_if(kept, [&](auto &other) { return dominates(operand, other, kind); });
    kept.push_back(operand);
  }
  DimExpr result = kept.back();
  for (size_t i = kept.size() - 1; i-- > 0;)
    result = DimExpr::Builder::fromAtom(kind, kept[i], result);
  return result;
}

DimExpr DimExpr::min(const DimExpr &a, const DimExpr &b) { return extremum(AtomKind::Min, a, b); }
DimExpr DimExpr::max(const DimExpr &a, const DimExpr &b) { return extremum(AtomKind::Max, a, b); }

} // namespace maestro

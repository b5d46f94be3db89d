// The predicates that the rules of signature*.cpp are written with; private to them.
#pragma once

#include "kernels/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace maestro::kernels {

inline constexpr int64_t kMostElements = int64_t{1} << 47;

class Checker {
public:
  explicit Checker(const CallSpec &spec) : spec(spec), attributes(spec.attributes) {}

  const CallSpec &spec;
  const Attributes &attributes;

  const TensorType &in(size_t i) const { return spec.inputs[i]; }
  const TensorType &out(size_t i) const { return spec.outputs[i]; }
  bool has(size_t i) const { return i < spec.inputs.size() && spec.inputs[i].present; }
  bool hasOut(size_t i) const { return i < spec.outputs.size() && spec.outputs[i].present; }

  Status fail(std::string what) const { return Status::invalidInput(fmt::format("{}: {}", spec.kernel, what)); }

  /// `required` inputs must be there; up to `most` may. The same for results.
  Status counts(size_t required, size_t most, size_t results, size_t mostResults) const {
    if (spec.inputs.size() < required || spec.inputs.size() > most)
      return fail(fmt::format("{} operands, expected {} to {}", spec.inputs.size(), required, most));
    if (spec.outputs.size() < results || spec.outputs.size() > mostResults)
      return fail(fmt::format("{} results, expected {} to {}", spec.outputs.size(), results, mostResults));
    for (size_t i = 0; i < required; ++i)
      if (!in(i).present)
        return fail(fmt::format("operand {} is missing", i));
    for (size_t i = 0; i < results; ++i)
      if (!out(i).present)
        return fail(fmt::format("result {} is missing", i));
    return Status();
  }

  Status sane(const TensorType &type) const {
    if (type.rank < 0 || type.rank > TensorType::kMaxRank)
      return fail(fmt::format("rank {} is above the limit of {}", type.rank, TensorType::kMaxRank));
    int64_t count = 1;
    for (int64_t dim : type.shape()) {
      if (dim < 0 || (dim > 0 && count > kMostElements / dim))
        return fail(fmt::format("shape [{}] is out of range", fmt::join(type.shape(), ", ")));
      count *= std::max<int64_t>(dim, 1);
    }
    return Status();
  }

  Status shapeIs(const TensorType &type, std::span<const int64_t> expected, std::string_view what) const {
    if (std::ranges::equal(type.shape(), expected))
      return Status();
    return fail(fmt::format("{} has shape [{}], expected [{}]", what, fmt::join(type.shape(), ", "),
                            fmt::join(expected, ", ")));
  }
  Status sameShape(const TensorType &type, const TensorType &as, std::string_view what) const {
    return shapeIs(type, as.shape(), what);
  }
  Status elementsAre(const TensorType &type, int64_t expected, std::string_view what) const {
    if (type.elements() == expected)
      return Status();
    return fail(fmt::format("{} has {} elements, expected {}", what, type.elements(), expected));
  }
  Status dtypeIs(const TensorType &type, DType expected, std::string_view what) const {
    if (type.dtype == expected)
      return Status();
    return fail(fmt::format("{} is {}, expected {}", what, name(type.dtype), name(expected)));
  }

  Status broadcasts(std::span<const int64_t> from, std::span<const int64_t> to, std::string_view what) const {
    bool fits = from.size() <= to.size();
    for (size_t i = 0; fits && i < from.size(); ++i)
      fits = from[i] == 1 || from[i] == to[to.size() - from.size() + i];
    if (fits)
      return Status();
    return fail(fmt::format("{} [{}] does not broadcast to [{}]", what, fmt::join(from, ", "), fmt::join(to, ", ")));
  }

  /// The axis attribute in [0, rank), or [0, rank] where the dims behind it may be none.
  Status axisBelow(int64_t limit) const {
    int64_t axis = attributes.getInt("axis", 0);
    if (axis >= 0 && axis < limit)
      return Status();
    return fail(fmt::format("axis {} is outside [0, {})", axis, limit));
  }
  int64_t axis() const { return attributes.getInt("axis", 0); }

  Status listHas(std::string_view attribute, size_t expected) const {
    size_t count = attributes.getInts(attribute).size();
    if (count == expected)
      return Status();
    return fail(fmt::format("'{}' has {} values, expected {}", attribute, count, expected));
  }
  Status listAtLeast(std::string_view attribute, int64_t least) const {
    for (int64_t value : attributes.getInts(attribute))
      if (value < least || value > kMostElements)
        return fail(fmt::format("'{}' holds {}, expected at least {}", attribute, value, least));
    return Status();
  }
  /// Absent, or as long as expected with values of at least `least`.
  Status optionalList(std::string_view attribute, size_t expected, int64_t least) const {
    if (attributes.getInts(attribute).empty())
      return Status();
    MAESTRO_TRY(listHas(attribute, expected));
    return listAtLeast(attribute, least);
  }
};

struct SignatureRule {
  std::string_view name; ///< Of the kernel.
  Status (*check)(const Checker &);
};

/// One table per file of rules.
std::span<const SignatureRule> elementwiseRules(); // signature_elementwise.cpp
std::span<const SignatureRule> movementRules();    // signature_movement.cpp
std::span<const SignatureRule> productRules();     // signature_products.cpp
std::span<const SignatureRule> trainingRules();    // signature_training.cpp: norms, attention, losses, optimizers

} // namespace maestro::kernels

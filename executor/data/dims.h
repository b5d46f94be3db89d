// The shape of one array, without memory of its own: copying it never allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace maestro::data {

struct Dims {
  static constexpr int kMaxRank = 8;

  std::array<int64_t, kMaxRank> sizes{}; ///< sizes[rank…] are 0, so that == compares shapes.
  int rank = 0;

  std::span<const int64_t> shape() const { return {sizes.data(), static_cast<size_t>(rank)}; }
  int64_t operator[](int dim) const { return sizes[static_cast<size_t>(dim)]; }
  void append(int64_t size) { sizes[static_cast<size_t>(rank++)] = size; } ///< rank < kMaxRank
  /// 1 for a scalar. Whoever makes Dims from a file checks that the product does not overflow.
  int64_t elements() const;
  bool operator==(const Dims &) const = default;
};

/// `dims` as an array of rank `rank`: one that lacks dim `rows` is one row along it.
Dims withRows(const Dims &dims, int rank, int rows);

/// "[2, 3]"; "[]" for a scalar.
std::string toString(const Dims &dims);

} // namespace maestro::data

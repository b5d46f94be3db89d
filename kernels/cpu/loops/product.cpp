// Products of any size without preparation, for those so small that preparing one would take longer than running it
// often.
//
// Panels of b, kPanelDepth × kPanelColumns, stay in the inner caches while all rows of a pass by. What has no rows of
// whole vectors (a transposed b, the last columns) is packed first. Every element is summed over k in order, whichever
// part it stands in: results depend on neither the parts nor the other rows.
#include "kernels/cpu/loops/block_product.h"
#include "kernels/cpu/loops/product_call.h"
#include "kernels/cpu/loops/tables.h"

#include <utility>

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

constexpr int64_t kColumns = ProductCall::kPanelColumns, kDepth = ProductCall::kPanelDepth;
constexpr float kZeros[kColumns] = {};
constexpr std::make_integer_sequence<int, kLanes> kLaneNumbers;

MAESTRO_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// Interleaves the first halves of two vectors (kHalf = 0), or the second ones (1).
template <int kHalf, int... kLane>
MAESTRO_INLINE Floats interleaved(Floats a, Floats b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (kLane / 2 + kHalf * (kLanes / 2) + kLane % 2 * kLanes)...);
}

/// A square of kLanes × kLanes: lane i of row j becomes lane j of row i, by as many perfect shuffles of the rows as a
/// lane's number has bits.
MAESTRO_INLINE void transposeSquare(const float *from, int64_t fromRow, float *to) {
  Floats rows[kLanes], shuffled[kLanes];
  for (int i = 0; i < kLanes; ++i)
    rows[i] = load(from + i * fromRow);
  for (int width = 1; width < kLanes; width *= 2) {
    for (int i = 0; i < kLanes / 2; ++i) {
      shuffled[2 * i] = interleaved<0>(rows[i], rows[i + kLanes / 2], kLaneNumbers);
      shuffled[2 * i + 1] = interleaved<1>(rows[i], rows[i + kLanes / 2], kLaneNumbers);
    }
    for (int i = 0; i < kLanes; ++i)
      rows[i] = shuffled[i];
  }
  for (int i = 0; i < kLanes; ++i)
    store(to + i * kColumns, rows[i]);
}

/// `columns` × `depth` of b into rows of a panel; behind the last column zeros up to a whole vector.
void pack(const ProductCall &call, int64_t column, int64_t columns, int64_t k, int64_t depth, float *panel) {
  const float *b = call.b + k * call.bRow + column * call.bColumn;
  for (int64_t n = 0; n < columns; n += kLanes)
    for (int64_t d = 0; d < depth; d += kLanes) {
      if (call.bRow == 1 && n + kLanes <= columns && d + kLanes <= depth) {
        transposeSquare(b + n * call.bColumn + d, call.bColumn, panel + d * kColumns + n);
        continue;
      }
      for (int64_t j = d; j < least(d + kLanes, depth); ++j)
        for (int64_t i = n; i < n + kLanes; ++i)
          panel[j * kColumns + i] = i < columns ? b[j * call.bRow + i * call.bColumn] : 0;
    }
}

void runPanel(const ProductCall &call, const ProductPart &part, int64_t n, int64_t k, int64_t depth, float *panel) {
  int64_t rows = part.rowEnd - part.rowBegin, columns = least(kColumns, part.columnEnd - n), last = columns % kLanes;
  BlockOperands p{call.a + part.rowBegin * call.aRow + k * call.aColumn,
                  call.aRow,
                  call.aColumn,
                  call.b + k * call.bRow + n,
                  call.bRow,
                  call.c + part.rowBegin * call.cRow + n,
                  call.cRow};
  p.base = p.c;
  p.baseRow = p.cRow;
  if (k == 0 && !call.adds) {
    p.base = call.bias ? call.bias + n : kZeros;
    p.baseRow = 0;
  }
  bool packsAll = call.bColumn != 1;
  int64_t packed = packsAll ? 0 : columns - last;
  if (packed < columns)
    pack(call, n + packed, columns - packed, k, depth, panel + packed);
  BlockOperands q = p;
  q.b = panel;
  q.bRow = kColumns;
  blockProduct<true>(packsAll ? q : p, rows, columns, depth);
  if (last != 0)
    columnProduct<1, true, true>(q, rows, columns - last, depth, last);
}

void runProduct(const ProductCall &call, const ProductPart &part, float *panel) {
  int64_t panels = (call.k + kDepth - 1) / kDepth, step = (call.k + panels - 1) / panels;
  for (int64_t n = part.columnBegin; n < part.columnEnd; n += kColumns)
    for (int64_t k = 0; k < call.k; k += step)
      runPanel(call, part, n, k, least(step, call.k - k), panel);
}

} // namespace

void addProducts(Loops &loops) { loops.product = runProduct; }

} // namespace maestro::kernels::cpu::MAESTRO_ISA

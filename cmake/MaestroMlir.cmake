# LLVM/MLIR 22 as Debian packages it: one shared libMLIR, so that tools stay small and link fast.
find_package(MLIR 22 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# LLVM/MLIR 22 as Debian packages it: one shared libMLIR, so that tools stay small and link fast. Its version file
# accepts only an exact major.minor, hence the check by hand.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "LLVM/MLIR 22 is needed, found ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}: install libmlir-22-dev "
                      "and mlir-22-tools, or set MLIR_DIR")
endif()

# MLIR's templates take several times as long to compile at -O3, and planning has no hot loop of ours.
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")

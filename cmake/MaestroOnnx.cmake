# ONNX 1.22 as a C++ library: the protobuf messages, the operator schemas and function bodies, the checker.
#
# Debian's libonnx is too old (it loses metadata), and ONNX's own CMake asks for a newer CMake than Debian's. The
# sources come from the sdist of the `onnx` Python package, which `./dev setup` unpacks; cmake/onnx builds them.
#
#   target_link_libraries(importer PRIVATE maestro::onnx)
#   #include <onnx/onnx_pb.h>   #include <onnx/defs/schema.h>   #include <onnx/checker.h>
set(MAESTRO_ONNX_SOURCE "${PROJECT_SOURCE_DIR}/.cache/onnx-1.22.0" CACHE PATH
    "Unpacked sdist of the onnx Python package, version 1.22.0")

find_package(Protobuf REQUIRED)

if(NOT EXISTS "${MAESTRO_ONNX_SOURCE}/onnx/onnx-ml.proto")
  message(FATAL_ERROR
    "The sources of ONNX 1.22.0 are not in ${MAESTRO_ONNX_SOURCE}.\n"
    "Run ./dev setup, which fetches them, or pass -DMAESTRO_ONNX_SOURCE=<unpacked sdist of the Python package onnx 1.22.0>.\n"
    "The executor alone needs no ONNX: cmake --preset executor")
endif()

add_subdirectory("${PROJECT_SOURCE_DIR}/cmake/onnx" "${CMAKE_BINARY_DIR}/onnx" EXCLUDE_FROM_ALL)

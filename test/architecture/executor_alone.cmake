# Builds maestro-run as where LLVM, MLIR, ONNX and protobuf are not installed, and starts it. A build folder beside the
# preset's: ccache then has most of it.
#   cmake -D SOURCE=… -D BUILD=… -P executor_alone.cmake
set(hidden "")
foreach(package IN ITEMS LLVM MLIR Clang ONNX Protobuf)
  list(APPEND hidden "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
endforeach()
execute_process(
  COMMAND "${CMAKE_COMMAND}" -G Ninja -S "${SOURCE}" -B "${BUILD}" -DCMAKE_BUILD_TYPE=Release -DMAESTRO_PLANNER=OFF
          -DMAESTRO_TESTS=OFF ${hidden}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD}" --target maestro-run COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${BUILD}/bin/maestro-run" --version COMMAND_ERROR_IS_FATAL ANY)

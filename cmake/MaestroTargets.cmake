# One way to declare each kind of target, so that flags and folders live in one place.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(MAESTRO_CCACHE ccache)
if(MAESTRO_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER "${MAESTRO_CCACHE}")
  # What includes a precompiled header can be cached where ccache need not know which macros the header looked at. With
  # paths relative to the sources, build folders of one depth, and other checkouts, share what they compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" "${MAESTRO_CCACHE}")
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# Against libMLIR and libonnx in a third of GNU ld's time.
include(CheckLinkerFlag)
check_linker_flag(CXX "-fuse-ld=lld;-Wl,--fatal-warnings,--icf=safe,-z,pack-relative-relocs" MAESTRO_LLD) # Older ones do not know these.
if(MAESTRO_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# clang reports what libstdc++ 12 itself calls in std::stable_sort.
set(maestro_warnings -Wall -Wextra -Wno-unused-parameter $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)

if(MAESTRO_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  add_library(maestro_sanitizer_options OBJECT "${CMAKE_CURRENT_LIST_DIR}/sanitizer_options.cpp")
  set(sanitizer_options $<TARGET_OBJECTS:maestro_sanitizer_options>) # For every program: a static library would be left out.
endif()

if(MAESTRO_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "libFuzzer needs clang, found ${CMAKE_CXX_COMPILER}: ./dev setup installs clang-22; then configure in an empty folder")
  endif()
  # Every library tells libFuzzer which of its branches were taken; only the targets link its main().
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Several files of a target are compiled as one: half the compiler's work, since most of it is headers. Names in anonymous namespaces of
# a folder differ from each other, therefore. After a change more is compiled than one file: who changes much may turn it off.
option(MAESTRO_UNITY "Compile up to 8 files of a target as one" ON)
set(maestro_unity UNITY_BUILD ${MAESTRO_UNITY} UNITY_BUILD_BATCH_SIZE 8)

# maestro_add_library(maestro_plan SOURCES verifier.cpp … DEPS maestro_base …)
# A static library of one folder. DEPS are public: who includes a header also gets what it needs.
function(maestro_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES ${maestro_unity})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
  target_compile_options(${name} PRIVATE ${maestro_warnings})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

# maestro_precompile_headers(maestro_passes passes.h …)
# maestro_precompile_headers(maestro_driver REUSE_FROM maestro_emit)
# MLIR's headers are most of what its users' compiler reads: parsed once, they take 3 instead of 7.5 s a file. The plan's take 1.5 s.
# Who reuses another's must be compiled with the same flags; a program then takes a library's -fPIC.
function(maestro_precompile_headers name)
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    if(ARGV1 STREQUAL "REUSE_FROM")
      target_precompile_headers(${name} ${ARGN})
      set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${name} PRIVATE -fPIC)
    else()
      target_precompile_headers(${name} PRIVATE ${ARGN})
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # ccache asks for one or the other.
      target_compile_options(${name} PRIVATE -fpch-preprocess)
    else()
      target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
endfunction()

# clang's -Os is near its -O2; -Oz is what g++ calls -Os.
set(maestro_small_code $<IF:$<CXX_COMPILER_ID:Clang>,-Oz,-Os>)

# maestro_prefer_size(maestro_plan …)
# For what runs once, or waits for others most of the time: the size of maestro-run is held by test/architecture.
function(maestro_prefer_size)
  foreach(name IN LISTS ARGN)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:${maestro_small_code}> -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections)
  endforeach()
endfunction()

# maestro_add_tool(maestro-run SOURCES maestro_run.cpp DEPS maestro_executor …)
# A program in build/<preset>/bin.
function(maestro_add_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${sanitizer_options})
  set_target_properties(${name} PROPERTIES ${maestro_unity})
  # Mains read flags and call libraries: -O1 builds them in two thirds of the time.
  target_compile_options(${name} PRIVATE ${maestro_warnings} $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# maestro_add_test(status_test SOURCES status_test.cpp DEPS maestro_base)
# A GoogleTest program, registered with ctest as one test. HEADERS: the library whose precompiled headers it reuses, or itself, where
# it has a list of its own; otherwise those of all tests.
function(maestro_add_test name)
  cmake_parse_arguments(ARG "" "HEADERS" "SOURCES;DEPS;ARGS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SOURCES} ${sanitizer_options})
  set_target_properties(${name} PROPERTIES ${maestro_unity})
  target_compile_options(${name} PRIVATE ${maestro_warnings})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} fmt::fmt GTest::gtest_main GTest::gmock)
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS maestro_test_headers)
  endif()
  if(NOT ARG_HEADERS STREQUAL name)
    maestro_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/test")
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  set(limit 300)
  if(MAESTRO_SANITIZE) # Ten times as long, and more where little but memory is touched.
    set(limit 3600)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "unit;${ARG_LABELS}" TIMEOUT ${limit})
endfunction()

# maestro_add_fuzzer(npy SOURCES npy.cpp DEPS maestro_executor_data)
# A target of test/fuzz with the seeds test/fuzz/seeds/npy. With MAESTRO_FUZZ a libFuzzer program in build/fuzz/fuzz that
# ctest runs for a minute; otherwise a program that replays the seeds and MUTATIONS of each (3000). READER: the libFuzzer program
# is quick to build, and the other presets' tests run it too, for 15 seconds.
function(maestro_add_fuzzer name)
  cmake_parse_arguments(ARG "READER" "MUTATIONS" "SOURCES;DEPS" ${ARGN})
  set(seeds "${CMAKE_CURRENT_SOURCE_DIR}/seeds/${name}")
  if(MAESTRO_FUZZ)
    add_executable(fuzz_${name} ${ARG_SOURCES} ${sanitizer_options})
    target_compile_definitions(fuzz_${name} PRIVATE MAESTRO_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(fuzz_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/corpus/${name}")
    add_test(NAME fuzz_${name}
      COMMAND fuzz_${name} -max_total_time=60 -print_final_stats=1 "${CMAKE_BINARY_DIR}/corpus/${name}" "${seeds}")
  else()
    add_executable(fuzz_${name} ${ARG_SOURCES} "${CMAKE_CURRENT_SOURCE_DIR}/replay.cpp" ${sanitizer_options})
    set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/test")
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} "${seeds}" ${ARG_MUTATIONS})
    if(ARG_READER AND MAESTRO_PLANNER)
      maestro_add_python_test(libfuzzer_${name} SCRIPT libfuzzer.py
        ARGS "${PROJECT_SOURCE_DIR}/build/fuzz/fuzz/${name}" 15 LABELS fuzz COST 16)
    endif()
  endif()
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_DEPS})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()

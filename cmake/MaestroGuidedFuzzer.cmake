# maestro_add_guided_fuzzer(onnx_importer SOURCES onnx_importer.cpp OF maestro_import)
# A libFuzzer target within another build: the sources of the library OF are compiled once more, by clang with coverage, in a few
# large files (their headers are what takes time), and everything else is this build's. The fuzz preset has the whole under
# sanitizers, and takes far longer to build. Without clang there is no such target.
find_program(MAESTRO_CLANG NAMES clang++-22 clang++)

function(maestro_add_guided_fuzzer name)
  cmake_parse_arguments(ARG "" "OF" "SOURCES" ${ARGN})
  if(NOT MAESTRO_CLANG)
    return()
  endif()
  execute_process(COMMAND "${MAESTRO_CLANG}" -print-file-name=libclang_rt.fuzzer-x86_64.a
    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT IS_ABSOLUTE "${runtime}" OR NOT EXISTS "${runtime}")
    message(WARNING "clang's libFuzzer is not installed (./dev setup): ${name} is replayed only")
    return()
  endif()
  get_target_property(library_sources ${ARG_OF} SOURCES)
  get_target_property(library_folder ${ARG_OF} SOURCE_DIR)
  set(parts)
  foreach(source IN LISTS library_sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${library_folder}")
    list(APPEND parts "${source}")
  endforeach()
  foreach(source IN LISTS ARG_SOURCES)
    list(APPEND parts "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
  endforeach()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  set(objects)
  foreach(batch RANGE 3) # Four files: two for each of two cores.
    set(text "// Generated: several sources as one.\n")
    set(index 0)
    foreach(part IN LISTS parts)
      math(EXPR place "${index} % 4")
      math(EXPR index "${index} + 1")
      if(place EQUAL batch)
        string(APPEND text "#include \"${part}\"\n")
      endif()
    endforeach()
    file(CONFIGURE OUTPUT "${folder}/part${batch}.cpp" CONTENT "${text}" @ONLY)
    set(includes "$<TARGET_PROPERTY:${ARG_OF},INCLUDE_DIRECTORIES>")
    set(definitions "$<TARGET_PROPERTY:${ARG_OF},COMPILE_DEFINITIONS>")
    add_custom_command(OUTPUT "${folder}/part${batch}.o"
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} "${MAESTRO_CLANG}" -std=c++20 -O1 -DNDEBUG -fPIC -fvisibility=hidden
              -fvisibility-inlines-hidden -fsanitize=fuzzer-no-link -w "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
              "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>" -MD -MF "${folder}/part${batch}.d"
              -c "${folder}/part${batch}.cpp" -o "${folder}/part${batch}.o"
      DEPENDS "${folder}/part${batch}.cpp" ${ARG_OF} DEPFILE "${folder}/part${batch}.d"
      COMMENT "Compiling part ${batch} of ${name} with coverage" COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects "${folder}/part${batch}.o")
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)

  add_executable(guided_fuzz_${name} ${objects})
  set_target_properties(guided_fuzz_${name} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
  target_link_libraries(guided_fuzz_${name} PRIVATE ${ARG_OF} "${runtime}" Threads::Threads)
  maestro_add_python_test(libfuzzer_${name} SCRIPT libfuzzer.py ARGS "${CMAKE_BINARY_DIR}/fuzz/${name}" 15 LABELS fuzz COST 16)
endfunction()

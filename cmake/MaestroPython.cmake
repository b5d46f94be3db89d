# Tests written in Python: with the packages of test/requirements.txt (PyTorch, transformers, onnx, lit), or plain.
#
#   maestro_add_python_test(parity_gpt2 SCRIPT parity_test.py ARGS --case gpt2 LABELS parity TIMEOUT 600 PACKAGES)
#   maestro_add_python_test(includes_test SCRIPT includes_test.py)
#
# The script runs with MAESTRO_BIN (the folder of the tools) and MAESTRO_SOURCE (the repository) in its environment.
# COST: its seconds, roughly, where they are many: ctest begins with the longest, also where it has not seen them run.
# PACKAGES: needs .venv, which `./dev setup python` makes; without it such tests fail and say so.
set(MAESTRO_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH
    "Python with the packages of test/requirements.txt")
find_program(MAESTRO_PLAIN_PYTHON NAMES python3 REQUIRED)

if(NOT EXISTS "${MAESTRO_PYTHON}")
  message(WARNING "Tests that need PyTorch will fail: ${MAESTRO_PYTHON} does not exist. Run ./dev setup python.")
endif()

function(maestro_add_python_test name)
  cmake_parse_arguments(ARG "PACKAGES" "SCRIPT;TIMEOUT;COST" "ARGS;LABELS" ${ARGN})
  cmake_path(ABSOLUTE_PATH ARG_SCRIPT BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  set(python "${MAESTRO_PLAIN_PYTHON}")
  if(ARG_PACKAGES)
    set(python "${MAESTRO_PYTHON}")
    list(APPEND ARG_LABELS packages)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  math(EXPR limit "2 * ${ARG_TIMEOUT}") # Shared machines have hours in which they are that much slower.
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  add_test(NAME ${name} COMMAND "${python}" -B "${ARG_SCRIPT}" ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES
    LABELS "python;${ARG_LABELS}" TIMEOUT ${limit} COST ${ARG_COST}
    ENVIRONMENT "MAESTRO_BIN=${CMAKE_BINARY_DIR}/bin;MAESTRO_SOURCE=${PROJECT_SOURCE_DIR};MAESTRO_PYTHON=${MAESTRO_PYTHON}")
endfunction()

# clang of LLVM 22 compiles this tree in half the time of Debian 12's g++, and is what its libMLIR was built by; where it is not
# installed, and nobody chose, any C++20 compiler does. CXX or -DCMAKE_CXX_COMPILER choose.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(MAESTRO_CLANG_CXX clang++-22)
  find_program(MAESTRO_CLANG_C clang-22)
  if(MAESTRO_CLANG_CXX AND MAESTRO_CLANG_C)
    set(CMAKE_CXX_COMPILER "${MAESTRO_CLANG_CXX}" CACHE FILEPATH "C++ compiler")
    set(CMAKE_C_COMPILER "${MAESTRO_CLANG_C}" CACHE FILEPATH "C compiler")
  endif()
endif()

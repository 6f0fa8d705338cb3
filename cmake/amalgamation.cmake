# kvasir.cpp and kvasir.h of tools/amalgamate.py in BUILD/amalgamation, and an object of them for tests/amalgamation_test.sh.
# Built when asked for (`./dev test`). Without optimization: with -O2 the call takes minutes (`./dev amalgamation`).
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND AND KVASIR_TESTS AND NOT KVASIR_SANITIZE AND NOT KVASIR_FUZZ AND NOT CMAKE_CROSSCOMPILING AND NOT KVASIR_EMULATE_AVX512)
  set(amalgamation ${PROJECT_BINARY_DIR}/amalgamation)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/*.cpp src/*.hpp src/*.inc include/kvasir/* tools/amalgamation/*)
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|_fuzz)(\\.simd)?\\.cpp$|_fixture|/src/(vision|sound|lab|client|serve|cli)/")
  add_custom_command(OUTPUT ${amalgamation}/kvasir.cpp ${amalgamation}/kvasir.h
                     COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/amalgamate.py ${amalgamation}
                     DEPENDS ${sources} tools/amalgamate.py CMakeLists.txt VERBATIM)
  add_custom_command(OUTPUT ${amalgamation}/kvasir.o
                     COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CMAKE_CXX_COMPILER} -O0 -std=c++20 -c kvasir.cpp
                     WORKING_DIRECTORY ${amalgamation} DEPENDS ${amalgamation}/kvasir.cpp ${amalgamation}/kvasir.h VERBATIM)
  add_custom_target(amalgamation_files DEPENDS ${amalgamation}/kvasir.cpp)
  add_custom_target(amalgamation DEPENDS ${amalgamation}/kvasir.o)
endif()

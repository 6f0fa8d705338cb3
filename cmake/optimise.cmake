# How hard the compiler tries. Kernels and entries per instruction set say so themselves (cmake/isa.cmake).
#   hot    loops over numbers that run per token: -O3 in release builds
#   cold   what runs once per command, request or measurement: -O1, which compiles in half the time
#   other  -O2
# Debug builds and those with sanitizers stay as their type says.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
set(KVASIR_HOT "/src/(kernel|kv|model|cpu|api)/")
set(KVASIR_COLD "/src/(cli|serve|client|lab|text/jinja|text/schema)/")

if(NOT KVASIR_SANITIZE)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|_fuzz|\\.simd)\\.cpp$")
  list(REMOVE_ITEM sources ${KVASIR_ISA_ENTRY_SOURCES})
  foreach(source IN LISTS sources)
    if(source MATCHES "${KVASIR_COLD}")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-O1>")
    elseif(source MATCHES "${KVASIR_HOT}")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
    endif()
  endforeach()
  # Generated lists of names.
  set_source_files_properties(${KVASIR_REGISTRY_SOURCES} ${KVASIR_REGISTRY_LISTING} PROPERTIES COMPILE_OPTIONS
                              "$<$<CONFIG:Release,RelWithDebInfo>:-O1>")
endif()

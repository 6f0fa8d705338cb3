# How hard the compiler tries, and which sources it gets at once. Kernels and entries per instruction set say so themselves
# (cmake/isa.cmake).
#   hot    loops over numbers that run per token: -O3 in release builds
#   cold   what runs once per command, request or measurement, and data: -O1, which compiles in half the time
#   other  -O2
# Debug builds and those with sanitizers stay as their type says.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
set(KVASIR_HOT "/(src/(kernel|kv|select|model|cpu)/|registry/(kv_|select_))")
set(KVASIR_COLD "/src/(cli|serve|client|lab|api|text/jinja|text/schema)/|/registry/(model_archs|kv_presets|serve_|cli_|text_tool_forms|listing)")

# Batches: KVASIR_BATCH sources of a folder become one translation unit, because parsing the same headers for each took most
# of a build. Off, every source is compiled alone, which shows a missing include and is quicker after an edit.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(KVASIR_BATCH 16 CACHE STRING "Sources of a folder that are compiled as one; 1: each alone")
else()
  set(KVASIR_BATCH 8 CACHE STRING "Sources of a folder that are compiled as one; 1: each alone")
endif()

# What most sources include, parsed once. In release builds the libraries have it too: a header that a source lacks shows in
# others and in lint.
set(KVASIR_HEADERS <nlohmann/json.hpp> <fmt/format.h> <algorithm> <atomic> <filesystem> <fstream> <functional> <map> <memory>
    <random> <string> <thread> <vector>)
# kvasir_headers(TARGET): for the library kvasir and those that use it.
function(kvasir_headers target)
  if(KVASIR_BATCH LESS_EQUAL 1 OR NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  if(target STREQUAL "kvasir")
    target_precompile_headers(kvasir PRIVATE ${KVASIR_HEADERS})
  else()
    target_precompile_headers(${target} REUSE_FROM kvasir)
  endif()
endfunction()

# kvasir_level(SOURCE...): sets the level of optimisation of sources.
function(kvasir_level)
  if(KVASIR_SANITIZE)
    return()
  endif()
  foreach(source IN LISTS ARGN)
    if(source MATCHES "${KVASIR_COLD}")
      set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-O1>")
    elseif(source MATCHES "${KVASIR_HOT}")
      set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
    endif()
  endforeach()
endfunction()

# In a unit of many a type warns where its members are of an unnamed namespace, which is how sources are written, and the
# optimizer of g++ 12 takes more variants and optionals for uninitialised.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage> $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()
# In tests it takes joined strings for written out of bounds, by the length of the path to the sources.
set(KVASIR_TEST_WARNINGS "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>")
# Sources with definitions of their own.
set(KVASIR_ALONE "/(api/version|simd/isa|weights/reads|kv/page_file|text/search_pattern|lab/eval/png|cli/version|cli/yaml|cli/line_reader|vision/jpeg|vision/png|vision/webp|sound/sndfile|sound/soxr)\\.cpp$")

# kvasir_batches(OUT NAME SOURCE...): OUT is the sources, those of one folder in batches called NAME. Those called tests are as
# optimised as their program says.
function(kvasir_batches out name)
  set(result "")
  set(folders "")
  foreach(source IN LISTS ARGN)
    get_filename_component(source ${source} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    if(KVASIR_BATCH LESS_EQUAL 1 OR source MATCHES "${KVASIR_ALONE}" OR NOT source MATCHES "^${PROJECT_SOURCE_DIR}/(src|tests)/")
      list(APPEND result ${source})
      continue()
    endif()
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(REPLACE "/" "_" key ${folder})
    list(APPEND folders ${key})
    string(REGEX REPLACE "^${PROJECT_SOURCE_DIR}/src/" "" relative ${source})
    list(APPEND of_${key} ${relative})
    set(path_of_${key} ${folder})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(key IN LISTS folders)
    list(SORT of_${key})
    list(LENGTH of_${key} count)
    # As equal as they can be: 9 are 5 and 4.
    set(most ${KVASIR_BATCH})
    if(name STREQUAL "tests" AND most GREATER 8)
      set(most 8)  # more take gigabytes
    endif()
    math(EXPR batches "(${count} + ${most} - 1) / ${most}")
    set(begin 0)
    foreach(i RANGE 1 ${batches})
      math(EXPR end "${count} * ${i} / ${batches}")
      math(EXPR length "${end} - ${begin}")
      list(SUBLIST of_${key} ${begin} ${length} members)
      set(begin ${end})
      list(TRANSFORM members REPLACE "(.+)" "#include \"\\1\"")
      list(JOIN members "\n" text)
      set(unit ${PROJECT_BINARY_DIR}/batch/${path_of_${key}}/${name}_${i}.cpp)
      file(CONFIGURE OUTPUT ${unit} CONTENT "// Generated by cmake/optimise.cmake; do not edit.\n${text}\n" @ONLY)
      list(APPEND result ${unit})
    endforeach()
  endforeach()
  if(NOT name STREQUAL "tests")
    kvasir_level(${result})
  endif()
  set(${out} ${result} PARENT_SCOPE)
endfunction()
kvasir_level(${KVASIR_REGISTRY_SOURCES} ${KVASIR_REGISTRY_LISTING})

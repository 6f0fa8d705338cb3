# How hard the compiler tries, and which sources it gets at once. Kernels and entries per instruction set say so themselves
# (cmake/isa.cmake).
#   hot    loops over numbers that run per token: -O3 in release builds
#   other  -O2
#   cold   what runs once per request, and data: -O1, which compiles in half the time
#   once   what runs once per command, model or measurement: as cold, in release builds with fewer passes
# Debug builds and those with sanitizers stay as their type says.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
set(KVASIR_HOT "/(src/(kernel|kv|select|cpu|model/forward)/|registry/(kv_codecs|select_))|/src/model/(adapters|forward|key_factors|rope|rows|synth)\\.cpp")
set(KVASIR_COLD "/src/(serve|api|text/jinja|text/schema)/|/registry/(kv_presets|serve_|text_tool_forms)")
set(KVASIR_ONCE "/src/(cli|client|lab)/|/registry/(model_archs|cli_|listing)")
# In release builds, whose batches are of one level each, also what reads files and places what a model is made of, and what
# reads and writes conversations. Tokens, and which of them may come next, are not among it.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  string(APPEND KVASIR_ONCE "|/src/(hub|model)/")
  string(APPEND KVASIR_COLD "|/src/text/(call_|chat|json_schema|loose_json|response_|tool_)[a-z_]*\\.cpp")
endif()
# Passes of g++ -O1 that take a fifth of its time on a batch of cli, a fourth to a half on scalar kernels. Lint reads the
# commands of other builds, and clang does not know all of these options.
set(KVASIR_FEW_PASSES "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  set(KVASIR_FEW_PASSES -fno-ipa-modref -fno-tree-pta -fno-tree-sra -fno-tree-dse -fno-dse -fno-inline-functions-called-once)
endif()

# Batches: KVASIR_BATCH sources of a folder become one translation unit, because parsing the same headers for each took most
# of a build. Off, every source is compiled alone, which shows a missing include and is quicker after an edit.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(KVASIR_BATCH 24 CACHE STRING "Sources of a folder that are compiled as one; 1: each alone")
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

# kvasir_level_of(OUT SOURCE): hot, other, cold or once. In release builds the name of a batch says what it is made of.
function(kvasir_level_of out source)
  set(level other)
  if(source MATCHES "/batch/.*_(hot|once|cold|other)_[0-9]+\\.cpp$")
    set(level ${CMAKE_MATCH_1})
  elseif(source MATCHES "${KVASIR_HOT}")
    set(level hot)
  elseif(source MATCHES "${KVASIR_ONCE}")
    set(level once)
  elseif(source MATCHES "${KVASIR_COLD}")
    set(level cold)
  endif()
  set(${out} ${level} PARENT_SCOPE)
endfunction()

# kvasir_level(SOURCE...): sets the level of optimisation of sources.
function(kvasir_level)
  if(KVASIR_SANITIZE)
    return()
  endif()
  foreach(source IN LISTS ARGN)
    kvasir_level_of(level ${source})
    if(level STREQUAL "cold")
      set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-O1>")
    elseif(level STREQUAL "once")
      set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-O1;${KVASIR_FEW_PASSES}>")
    elseif(level STREQUAL "hot")
      set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
    endif()
  endforeach()
endfunction()

# g++ collects its garbage as if memory were short: a twentieth of the time of a batch of cli.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=524288>")
endif()

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
    if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT name STREQUAL "tests")
      kvasir_level_of(level ${source})
      string(APPEND key "_${level}")
      set(called_${key} ${name}_${level})
    else()
      set(called_${key} ${name})
    endif()
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
      set(unit ${PROJECT_BINARY_DIR}/batch/${path_of_${key}}/${called_${key}}_${i}.cpp)
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

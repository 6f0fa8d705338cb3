# Kernels are compiled once per instruction set, each copy in a namespace of its own (KVASIR_TARGET).
# The flags of a set may only touch the sources given here: everything else is built for the lowest processor, and
# tools/check-isa-symbols verifies that these objects export nothing outside their namespace.
# The sets and what each is made of are the rows of src/simd/isas.hpp: KVASIR_ISAS are those with a copy of the kernels,
# KVASIR_ISA_COPIES the copy of every set, in order, KVASIR_ISA_SHIMS_<isa> what a copy is compiled with.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/simd/isas.hpp)
file(READ ${PROJECT_SOURCE_DIR}/src/simd/isas.hpp rows)
string(REGEX MATCHALL "X\\(k[^\"]*" rows "${rows}")
set(KVASIR_ISAS "")
set(KVASIR_ISA_COPIES "")
foreach(row IN LISTS rows)
  if(NOT row MATCHES "^X\\(k[A-Za-z0-9]+, *([a-z0-9]+), *([a-z0-9]+), *([a-z0-9]+), *$")
    message(FATAL_ERROR "src/simd/isas.hpp: not a row of KVASIR_ISAS: ${row}")
  endif()
  list(APPEND KVASIR_ISA_COPIES ${CMAKE_MATCH_2})
  if(CMAKE_MATCH_1 STREQUAL CMAKE_MATCH_2)
    list(APPEND KVASIR_ISAS ${CMAKE_MATCH_1})
    set(KVASIR_ISA_SHIMS_${CMAKE_MATCH_1} ${CMAKE_MATCH_3})
  endif()
endforeach()
set(KVASIR_SANITIZED_ISAS ${KVASIR_ISAS} CACHE STRING "Instruction sets whose kernels sanitizers see; others compile faster")
foreach(isa IN LISTS KVASIR_SANITIZED_ISAS)
  if(NOT isa IN_LIST KVASIR_ISAS)
    message(FATAL_ERROR "KVASIR_SANITIZED_ISAS: unknown instruction set '${isa}'; there are ${KVASIR_ISAS}")
  endif()
endforeach()
# The scalar copies are the reference, and run where there is nothing better: -O1 compiles them in half the time, to the same
# bits. Inlined are all inline functions, which these objects may not export.
set(KVASIR_ISA_FLAGS_scalar -O1 -finline-functions -fno-tree-vectorize -fno-tree-slp-vectorize)
set(KVASIR_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(KVASIR_ISA_FLAGS_avx512 ${KVASIR_ISA_FLAGS_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
set(KVASIR_ISA_FLAGS_avx512vnni ${KVASIR_ISA_FLAGS_avx512} -mavx512vnni -mavx512bf16)
# For tests on machines without AVX-512: its copies are compiled for AVX2, their 512-bit intrinsics replaced (simd/x86.hpp).
# Slow; `kvasir info` and `kvasir bench` say so. Not in release builds, whose figures would be taken for those of AVX-512.
option(KVASIR_EMULATE_AVX512 "Tests only: run the kernels for AVX-512 on AVX2 (needs libsimde-dev)" OFF)
if(KVASIR_EMULATE_AVX512)
  if(CMAKE_BUILD_TYPE MATCHES "^(Release|MinSizeRel)$")
    message(FATAL_ERROR "KVASIR_EMULATE_AVX512 is for tests, not for ${CMAKE_BUILD_TYPE} builds: use `cmake --preset emulated`")
  endif()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    message(FATAL_ERROR "KVASIR_EMULATE_AVX512 needs an x86-64 processor with AVX2, this is ${CMAKE_SYSTEM_PROCESSOR}")
  endif()
  find_path(KVASIR_SIMDE_INCLUDE simde/x86/avx512.h)
  if(NOT KVASIR_SIMDE_INCLUDE)
    message(FATAL_ERROR "KVASIR_EMULATE_AVX512 needs SIMDe: install libsimde-dev (0.7.4 or later)")
  endif()
  foreach(isa IN LISTS KVASIR_ISAS)
    if(KVASIR_ISA_SHIMS_${isa} STREQUAL avx512)
      set(KVASIR_ISA_FLAGS_${isa} ${KVASIR_ISA_FLAGS_avx2} -DKVASIR_EMULATE_AVX512)
    endif()
  endforeach()
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/simd/isa.cpp PROPERTIES COMPILE_DEFINITIONS KVASIR_EMULATE_AVX512)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(KVASIR_ISA_FLAGS_scalar -O1 -finline-functions -fno-vectorize -fno-slp-vectorize)
endif()

# kvasir_isa_sources(OUT [PREFIX name] source...): adds one object library per instruction set and sets OUT to their objects.
# Each library kvasir_kernels_<isa> (or name_<isa>) is EXCLUDE_FROM_ALL: it is built by whoever uses its objects.
function(kvasir_isa_sources out)
  cmake_parse_arguments(S "" "PREFIX" "" ${ARGN})
  if(NOT S_PREFIX)
    set(S_PREFIX kvasir_kernels)
  endif()
  set(objects "")
  if(NOT S_UNPARSED_ARGUMENTS)
    return()
  endif()
  set(level -O3)
  if(KVASIR_SANITIZE)
    set(level -O1)
  endif()
  foreach(isa IN LISTS KVASIR_ISAS)
    set(isa_level ${level})
    set(lib ${S_PREFIX}_${isa})
    add_library(${lib} OBJECT EXCLUDE_FROM_ALL ${S_UNPARSED_ARGUMENTS})
    target_include_directories(${lib} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    if(KVASIR_EMULATE_AVX512 AND isa MATCHES "avx512")
      target_include_directories(${lib} SYSTEM PRIVATE ${KVASIR_SIMDE_INCLUDE})
      set(isa_level -O1)  # compiles in half the time
    endif()
    target_compile_definitions(${lib} PRIVATE KVASIR_TARGET=${isa} KVASIR_TARGET_${isa}=1
                               "KVASIR_SHIMS=\"simd/vec_${KVASIR_ISA_SHIMS_${isa}}.hpp\"")
    # -O3 in every build type: unoptimised intrinsics are too slow to test and would leave inline functions behind. With
    # sanitizers -O1, which compiles ten times faster.
    # GCC 12 warns about the deliberately undefined operands inside its own intrinsics.
    target_compile_options(${lib} PRIVATE ${isa_level} ${KVASIR_ISA_FLAGS_${isa}} -fno-math-errno -ffp-contract=off -fvisibility=hidden
                           $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi$<SEMICOLON>-Wno-uninitialized$<SEMICOLON>-Wno-maybe-uninitialized>)
    if(KVASIR_SANITIZE AND NOT isa IN_LIST KVASIR_SANITIZED_ISAS)
      target_compile_options(${lib} PRIVATE -fno-sanitize=all)
    endif()
    if(KVASIR_FUZZ)
      # The fuzz targets are parsers; instrumented kernels would only take half an hour to compile.
      target_compile_options(${lib} PRIVATE -fno-sanitize=all -O1 -Wno-everything)
    endif()
    list(APPEND objects $<TARGET_OBJECTS:${lib}>)
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# kvasir_registry(FOLDER weights/quants NAMESPACE kvasir::weights TYPE Quant HEADER weights/quant.hpp FUNCTION quants [PER_ISA])
# Writes a source file that defines   std::span<const Entry<TYPE>> NAMESPACE::FUNCTION()
# from the files in src/FOLDER: src/model/archs/qwen3.cpp must define, in a namespace of its own,
#   namespace kvasir::model::archs_qwen3 { const Arch entry = {...}; }
# The generated file includes them all: one translation unit a registry, since parsing the same headers for every entry took
# most of a build. With PER_ISA every entry is compiled alone, once per instruction set:
#   namespace kvasir::weights::entries::quants::KVASIR_TARGET { extern const Quant q4_0; const Quant q4_0 = {...}; }
# A stem is an identifier of C++ but for hyphens, for which namespaces have underscores: gpt-oss.cpp defines archs_gpt_oss.
# "entry_" before one that is a keyword is no part of the public name. A folder without entries defines nothing.
# kvasir_registry_listing() afterwards writes one more file, of   kvasir::cli::registries()   (cli/registries.hpp).
# The generated file is appended to KVASIR_REGISTRY_SOURCES, entries per instruction set to KVASIR_ISA_ENTRY_SOURCES.
# KVASIR_ONLY_ENTRY=STEM leaves only that entry in the registries of one unit (cmake/probe.cmake).
function(kvasir_registry)
  cmake_parse_arguments(R "PER_ISA" "FOLDER;NAMESPACE;TYPE;HEADER;FUNCTION" "" ${ARGN})
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${R_FOLDER}/*.cpp)
  list(FILTER files EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")
  if(KVASIR_ONLY_ENTRY AND NOT R_PER_ISA)
    list(FILTER files INCLUDE REGEX "/${KVASIR_ONLY_ENTRY}\\.cpp$")
  endif()
  list(SORT files)
  if(NOT files)
    return()
  endif()
  set(declare "")
  set(list_plain "")
  foreach(isa IN LISTS KVASIR_ISAS)
    set(list_${isa} "")
  endforeach()
  foreach(f IN LISTS files)
    get_filename_component(stem ${f} NAME_WE)
    if(NOT stem MATCHES "^[a-z_][a-z0-9_-]*$")
      message(FATAL_ERROR "${f}: the stem '${stem}' is the entry's public name and must be a lower-case identifier, hyphens aside")
    endif()
    string(REGEX REPLACE "^entry_" "" public ${stem})
    if(NOT R_PER_ISA)
      string(APPEND declare "#include \"${R_FOLDER}/${stem}.cpp\"\n")
    endif()
    string(REPLACE "-" "_" stem ${stem})
    if(R_PER_ISA)
      foreach(isa IN LISTS KVASIR_ISAS)
        string(APPEND declare "namespace ${R_NAMESPACE}::entries::${R_FUNCTION}::${isa} { extern const ${R_TYPE} ${stem}; }\n")
        string(APPEND list_${isa} "    {\"${public}\", &entries::${R_FUNCTION}::${isa}::${stem}},\n")
      endforeach()
    else()
      string(APPEND list_plain "    {\"${public}\", &${R_FUNCTION}_${stem}::entry},\n")
    endif()
  endforeach()
  set(body "")
  if(R_PER_ISA)
    foreach(isa IN LISTS KVASIR_ISAS)
      string(APPEND body "const Entry<${R_TYPE}> k_${isa}[] = {\n${list_${isa}}};\n")
    endforeach()
    list(TRANSFORM KVASIR_ISA_COPIES PREPEND k_ OUTPUT_VARIABLE copies)
    list(JOIN copies ", " copies)
    set(select "  static const std::span<const Entry<${R_TYPE}>> all[] = {${copies}};\n  return all[static_cast<int>(simd::active())];\n")
  else()
    string(APPEND body "const Entry<${R_TYPE}> k_entries[] = {\n${list_plain}};\n")
    set(select "  return k_entries;\n")
  endif()
  string(REPLACE "/" "_" base ${R_FOLDER})
  set(out ${PROJECT_BINARY_DIR}/registry/${base}.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT
"// Generated from the files in src/${R_FOLDER}; do not edit.
#include <span>

#include \"base/registry.hpp\"
#include \"simd/isa.hpp\"
#include \"${R_HEADER}\"

${declare}
namespace ${R_NAMESPACE} {
namespace {
${body}
}  // namespace
std::span<const Entry<${R_TYPE}>> ${R_FUNCTION}() {
${select}}
}  // namespace ${R_NAMESPACE}
")
  set(KVASIR_REGISTRY_SOURCES ${KVASIR_REGISTRY_SOURCES} ${out} PARENT_SCOPE)
  set(KVASIR_LISTING_INCLUDES "${KVASIR_LISTING_INCLUDES}#include \"${R_HEADER}\"\n" PARENT_SCOPE)
  set(KVASIR_LISTING_DECLARATIONS "${KVASIR_LISTING_DECLARATIONS}namespace ${R_NAMESPACE} { std::span<const Entry<${R_TYPE}>> ${R_FUNCTION}(); }\n" PARENT_SCOPE)
  set(KVASIR_LISTING_ROWS "${KVASIR_LISTING_ROWS}      {\"${R_FOLDER}\", stems<${R_NAMESPACE}::${R_TYPE}>(${R_NAMESPACE}::${R_FUNCTION}())},\n" PARENT_SCOPE)
  if(R_PER_ISA)
    set(KVASIR_ISA_ENTRY_SOURCES ${KVASIR_ISA_ENTRY_SOURCES} ${files} PARENT_SCOPE)
  endif()
endfunction()

# Call after every kvasir_registry: sets OUT to the source file that lists them all.
function(kvasir_registry_listing out_variable)
  set(out ${PROJECT_BINARY_DIR}/registry/listing.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT
"// Generated from the registry folders; do not edit.
#include \"cli/registries.hpp\"

#include \"base/registry.hpp\"
${KVASIR_LISTING_INCLUDES}
namespace kvasir {
namespace {

template <class T>
std::vector<std::string> stems(std::span<const Entry<T>> registry) {
  std::vector<std::string> all;
  // Null only in registry_probe (cmake/probe.cmake).
  for (const auto& entry : registry)
    if (entry.value) all.emplace_back(entry.name);
  return all;
}

}  // namespace
}  // namespace kvasir

${KVASIR_LISTING_DECLARATIONS}
namespace kvasir::cli {

std::vector<Registry> registries() {
  return {
${KVASIR_LISTING_ROWS}  };
}

}  // namespace kvasir::cli
")
  set(${out_variable} ${out} PARENT_SCOPE)
endfunction()

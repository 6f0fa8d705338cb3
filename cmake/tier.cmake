# kvasir_optional_tier(NAME lmdb HEADER lmdb.h LIBRARY lmdb PACKAGE liblmdb-dev)
# When header and library are found, src/store/NAME/*.cpp become part of the library and src/store/tiers/NAME.cpp sees
# KVASIR_<NAME>; otherwise only the message of src/store/tiers/NAME.cpp is built, and NAME is appended to
# KVASIR_ABSENT_TIERS. KVASIR_TIER_<NAME>=OFF leaves it out.
function(kvasir_optional_tier)
  cmake_parse_arguments(T "" "NAME;HEADER;LIBRARY;PACKAGE" "" ${ARGN})
  string(TOUPPER ${T_NAME} upper)
  option(KVASIR_TIER_${upper} "Build the tier ${T_NAME} (${T_PACKAGE})" ON)
  set(KVASIR_ABSENT_TIERS ${KVASIR_ABSENT_TIERS} ${T_NAME} PARENT_SCOPE)  # until the end
  if(NOT KVASIR_TIER_${upper})
    return()
  endif()
  find_path(KVASIR_${upper}_INCLUDE ${T_HEADER})
  find_library(KVASIR_${upper}_LIBRARY ${T_LIBRARY})
  if(NOT KVASIR_${upper}_INCLUDE OR NOT KVASIR_${upper}_LIBRARY)
    message(STATUS "${T_PACKAGE} not found: the tier ${T_NAME} is not built")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/store/${T_NAME}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")
  target_sources(kvasir PRIVATE ${sources})
  target_include_directories(kvasir PRIVATE ${KVASIR_${upper}_INCLUDE})
  target_link_libraries(kvasir PUBLIC ${KVASIR_${upper}_LIBRARY})  # its tests call it, too
  set(KVASIR_ABSENT_TIERS ${KVASIR_ABSENT_TIERS} PARENT_SCOPE)
  set_property(SOURCE ${PROJECT_BINARY_DIR}/registry/store_tiers.cpp APPEND PROPERTY COMPILE_DEFINITIONS KVASIR_${upper})
endfunction()

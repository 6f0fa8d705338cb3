# The web page: ./dev builds web/ into build/web with npm, and this file puts it into the program as a generated source
# (serve/web_page.hpp). Without it the program is built all the same and says at / what is missing.
# As a script: cmake -DOUT=FILE -DFOLDER=FOLDER -P web.cmake
set(web_names index.html app.js style.css)
set(web_types text/html text/javascript text/css)

if(CMAKE_SCRIPT_MODE_FILE)
  set(arrays "")
  set(rows "")
  foreach(name type IN ZIP_LISTS web_names web_types)
    if(NOT EXISTS ${FOLDER}/${name}.gz)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER ${name} id)
    foreach(suffix "" ".gz")
      file(READ ${FOLDER}/${name}${suffix} hex HEX)
      string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
      string(REPLACE "." "_" array "k_${id}${suffix}")
      string(APPEND arrays "const unsigned char ${array}[] = {${bytes}};\n")
    endforeach()
    string(APPEND rows "    {\"${name}\", \"${type}\", text(k_${id}), text(k_${id}_gz)},\n")
  endforeach()
  if(rows)
    set(body "  static const WebFile all[] = {\n${rows}  };\n  return all;\n")
  else()
    set(body "  return {};\n")
  endif()
  file(WRITE ${OUT}
"// Generated from build/web; do not edit.
#include \"serve/web_page.hpp\"

namespace kvasir::serve {
namespace {
${arrays}
template <class T>
[[maybe_unused]] std::string_view text(const T& bytes) { return {reinterpret_cast<const char*>(bytes), sizeof(bytes)}; }
}  // namespace
std::span<const WebFile> web_files() {
${body}}
}  // namespace kvasir::serve
")
  return()
endif()

set(KVASIR_WEB ${PROJECT_SOURCE_DIR}/build/web CACHE PATH "The built web page")
file(GLOB web_built CONFIGURE_DEPENDS ${KVASIR_WEB}/*.gz)
set(KVASIR_WEB_SOURCE ${PROJECT_BINARY_DIR}/web_files.cpp)
add_custom_command(OUTPUT ${KVASIR_WEB_SOURCE} COMMAND ${CMAKE_COMMAND} -DOUT=${KVASIR_WEB_SOURCE} -DFOLDER=${KVASIR_WEB}
                   -P ${PROJECT_SOURCE_DIR}/cmake/web.cmake DEPENDS ${web_built} ${PROJECT_SOURCE_DIR}/cmake/web.cmake VERBATIM)

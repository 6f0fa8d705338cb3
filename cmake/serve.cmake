# kvasir_serve: the HTTP server, and the client of such servers. What reads requests and writes answers needs nothing;
# the network needs Boost (headers of Asio and Beast) and OpenSSL. Without them everything else is built, KVASIR_NETWORK
# is off, and serve/no_network.cpp and client/no_network.cpp say so where a connection is wanted. Sets KVASIR_NETWORK
# and, as regular expressions, the tests and fuzz targets that need it.
option(KVASIR_SERVER "Build the HTTP server when Boost and OpenSSL are found" ON)
set(network_names admit api_client connection keys link load remote_target request_parser server)
set(KVASIR_NETWORK_TESTS "/src/(serve/(keys|server_[a-z]+)|client/(link|load)|cli/serving)_test\\.cpp$")
set(KVASIR_NETWORK_FUZZERS "/src/serve/http_fuzz\\.cpp$")

file(GLOB serve_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/client/*.cpp ${PROJECT_SOURCE_DIR}/src/serve/*.cpp
     ${PROJECT_SOURCE_DIR}/src/serve/families/*.cpp)
list(FILTER serve_sources EXCLUDE REGEX "(_test|_bench|_fuzz)\\.cpp$")
list(JOIN network_names "|" network_pattern)
set(network_sources ${serve_sources})
list(FILTER network_sources INCLUDE REGEX "/(${network_pattern})\\.cpp$")
list(FILTER serve_sources EXCLUDE REGEX "/(${network_pattern}|no_network|download|curl|picture_url|no_download)\\.cpp$")

set(KVASIR_NETWORK OFF)
if(KVASIR_SERVER)
  find_package(Boost 1.74 QUIET)
  find_package(OpenSSL 1.1.1 QUIET)
  if(Boost_FOUND AND OpenSSL_FOUND)
    set(KVASIR_NETWORK ON)
  else()
    message(STATUS "Boost (libboost1.81-dev; 1.74 at least) or OpenSSL (libssl-dev) not found: the HTTP server is not built")
  endif()
endif()

kvasir_batches(serve_sources serve ${serve_sources})
kvasir_batches(network_sources network ${network_sources})
include(cmake/web.cmake)
add_library(kvasir_serve ${KVASIR_LIBRARY} ${serve_sources} ${KVASIR_WEB_SOURCE} ${KVASIR_SERVE_REGISTRY})
target_link_libraries(kvasir_serve PUBLIC kvasir)
kvasir_headers(kvasir_serve)
# Optional: `kvasir pull` (the header of libcurl4-openssl-dev; the library is opened by the first download).
option(KVASIR_CURL "Download models with libcurl when its header is found" ON)
find_path(KVASIR_CURL_INCLUDE curl/curl.h)
if(KVASIR_CURL AND KVASIR_CURL_INCLUDE)
  foreach(name curl download picture_url)
    target_sources(kvasir_serve PRIVATE ${PROJECT_SOURCE_DIR}/src/client/${name}.cpp)
  endforeach()
  target_include_directories(kvasir_serve SYSTEM PRIVATE ${KVASIR_CURL_INCLUDE})
else()
  target_sources(kvasir_serve PRIVATE ${PROJECT_SOURCE_DIR}/src/client/no_download.cpp)
endif()
if(KVASIR_NETWORK)
  target_sources(kvasir_serve PRIVATE ${network_sources})
  target_compile_definitions(kvasir_serve PUBLIC KVASIR_NETWORK)
  target_include_directories(kvasir_serve SYSTEM PRIVATE ${Boost_INCLUDE_DIRS})
  target_link_libraries(kvasir_serve PUBLIC OpenSSL::SSL OpenSSL::Crypto)  # tests use it, too
  # No coroutines are used, and clang 14 cannot compile Asio's with the headers of GCC 12.
  set(network_definitions BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_CO_AWAIT BOOST_ERROR_CODE_HEADER_ONLY)
  if(KVASIR_SANITIZE MATCHES thread)
    list(APPEND network_definitions BOOST_ASIO_DISABLE_FENCED_BLOCK)  # ThreadSanitizer does not know fences
  endif()
  set_source_files_properties(${network_sources} ${PROJECT_SOURCE_DIR}/src/serve/http_fuzz.cpp PROPERTIES
                              COMPILE_DEFINITIONS "${network_definitions}")
else()
  target_sources(kvasir_serve PRIVATE ${PROJECT_SOURCE_DIR}/src/client/no_network.cpp
                 ${PROJECT_SOURCE_DIR}/src/serve/no_network.cpp)
endif()

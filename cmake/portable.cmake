# KVASIR_PORTABLE: what ./dev package makes. Program and library take glibc and libgcc_s from the system and nothing else:
# libstdc++ and all other libraries are linked in; libcurl is opened by the first download, OpenCL by the first device. They
# are linked against the glibc in KVASIR_SYSROOT, so that every later one will do; that of Debian 11 is 2.31.
option(KVASIR_PORTABLE "Program and library for every Linux whose glibc is not older than that in KVASIR_SYSROOT" OFF)
set(KVASIR_SYSROOT "" CACHE PATH "libc6, libc6-dev and libgcc-s1 of the oldest system, and usr/lib/ARCHITECTURE/liblmdb.a")
if(KVASIR_PORTABLE)
  set(folder ${KVASIR_SYSROOT}/usr/lib/${CMAKE_CXX_LIBRARY_ARCHITECTURE})
  foreach(file libc_nonshared.a liblmdb.a)
    if(NOT EXISTS ${folder}/${file})
      message(FATAL_ERROR "KVASIR_SYSROOT: ${folder}/${file} is missing (./dev package makes it)")
    endif()
  endforeach()
  set(KVASIR_PACKAGE ON)
  set(KVASIR_CAIRO OFF)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(OPENSSL_USE_STATIC_LIBS ON)
  set(KVASIR_FMT fmt::fmt-header-only)             # Debian has no archive of it
  set(KVASIR_LMDB_LIBRARY ${folder}/liblmdb.a)     # Debian's cannot be part of a library: it is not position independent
  # -B and -L: a compiler that belongs to its system looks there first, whatever the sysroot.
  add_link_options(--sysroot=${KVASIR_SYSROOT} -B${folder} -L${folder} -L${KVASIR_SYSROOT}/lib/${CMAKE_CXX_LIBRARY_ARCHITECTURE}
                   -static-libstdc++)
  # In libraries of their own before glibc 2.34. By these names, since those that end in .so are links out of the folder.
  set(CMAKE_CXX_STANDARD_LIBRARIES "-l:libpthread.so.0 -l:libdl.so.2 -l:librt.so.1")
  add_library(kvasir_portable OBJECT cmake/portable.c)
endif()

# Called last, when everything has been looked for: a package lacks nothing.
function(kvasir_finish_portable)
  foreach(name bsd md tinfo z)  # what libedit is made of, and libpng
    string(TOUPPER ${name} upper)
    find_library(KVASIR_${upper}_LIBRARY ${name})
  endforeach()
  foreach(name REDIS URING PCRE2 YAML EDIT BSD MD TINFO JPEG PNG WEBP Z)
    if(NOT KVASIR_${name}_LIBRARY)
      message(FATAL_ERROR "KVASIR_PORTABLE: no archive of the library for ${name} (./dev setup)")
    endif()
  endforeach()
  if(NOT KVASIR_NETWORK OR NOT KVASIR_CURL_INCLUDE)
    message(FATAL_ERROR "KVASIR_PORTABLE needs Boost, OpenSSL and the header of libcurl (./dev setup)")
  endif()
  target_link_libraries(kvasir PRIVATE ${KVASIR_Z_LIBRARY})
  target_link_libraries(kvasir_cli PRIVATE ${KVASIR_BSD_LIBRARY} ${KVASIR_MD_LIBRARY} ${KVASIR_TINFO_LIBRARY})
  target_sources(kvasir_main PRIVATE $<TARGET_OBJECTS:kvasir_portable>)
  target_sources(kvasir_api PRIVATE $<TARGET_OBJECTS:kvasir_portable>)
endfunction()

# registry_probe: the registries of this tree with no entries linked but those called `skeleton` (tests/registry_test.sh puts
# them into a copy of the tree). Addresses of the other entries are unresolved on purpose and become null, which
# takes a static program that is not position-independent.
set(probe_entries ${KVASIR_ENTRY_SOURCES} ${KVASIR_SERVE_ENTRIES} ${KVASIR_CLI_ENTRIES})
list(FILTER probe_entries INCLUDE REGEX "/skeleton\\.cpp$")
set(probe_isa_entries ${KVASIR_ISA_ENTRY_SOURCES})
list(FILTER probe_isa_entries INCLUDE REGEX "/skeleton\\.cpp$")
if(probe_entries)
  kvasir_isa_sources(probe_isa_objects PREFIX kvasir_probe ${probe_isa_entries})
  add_executable(registry_probe EXCLUDE_FROM_ALL tests/registry_probe.cpp src/simd/isa.cpp ${probe_entries}
                 ${probe_isa_objects} ${KVASIR_REGISTRY_SOURCES} ${KVASIR_SERVE_REGISTRY} ${KVASIR_CLI_REGISTRY} ${KVASIR_REGISTRY_LISTING})
  target_include_directories(registry_probe PRIVATE src)
  target_link_options(registry_probe PRIVATE -static -no-pie -Wl,--unresolved-symbols=ignore-all)
endif()

# arch_probe: the skeleton of an architecture at work (tests/registry_test.sh). What this tree's registry of architectures
# has is compiled, everything else is taken from the library of the build that runs the test, KVASIR_BUILT.
if(KVASIR_BUILT)
  set(probe_archs ${KVASIR_ENTRY_SOURCES})
  list(FILTER probe_archs INCLUDE REGEX "/model/archs/skeleton\\.cpp$")
  add_executable(arch_probe EXCLUDE_FROM_ALL tests/arch_probe.cpp ${probe_archs} ${PROJECT_BINARY_DIR}/registry/model_archs.cpp)
  target_include_directories(arch_probe PRIVATE src include)
  # This program's registry goes before that of a shared library, too.
  file(GLOB built_library ${KVASIR_BUILT}/libkvasir.a ${KVASIR_BUILT}/libkvasir.so)
  target_link_libraries(arch_probe PRIVATE ${built_library} $<TARGET_PROPERTY:kvasir,LINK_LIBRARIES>)
endif()

# registry_weights: the skeletons of a weight type and of a model format at work (tests/registry_weights.cpp), linked in the
# same way with no more than they need.
if(probe_entries AND probe_isa_entries)
  kvasir_isa_sources(probe_kernel_objects PREFIX kvasir_probe_kernels src/kernel/activation.simd.cpp)
  set(probe_weights_registry ${KVASIR_REGISTRY_SOURCES})
  list(FILTER probe_weights_registry INCLUDE REGEX "/weights_(formats|quants)\\.cpp$")
  set(probe_formats ${KVASIR_ENTRY_SOURCES})  # all: each is asked whether it recognises a folder
  list(FILTER probe_formats INCLUDE REGEX "/weights/formats/")
  add_executable(registry_weights EXCLUDE_FROM_ALL tests/registry_weights.cpp src/simd/isa.cpp src/base/file.cpp
                 src/base/descriptors.cpp src/kernel/streaming.cpp src/weights/model_file.cpp src/weights/metadata.cpp
                 src/weights/gguf.cpp src/weights/gguf_types.cpp ${probe_formats} ${probe_isa_objects} ${probe_kernel_objects}
                 ${probe_weights_registry})
  target_include_directories(registry_weights PRIVATE src)
  target_link_libraries(registry_weights PRIVATE fmt::fmt-header-only)
  target_link_options(registry_weights PRIVATE -static -no-pie -Wl,--unresolved-symbols=ignore-all)
endif()

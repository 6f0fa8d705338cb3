# Programs for tests/registry_test.sh, which configures a copy of the tree with skeletons and -DKVASIR_ONLY_ENTRY=skeleton. With
# it the registries of one unit have only what the build finds under that name; those per instruction set have all, and
# addresses of entries that are not linked are unresolved on purpose and become null, which takes a static program that is not
# position-independent.
if(NOT KVASIR_ONLY_ENTRY)
  return()
endif()
# registry_probe lists the registries.
set(probe_isa_entries ${KVASIR_ISA_ENTRY_SOURCES})
list(FILTER probe_isa_entries INCLUDE REGEX "/${KVASIR_ONLY_ENTRY}\\.cpp$")
kvasir_isa_sources(probe_isa_objects PREFIX kvasir_probe ${probe_isa_entries})
add_executable(registry_probe EXCLUDE_FROM_ALL tests/registry_probe.cpp src/simd/isa.cpp ${probe_isa_objects}
               ${KVASIR_REGISTRY_SOURCES} ${KVASIR_SERVE_REGISTRY} ${KVASIR_CLI_REGISTRY} ${KVASIR_REGISTRY_LISTING})
target_include_directories(registry_probe PRIVATE src)
target_link_options(registry_probe PRIVATE -static -no-pie -Wl,--unresolved-symbols=ignore-all)

# arch_probe: the skeleton of an architecture at work. Everything but this tree's registry of architectures is taken from the
# library of the build that runs the test, KVASIR_BUILT.
if(KVASIR_BUILT)
  add_executable(arch_probe EXCLUDE_FROM_ALL tests/arch_probe.cpp ${PROJECT_BINARY_DIR}/registry/model_archs.cpp)
  target_include_directories(arch_probe PRIVATE src include)
  # This program's registry goes before that of a shared library, too.
  file(GLOB built_library ${KVASIR_BUILT}/libkvasir.a ${KVASIR_BUILT}/libkvasir.so)
  target_link_libraries(arch_probe PRIVATE ${built_library} $<TARGET_PROPERTY:kvasir,LINK_LIBRARIES>)
endif()

# registry_weights: the skeletons of a weight type and of a model format at work (tests/registry_weights.cpp), linked in the
# same way with no more than they need.
kvasir_isa_sources(probe_kernel_objects PREFIX kvasir_probe_kernels src/kernel/activation.simd.cpp)
set(probe_weights_registry ${KVASIR_REGISTRY_SOURCES})
list(FILTER probe_weights_registry INCLUDE REGEX "/(hub_formats|weights_quants)\\.cpp$")
add_executable(registry_weights EXCLUDE_FROM_ALL tests/registry_weights.cpp src/simd/isa.cpp src/base/file.cpp
               src/base/descriptors.cpp src/kernel/streaming.cpp src/weights/model_file.cpp src/weights/metadata.cpp
               src/weights/gguf.cpp src/weights/gguf_types.cpp src/weights/mixes.cpp ${probe_isa_objects} ${probe_kernel_objects} ${probe_weights_registry})
target_include_directories(registry_weights PRIVATE src)
target_link_libraries(registry_weights PRIVATE fmt::fmt-header-only)
target_link_options(registry_weights PRIVATE -static -no-pie -Wl,--unresolved-symbols=ignore-all)

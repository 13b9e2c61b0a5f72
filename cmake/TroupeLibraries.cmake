# Imported targets for what Troupe's libraries link: libtorch and UCX from the wheels in TROUPE_SITE, CAF, libsodium
# and Cap'n Proto from the system. Used by the build (Dependencies.cmake) and installed for find_package(Troupe).
# Reads TROUPE_SITE, TROUPE_CAF_ROOT (may be empty), TROUPE_IMPORTED_SCOPE (GLOBAL or empty) and the
# TROUPE_*_VERSIONs of versions.env. Sets TROUPE_MISSING: a sentence for each thing that is not there; then there are
# no targets.
set(TROUPE_MISSING "")

foreach(_troupe_name "torch-${TROUPE_TORCH_VERSION}" "libucx_cu13-${TROUPE_LIBUCX_CU13_VERSION}"
                     "nvidia_cuda_runtime-${TROUPE_NVIDIA_CUDA_RUNTIME_VERSION}"
                     "nvidia_cuda_cupti-${TROUPE_NVIDIA_CUDA_CUPTI_VERSION}")
  if(NOT EXISTS "${TROUPE_SITE}/${_troupe_name}.dist-info")
    list(APPEND TROUPE_MISSING "${_troupe_name} is not in ${TROUPE_SITE} (TROUPE_SITE names the folder of the wheels).")
  endif()
endforeach()

# Debian's CAF and libsodium ship no CMake configuration, and Cap'n Proto's checks for libatomic with C. TROUPE_CAF_ROOT names another CAF (the tsan preset's).
macro(_troupe_find library header package)
  find_path(TROUPE_${library}_INCLUDE ${header} HINTS "${TROUPE_CAF_ROOT}/include")
  find_library(TROUPE_${library}_LIBRARY ${library} HINTS "${TROUPE_CAF_ROOT}/lib")
  mark_as_advanced(TROUPE_${library}_INCLUDE TROUPE_${library}_LIBRARY)
  if(NOT TROUPE_${library}_INCLUDE OR NOT TROUPE_${library}_LIBRARY)
    list(APPEND TROUPE_MISSING "lib${library} was not found; Debian's package is ${package}.")
  endif()
endmacro()
_troupe_find(caf_core caf/all.hpp libcaf-dev)
_troupe_find(sodium sodium.h libsodium-dev)
_troupe_find(kj kj/common.h libcapnp-dev)
_troupe_find(capnp capnp/common.h libcapnp-dev)

if(TROUPE_caf_core_INCLUDE)
  file(STRINGS "${TROUPE_caf_core_INCLUDE}/caf/config.hpp" _troupe_found REGEX "define CAF_VERSION ")
  string(REGEX REPLACE ".*CAF_VERSION +0*([0-9]+).*" "\\1" _troupe_found "${_troupe_found}")
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)\\.([0-9]+)$" _troupe_wanted "${TROUPE_CAF_VERSION}")
  math(EXPR _troupe_wanted "${CMAKE_MATCH_1} * 10000 + ${CMAKE_MATCH_2} * 100 + ${CMAKE_MATCH_3}")
  if(NOT _troupe_found EQUAL _troupe_wanted)
    list(APPEND TROUPE_MISSING
         "CAF ${TROUPE_CAF_VERSION} is needed, and ${TROUPE_caf_core_INCLUDE}/caf/config.hpp says ${_troupe_found}; Debian 12 has the right one (libcaf-dev).")
  endif()
endif()

if(TROUPE_MISSING)
  return()
endif()

macro(_troupe_import name file include_dirs)
  if(NOT TARGET ${name})
    add_library(${name} SHARED IMPORTED ${TROUPE_IMPORTED_SCOPE})
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${file}"
                                             INTERFACE_INCLUDE_DIRECTORIES "${include_dirs}")
  endif()
endmacro()

# TorchConfig.cmake demands a CUDA toolkit; Troupe links the CPU half and opens the rest at run time.
if(NOT TARGET torch::cpu)
  set(_troupe_torch "${TROUPE_SITE}/torch")
  set(_troupe_cuda "${TROUPE_SITE}/nvidia/cu13/lib")
  _troupe_import(torch::c10 "${_troupe_torch}/lib/libc10.so" "")
  _troupe_import(torch::cpu "${_troupe_torch}/lib/libtorch_cpu.so" "")
  # The wheel brings headers of other libraries too (fmt among them): it is searched last, so that the
  # system's, which we link, win.
  target_compile_options(torch::c10 INTERFACE "SHELL:-idirafter ${_troupe_torch}/include"
                                              "SHELL:-idirafter ${_troupe_torch}/include/torch/csrc/api/include")
  target_link_libraries(torch::cpu INTERFACE torch::c10)
  # When it is loaded, it finds what it needs of CUDA by a run path of its own.
  target_link_options(torch::cpu INTERFACE "LINKER:--allow-shlib-undefined"
                                           "LINKER:-rpath-link,${_troupe_torch}/lib:${_troupe_cuda}")
endif()

if(NOT TARGET ucx::ucp)
  foreach(_troupe_name ucs uct ucp)
    _troupe_import(ucx::${_troupe_name} "${TROUPE_SITE}/libucx/lib/lib${_troupe_name}.so" "${TROUPE_SITE}/libucx/include")
  endforeach()
  target_link_libraries(ucx::ucp INTERFACE ucx::uct ucx::ucs)
  target_link_options(ucx::ucp INTERFACE "LINKER:-rpath-link,${TROUPE_SITE}/libucx/lib")
endif()

_troupe_import(caf::core "${TROUPE_caf_core_LIBRARY}" "${TROUPE_caf_core_INCLUDE}")
_troupe_import(sodium::sodium "${TROUPE_sodium_LIBRARY}" "${TROUPE_sodium_INCLUDE}")
if(NOT TARGET capnp::capnp)
  _troupe_import(capnp::kj "${TROUPE_kj_LIBRARY}" "${TROUPE_kj_INCLUDE}")
  _troupe_import(capnp::capnp "${TROUPE_capnp_LIBRARY}" "${TROUPE_capnp_INCLUDE}")
  target_link_libraries(capnp::capnp INTERFACE capnp::kj)
  # The header says for which compilers.
  if((CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 16)
     OR (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13))
    target_compile_options(capnp::capnp INTERFACE "SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/kj_equality.hpp")
  endif()
endif()

# Imported targets for everything that Troupe links: libtorch and UCX from the wheels in TROUPE_SITE,
# the rest from Debian.

set(TROUPE_SITE "${PROJECT_SOURCE_DIR}/.deps/site" CACHE PATH "Where the wheels of cmake/versions.env are unpacked")

# TorchConfig.cmake demands a CUDA toolkit; Troupe links the CPU half and opens the rest at run time.
foreach(_dist "torch-${TROUPE_TORCH_VERSION}" "libucx_cu13-${TROUPE_LIBUCX_CU13_VERSION}"
              "nvidia_cuda_runtime-${TROUPE_NVIDIA_CUDA_RUNTIME_VERSION}"
              "nvidia_cuda_cupti-${TROUPE_NVIDIA_CUDA_CUPTI_VERSION}"
              "nvidia_nccl_cu13-${TROUPE_NVIDIA_NCCL_CU13_VERSION}")
  if(NOT EXISTS "${TROUPE_SITE}/${_dist}.dist-info")
    message(FATAL_ERROR "${_dist} is not in ${TROUPE_SITE}. Run `make setup`, or point TROUPE_SITE at a folder that holds the wheels of cmake/versions.env.")
  endif()
endforeach()

function(_troupe_import name file include_dirs)
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "${file} is missing. Remove .deps/site and run `make setup` again.")
  endif()
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${file}"
                                           INTERFACE_INCLUDE_DIRECTORIES "${include_dirs}")
endfunction()

set(_torch "${TROUPE_SITE}/torch")
_troupe_import(torch::c10 "${_torch}/lib/libc10.so" "")
_troupe_import(torch::cpu "${_torch}/lib/libtorch_cpu.so" "")
# The wheel brings headers of other libraries too (fmt among them): it is searched last, so that the
# system's, which we link, win.
target_compile_options(torch::c10 INTERFACE "SHELL:-idirafter ${_torch}/include"
                                            "SHELL:-idirafter ${_torch}/include/torch/csrc/api/include")
set(_cuda_lib "${TROUPE_SITE}/nvidia/cu13/lib")
target_link_libraries(torch::cpu INTERFACE torch::c10)
target_link_options(torch::cpu INTERFACE "LINKER:--allow-shlib-undefined" "LINKER:-rpath,${_cuda_lib}"
                                         "LINKER:-rpath-link,${_torch}/lib:${_cuda_lib}")

foreach(_part ucs uct ucp)
  _troupe_import(ucx::${_part} "${TROUPE_SITE}/libucx/lib/lib${_part}.so" "${TROUPE_SITE}/libucx/include")
endforeach()
target_link_libraries(ucx::ucp INTERFACE ucx::uct ucx::ucs)
target_link_options(ucx::ucp INTERFACE "LINKER:-rpath-link,${TROUPE_SITE}/libucx/lib")

# NCCL is compiled against and opened at run time, where there is a GPU.
add_library(nccl::headers INTERFACE IMPORTED)
set_target_properties(nccl::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${TROUPE_SITE}/nvidia/nccl/include")

# Debian's CAF and libsodium ship no CMake configuration, and Cap'n Proto's demands OpenSSL and checks
# for libatomic with C. TROUPE_CAF_ROOT names another CAF (the tsan preset's).
set(TROUPE_CAF_ROOT "" CACHE PATH "Where a CAF other than the system's is installed (empty: the system's)")
if(TROUPE_CAF_ROOT AND NOT EXISTS "${TROUPE_CAF_ROOT}/include/caf/all.hpp")
  message(FATAL_ERROR "no CAF in ${TROUPE_CAF_ROOT}. For the tsan preset run `make tsan`, which builds it (cmake/tsan_caf.sh).")
endif()
function(_troupe_find name header library package)
  string(MAKE_C_IDENTIFIER "${library}" _id)
  find_path(TROUPE_${_id}_INCLUDE ${header} HINTS "${TROUPE_CAF_ROOT}/include")
  find_library(TROUPE_${_id}_LIBRARY ${library} HINTS "${TROUPE_CAF_ROOT}/lib")
  if(NOT TROUPE_${_id}_INCLUDE OR NOT TROUPE_${_id}_LIBRARY)
    message(FATAL_ERROR "lib${library} was not found. Run `make setup`, or install the Debian package ${package}.")
  endif()
  mark_as_advanced(TROUPE_${_id}_INCLUDE TROUPE_${_id}_LIBRARY)
  _troupe_import(${name} "${TROUPE_${_id}_LIBRARY}" "${TROUPE_${_id}_INCLUDE}")
endfunction()
_troupe_find(caf::core caf/all.hpp caf_core libcaf-dev)
_troupe_find(sodium::sodium sodium.h sodium libsodium-dev)
_troupe_find(capnp::kj kj/common.h kj libcapnp-dev)
_troupe_find(capnp::capnp capnp/common.h capnp libcapnp-dev)
target_link_libraries(capnp::capnp INTERFACE capnp::kj)
foreach(_tool capnp capnpc-c++)
  string(MAKE_C_IDENTIFIER "TROUPE_${_tool}_TOOL" _variable)
  find_program(${_variable} ${_tool})
  if(NOT ${_variable})
    message(FATAL_ERROR "the program ${_tool} was not found. Run `make setup`, or install the Debian package capnproto.")
  endif()
  mark_as_advanced(${_variable})
endforeach()

file(STRINGS "${TROUPE_caf_core_INCLUDE}/caf/config.hpp" _caf_version REGEX "define CAF_VERSION ")
string(REGEX REPLACE ".*CAF_VERSION +0*([0-9]+).*" "\\1" _caf_version "${_caf_version}")
string(REPLACE "." ";" _caf_wanted "${TROUPE_CAF_VERSION}")
list(GET _caf_wanted 0 _major)
list(GET _caf_wanted 1 _minor)
list(GET _caf_wanted 2 _patch)
math(EXPR _caf_wanted "${_major} * 10000 + ${_minor} * 100 + ${_patch}")
if(NOT _caf_version EQUAL _caf_wanted)
  message(FATAL_ERROR "CAF ${TROUPE_CAF_VERSION} is needed; ${TROUPE_caf_core_INCLUDE}/caf/config.hpp says ${_caf_version}. Debian 12 has the right one (libcaf-dev).")
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(TROUPE_TESTS)
  find_package(GTest REQUIRED)
endif()

# What the build needs of others: the libraries that Troupe links (TroupeLibraries.cmake), Cap'n Proto's compiler,
# and what only programs and tests use.

set(TROUPE_SITE "${PROJECT_SOURCE_DIR}/.deps/site" CACHE PATH "Where the wheels of cmake/versions.env are unpacked")
cmake_path(GET TROUPE_SITE PARENT_PATH _troupe_deps)
set(TROUPE_AEGIS "${_troupe_deps}/libaegis" CACHE PATH "Where the sources of libaegis are unpacked")
set(TROUPE_CAF_ROOT "" CACHE PATH "Where a CAF other than the system's is installed (empty: the system's)")
if(TROUPE_CAF_ROOT AND NOT EXISTS "${TROUPE_CAF_ROOT}/include/caf/all.hpp")
  message(FATAL_ERROR "no CAF in ${TROUPE_CAF_ROOT}. For the tsan preset run `make tsan`, which builds it (cmake/tsan_caf.sh).")
endif()

# A project that adds Troupe to its own links these from its own folders.
set(TROUPE_IMPORTED_SCOPE GLOBAL)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
include(TroupeLibraries)
foreach(_tool capnp capnpc-c++)
  string(MAKE_C_IDENTIFIER "TROUPE_${_tool}_TOOL" _variable)
  find_program(${_variable} ${_tool})
  mark_as_advanced(${_variable})
  if(NOT ${_variable})
    list(APPEND TROUPE_MISSING "the program ${_tool} was not found: Debian's package is capnproto.")
  endif()
endforeach()
# Compiled into troupe_transport; who links that does not need it.
set(_troupe_found "")
if(EXISTS "${TROUPE_AEGIS}/version")
  file(STRINGS "${TROUPE_AEGIS}/version" _troupe_found LIMIT_COUNT 1)
endif()
if(NOT _troupe_found STREQUAL TROUPE_PYAEGIS_VERSION)
  list(APPEND TROUPE_MISSING
       "libaegis of pyaegis ${TROUPE_PYAEGIS_VERSION} is not in ${TROUPE_AEGIS} (TROUPE_AEGIS names the folder; \
`make setup` makes it in .deps/libaegis).")
endif()
if(TROUPE_MISSING)
  list(JOIN TROUPE_MISSING "\n  " TROUPE_MISSING)
  message(FATAL_ERROR "Run `make setup` in ${PROJECT_SOURCE_DIR}, or install what is missing:\n  ${TROUPE_MISSING}")
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(TROUPE_TESTS)
  find_package(GTest REQUIRED)
endif()

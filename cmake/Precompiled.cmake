# The headers of libtorch that take longest to read are read once, for the targets most of whose
# sources need them.

# ccache takes a compilation with a precompiled header for another one each time.
set(_default ${PROJECT_IS_TOP_LEVEL})
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  set(_default OFF)
  if(TROUPE_PRECOMPILE)
    message(STATUS "ccache is of no use while TROUPE_PRECOMPILE is on")
  endif()
endif()
option(TROUPE_PRECOMPILE "Read libtorch's headers once (800 MB on the disk); of no use with ccache" ${_default})
if(NOT TROUPE_PRECOMPILE)
  function(troupe_precompile target)
  endfunction()
  return()
endif()

# One for all: a program's objects are as independent of their position as a library's.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})

set(_source "${PROJECT_BINARY_DIR}/generated/precompiled.cpp")
file(CONFIGURE OUTPUT "${_source}" CONTENT "// What is precompiled needs a source that is compiled with it.\n")
add_library(troupe_precompiled STATIC "${_source}")
target_link_libraries(troupe_precompiled PRIVATE troupe_settings torch::cpu caf::core fmt::fmt spdlog::spdlog Threads::Threads)
target_precompile_headers(troupe_precompiled PRIVATE <torch/torch.h>)

# troupe_precompile(TARGET): what it compiles begins with those headers.
function(troupe_precompile target)
  target_precompile_headers(${target} REUSE_FROM troupe_precompiled)
endfunction()

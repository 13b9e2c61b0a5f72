# The headers that take longest to read are read once: `base` has the standard library's, CAF's and
# libtorch's tensor, `torch` libtorch's modules and autograd too. Tests are compiled with other options and have the
# same with GoogleTest; `troupe_tests` has what programs on Troupe include as well, `torch_tests` all of that.
# More in them does not pay: g++ instantiates what the inline functions of a precompiled header need
# anew in each source that uses it (1 s for base, 5 for torch_tests, 4 more for torch/torch.h).

option(TROUPE_PRECOMPILE "Read the large headers once (2.4 GB on the disk); OFF finds missing includes" ${PROJECT_IS_TOP_LEVEL})

if(NOT TROUPE_PRECOMPILE)
  function(troupe_precompile target)
  endfunction()
  return()
endif()

# Room to grow before g++ collects garbage: each collection walks through a precompiled header of 400 MB. A
# tenth of the time for a sixth more memory.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-expand=400>")

# ccache takes precompiled headers when it may read their names in the preprocessor's output and
# overlook what they define (ccache's manual, "Precompiled headers").
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>"
                      "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
       CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime)
  # g++ knows again what it has read once by the file's whole content, comments too; a cache that looks at
  # preprocessed text returns what was precompiled before a comment changed, and the file is read twice.
  set(_launch_precompiling ${CMAKE_CXX_COMPILER_LAUNCHER})
  list(INSERT _launch_precompiling 3 CCACHE_DEPEND=1 CCACHE_NAMESPACE=precompiled)
endif()

# One for all: a program's objects are as independent of their position as a library's.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})

set(_base
    <algorithm> <array> <atomic> <charconv> <chrono> <condition_variable> <cstdint> <cstring> <deque> <filesystem>
    <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread>
    <tuple> <unordered_map> <unordered_set> <utility> <variant> <vector>
    <ATen/core/Tensor.h> <caf/all.hpp> <fmt/format.h> <spdlog/spdlog.h>)

# _troupe_precompiled(NAME HEADERS...): what troupe_precompile(... NAME) uses. It compiles a source of its
# own, since a precompiled header belongs to a target that compiles something.
function(_troupe_precompiled name)
  set(source "${PROJECT_BINARY_DIR}/generated/precompiled_${name}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// What is precompiled needs a source that is compiled with it.\n")
  add_library(troupe_precompiled_${name} STATIC EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(troupe_precompiled_${name} PRIVATE troupe_settings torch::cpu caf::core fmt::fmt spdlog::spdlog
                                                           Threads::Threads)
  target_precompile_headers(troupe_precompiled_${name} PRIVATE ${ARGN})
  if(_launch_precompiling)
    set_target_properties(troupe_precompiled_${name} PROPERTIES CXX_COMPILER_LAUNCHER "${_launch_precompiling}")
  endif()
endfunction()
set(_torch <torch/csrc/autograd/engine.h> <torch/nn/module.h>)
_troupe_precompiled(base ${_base})
_troupe_precompiled(torch ${_base} ${_torch})
if(TROUPE_TESTS)
  set(_tests <gmock/gmock.h> <gtest/gtest.h>)
  _troupe_precompiled(base_tests ${_base} ${_tests})
  _troupe_precompiled(troupe_tests ${_base} <troupe/troupe.hpp> ${_tests})
  _troupe_precompiled(torch_tests ${_base} ${_torch} <troupe/autograd.hpp> <troupe/optim.hpp> <troupe/troupe.hpp>
                      ${_tests})
  foreach(name IN ITEMS base troupe torch)
    target_link_libraries(troupe_precompiled_${name}_tests PRIVATE troupe_test_settings GTest::gtest GTest::gmock)
  endforeach()
  target_link_libraries(troupe_precompiled_troupe_tests PRIVATE troupe_actors)
  target_link_libraries(troupe_precompiled_torch_tests PRIVATE troupe)
endif()

# troupe_precompile(TARGET NAME): what TARGET compiles begins with the headers of NAME; none is nothing.
function(troupe_precompile target name)
  if(name STREQUAL "none")
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM troupe_precompiled_${name})
endfunction()

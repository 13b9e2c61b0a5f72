# The kinds of target that Troupe has. Each takes every source of its folder, so that adding a file
# needs no edit here.

# The modules, the lowest first; tests/layout/order.txt has their folders.
set(TROUPE_MODULES messages transport actors autograd optim apps)

# Includes read alike here and where Troupe is installed: <troupe/x.hpp> is a public header, in include/ of its
# module, "troupe/MODULE/..." any other, found through links to the modules. Nothing of the root is a name.
set(TROUPE_INCLUDE_DIR "${PROJECT_BINARY_DIR}/include")
file(MAKE_DIRECTORY "${TROUPE_INCLUDE_DIR}/troupe")
foreach(module IN LISTS TROUPE_MODULES)
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/${module}" "${TROUPE_INCLUDE_DIR}/troupe/${module}" SYMBOLIC)
endforeach()

# Settings of all our own code, here and not where Troupe is installed: include folders, warnings as errors. A
# project that adds Troupe to its own keeps its own warnings, and what libtorch declares to it.
add_library(troupe_settings INTERFACE)
foreach(module IN LISTS TROUPE_MODULES)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${module}/include")
    target_include_directories(troupe_settings INTERFACE "${PROJECT_SOURCE_DIR}/${module}/include")
  endif()
endforeach()
target_include_directories(troupe_settings INTERFACE "${TROUPE_INCLUDE_DIR}")
target_compile_features(troupe_settings INTERFACE cxx_std_20)
if(PROJECT_IS_TOP_LEVEL)
  # libtorch's own switch: ATen/TensorOperators.h, torch/nn/module.h and the like declare the operators that
  # they need, not all 2,000.
  target_compile_definitions(troupe_settings INTERFACE AT_PER_OPERATOR_HEADERS)
  # g++ 12 sees overlaps and overruns in std::string where there are none (GCC bugs 105329, 105651), more of them with
  # -O3 and with -Og.
  set(false_warnings -Wno-restrict -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds)
  target_compile_options(troupe_settings INTERFACE -Wall -Wextra "$<$<CXX_COMPILER_ID:GNU>:${false_warnings}>")
  if(TROUPE_WERROR)
    target_compile_options(troupe_settings INTERFACE -Werror)
  endif()
endif()

# troupe_unity(TARGET): several of TARGET's sources are compiled as one (CMake's UNITY_BUILD). What they share,
# libtorch's and CAF's inline code above all, is compiled once for each batch: a third of the time. Names in the
# unnamed namespaces of one target (of one folder in messages and transport) must differ; -DTROUPE_UNITY=OFF, which
# `make debug` has, shows what a source forgets to include of ours.
option(TROUPE_UNITY "Compile several sources as one" ON)
function(troupe_unity target)
  if(TROUPE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    # Of types of unnamed namespaces, which g++ does not expect in a file that is included.
    target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>")
  endif()
endfunction()

# troupe_unity_by_folder(TARGET SOURCES...): the same within each folder, so that a program links no more of TARGET
# than the folders that it uses.
function(troupe_unity_by_folder target)
  troupe_unity(${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "count_${folder}" count)
    if(NOT DEFINED ${count})
      set(${count} 0)
    endif()
    math(EXPR group "${${count}} / 12")
    math(EXPR ${count} "${${count}} + 1")
    file(RELATIVE_PATH folder "${CMAKE_CURRENT_SOURCE_DIR}" "${folder}")
    string(MAKE_C_IDENTIFIER "${folder}_${group}" group)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

macro(_troupe_default_precompile)
  if(NOT arg_PRECOMPILE)
    set(arg_PRECOMPILE base)
  endif()
endmacro()

# _troupe_library(TARGET NAME): others see TARGET as troupe::NAME, and it is installed (Install.cmake).
function(_troupe_library target name)
  add_library(troupe::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} DEFINE_SYMBOL "" VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION})
  set_property(GLOBAL APPEND PROPERTY TROUPE_LIBRARIES ${target})
endfunction()

# troupe_module(NAME [BY_FOLDER] [PRECOMPILE headers] [PROGRAMS_ONLY sources...] [DEPENDS targets...]): the library
# troupe_NAME (troupe::NAME to users) of a module's sources, which other modules link by that name; static, or shared
# with BUILD_SHARED_LIBS. A module that has only headers is an interface library.
# BY_FOLDER: troupe_unity_by_folder.
# PROGRAMS_ONLY: sources that are linked into each program that uses the module, and into no shared library.
# PRECOMPILE, here and below: what Precompiled.cmake has, base or torch (tests: base, troupe or torch) or none; base if
# left out.
function(troupe_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "BY_FOLDER" "PRECOMPILE" "DEPENDS;PROGRAMS_ONLY")
  _troupe_default_precompile()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  list(TRANSFORM arg_PROGRAMS_ONLY PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  list(REMOVE_ITEM sources ${arg_PROGRAMS_ONLY})
  set(program "")
  if(arg_PROGRAMS_ONLY)
    set(program troupe_${name}_program)
    add_library(${program} STATIC ${arg_PROGRAMS_ONLY})
    target_link_libraries(${program} PRIVATE $<BUILD_INTERFACE:troupe_settings>)
    _troupe_library(${program} ${name}_program)
    set(program "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_NAME:${program}>>")
  endif()
  if(sources)
    add_library(troupe_${name} ${sources})
    troupe_precompile(troupe_${name} ${arg_PRECOMPILE})
    if(arg_BY_FOLDER)
      troupe_unity_by_folder(troupe_${name} ${sources})
    else()
      troupe_unity(troupe_${name})
    endif()
    set(scope PUBLIC)
  else()
    add_library(troupe_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_compile_features(troupe_${name} ${scope} cxx_std_20)
  target_link_libraries(troupe_${name} ${scope} $<BUILD_INTERFACE:troupe_settings> ${program} ${arg_DEPENDS})
  _troupe_library(troupe_${name} ${name})
endfunction()

# troupe_schemas(NAME FOLDER): the library of the code generated from FOLDER/*.capnp (FOLDER is below
# the repository root), included as "troupe/FOLDER/x.capnp.h".
function(troupe_schemas name folder)
  file(GLOB schemas CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.capnp")
  set(root "${PROJECT_BINARY_DIR}/generated")
  set(out "${root}/troupe")
  set(generated "")
  foreach(schema IN LISTS schemas)
    get_filename_component(file "${schema}" NAME)
    set(cpp "${out}/${folder}/${file}.c++")
    add_custom_command(
      OUTPUT "${cpp}" "${out}/${folder}/${file}.h"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${out}"
      COMMAND "${TROUPE_capnp_TOOL}" compile "-o${TROUPE_capnpc_c___TOOL}:${out}"
              "--src-prefix=${PROJECT_SOURCE_DIR}" "-I${PROJECT_SOURCE_DIR}" "${schema}"
      DEPENDS ${schemas}
      COMMENT "Compiling ${folder}/${file}"
      VERBATIM)
    list(APPEND generated "${cpp}")
  endforeach()
  if(generated)
    add_library(${name} ${generated})
    set(scope PUBLIC)
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${name} SYSTEM ${scope} "$<BUILD_INTERFACE:${root}>")
  target_link_libraries(${name} ${scope} capnp::capnp)
  string(REGEX REPLACE "^troupe_" "" export_name "${name}")
  _troupe_library(${name} ${export_name})
endfunction()

# troupe_program(NAME FOLDER [PRECOMPILE headers] [DEPENDS targets...]): the program <build>/apps/NAME from FOLDER/main.cpp.
# The folder's other sources are the library troupe_app_NAME, which tests/apps links as well. main.cpp is short, and has
# base precompiled at most. All sources find the project's version in TROUPE_VERSION.
function(troupe_program name folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "PRECOMPILE" "DEPENDS")
  _troupe_default_precompile()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  set(version "TROUPE_VERSION=\"${PROJECT_VERSION}\"")
  set(mains ${sources})
  list(FILTER mains INCLUDE REGEX "/main\\.cpp$")
  list(REMOVE_ITEM sources ${mains})
  if(sources)
    add_library(troupe_app_${name} STATIC ${sources})
    target_link_libraries(troupe_app_${name} PUBLIC troupe_settings ${arg_DEPENDS})
    target_compile_definitions(troupe_app_${name} PRIVATE "${version}")
    troupe_precompile(troupe_app_${name} ${arg_PRECOMPILE})
    troupe_unity(troupe_app_${name})
    set_property(GLOBAL APPEND PROPERTY TROUPE_APP_LIBRARIES troupe_app_${name})
    list(APPEND arg_DEPENDS troupe_app_${name})
  endif()
  if(mains)
    add_executable(${name} ${mains})
    target_link_libraries(${name} PRIVATE troupe_settings troupe_sanitizer ${arg_DEPENDS})
    target_compile_definitions(${name} PRIVATE "${version}")
    if(NOT arg_PRECOMPILE STREQUAL "none")
      set(arg_PRECOMPILE base)
    endif()
    troupe_precompile(${name} ${arg_PRECOMPILE})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/apps")
    set_property(GLOBAL APPEND PROPERTY TROUPE_APP_PROGRAMS ${name})
  endif()
endfunction()

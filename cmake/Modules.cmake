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
  # g++ 12 sees overlaps and overruns in std::string where there are none (GCC bugs 105329, 105651).
  target_compile_options(troupe_settings INTERFACE -Wall -Wextra
                                                   "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overread>")
  if(TROUPE_WERROR)
    target_compile_options(troupe_settings INTERFACE -Werror)
  endif()
endif()

# troupe_unity(TARGET): several of TARGET's sources are compiled as one (CMake's UNITY_BUILD). What they share,
# libtorch's and CAF's inline code above all, is compiled once for each batch: a third of the time. Names in the
# unnamed namespaces of one folder must differ; -DTROUPE_UNITY=OFF, which `make debug` has, shows what a source
# forgets to include.
option(TROUPE_UNITY "Compile several sources as one" ON)
function(troupe_unity target)
  if(TROUPE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    # Of types of unnamed namespaces, which g++ does not expect in a file that is included.
    target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>")
  endif()
endfunction()

macro(_troupe_default_precompile)
  if(NOT arg_PRECOMPILE)
    set(arg_PRECOMPILE base)
  endif()
endmacro()

# Headers of the tests are included as "tests/...".
add_library(troupe_test_includes INTERFACE)
target_include_directories(troupe_test_includes INTERFACE "${PROJECT_BINARY_DIR}/tests/include")

# Settings of the tests. What they instantiate is compiled once and run a few times, and a failure names its
# line by itself. g++ 12 sees more overruns in std::string with these (the bugs named above).
add_library(troupe_test_settings INTERFACE)
target_link_libraries(troupe_test_settings INTERFACE troupe_test_includes)
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tests/include")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_BINARY_DIR}/tests/include/tests" SYMBOLIC)
target_compile_options(troupe_test_settings INTERFACE "$<$<CONFIG:Release>:-O1;-g0>"
                                                      "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")

# _troupe_library(TARGET NAME): others see TARGET as troupe::NAME, and it is installed (Install.cmake).
function(_troupe_library target name)
  add_library(troupe::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} DEFINE_SYMBOL "" VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION})
  set_property(GLOBAL APPEND PROPERTY TROUPE_LIBRARIES ${target})
endfunction()

# troupe_module(NAME [ONE_BY_ONE] [PRECOMPILE headers] [PROGRAMS_ONLY sources...] [DEPENDS targets...]): the library
# troupe_NAME (troupe::NAME to users) of a module's sources, which other modules link by that name; static, or shared
# with BUILD_SHARED_LIBS. A module that has only headers is an interface library.
# ONE_BY_ONE: no troupe_unity, so that a program links no more of it than it uses.
# PROGRAMS_ONLY: sources that are linked into each program that uses the module, and into no shared library.
# PRECOMPILE, here and below: what Precompiled.cmake has, base (tests: base, troupe or torch) or none; base if
# left out.
function(troupe_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ONE_BY_ONE" "PRECOMPILE" "DEPENDS;PROGRAMS_ONLY")
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
    if(NOT arg_ONE_BY_ONE)
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
  set_property(GLOBAL APPEND PROPERTY TROUPE_GENERATED_FOLDERS "${out}/${folder}")
endfunction()

# troupe_program(NAME FOLDER [PRECOMPILE headers] [DEPENDS targets...]): the program <build>/apps/NAME from FOLDER/main.cpp.
# The folder's other sources are the library troupe_app_NAME, which tests/apps links as well. All of
# them find the project's version in TROUPE_VERSION.
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
    troupe_precompile(${name} ${arg_PRECOMPILE})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/apps")
    set_property(GLOBAL APPEND PROPERTY TROUPE_APP_PROGRAMS ${name})
  endif()
endfunction()

# troupe_test(MODULE FOLDER [PRECOMPILE headers] [BASE_ONLY regex] [DEPENDS targets...]): the tests of a folder.
# Tests whose names match BASE_ONLY have base precompiled.
#   *_test.cpp      a GoogleTest program each, which is a test of CTest, labelled with the module
#     *_timing_test.cpp  the same, run while no other test runs, labelled "timing" too
#     *_soak_test.cpp    the same, run by `make soak` only, labelled "soak" too, with a long limit
#   *_program.cpp   a program that tests start; they find it in TROUPE_TEST_PROGRAM_DIR
#   other *.cpp     a library that all of them link
# Tests find the folder itself in TROUPE_TEST_SOURCE_DIR, the applications in TROUPE_APPS_DIR.
function(troupe_test module folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "PRECOMPILE;BASE_ONLY" "DEPENDS")
  _troupe_default_precompile()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  set(out "${PROJECT_BINARY_DIR}/tests/${module}")

  add_library(troupe_test_${module}_base INTERFACE)
  target_link_libraries(troupe_test_${module}_base INTERFACE troupe_settings troupe_test_settings ${arg_DEPENDS})
  target_compile_definitions(
    troupe_test_${module}_base
    INTERFACE "TROUPE_TEST_PROGRAM_DIR=\"${out}\"" "TROUPE_TEST_SOURCE_DIR=\"${folder}\""
              "TROUPE_APPS_DIR=\"${PROJECT_BINARY_DIR}/apps\"")

  set(helpers ${sources})
  list(FILTER helpers EXCLUDE REGEX "_(test|program)\\.cpp$")
  set(base troupe_test_${module}_base GTest::gtest GTest::gmock)
  if(helpers)
    add_library(troupe_test_${module} STATIC ${helpers})
    target_link_libraries(troupe_test_${module} PUBLIC ${base})
    troupe_precompile(troupe_test_${module} ${arg_PRECOMPILE}_tests)
    troupe_unity(troupe_test_${module})
    list(APPEND base troupe_test_${module})
  endif()

  set(programs ${sources})
  list(FILTER programs INCLUDE REGEX "_program\\.cpp$")
  set(program_targets "")
  foreach(source IN LISTS programs)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${name} "${source}")
    target_link_libraries(${name} PRIVATE ${base} troupe_sanitizer)
    troupe_precompile(${name} ${arg_PRECOMPILE}_tests)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${out}")
    list(APPEND program_targets ${name})
  endforeach()
  list(FILTER sources INCLUDE REGEX "_test\\.cpp$")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${name} "${source}")
    target_link_libraries(${name} PRIVATE ${base} GTest::gtest_main troupe_sanitizer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${out}")
    if(arg_BASE_ONLY AND name MATCHES "${arg_BASE_ONLY}")
      troupe_precompile(${name} base_tests)
    else()
      troupe_precompile(${name} ${arg_PRECOMPILE}_tests)
    endif()
    if(program_targets)
      add_dependencies(${name} ${program_targets})
    endif()
    set(labels ${module})
    set(timeout 600)
    set(serial OFF)
    if(name MATCHES "_timing_test$")
      list(APPEND labels timing)
      set(serial ON)
    elseif(name MATCHES "_soak_test$")
      list(APPEND labels soak)
      set(timeout 100000)
      set(serial ON)
    endif()
    math(EXPR timeout "${timeout} * ${TROUPE_TEST_TIMEOUT_FACTOR}")
    # Tests run beside one another: more threads for one operation would only wait for a core.
    set(environment "OMP_NUM_THREADS=1")
    if(TROUPE_SANITIZE)
      list(APPEND environment "UCX_MEM_EVENTS=n")
    endif()
    # A program, not a case: each would load libtorch anew, which takes longer than most cases do.
    # cmake/test_times.py reads the results.
    add_test(NAME ${module}.${name} COMMAND ${name})
    list(APPEND environment "GTEST_OUTPUT=xml:${out}/results/${name}.xml")
    set_tests_properties(${module}.${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} RUN_SERIAL ${serial}
                                                    ENVIRONMENT "${environment}")
  endforeach()
endfunction()
